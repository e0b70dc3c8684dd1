//! Keeps one pod of a template on every node.
//!
//! # Guarantees
//! Pods are pinned to their node by node affinity, as in a real cluster; the scheduler binds them there. A rolling
//! update replaces at most `maxUnavailable` pods at a time.
//!
//! # Not done
//! Node selectors, taints and `maxSurge` are not looked at: every node takes every DaemonSet.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    Change, Client, Controller, Key, Outcome,
    claim::{self, Owner},
    kinds,
    object::{
        delete, generation, get, int, is_terminating, key, label, list, name, namespace, opt_int, put_count, scaled,
        status_of, text, write_status,
    },
    pods, replicaset,
    revision::{self, Lookup},
    template,
};
use crate::status::ApiError;

const REVISION_LABEL: &str = "controller-revision-hash";
const GENERATION_LABEL: &str = "pod-template-generation";
const GENERATION_ANNOTATION: &str = "deprecated.daemonset.template.generation";

/// Taints that daemon pods bear, with their effects.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// See the module.
#[derive(Debug, Default)]
pub struct DaemonSetController;

impl Controller for DaemonSetController {
    fn name(&self) -> &'static str {
        "daemon-set-controller"
    }

    fn keys(&self, change: &Change, client: &dyn Client) -> Vec<Key> {
        let gvr = kinds::daemon_sets();
        if kinds::is(&change.gvr, &gvr) {
            return vec![key(&change.object)];
        }
        if kinds::is(&change.gvr, &kinds::pods()) {
            return replicaset::pod_keys(client, &change.object, &gvr, "apps", "DaemonSet");
        }
        if kinds::is(&change.gvr, &kinds::nodes()) {
            return client.list(&gvr, None).unwrap_or_default().iter().map(key).collect();
        }
        Vec::new()
    }

    fn reconcile(&self, client: &dyn Client, key: &Key) -> Result<Outcome, ApiError> {
        let gvr = kinds::daemon_sets();
        let Some(set) = get(client, &gvr, key)? else { return Ok(Outcome::default()) };
        if is_terminating(&set) {
            return Ok(Outcome::default());
        }
        let owner = Owner { object: &set, api_version: "apps/v1", kind: "DaemonSet" };
        let mut history = revision::history(client, owner)?;
        let collisions = int(&set, "/status/collisionCount");
        let update = match revision::current(client, owner, &mut history, collisions)? {
            Lookup::Found(update) => update,
            Lookup::Collision => {
                let mut status = status_of(&set);
                status["collisionCount"] = json!(collisions + 1);
                write_status(client, &gvr, &set, status)?;
                return Ok(Outcome::default());
            }
        };
        let all = client.list(&kinds::pods(), Some(&key.namespace))?;
        let mine = claim::claim(client, &kinds::pods(), owner, all, |_| true)?;
        let nodes = client.list(&kinds::nodes(), None)?;
        let hash = label(&update, "controller.kubernetes.io/hash").to_owned();
        let placed = place(client, owner, mine, &nodes, &hash)?;
        let (status, recheck) = status(client, &set, &placed, &nodes, &hash);
        write_status(client, &gvr, &set, status)?;
        let live: Vec<&str> = history
            .iter()
            .filter(|r| placed.iter().any(|p| label(p, REVISION_LABEL) == label(r, "controller.kubernetes.io/hash")))
            .chain([&update])
            .map(name)
            .collect();
        revision::truncate(client, &history, &live, opt_int(&set, "/spec/revisionHistoryLimit").unwrap_or(10))?;
        Ok(Outcome { requeue_after: recheck })
    }
}

/// The node that a pod is on or meant for.
fn node_of(pod: &Value) -> &str {
    let bound = text(pod, "/spec/nodeName");
    if !bound.is_empty() {
        return bound;
    }
    let terms = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0";
    text(pod, &format!("{terms}/matchFields/0/values/0"))
}

