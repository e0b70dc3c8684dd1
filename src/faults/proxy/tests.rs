//! The proxy as a client sees it, before an upstream that notes what reaches it.

mod client;
mod server;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use self::{
    client::{Http, Peer, patch, post, request},
    server::{Origin, POD},
};
use super::{Proxy, Upstream};
use crate::{
    clock::RunClock,
    event::{Actor, FaultRecord, Verb},
    faults::{CrashPoint, Decision, Gate, Rule, Seen, Side},
    history::Recorder,
};

const VERSIONS: [(Http, Http); 3] = [(Http::One, Http::One), (Http::Two, Http::Two), (Http::Two, Http::One)];

/// Longer than any test may take: what ends earlier was ended on purpose.
const FOREVER: Duration = Duration::from_secs(3_600);

/// Decides the same about every request that writes, and notes what it saw.
#[derive(Debug)]
struct Always {
    decision: Decision,
    seen: Mutex<Vec<Seen>>,
}

impl Always {
    fn new(decision: Decision) -> Arc<Self> {
        Arc::new(Self { decision, seen: Mutex::default() })
    }
}

impl Rule for Always {
    fn id(&self) -> &'static str {
        "always"
    }

    fn decide(&self, seen: &Seen) -> Decision {
        self.seen.lock().unwrap().push(seen.clone());
        if seen.target.verb.is_mutating() { self.decision.clone() } else { Decision::Forward }
    }

    fn record(&self) -> FaultRecord {
        let matched = self.seen.lock().unwrap().len() as u64;
        FaultRecord { id: "always".into(), matched, fired: matched, legal_because: "a test".into(), hits: Vec::new() }
    }
}

struct Rig {
    origin: Origin,
    proxy: Proxy,
    recorder: Recorder,
}

impl Rig {
    async fn new(upstream: Http) -> Self {
        let origin = Origin::start(upstream).await;
        let recorder = Recorder::new(RunClock::start(), None).unwrap();
        let upstream = Upstream { url: origin.url.clone(), ca_pem: origin.ca_pem.clone() };
        let proxy = Proxy::start(upstream, recorder.clone()).await.unwrap();
        Self { origin, proxy, recorder }
    }

    async fn peer(&self, http: Http) -> Peer {
        Peer::connect(self.proxy.url(), self.proxy.ca_pem(), http).await
    }

    fn recorded(&self) -> Vec<crate::event::Request> {
        self.recorder.history().requests
    }

    async fn end(self) {
        self.proxy.shutdown().await;
        self.origin.shutdown().await;
    }
}

#[tokio::test]
async fn bodies_and_token_pass_unchanged() {
    for (client, upstream) in VERSIONS {
        let rig = Rig::new(upstream).await;
        let mut peer = rig.peer(client).await;
        let body = "{ \"metadata\": {\"name\":\"a\"},\n \"odd\" : \"\\u00fc\" }";
        let response = peer.send(post("/api/v1/namespaces/demo/pods?fieldManager=me", body)).await.unwrap();
        assert_eq!(response.status(), StatusCode::CREATED);
        let answer = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(answer, server::object(1));
        let got = rig.origin.got();
        assert_eq!(got.len(), 1, "{got:?}");
        assert_eq!(got[0].body, body.as_bytes());
        assert_eq!(got[0].headers["authorization"], "Bearer operator-token");
        assert_eq!(got[0].headers["accept-encoding"], "identity");
        let recorded = &rig.recorded()[0];
        assert_eq!(recorded.target.to_string(), "create pods demo/a");
        assert_eq!((recorded.actor.clone(), recorded.field_manager.as_str()), (Actor::Operator, "me"));
        assert_eq!((recorded.answer.status, recorded.committed, recorded.write_ordinal), (201, Some(true), Some(1)));
        assert_eq!(recorded.body["odd"], "ü");
        assert!(!format!("{recorded:?}").contains("operator-token"));
        rig.end().await;
    }
}

