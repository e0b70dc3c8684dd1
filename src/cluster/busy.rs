//! Whether a real cluster's own controllers are at work: pods that come up or go, workloads that are being rolled.
//!
//! # Flow
//! watches of pods and workloads -> which of them are on their way to another state -> idle or not.
//!
//! # Guarantees
//! What does not get on, such as a pod whose image cannot be pulled, counts only for a while after its last change:
//! a cluster in which something is stuck is at rest, too.
//!
//! # Deliberately not done
//! Controllers of other kinds; there the settle window alone decides.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::StreamExt as _;
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, StatefulSet},
    batch::v1::Job,
    core::v1::Pod,
};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event},
    },
};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::{
    clock::{RunClock, wall},
    cluster::tester::typed,
    object::metadata,
};

/// How long after its last change an object on its way is waited for; kubelets and controllers retry within seconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// By uid: until when an object that is on its way counts.
type OnTheirWay = Arc<Mutex<BTreeMap<String, u64>>>;

/// Watches of one cluster.
pub struct Busy {
    clock: RunClock,
    on_their_way: OnTheirWay,
    tasks: JoinSet<()>,
}

impl Busy {
    /// Follows the cluster until [`Busy::stop`].
    #[must_use]
    pub fn watch(client: &Client) -> Self {
        let mut busy = Self { clock: RunClock::start(), on_their_way: Arc::default(), tasks: JoinSet::new() };
        let kinds = [
            ApiResource::erase::<Pod>(&()),
            ApiResource::erase::<Deployment>(&()),
            ApiResource::erase::<StatefulSet>(&()),
            ApiResource::erase::<DaemonSet>(&()),
            ApiResource::erase::<Job>(&()),
        ];
        for kind in kinds {
            let api = Api::all_with(client.clone(), &kind);
            busy.tasks.spawn(follow(api, kind, busy.clock, Arc::clone(&busy.on_their_way)));
        }
        busy
    }

    /// Whether nothing is on its way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let now = self.clock.now_ms();
        self.on_their_way.lock().unwrap_or_else(PoisonError::into_inner).values().all(|until| *until <= now)
    }

    /// Ends the watches.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
    }
}

async fn follow(api: Api<DynamicObject>, kind: ApiResource, clock: RunClock, on_their_way: OnTheirWay) {
    let mut events = watcher::watcher(api, watcher::Config::default()).default_backoff().boxed();
    while let Some(event) = events.next().await {
        // The watcher itself tries again.
        let Ok(event) = event else { continue };
        let (object, is_gone) = match &event {
            Event::InitApply(object) | Event::Apply(object) => (object, false),
            Event::Delete(object) => (object, true),
            Event::Init | Event::InitDone => continue,
        };
        let value = typed(object, (&kind.api_version, &kind.kind));
        let uid = metadata(&value, "uid").to_owned();
        let mut on_their_way = on_their_way.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_gone && is_on_its_way(&value) {
            let patience = u64::try_from(PATIENCE.as_millis()).unwrap_or(u64::MAX);
            on_their_way.insert(uid, clock.now_ms() + grace_left_ms(&value) + patience);
        } else {
            on_their_way.remove(&uid);
        }
    }
}

/// How long the object may still take to end in order.
fn grace_left_ms(object: &Value) -> u64 {
    let ends = metadata(object, "deletionTimestamp").parse::<jiff::Timestamp>().ok();
    let left = ends.map_or(0, |ends| ends.as_millisecond() - wall().as_millisecond());
    u64::try_from(left).unwrap_or_default()
}

