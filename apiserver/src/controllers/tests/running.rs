//! The asynchronous driver: changes by a channel, quiescence by [`Progress`](crate::controllers::driver::Progress).

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    factory,
    fake::{Fake, FakeClock},
    workload,
};
use crate::{
    controllers::{
        Change, Client, Controller, Key, Outcome, driver::Driver, kinds, kubelet::Timing, object::int, standard,
    },
    resource::Gvr,
    status::ApiError,
};

#[tokio::test]
async fn a_caller_can_await_rest() {
    let clock = Arc::new(FakeClock::default());
    let api = Arc::new(Fake::new(Arc::clone(&clock)));
    let create = |object: Value| {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or("").to_owned();
        api.create(&api.gvr_of(&object), &namespace, &object).unwrap();
    };
    // One object before the start, one after: the first comes by listing, the second by the channel.
    create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}));
    let (sender, changes) = mpsc::unbounded_channel();
    api.watch(sender);
    let driver = Driver::new(&factory(&api), standard("PEM", Timing::default()), Arc::clone(&clock) as _);
    let mut progress = driver.progress();
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(driver.run(changes, shutdown.clone()));
    create(workload("Deployment", "web", json!({"replicas": 2})));
    let rest = async {
        let available =
            || api.get(&kinds::deployments(), "default", "web").map_or(0, |w| int(&w, "/status/availableReplicas"));
        while let Some(state) = progress.changed().await {
            if state.is_idle(clock.get(), Duration::from_secs(1)) && available() == 2 {
                return true;
            }
        }
        false
    };
    assert!(tokio::time::timeout(Duration::from_secs(30), rest).await.unwrap());
    shutdown.cancel();
    task.await.unwrap();
}

/// Fails in a given way, and counts how often it was called.
struct Failing {
    error: ApiError,
    calls: Arc<std::sync::atomic::AtomicUsize>,
}

impl Controller for Failing {
    fn name(&self) -> &'static str {
        "failing"
    }

    fn keys(&self, _change: &Change, _client: &dyn Client) -> Vec<Key> {
        Vec::new()
    }

    fn first_keys(&self) -> Vec<Key> {
        vec![Key { namespace: String::new(), name: "x".into() }]
    }

    fn reconcile(&self, _client: &dyn Client, _key: &Key) -> Result<Outcome, ApiError> {
        self.calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Err(self.error.clone())
    }
}

#[test]
fn errors_are_retried_later_and_conflicts_now() {
    let gvr = Gvr::new("", "v1", "pods");
    let rows = [(ApiError::stale(&gvr, "x"), 6), (ApiError::bad_request("no"), 1)];
    for (error, at_once) in rows {
        let clock = Arc::new(FakeClock::default());
        let api = Arc::new(Fake::new(Arc::clone(&clock)));
        let calls = Arc::default();
        let failing = Failing { error, calls: Arc::clone(&calls) };
        let mut driver = Driver::new(&factory(&api), vec![Box::new(failing)], Arc::clone(&clock) as _);
        driver.start();
        while driver.step() {}
        assert_eq!(calls.load(std::sync::atomic::Ordering::Relaxed), at_once);
        assert_eq!(driver.state(0).retrying, 1);
        assert!(driver.next_due().unwrap() > clock.get());
    }
}
