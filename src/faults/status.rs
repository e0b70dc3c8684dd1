//! `Status` bodies as a real API server words them.

use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use crate::{event::Target, faults::Decision};

/// A `Status` about `target`, with its own words.
#[must_use]
pub fn failure(code: StatusCode, reason: &str, message: &str, details: Value) -> Value {
    let mut status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "code": code.as_u16(),
    });
    if !reason.is_empty() {
        status["reason"] = reason.into();
    }
    if details.as_object().is_some_and(|details| !details.is_empty()) {
        status["details"] = details;
    }
    status
}

/// `details` that name the object. The API server puts the plural into `kind` here.
#[must_use]
pub fn details(target: &Target) -> Value {
    let mut details = json!({ "kind": target.resource });
    for (field, value) in [("name", &target.name), ("group", &target.group)] {
        if !value.is_empty() {
            details[field] = value.as_str().into();
        }
    }
    details
}

/// `deployments.apps`, as messages name a resource.
#[must_use]
pub fn qualified(target: &Target) -> String {
    if target.group.is_empty() { target.resource.clone() } else { format!("{}.{}", target.resource, target.group) }
}

/// The decision to answer with that body.
#[must_use]
pub fn respond(status: StatusCode, retry_after_seconds: Option<u64>, body: Value) -> Decision {
    let mut headers = HeaderMap::new();
    if let Some(seconds) = retry_after_seconds {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    Decision::Respond { status, headers, body }
}
