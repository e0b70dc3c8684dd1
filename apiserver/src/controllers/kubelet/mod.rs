//! The simulated node: pods bound to it come up, run, end and go, without any container.
//!
//! # Flow
//! pod -> what it still lacks ([`needs`]) -> the stage that is next, after a delay ([`Timing`]) -> status
//! ([`report`]). The annotation `reconverge.dev/pod` steers a pod for tests ([`Behaviour`]).
//!
//! # Guarantees
//! A pod whose Secret, ConfigMap or claim is missing does not start, and starts when it appears. Delays are drawn from
//! the pod's UID, which is random by the cluster's seed, so they do not depend on the order of steps. A status at
//! rest is never written again.
//!
//! # Not done
//! No images are pulled, no probes run, no logs, no exec, no node heartbeats. Grace periods are cut short: a pod in
//! deletion goes after [`Timing::stop`].

mod needs;
mod report;

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{
    Change, Client, Controller, Key, Outcome, condition, kinds,
    object::{annotation, controller_of, get, is_terminating, key, name, namespace, opt_int, text, uid, write_status},
    pods,
};
use crate::status::ApiError;

/// The node's name.
pub const NODE: &str = "node-1";
/// The node's address.
const NODE_IP: &str = "172.18.0.2";
/// The annotation that steers a simulated pod.
pub const BEHAVIOUR: &str = "reconverge.dev/pod";

/// How long the stages of a simulated pod take; each delay gets up to `jitter` on top.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// From bound to running and ready.
    pub start: Duration,
    /// From running to ended, for pods that end by themselves.
    pub complete: Duration,
    /// From the deletion request to gone.
    pub stop: Duration,
    pub jitter: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        let short = Duration::from_millis(10);
        Self { start: short, complete: short, stop: short, jitter: short }
    }
}

/// What a pod does once it may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behaviour {
    /// Runs, ready, until deleted.
    Run,
    /// Never leaves `ContainerCreating`.
    Pending,
    /// Runs without ever being ready.
    NotReady,
    /// Its containers fail, and wait to be restarted.
    CrashLoop,
    /// Ends with success.
    Succeed,
    /// Ends with failure.
    Fail,
}

impl Behaviour {
    /// # Errors
    /// The text of an annotation that names no behaviour.
    fn of(pod: &Value) -> Result<Self, String> {
        let restart = text(pod, "/spec/restartPolicy");
        let ends = matches!(restart, "Never" | "OnFailure");
        let of_job = controller_of(pod).is_some_and(|r| text(r, "/kind") == "Job");
        Ok(match annotation(pod, BEHAVIOUR) {
            None if ends && of_job => Self::Succeed,
            None | Some("run") => Self::Run,
            Some("pending") => Self::Pending,
            Some("not-ready") => Self::NotReady,
            Some("crash-loop") => Self::CrashLoop,
            Some("succeed") if ends => Self::Succeed,
            Some("fail") if restart == "Never" => Self::Fail,
            // Containers that are restarted when they fail never bring their pod to an end.
            Some("fail") => Self::CrashLoop,
            Some(other) => return Err(format!("annotation {BEHAVIOUR}: \"{other}\" does not fit this pod")),
        })
    }
}

/// A step of a pod's life that takes time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Start,
    Complete,
    Stop,
}

/// See the module.
#[derive(Debug)]
pub struct Kubelet {
    timing: Timing,
    /// When the stage that a pod waits for is due.
    due: Mutex<BTreeMap<Key, (String, Stage, Timestamp)>>,
}

