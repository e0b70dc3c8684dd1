//! `api-error`: the server says that it cannot just now.
//!
//! # Guarantees
//! The request does not reach the server. Bodies are real `Status` objects. With `retryAfter` many clients repeat the
//! request silently, so the operator itself may never see the error.

use http::StatusCode;
use serde_json::json;

use crate::{
    event::FaultRecord,
    faults::{Decision, Rule, Seen, selector::DefaultVerbs, status, tally::Tally, trigger},
    scenario::format::ApiErrorFault,
    seed::Seed,
};

/// The rule; see the module.
#[derive(Debug)]
pub struct ApiErrorRule {
    tally: Tally,
    status: StatusCode,
    retry_after_seconds: Option<u64>,
}

impl ApiErrorRule {
    /// A status other than 429, 500, 503 and 504 (which the scenario's validation refuses) counts as 500.
    #[must_use]
    pub fn new(fault: &ApiErrorFault, seed: Seed, name: &str, population: u64) -> Self {
        let trigger = trigger::resolve(&fault.trigger, seed, name, population);
        let status = match fault.status {
            429 => StatusCode::TOO_MANY_REQUESTS,
            503 => StatusCode::SERVICE_UNAVAILABLE,
            504 => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self {
            tally: Tally::new(&fault.requests, DefaultVerbs::All, trigger),
            status,
            retry_after_seconds: fault.retry_after.map(|span| span.0.as_secs()),
        }
    }

    fn legal_because(&self) -> &'static str {
        match self.status.as_u16() {
            429 => "the server, or a gateway before it, sheds load when it is busy",
            503 => "the server is unavailable while it starts, shuts down or has lost its storage",
            504 => "the server gives up on a request that takes longer than its time limit",
            _ => "a change of etcd's leader fails requests with an internal error",
        }
    }

    /// Reason and message.
    fn words(&self) -> (&'static str, &'static str) {
        match self.status.as_u16() {
            429 => ("TooManyRequests", "the server has received too many requests and has asked us to try again later"),
            503 => ("ServiceUnavailable", "the server is currently unable to handle the request"),
            504 => {
                ("Timeout", "Timeout: request did not complete within requested timeout - context deadline exceeded")
            }
            // The API server passes an error of its storage on without a reason.
            _ => ("", "etcdserver: leader changed"),
        }
    }
}

impl Rule for ApiErrorRule {
    fn id(&self) -> &'static str {
        "api-error"
    }

    fn decide(&self, seen: &Seen) -> Decision {
        if !self.tally.concerns(seen) {
            return Decision::Forward;
        }
        let words = || match self.retry_after_seconds {
            Some(seconds) => format!("{} with Retry-After {seconds}", self.status.as_u16()),
            None => self.status.as_u16().to_string(),
        };
        if !self.tally.fires(seen, words) {
            return Decision::Forward;
        }
        let (reason, message) = self.words();
        let details = match self.retry_after_seconds {
            Some(seconds) => json!({ "retryAfterSeconds": seconds }),
            None => json!({}),
        };
        status::respond(self.status, self.retry_after_seconds, status::failure(self.status, reason, message, details))
    }

    fn record(&self) -> FaultRecord {
        self.tally.record(self.id(), self.legal_because())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        event::Verb,
        faults::fixture::seen,
        scenario::{duration::Span, format::Trigger},
    };

    fn decide(status: u16, retry_after: Option<Span>) -> Decision {
        let trigger = Trigger { every: Some(1), ..Trigger::default() };
        let fault = ApiErrorFault { status, retry_after, trigger, ..ApiErrorFault::default() };
        ApiErrorRule::new(&fault, Seed(1), "api-error", 1).decide(&seen(Verb::Get, "pods", "a"))
    }

    #[test]
    fn each_status_has_its_reason() {
        for (code, reason) in [
            (429, json!("TooManyRequests")),
            (500, json!(null)),
            (503, json!("ServiceUnavailable")),
            (504, json!("Timeout")),
        ] {
            let Decision::Respond { status, headers, body } = decide(code, None) else { panic!("{code}") };
            assert_eq!((status.as_u16(), &body["code"]), (code, &json!(code)));
            assert_eq!(body["reason"], reason);
            assert_eq!(body["kind"], "Status");
            assert!(headers.is_empty());
        }
    }

    #[test]
    fn retry_after_stands_in_header_and_details() {
        let Decision::Respond { headers, body, .. } = decide(429, Some(Span::from_secs(2))) else { panic!() };
        assert_eq!(headers["retry-after"], "2");
        assert_eq!(body["details"]["retryAfterSeconds"], 2);
    }
}