#[tokio::test]
async fn a_watch_is_flushed_frame_by_frame() {
    for (client, upstream) in VERSIONS {
        let rig = Rig::new(upstream).await;
        let mut peer = rig.peer(client).await;
        let mut body = peer.send(request("GET", "/api/v1/pods?watch=true", "")).await.unwrap().into_body();
        // The second frame is not sent before the first has arrived: buffering would hang here.
        for frame in ["{\"type\":\"ADDED\"}\n", "{\"type\":\"MODIFIED\"}\n"] {
            rig.origin.frames.send(Bytes::from(frame)).unwrap();
            let got = body.frame().await.unwrap().unwrap().into_data().unwrap();
            assert_eq!(got, frame);
        }
        assert_eq!(rig.recorded()[0].target.verb, Verb::Watch);
        rig.end().await;
    }
}

#[tokio::test]
async fn respond_answers_without_the_server() {
    for (client, upstream) in VERSIONS {
        let rig = Rig::new(upstream).await;
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", "3".parse().unwrap());
        let body = json!({"kind": "Status", "reason": "TooManyRequests", "message": "busy"});
        let decision = Decision::Respond { status: StatusCode::TOO_MANY_REQUESTS, headers, body: body.clone() };
        let guard = rig.proxy.install(Always::new(decision));
        let response = rig.peer(client).await.send(post("/api/v1/namespaces/demo/pods", "{}")).await.unwrap();
        assert_eq!((response.status().as_u16(), &response.headers()["retry-after"]), (429, &"3".parse().unwrap()));
        assert_eq!(response.headers()["content-type"], "application/json");
        let got = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&got).unwrap(), body);
        assert!(rig.origin.got().is_empty());
        let recorded = &rig.recorded()[0];
        assert_eq!((recorded.answer.reason.as_str(), recorded.committed), ("TooManyRequests", Some(false)));
        assert_eq!(recorded.faults, ["always"]);
        guard.heal();
        rig.end().await;
    }
}

#[tokio::test]
async fn a_dropped_request_never_arrives_and_a_lost_reply_does() {
    for (client, upstream) in VERSIONS {
        for (decision, arrives) in [(Decision::DropBefore, false), (Decision::CommitThenLose, true)] {
            let rig = Rig::new(upstream).await;
            let guard = rig.proxy.install(Always::new(decision));
            let answer = rig.peer(client).await.send(post("/api/v1/namespaces/demo/pods", "{}")).await;
            assert!(answer.is_err(), "{answer:?}");
            assert_eq!(rig.origin.got().len(), usize::from(arrives));
            let recorded = &rig.recorded()[0];
            assert_eq!((recorded.answer.status, recorded.committed), (0, Some(arrives)));
            assert_eq!(recorded.write_ordinal, arrives.then_some(1));
            guard.heal();
            rig.end().await;
        }
    }
}

#[tokio::test]
async fn a_lost_stream_leaves_the_others_of_its_connection_alone() {
    let rig = Rig::new(Http::Two).await;
    let mut peer = rig.peer(Http::Two).await;
    let mut watch = peer.send(request("GET", "/api/v1/pods?watch=1", "")).await.unwrap().into_body();
    let guard = rig.proxy.install(Always::new(Decision::CommitThenLose));
    assert!(peer.send(post("/api/v1/namespaces/demo/pods", "{}")).await.is_err());
    rig.origin.frames.send(Bytes::from_static(b"still here")).unwrap();
    assert_eq!(watch.frame().await.unwrap().unwrap().into_data().unwrap(), "still here");
    guard.heal();
    rig.end().await;
}

#[tokio::test]
async fn delayed_requests_wait_and_go_on_when_healed() {
    for (client, upstream) in VERSIONS {
        let rig = Rig::new(upstream).await;
        let guard = rig.proxy.install(Always::new(Decision::Delay(Duration::from_millis(40))));
        let mut peer = rig.peer(client).await;
        assert!(peer.send(post("/api/v1/namespaces/demo/pods", "{}")).await.is_ok());
        assert!(rig.recorded()[0].duration_ms >= 40);
        guard.heal();

        let rule = Always::new(Decision::Delay(FOREVER));
        let guard = rig.proxy.install(rule.clone());
        let waiting = tokio::spawn(async move { peer.send(post("/api/v1/namespaces/demo/pods", "{}")).await });
        while rule.record().matched == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(rig.proxy.installed(), 1);
        assert_eq!(guard.heal().matched, 1);
        assert_eq!(rig.proxy.installed(), 0);
        assert_eq!(waiting.await.unwrap().unwrap().status(), StatusCode::CREATED);
        rig.end().await;
    }
}

