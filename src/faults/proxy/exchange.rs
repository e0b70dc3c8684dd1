//! One request: parsed, judged by the rules, carried out, recorded.

use std::{convert::Infallible, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header, request, response};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited, combinators::BoxBody};
use hyper::body::Incoming;
use serde_json::json;
use tokio::sync::oneshot;

use super::{
    board::{Board, Ruling},
    body::{Facts, Sent, read_answer},
    commit::{Prior, Versions, committed},
    socket::Reset,
    target::{self, Query},
    task::Tasks,
    tunnel,
    upstream::Server,
};
use crate::{
    clock,
    event::{self, Actor, Answer, Phase, Request as Recorded, Verb},
    faults::{Decision, Gate, Seen, status},
    history::Recorder,
};

/// Larger than anything that an API server accepts.
const MAX_BODY: usize = 32 << 20;

/// Headers of one connection, which are not passed on.
const HOP_BY_HOP: [HeaderName; 6] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

pub type Body = BoxBody<Bytes, hyper::Error>;

/// The client's stream ends without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the stream is reset")]
pub struct Lost;

/// What all connections of one proxy share.
#[derive(Debug)]
pub struct Shared {
    pub board: Arc<Board>,
    pub recorder: Recorder,
    pub server: Server,
    pub versions: Versions,
    pub tasks: Tasks,
}

/// One client connection.
#[derive(Debug, Clone)]
pub struct Client {
    pub shared: Arc<Shared>,
    pub reset: Reset,
    /// Tasks that end with the connection.
    pub tasks: Tasks,
}

/// A request that was read whole.
struct Call {
    parts: request::Parts,
    body: Bytes,
    sent: Sent,
    seen: Seen,
    field_manager: String,
    client: Client,
}

type Reply = oneshot::Sender<Result<Response<Body>, Lost>>;

/// Answers one request. A write is carried through and recorded even when this future is dropped half-way, because the
/// server may already be at it; anything else is given up.
pub async fn serve(client: Client, request: Request<Incoming>) -> Result<Response<Body>, Lost> {
    let at_ms = client.shared.recorder.clock.now_ms();
    let http1 = request.version() < http::Version::HTTP_2;
    let (parts, body) = request.into_parts();
    let (body, too_large) = match Limited::new(body, MAX_BODY).collect().await {
        Ok(body) => (body.to_bytes(), false),
        Err(error) if error.is::<LengthLimitError>() => (Bytes::new(), true),
        Err(_) => return Err(Lost),
    };
    let call = Call::new(client.clone(), parts, body, at_ms);
    let (reply, answered) = oneshot::channel();
    let shared = client.shared.clone();
    client.shared.tasks.spawn(async move {
        if too_large {
            call.refuse_large(&shared, reply);
        } else {
            call.carry_out(&shared, reply).await;
        }
    });
    let answer = answered.await.unwrap_or(Err(Lost));
    if answer.is_err() && http1 {
        client.reset.set();
    }
    answer
}

/// How the server answered.
enum Outcome {
    /// Read whole.
    Whole(response::Parts, Bytes),
    /// Passed on as it comes.
    Stream(Response<Body>),
    /// Not at all.
    Failed(String),
}

impl Call {
    fn new(client: Client, parts: request::Parts, body: Bytes, at_ms: u64) -> Self {
        let header = |name: HeaderName| {
            parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
        };
        let mut target = target::parse(&parts.method, &parts.uri);
        let query = Query::of(&parts.uri);
        let sent = if target.verb.is_mutating() { Sent::read(&parts.headers, &body) } else { Sent::default() };
        if target.verb == Verb::Create && target.name.is_empty() {
            target.name = sent.created_name();
        }
        // A create cannot carry a precondition.
        let precondition =
            if target.verb == Verb::Create { String::new() } else { sent.facts.resource_version.clone() };
        let seen = Seen {
            target,
            user_agent: header(header::USER_AGENT),
            content_type: header(header::CONTENT_TYPE),
            precondition,
            creates: false,
            dry_run: query.dry_run || sent.facts.dry_run,
            ordinal: 0,
            at_ms,
        };
        Self { parts, body, sent, seen, field_manager: query.field_manager, client }
    }

