//! Keeps `spec.replicas` pods of a template alive, and counts them in the status.
//!
//! # Guarantees
//! Surplus pods go in the usual order: without a node, pending, not ready, of lower deletion cost, younger. A pod
//! that no longer matches is released, an orphan that matches is adopted.
//!
//! # Not done
//! No expectations cache (reads are never stale here) and no slow start of large batches.

use std::cmp::Reverse;

use serde_json::{Value, json};

use super::{
    Change, Client, Controller, Key, Outcome,
    claim::{self, Owner},
    condition::{self, Condition, Times},
    kinds,
    object::{
        self, annotation, controller_key, controller_of, delete, generation, get, int, is_terminating, key, map, name,
        namespace, opt_int, put_count, status_of, text, uid, write_status,
    },
    pods, selector, template,
};
use crate::status::ApiError;

/// A ReplicaSet makes or deletes at most this many pods in a step.
const BURST: usize = 500;

/// See the module.
#[derive(Debug, Default)]
pub struct ReplicaSetController;

impl Controller for ReplicaSetController {
    fn name(&self) -> &'static str {
        "replicaset-controller"
    }

    fn keys(&self, change: &Change, client: &dyn Client) -> Vec<Key> {
        if kinds::is(&change.gvr, &kinds::replica_sets()) {
            return vec![key(&change.object)];
        }
        if kinds::is(&change.gvr, &kinds::pods()) {
            return pod_keys(client, &change.object, &kinds::replica_sets(), "apps", "ReplicaSet");
        }
        Vec::new()
    }

    fn reconcile(&self, client: &dyn Client, key: &Key) -> Result<Outcome, ApiError> {
        let gvr = kinds::replica_sets();
        let Some(set) = get(client, &gvr, key)? else { return Ok(Outcome::default()) };
        let owner = Owner { object: &set, api_version: "apps/v1", kind: "ReplicaSet" };
        let all = client.list(&kinds::pods(), Some(&key.namespace))?;
        let active = all.into_iter().filter(pods::is_active).collect();
        let mut mine = claim::claim(client, &kinds::pods(), owner, active, |_| true)?;
        let managed = if is_terminating(&set) { Ok(()) } else { manage(client, owner, &mut mine) };
        let (status, counts) = status(client, &set, &mine, managed.as_ref().err());
        write_status(client, &gvr, &set, status)?;
        managed?;
        Ok(Outcome { requeue_after: counts.recheck })
    }
}

/// The keys that a pod concerns: its controller, or for an orphan every workload that selects it.
pub(super) fn pod_keys(
    client: &dyn Client,
    pod: &Value,
    workloads: &crate::resource::Gvr,
    group: &str,
    kind: &str,
) -> Vec<Key> {
    if controller_of(pod).is_some() {
        return controller_key(pod, group, kind).into_iter().collect();
    }
    let candidates = client.list(workloads, Some(namespace(pod))).unwrap_or_default();
    candidates.iter().filter(|w| selector::matches(w.pointer("/spec/selector"), pod)).map(key).collect()
}

fn replicas(set: &Value) -> i64 {
    opt_int(set, "/spec/replicas").unwrap_or(1)
}

fn manage(client: &dyn Client, owner: Owner<'_>, mine: &mut Vec<Value>) -> Result<(), ApiError> {
    let wanted = usize::try_from(replicas(owner.object)).unwrap_or(0);
    if mine.len() < wanted {
        let empty = json!({});
        let template = owner.object.pointer("/spec/template").unwrap_or(&empty);
        for _ in 0..(wanted - mine.len()).min(BURST) {
            let mut pod = template::pod(template, namespace(owner.object), owner.reference());
            pod["metadata"]["generateName"] = json!(template::prefix(owner.object));
            mine.push(client.create(&kinds::pods(), namespace(owner.object), &pod)?);
        }
    } else if mine.len() > wanted {
        let surplus = (mine.len() - wanted).min(BURST);
        mine.sort_by_cached_key(rank);
        for pod in mine.drain(..surplus) {
            delete(client, &kinds::pods(), &pod, None)?;
        }
    }
    Ok(())
}

/// Sorts the pods to be deleted first to the front.
fn rank(pod: &Value) -> (bool, u8, bool, i64, Reverse<String>, Reverse<String>) {
    let phase = match pods::phase(pod) {
        "Running" => 2,
        "Unknown" => 1,
        _ => 0,
    };
    let cost = annotation(pod, "controller.kubernetes.io/pod-deletion-cost").and_then(|c| c.parse().ok()).unwrap_or(0);
    (
        !text(pod, "/spec/nodeName").is_empty(),
        phase,
        pods::is_ready(pod),
        cost,
        Reverse(text(pod, "/metadata/creationTimestamp").into()),
        // A tie within one second is broken by name, so that a run can be repeated.
        Reverse(name(pod).into()),
    )
}

fn status(client: &dyn Client, set: &Value, mine: &[Value], failure: Option<&ApiError>) -> (Value, pods::Counts) {
    let now = client.now();
    let counts = pods::count(mine, int(set, "/spec/minReadySeconds"), now);
    let labels = map(set, "/spec/template/metadata/labels");
    let labelled = mine.iter().filter(|p| labels.is_none_or(|l| selector::has_all(l, p))).count();
    let mut status = status_of(set);
    status["replicas"] = json!(counts.total);
    put_count(&mut status, "fullyLabeledReplicas", i64::try_from(labelled).unwrap_or(0));
    put_count(&mut status, "readyReplicas", counts.ready);
    put_count(&mut status, "availableReplicas", counts.available);
    put_count(&mut status, "observedGeneration", generation(set));
    match failure {
        Some(error) => {
            let reason = if counts.total < replicas(set) { "FailedCreate" } else { "FailedDelete" };
            let condition = Condition { kind: "ReplicaFailure", status: "True", reason, message: &error.message };
            condition::set(&mut status, &condition, Times::TransitionOnly, now);
        }
        None => condition::remove(&mut status, "ReplicaFailure"),
    }
    (status, counts)
}

/// Sets `spec.replicas`, and annotations, of a ReplicaSet in one write.
pub(super) fn scale(
    client: &dyn Client,
    set: &mut Value,
    replicas: i64,
    annotations: &[(&str, String)],
) -> Result<bool, ApiError> {
    let mut next = set.clone();
    next["spec"]["replicas"] = json!(replicas);
    for (key, value) in annotations {
        if object::map(&next, "/metadata/annotations").is_none() {
            next["metadata"]["annotations"] = json!({});
        }
        next["metadata"]["annotations"][*key] = json!(value);
    }
    if next == *set {
        return Ok(false);
    }
    debug_assert!(!uid(&next).is_empty(), "only stored sets are scaled");
    *set = client.update(&kinds::replica_sets(), "", &next)?;
    Ok(true)
}