#[tokio::test]
async fn a_crash_point_holds_after_the_commit_and_keeps_later_writes_back() {
    for (client, upstream) in VERSIONS {
        for (side, arrived) in [(Side::AfterCommit, 2), (Side::BeforeCommit, 1)] {
            let rig = Rig::new(upstream).await;
            let gate = Gate::default();
            let guard = rig.proxy.install(Arc::new(CrashPoint::new(2, side, gate.clone())));
            let mut first = rig.peer(client).await;
            assert!(first.send(post("/api/v1/namespaces/demo/pods", "{}")).await.is_ok());
            let held = tokio::spawn(async move { first.send(post("/api/v1/namespaces/demo/pods", "{}")).await });
            gate.reached.notified().await;
            assert_eq!(rig.origin.got().len(), arrived);
            assert_eq!(rig.recorder.activity().committed, arrived as u64, "recorded before the arrival is reported");
            let mut second = rig.peer(client).await;
            let later = tokio::spawn(async move { second.send(post("/api/v1/namespaces/demo/pods", "{}")).await });
            while guard.record().matched < 3 {
                tokio::task::yield_now().await;
            }
            rig.proxy.drop_connections();
            gate.released.cancel();
            assert!(held.await.unwrap().is_err());
            assert!(later.await.unwrap().is_err());
            let account = guard.heal();
            assert_eq!((account.fired, account.hits.len()), (1, 1));
            assert_eq!(rig.origin.got().len(), arrived, "the later write never arrives");
            assert!(rig.peer(client).await.send(post("/api/v1/namespaces/demo/pods", "{}")).await.is_ok());
            rig.end().await;
        }
    }
}

#[tokio::test]
async fn release_resets_a_held_request_whose_client_still_waits() {
    let rig = Rig::new(Http::Two).await;
    let gate = Gate::default();
    let guard = rig.proxy.install(Arc::new(CrashPoint::new(1, Side::AfterCommit, gate.clone())));
    let mut peer = rig.peer(Http::One).await;
    let held = tokio::spawn(async move { peer.send(post("/api/v1/namespaces/demo/pods", "{}")).await });
    gate.reached.notified().await;
    gate.released.cancel();
    assert!(held.await.unwrap().is_err());
    guard.heal();
    rig.end().await;
}

#[tokio::test]
async fn dropping_connections_ends_watches_and_new_ones_are_served() {
    for (client, upstream) in VERSIONS {
        let rig = Rig::new(upstream).await;
        let mut peer = rig.peer(client).await;
        let mut watch = peer.send(request("GET", "/api/v1/pods?watch=true", "")).await.unwrap().into_body();
        rig.proxy.drop_connections();
        assert!(watch.frame().await.unwrap().is_err(), "an orderly end would not be a reset");
        assert!(rig.peer(client).await.send(request("GET", POD, "")).await.is_ok());
        rig.end().await;
    }
}

#[tokio::test]
async fn a_dropped_guard_uninstalls_and_the_first_rule_wins() {
    let rig = Rig::new(Http::One).await;
    let (first, second) = (Always::new(Decision::DropBefore), Always::new(Decision::CommitThenLose));
    let guards = (rig.proxy.install(first.clone()), rig.proxy.install(second.clone()));
    assert!(rig.peer(Http::One).await.send(post("/api/v1/namespaces/demo/pods", "{}")).await.is_err());
    assert_eq!((first.record().matched, second.record().matched), (1, 0));
    drop(guards);
    assert_eq!(rig.proxy.installed(), 0);
    assert!(rig.peer(Http::One).await.send(post("/api/v1/namespaces/demo/pods", "{}")).await.is_ok());
    rig.end().await;
}

/// The server answers a patch that changes nothing with 200 and the version that the object had.
#[tokio::test]
async fn a_patch_that_changes_nothing_is_not_committed() {
    let rig = Rig::new(Http::Two).await;
    let rule = Always::new(Decision::Forward);
    let guard = rig.proxy.install(rule.clone());
    let mut peer = rig.peer(Http::Two).await;
    for (body, committed) in [("{\"a\":1}", Some(true)), ("{\"noop\":1}", Some(false)), ("{\"a\":2}", Some(true))] {
        assert!(peer.send(patch(POD, body)).await.is_ok());
        assert_eq!(rig.recorded().last().unwrap().committed, committed, "{body}");
    }
    assert_eq!(rig.recorded().len(), 3, "the proxy's own reads are not the operator's");
    let creates: Vec<_> = rule.seen.lock().unwrap().iter().map(|seen| seen.creates).collect();
    assert_eq!(creates, [true, false, false]);
    for got in rig.origin.got().iter().filter(|got| got.method == "GET") {
        assert_eq!(got.headers["authorization"], "Bearer operator-token");
    }
    guard.heal();
    rig.end().await;
}

