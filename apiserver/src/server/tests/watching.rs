//! Watches: what they start with, what they say, how they end.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::{MAPS, Tester};
use crate::{
    clock::Clock,
    server::{ApiServer, Options},
};

#[tokio::test]
async fn a_watch_tells_what_happens_in_order() {
    let t = Tester::new();
    t.config_map("a", json!({})).await;
    let mut watch = t.watch(&format!("{MAPS}?watch=1")).await;
    assert_eq!(watch.brief().await, "ADDED a");
    t.config_map("b", json!({})).await;
    t.merge(&format!("{MAPS}/a"), &json!({"data": {"a": "2"}})).await;
    t.delete(&format!("{MAPS}/b"), &json!({})).await;
    assert_eq!(watch.brief().await, "ADDED b");
    assert_eq!(watch.brief().await, "MODIFIED a");
    let (kind, last) = watch.next().await;
    assert_eq!(kind, "DELETED");
    assert_eq!(last["metadata"]["resourceVersion"], t.server.revision().to_string());
    assert_eq!(last["kind"], "ConfigMap", "objects in events are typed");
}

#[tokio::test]
async fn a_watch_continues_after_a_revision() {
    let t = Tester::new();
    let a = t.config_map("a", json!({})).await;
    let revision = a["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    t.config_map("b", json!({})).await;
    let mut watch = t.watch(&format!("{MAPS}?watch=true&resourceVersion={revision}")).await;
    assert_eq!(watch.brief().await, "ADDED b");
    t.server.compact();
    let mut old = t.watch(&format!("{MAPS}?watch=true&resourceVersion={revision}")).await;
    let (kind, status) = old.next().await;
    assert_eq!((kind.as_str(), &status["code"], &status["reason"]), ("ERROR", &json!(410), &json!("Expired")));
    assert!(old.ended().await);
}

#[tokio::test]
async fn leaving_the_selector_looks_like_a_deletion() {
    let t = Tester::new();
    t.config_map("a", json!({"app": "x"})).await;
    t.config_map("b", json!({})).await;
    let mut watch = t.watch(&format!("{MAPS}?watch=1&labelSelector=app%3Dx")).await;
    assert_eq!(watch.brief().await, "ADDED a");
    t.merge(&format!("{MAPS}/a"), &json!({"metadata": {"labels": {"app": "y"}}})).await;
    t.merge(&format!("{MAPS}/b"), &json!({"metadata": {"labels": {"app": "x"}}})).await;
    assert_eq!(watch.brief().await, "DELETED a");
    assert_eq!(watch.brief().await, "ADDED b");
    let mut one = t.watch(&format!("{MAPS}?watch=1&fieldSelector=metadata.name%3Da")).await;
    assert_eq!(one.brief().await, "ADDED a");
}

#[tokio::test]
async fn initial_events_end_with_a_bookmark() {
    let t = Tester::new();
    t.config_map("a", json!({})).await;
    let query = "watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan";
    let mut watch = t.watch(&format!("{MAPS}?{query}")).await;
    assert_eq!(watch.brief().await, "ADDED a");
    let (kind, bookmark) = watch.next().await;
    assert_eq!(kind, "BOOKMARK");
    assert_eq!(bookmark["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    assert_eq!(bookmark["metadata"]["resourceVersion"], t.server.revision().to_string());
    t.config_map("b", json!({})).await;
    assert_eq!(watch.brief().await, "ADDED b");
    assert_eq!(t.get(&format!("{MAPS}?watch=1&sendInitialEvents=true")).await.code, 422);
    assert_eq!(t.get(&format!("{MAPS}?watch=1&resourceVersionMatch=NotOlderThan")).await.code, 422);
}

#[tokio::test]
async fn an_idle_watch_sends_bookmarks_and_times_out() {
    let clock = StepClock::default();
    let t = Tester { server: ApiServer::new(Options { clock: Arc::new(clock.clone()), seed: 7 }) };
    let mut watch = t.watch(&format!("{MAPS}?watch=1&allowWatchBookmarks=true&timeoutSeconds=130")).await;
    for seconds in [60, 60, 10] {
        clock.advance(seconds);
        let (kind, bookmark) = watch.next().await;
        assert_eq!(kind, "BOOKMARK");
        assert_eq!(bookmark["metadata"]["resourceVersion"], t.server.revision().to_string());
    }
    assert!(watch.ended().await);
}

/// A clock that stands still until the test moves it.
#[derive(Debug, Clone)]
struct StepClock(Arc<tokio::sync::watch::Sender<Timestamp>>);

impl Default for StepClock {
    fn default() -> Self {
        Self(Arc::new(tokio::sync::watch::Sender::new(Timestamp::UNIX_EPOCH)))
    }
}

impl StepClock {
    fn advance(&self, seconds: i64) {
        self.0.send_modify(|now| *now += SignedDuration::from_secs(seconds));
    }
}

impl Clock for StepClock {
    fn now(&self) -> Timestamp {
        *self.0.borrow()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let deadline = self.now() + duration;
        let mut now = self.0.subscribe();
        Box::pin(async move {
            now.wait_for(|now| *now >= deadline).await.unwrap();
        })
    }
}

#[tokio::test]
async fn watches_of_other_namespaces_stay_silent() {
    let t = Tester::new();
    t.post("/api/v1/namespaces", &json!({"metadata": {"name": "a"}})).await;
    let mut watch = t.watch("/api/v1/namespaces/a/configmaps?watch=1").await;
    t.config_map("x", json!({})).await;
    t.post("/api/v1/namespaces/a/configmaps", &json!({"metadata": {"name": "y"}})).await;
    assert_eq!(watch.brief().await, "ADDED y");
}

#[tokio::test]
async fn changes_are_fed_in_commit_order() {
    let t = Tester::new();
    let mut changes = t.server.changes();
    t.config_map("x", json!({})).await;
    t.delete(&format!("{MAPS}/x"), &json!({})).await;
    let (first, second) = (changes.recv().await.unwrap(), changes.recv().await.unwrap());
    assert_eq!((first.gvr.to_string().as_str(), first.deleted), ("v1/configmaps", false));
    assert!(second.deleted);
}