impl Kubelet {
    #[must_use]
    pub fn new(timing: Timing) -> Self {
        Self { timing, due: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, (String, Stage, Timestamp)>> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long a pod's stage still takes; the first question starts the wait.
    fn wait(&self, pod: &Value, stage: Stage, now: Timestamp) -> Option<Duration> {
        let mut due = self.lock();
        let own = key(pod);
        let at = match due.get(&own) {
            Some((of, waiting, at)) if of == uid(pod) && *waiting == stage => *at,
            _ => {
                let at = now.checked_add(self.delay(pod, stage)).unwrap_or(now);
                due.insert(own, (uid(pod).into(), stage, at));
                at
            }
        };
        Duration::try_from(at.duration_since(now)).ok().filter(|left| !left.is_zero())
    }

    fn delay(&self, pod: &Value, stage: Stage) -> Duration {
        let base = match stage {
            Stage::Start => self.timing.start,
            Stage::Complete => self.timing.complete,
            Stage::Stop => self.timing.stop,
        };
        let bound = u64::try_from(self.timing.jitter.as_micros()).unwrap_or(u64::MAX);
        let jitter = draw(&format!("{}/{stage:?}", uid(pod))) % bound.max(1);
        base + Duration::from_micros(jitter)
    }

    fn tend(&self, client: &dyn Client, pod: &Value) -> Result<Outcome, ApiError> {
        let now = client.now();
        if is_terminating(pod) {
            return self.stop(client, pod, now);
        }
        if pods::is_finished(pod) {
            self.lock().remove(&key(pod));
            return Ok(Outcome::default());
        }
        let hold = |waiting: &needs::Waiting| {
            let status = report::waiting(pod, waiting, now);
            write_status(client, &kinds::pods(), pod, status).map(|_| Outcome::default())
        };
        let behaviour = match Behaviour::of(pod) {
            Ok(behaviour) => behaviour,
            Err(message) => return hold(&needs::Waiting::everywhere("InvalidBehaviour", message)),
        };
        if pods::phase(pod) != "Running" {
            if let Some(waiting) = needs::missing(client, pod)? {
                return hold(&waiting);
            }
            if behaviour == Behaviour::Pending {
                return hold(&needs::Waiting::everywhere("ContainerCreating", String::new()));
            }
            if let Some(left) = self.wait(pod, Stage::Start, now) {
                return Ok(Outcome { requeue_after: Some(left) });
            }
        }
        let running = report::running(client, pod, behaviour)?;
        write_status(client, &kinds::pods(), pod, running)?;
        if !matches!(behaviour, Behaviour::Succeed | Behaviour::Fail) {
            return Ok(Outcome::default());
        }
        if let Some(left) = self.wait(pod, Stage::Complete, now) {
            return Ok(Outcome { requeue_after: Some(left) });
        }
        let exit = if behaviour == Behaviour::Succeed { 0 } else { 1 };
        write_status(client, &kinds::pods(), pod, report::ended(pod, exit, now)).map(|_| Outcome::default())
    }

    fn stop(&self, client: &dyn Client, pod: &Value, now: Timestamp) -> Result<Outcome, ApiError> {
        let over = pods::is_finished(pod) && opt_int(pod, "/metadata/deletionGracePeriodSeconds") == Some(0);
        if over {
            // Only finalizers of others keep it.
            return Ok(Outcome::default());
        }
        if let Some(left) = self.wait(pod, Stage::Stop, now) {
            return Ok(Outcome { requeue_after: Some(left) });
        }
        if !pods::is_finished(pod) && !text(pod, "/spec/nodeName").is_empty() {
            // 128 + SIGTERM: the pod did not end by itself.
            write_status(client, &kinds::pods(), pod, report::ended(pod, 143, now))?;
        }
        let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid(pod)}});
        match client.delete(&kinds::pods(), namespace(pod), name(pod), &options) {
            Err(e) if e.code != 404 => Err(e),
            _ => Ok(Outcome::default()),
        }
    }
}

impl Controller for Kubelet {
    fn name(&self) -> &'static str {
        "kubelet"
    }

    fn user(&self) -> String {
        format!("system:node:{NODE}")
    }

    fn field_manager(&self) -> &'static str {
        "kubelet"
    }

    fn first_keys(&self) -> Vec<Key> {
        vec![Key { namespace: String::new(), name: NODE.into() }]
    }

    fn keys(&self, change: &Change, client: &dyn Client) -> Vec<Key> {
        let object = &change.object;
        if kinds::is(&change.gvr, &kinds::pods()) {
            if change.deleted {
                self.lock().remove(&key(object));
                return Vec::new();
            }
            return if is_ours(object) { vec![key(object)] } else { Vec::new() };
        }
        if kinds::is(&change.gvr, &kinds::nodes()) && name(object) == NODE {
            return self.first_keys();
        }
        let Some(need) = needs::Need::of(change) else { return Vec::new() };
        let all = client.list(&kinds::pods(), Some(namespace(object))).unwrap_or_default();
        let waits = |p: &&Value| is_ours(p) && matches!(pods::phase(p), "" | "Pending") && needs::refers(p, &need);
        all.iter().filter(waits).map(key).collect()
    }

    fn reconcile(&self, client: &dyn Client, key: &Key) -> Result<Outcome, ApiError> {
        if key.namespace.is_empty() {
            return register(client, key);
        }
        match get(client, &kinds::pods(), key)? {
            Some(pod) if is_ours(&pod) => self.tend(client, &pod),
            _ => Ok(Outcome::default()),
        }
    }
}

/// Bound to this node; or in deletion before it was bound to any, which nobody else would end.
fn is_ours(pod: &Value) -> bool {
    match text(pod, "/spec/nodeName") {
        NODE => true,
        "" => is_terminating(pod),
        _ => false,
    }
}

/// A number that belongs to a text, evenly spread.
fn draw(seed: &str) -> u64 {
    let digest = Sha256::digest(seed.as_bytes());
    digest.iter().take(8).fold(0, |n, byte| (n << 8) | u64::from(*byte))
}

/// Creates the Node, and gives it a status when it has none.
fn register(client: &dyn Client, key: &Key) -> Result<Outcome, ApiError> {
    let gvr = kinds::nodes();
    let node = match get(client, &gvr, key)? {
        Some(node) => node,
        None => {
            let object = json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": {"name": NODE, "labels": {
                    "kubernetes.io/hostname": NODE, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
                    "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64",
                }},
                "spec": {"podCIDR": "10.244.0.0/16", "podCIDRs": ["10.244.0.0/16"], "providerID": "simulated://node-1"},
            });
            match client.create(&gvr, "", &object) {
                Err(e) if e.reason == "AlreadyExists" => client.get(&gvr, "", NODE)?,
                other => other?,
            }
        }
    };
    let known = node.get("status").is_some_and(|s| condition::find(s, "Ready").is_some());
    if !is_terminating(&node) && !known {
        write_status(client, &gvr, &node, report::node(NODE_IP, client.now()))?;
    }
    Ok(Outcome::default())
}