/// Creates missing pods and deletes surplus, ended and outdated ones; gives the pods that are left.
fn place(
    client: &dyn Client,
    owner: Owner<'_>,
    mine: Vec<Value>,
    nodes: &[Value],
    hash: &str,
) -> Result<Vec<Value>, ApiError> {
    let gvr = kinds::pods();
    let mut by_node: BTreeMap<&str, Vec<Value>> = nodes.iter().map(|n| (name(n), Vec::new())).collect();
    for pod in mine {
        match by_node.get_mut(node_of(&pod)) {
            Some(slot) => slot.push(pod),
            None if is_terminating(&pod) => {}
            None => delete(client, &gvr, &pod, None)?,
        }
    }
    let mut left = Vec::new();
    for (node, mut pods) in by_node {
        // The oldest pod stays; one that ended is replaced once it is gone.
        pods.sort_by_key(|p| (text(p, "/metadata/creationTimestamp").to_owned(), name(p).to_owned()));
        let ended: Vec<bool> = pods.iter().map(pods::is_finished).collect();
        let mut kept = 0;
        for (pod, ended) in pods.iter().zip(ended) {
            if !is_terminating(pod) && (ended || kept > 0) {
                delete(client, &gvr, pod, None)?;
            } else {
                kept += 1;
                left.push(pod.clone());
            }
        }
        if pods.is_empty() {
            left.push(client.create(&gvr, namespace(owner.object), &build(owner, node, hash))?);
        }
    }
    if text(owner.object, "/spec/updateStrategy/type") == "OnDelete" {
        return Ok(left);
    }
    roll(client, owner.object, left, nodes, hash)
}

fn roll(
    client: &dyn Client,
    set: &Value,
    pods: Vec<Value>,
    nodes: &[Value],
    hash: &str,
) -> Result<Vec<Value>, ApiError> {
    let total = i64::try_from(nodes.len()).unwrap_or(0);
    let limit = scaled(set.pointer("/spec/updateStrategy/rollingUpdate/maxUnavailable"), total, true, 1).max(1);
    let up = |p: &Value| pods::is_ready(p) && !is_terminating(p);
    let mut budget = limit - i64::try_from(pods.iter().filter(|p| !up(p)).count()).unwrap_or(0);
    let mut left = Vec::new();
    for pod in pods {
        let outdated = label(&pod, REVISION_LABEL) != hash && !is_terminating(&pod);
        // Replacing a pod that is down costs nothing.
        if outdated && (!up(&pod) || budget > 0) {
            budget -= i64::from(up(&pod));
            delete(client, &kinds::pods(), &pod, None)?;
        } else {
            left.push(pod);
        }
    }
    Ok(left)
}

fn build(owner: Owner<'_>, node: &str, hash: &str) -> Value {
    let set = owner.object;
    let empty = json!({});
    let mut pod = template::pod(set.pointer("/spec/template").unwrap_or(&empty), namespace(set), owner.reference());
    pod["metadata"]["generateName"] = json!(template::prefix(set));
    template::add_labels(&mut pod, &[(REVISION_LABEL, hash)]);
    if let Some(number) = super::object::annotation(set, GENERATION_ANNOTATION) {
        template::add_labels(&mut pod, &[(GENERATION_LABEL, number)]);
    }
    pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!({
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}],
    });
    let mut tolerations = list(&pod, "/spec/tolerations").to_vec();
    for (key, effect) in TOLERATED {
        let toleration = json!({"key": key, "operator": "Exists", "effect": effect});
        if !tolerations.contains(&toleration) {
            tolerations.push(toleration);
        }
    }
    pod["spec"]["tolerations"] = json!(tolerations);
    pod
}

fn status(
    client: &dyn Client,
    set: &Value,
    placed: &[Value],
    nodes: &[Value],
    hash: &str,
) -> (Value, Option<std::time::Duration>) {
    let running: Vec<&Value> = placed.iter().filter(|p| !is_terminating(p)).collect();
    let counts = pods::count(running.iter().copied(), int(set, "/spec/minReadySeconds"), client.now());
    let desired = i64::try_from(nodes.len()).unwrap_or(0);
    let updated = running.iter().filter(|p| label(p, REVISION_LABEL) == hash).count();
    let mut status = status_of(set);
    status["currentNumberScheduled"] = json!(counts.total);
    status["desiredNumberScheduled"] = json!(desired);
    status["numberMisscheduled"] = json!(0);
    status["numberReady"] = json!(counts.ready);
    put_count(&mut status, "numberAvailable", counts.available);
    put_count(&mut status, "numberUnavailable", desired - counts.available);
    put_count(&mut status, "updatedNumberScheduled", i64::try_from(updated).unwrap_or(0));
    put_count(&mut status, "observedGeneration", generation(set));
    (status, counts.recheck)
}