    fn refuse_large(self, shared: &Shared, reply: Reply) {
        let code = StatusCode::PAYLOAD_TOO_LARGE;
        let message = format!("Request entity too large: limit is {MAX_BODY}");
        let body = status::failure(code, "RequestEntityTooLarge", &message, json!({}));
        self.respond(shared, reply, None, code, HeaderMap::new(), body.to_string().into());
    }

    async fn carry_out(mut self, shared: &Shared, mut reply: Reply) {
        let prior = self.prior(shared).await;
        self.seen.creates = self.seen.target.verb == Verb::Patch && prior == Prior::Absent;
        let Ruling { decision, fault, healed } = shared.board.rule(&mut self.seen);
        match decision {
            Decision::Forward => self.forward(shared, reply, fault, &prior).await,
            Decision::Delay(delay) => {
                let gone = tokio::select! {
                    () = clock::pause(delay) => false,
                    () = healed.cancelled() => false,
                    () = reply.closed() => true,
                };
                if gone {
                    self.lose(
                        shared,
                        reply,
                        fault,
                        "the client went before its delayed request was forwarded",
                        Some(false),
                    );
                } else {
                    self.forward(shared, reply, fault, &prior).await;
                }
            }
            Decision::Respond { status, mut headers, body } => {
                headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
                self.respond(shared, reply, fault, status, headers, body.to_string().into());
            }
            Decision::DropBefore => self.lose(shared, reply, fault, "the request was lost", Some(false)),
            Decision::CommitThenLose => {
                let (words, committed) = self.send_and_forget(shared, &prior).await;
                self.lose(shared, reply, fault, &words, committed);
            }
            Decision::Hold { after_commit, gate } => {
                let (words, committed) = if after_commit {
                    self.send_and_forget(shared, &prior).await
                } else {
                    ("held before it reached the server".to_owned(), Some(false))
                };
                self.record(shared, fault, lost_answer(&words), committed);
                hold(&gate, &healed, &mut reply).await;
                let _ = reply.send(Err(Lost));
            }
        }
    }

    async fn prior(&self, shared: &Shared) -> Prior {
        let Seen { target, precondition, .. } = &self.seen;
        if self.seen.dry_run || event::is_background(target) {
            return Prior::Unknown;
        }
        shared.versions.before(&shared.server, target, precondition, &self.parts.headers, &self.parts.uri).await
    }

    async fn forward(mut self, shared: &Shared, mut reply: Reply, fault: Option<&str>, prior: &Prior) {
        let outcome = if self.seen.target.verb.is_mutating() {
            self.send(shared).await
        } else {
            tokio::select! {
                outcome = self.send(shared) => outcome,
                () = reply.closed() => Outcome::Failed("the client went".to_owned()),
            }
        };
        match outcome {
            Outcome::Whole(parts, body) => {
                let facts = self.learn(shared, parts.status, &body);
                let committed = committed(&self.seen.target, self.seen.dry_run, prior, parts.status.as_u16(), &facts);
                let answer = if reply.is_closed() {
                    lost_answer(&format!("the client went; the server answered {}", parts.status.as_u16()))
                } else {
                    answer(parts.status, facts)
                };
                self.record(shared, fault, answer, committed);
                let _ = reply.send(Ok(Response::from_parts(parts, full(body))));
            }
            Outcome::Stream(response) => {
                self.record(shared, fault, answer(response.status(), Facts::default()), Some(false));
                let _ = reply.send(Ok(response));
            }
            Outcome::Failed(words) => {
                let committed = if self.seen.target.verb.is_mutating() { None } else { Some(false) };
                self.lose(shared, reply, fault, &words, committed);
            }
        }
    }

    /// Lets the server answer, and keeps the answer from the client.
    async fn send_and_forget(&mut self, shared: &Shared, prior: &Prior) -> (String, Option<bool>) {
        match self.send(shared).await {
            Outcome::Whole(parts, body) => {
                let facts = self.learn(shared, parts.status, &body);
                let status = parts.status.as_u16();
                let committed = committed(&self.seen.target, self.seen.dry_run, prior, status, &facts);
                (format!("the reply was lost; the server answered {status}"), committed)
            }
            Outcome::Stream(response) => {
                (format!("the reply was lost; the server answered {}", response.status().as_u16()), Some(false))
            }
            Outcome::Failed(words) => (words, None),
        }
    }