#[tokio::test]
async fn upgrades_are_tunnelled() {
    let rig = Rig::new(Http::Two).await;
    let mut peer = rig.peer(Http::One).await;
    let mut exec = request("POST", "/api/v1/namespaces/demo/pods/a/exec?command=cat", "");
    exec.headers_mut().insert("connection", "Upgrade".parse().unwrap());
    exec.headers_mut().insert("upgrade", "websocket".parse().unwrap());
    let response = peer.send(exec).await.unwrap();
    assert_eq!((response.status().as_u16(), &response.headers()["upgrade"]), (101, &"websocket".parse().unwrap()));
    let mut stream = hyper_util::rt::TokioIo::new(hyper::upgrade::on(response).await.unwrap());
    stream.write_all(b"ping").await.unwrap();
    let mut echo = [0; 4];
    stream.read_exact(&mut echo).await.unwrap();
    assert_eq!(&echo, b"ping");
    assert_eq!(rig.recorded()[0].target.to_string(), "connect pods/exec demo/a");
    rig.proxy.drop_connections();
    assert!(matches!(stream.read(&mut echo).await, Ok(0) | Err(_)));
    rig.end().await;
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused_and_recorded() {
    let rig = Rig::new(Http::Two).await;
    let body = "x".repeat((32 << 20) + 1);
    let response = rig.peer(Http::Two).await.send(post("/api/v1/namespaces/demo/pods", &body)).await.unwrap();
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(rig.recorded()[0].answer.reason, "RequestEntityTooLarge");
    assert!(rig.origin.got().is_empty());
    rig.end().await;
}

#[tokio::test]
async fn an_unreachable_server_is_no_answer() {
    let rig = Rig::new(Http::Two).await;
    rig.origin.shutdown().await;
    assert!(rig.peer(Http::Two).await.send(post("/api/v1/namespaces/demo/pods", "{}")).await.is_err());
    let recorded = rig.recorder.history().requests;
    assert_eq!((recorded[0].answer.status, recorded[0].committed), (0, None));
    assert!(recorded[0].answer.message.starts_with("no answer from the API server"), "{:?}", recorded[0].answer);
    rig.proxy.shutdown().await;
}

#[tokio::test]
async fn shutdown_leaves_no_task_and_no_port() {
    let rig = Rig::new(Http::Two).await;
    let mut peer = rig.peer(Http::Two).await;
    let _watch = peer.send(request("GET", "/api/v1/pods?watch=true", "")).await.unwrap();
    let guard = rig.proxy.install(Always::new(Decision::Delay(FOREVER)));
    let waiting = tokio::spawn(async move { peer.send(post("/api/v1/namespaces/demo/pods", "{}")).await });
    while guard.record().matched == 0 {
        tokio::task::yield_now().await;
    }
    let port = rig.proxy.url().rsplit(':').next().unwrap().to_owned();
    let tasks = rig.proxy.shared.tasks.clone();
    rig.proxy.shutdown().await;
    assert_eq!(tasks.alive(), 0);
    assert!(waiting.await.unwrap().is_err());
    assert!(tokio::net::TcpStream::connect(format!("127.0.0.1:{port}")).await.is_err());
    rig.origin.shutdown().await;
    guard.heal();
}

#[tokio::test]
async fn what_cannot_be_an_upstream_is_refused() {
    let recorder = Recorder::new(RunClock::start(), None).unwrap();
    for (url, ca_pem, words) in [
        ("127.0.0.1:6443", "", "is not the address of an API server"),
        ("ftp://host", "", "is not the address of an API server"),
        ("https://127.0.0.1:6443", "", "has no certificate"),
    ] {
        let upstream = Upstream { url: url.into(), ca_pem: ca_pem.into() };
        let error = Proxy::start(upstream, recorder.clone()).await.unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
}