fn is_on_its_way(object: &Value) -> bool {
    if !metadata(object, "deletionTimestamp").is_empty() {
        return true;
    }
    let number = |path: &str| object.pointer(path).and_then(Value::as_i64);
    let status = |field: &str| number(&format!("/status/{field}")).unwrap_or_default();
    let condition = |name: &str| {
        let all = object.pointer("/status/conditions").and_then(Value::as_array);
        all.into_iter().flatten().any(|condition| {
            condition.get("type").and_then(Value::as_str) == Some(name)
                && condition.get("status").and_then(Value::as_str) == Some("True")
        })
    };
    let is_unseen = status("observedGeneration") < number("/metadata/generation").unwrap_or_default();
    let wanted = number("/spec/replicas").unwrap_or(1);
    match object.get("kind").and_then(Value::as_str).unwrap_or_default() {
        "Pod" => match object.pointer("/status/phase").and_then(Value::as_str).unwrap_or("Pending") {
            "Running" => !condition("Ready"),
            "Succeeded" | "Failed" => false,
            _ => true,
        },
        "Deployment" => {
            let at_rest = ["replicas", "updatedReplicas", "availableReplicas"].iter().all(|f| status(f) == wanted);
            is_unseen || !at_rest
        }
        "StatefulSet" => is_unseen || status("replicas") != wanted || status("availableReplicas") != wanted,
        "DaemonSet" => {
            let wanted = status("desiredNumberScheduled");
            is_unseen || status("updatedNumberScheduled") != wanted || status("numberAvailable") != wanted
        }
        "Job" => status("active") > 0 && !condition("Complete") && !condition("Failed"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ServiceAccount;
    use serde_json::json;

    use super::*;
    use crate::{
        clock::pause,
        cluster::{
            Cluster as _,
            embedded::Embedded,
            tester::{Tester, USER_MANAGER},
        },
        seed::Seed,
    };

    fn pod(phase: &str, ready: &str) -> Value {
        let conditions = json!([{"type": "Ready", "status": ready}]);
        json!({"kind": "Pod", "metadata": {"generation": 1}, "status": {"phase": phase, "conditions": conditions}})
    }

    #[test]
    fn a_pod_is_on_its_way_until_it_is_ready_or_has_ended() {
        for (phase, ready, expected) in [
            ("Pending", "False", true),
            ("Running", "False", true),
            ("Running", "True", false),
            ("Succeeded", "False", false),
            ("Failed", "False", false),
        ] {
            assert_eq!(is_on_its_way(&pod(phase, ready)), expected, "{phase} {ready}");
        }
        let mut going = pod("Running", "True");
        going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert!(is_on_its_way(&going));
        assert_eq!(grace_left_ms(&going), 0, "its time is over");
        going["metadata"]["deletionTimestamp"] = "2999-01-01T00:00:00Z".into();
        assert!(grace_left_ms(&going) > 0);
    }

    #[test]
    fn a_rolling_deployment_is_on_its_way() {
        let with = |generation: i64, replicas: i64, updated: i64, available: i64| {
            is_on_its_way(&json!({
                "kind": "Deployment", "metadata": {"generation": generation}, "spec": {"replicas": 3},
                "status": {"observedGeneration": 1, "replicas": replicas, "updatedReplicas": updated,
                    "availableReplicas": available},
            }))
        };
        assert!(!with(1, 3, 3, 3));
        assert!(with(2, 3, 3, 3), "the controller has not seen the edit yet");
        assert!(with(1, 4, 3, 3), "an old pod has not gone yet");
        assert!(with(1, 3, 2, 3));
        assert!(with(1, 3, 3, 2));
    }

    /// Without the watch, a cluster that works would pass for one at rest.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_cluster_is_busy_until_its_pods_are_there() {
        let cluster = Embedded::start(Seed(1)).await.unwrap();
        let client = cluster.client();
        let busy = Busy::watch(&client);
        assert!(busy.is_idle(), "nothing is there yet");
        // Nobody may make a pod in a namespace whose ServiceAccount is not there yet.
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
        let deadline = busy.clock.deadline(Duration::from_secs(20));
        while accounts.get_opt("default").await.unwrap().is_none() {
            assert!(!deadline.passed(busy.clock), "the namespace never got its ServiceAccount");
            pause(Duration::from_millis(5)).await;
        }
        // No node takes it, and it stays pending.
        let stray = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stray"},
            "spec": {"nodeName": "no-such-node", "containers": [{"name": "a", "image": "a:1"}]},
        });
        Tester::new(client.clone(), "default").apply(&stray, USER_MANAGER).await.unwrap();
        let deadline = busy.clock.deadline(Duration::from_secs(20));
        while busy.is_idle() {
            assert!(!deadline.passed(busy.clock), "the pending pod was never seen");
            pause(Duration::from_millis(5)).await;
        }
        let seen = busy.clock.now_ms();
        let deadline = busy.clock.deadline(PATIENCE * 3);
        while !busy.is_idle() {
            assert!(!deadline.passed(busy.clock), "a pod that is stuck is waited for for ever");
            pause(Duration::from_millis(50)).await;
        }
        assert!(busy.clock.now_ms() - seen > 1_000, "it is not waited for at all");
        busy.stop().await;
        Box::new(cluster).shutdown().await;
    }
}