    async fn send(&mut self, shared: &Shared) -> Outcome {
        if tunnel::is_upgrade(&self.parts) {
            return match tunnel::open(&shared.server, &self.client.tasks, &mut self.parts, self.body.clone()).await {
                Ok(response) => Outcome::Stream(response),
                Err(error) => Outcome::Failed(format!("no answer from the API server: {error}")),
            };
        }
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.parts.method.clone();
        *request.uri_mut() = self.parts.uri.clone();
        *request.headers_mut() = self.parts.headers.clone();
        strip(request.headers_mut());
        request.headers_mut().remove(header::HOST);
        request.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let mut response = match shared.server.send(request).await {
            Ok(response) => response,
            Err(error) => return Outcome::Failed(format!("no answer from the API server: {}", chain(&error))),
        };
        strip(response.headers_mut());
        if !self.reads_answer() {
            return Outcome::Stream(response.map(BodyExt::boxed));
        }
        let (parts, body) = response.into_parts();
        match body.collect().await {
            Ok(body) => Outcome::Whole(parts, body.to_bytes()),
            Err(error) => Outcome::Failed(format!("the answer of the API server broke off: {}", chain(&error))),
        }
    }

    /// Whether the answer shows one object, or says how a write went. Logs and the like are streams.
    fn reads_answer(&self) -> bool {
        let target = &self.seen.target;
        let one = target.verb == Verb::Get && matches!(target.subresource.as_str(), "" | "status" | "scale");
        target.verb.is_mutating() || (one && self.parts.method == Method::GET)
    }

    fn learn(&self, shared: &Shared, status: StatusCode, body: &[u8]) -> Facts {
        let facts = read_answer(body);
        if status.is_success() && !self.seen.dry_run && !event::is_background(&self.seen.target) {
            shared.versions.learn(&self.seen.target, &facts);
        }
        facts
    }

    fn respond(
        self,
        shared: &Shared,
        reply: Reply,
        fault: Option<&str>,
        code: StatusCode,
        headers: HeaderMap,
        body: Bytes,
    ) {
        let mut response = Response::new(full(body.clone()));
        *response.status_mut() = code;
        *response.headers_mut() = headers;
        self.record(shared, fault, answer(code, read_answer(&body)), Some(false));
        let _ = reply.send(Ok(response));
    }

    fn lose(self, shared: &Shared, reply: Reply, fault: Option<&str>, words: &str, committed: Option<bool>) {
        self.record(shared, fault, lost_answer(words), committed);
        let _ = reply.send(Err(Lost));
    }

    /// `seq`, `phase`, `incarnation` and `write_ordinal` are the recorder's.
    fn record(&self, shared: &Shared, fault: Option<&str>, answer: Answer, committed: Option<bool>) {
        let seen = self.seen.clone();
        shared.recorder.request(Recorded {
            seq: 0,
            at_ms: seen.at_ms,
            duration_ms: shared.recorder.clock.now_ms().saturating_sub(seen.at_ms),
            phase: Phase::Install,
            actor: Actor::Operator,
            incarnation: 0,
            user_agent: seen.user_agent,
            body: self.sent.clone().recorded(&seen.target),
            target: seen.target,
            content_type: seen.content_type,
            field_manager: self.field_manager.clone(),
            dry_run: seen.dry_run,
            precondition: seen.precondition,
            answer,
            committed,
            write_ordinal: None,
            faults: fault.into_iter().map(str::to_owned).collect(),
        });
    }
}

/// Reports the arrival and waits for the end: the release, the healing of the rule, or the client's own end.
async fn hold(gate: &Gate, healed: &tokio_util::sync::CancellationToken, reply: &mut Reply) {
    gate.reached.notify_one();
    tokio::select! {
        () = gate.released.cancelled() => {}
        () = healed.cancelled() => {}
        () = reply.closed() => {}
    }
}

fn answer(status: StatusCode, facts: Facts) -> Answer {
    Answer {
        status: status.as_u16(),
        reason: facts.reason,
        message: crate::redact::redact_text(&facts.message),
        resource_version: facts.resource_version,
    }
}

fn lost_answer(words: &str) -> Answer {
    Answer { status: 0, reason: String::new(), message: words.to_owned(), resource_version: String::new() }
}

pub fn full(body: Bytes) -> Body {
    Full::new(body).map_err(|never: Infallible| match never {}).boxed()
}

fn strip(headers: &mut HeaderMap) {
    for name in &HOP_BY_HOP {
        headers.remove(name);
    }
}

/// An error with its causes; they end in the record, where no source survives.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
