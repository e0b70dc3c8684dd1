//! Binds pods to nodes.
//!
//! # Guarantees
//! A pod with scheduling gates waits. A pod whose claim is missing or unbound is reported `Unschedulable` and bound when the claim is
//! there, as the real scheduler does.
//!
//! # Not done
//! Node selectors, affinity (other than the pin of daemon pods), taints and resources are ignored: the first node by
//! name takes every pod.

use serde_json::{Value, json};

use super::{
    Change, Client, Controller, Key, Outcome,
    condition::{self, Condition, Times},
    kinds,
    object::{get, is_terminating, key, list, name, namespace, status_of, text, uid, write_status},
    pods, pvc,
};
use crate::status::ApiError;

/// See the module.
#[derive(Debug, Default)]
pub struct Scheduler;

impl Controller for Scheduler {
    fn name(&self) -> &'static str {
        "default-scheduler"
    }

    fn user(&self) -> String {
        "system:kube-scheduler".into()
    }

    fn field_manager(&self) -> &'static str {
        "kube-scheduler"
    }

    fn keys(&self, change: &Change, client: &dyn Client) -> Vec<Key> {
        let waits = |p: &&Value| text(p, "/spec/nodeName").is_empty();
        if kinds::is(&change.gvr, &kinds::pods()) {
            return Some(&change.object).filter(waits).filter(|_| !change.deleted).map(key).into_iter().collect();
        }
        if kinds::is(&change.gvr, &kinds::nodes()) && !change.deleted {
            return client.list(&kinds::pods(), None).unwrap_or_default().iter().filter(waits).map(key).collect();
        }
        if kinds::is(&change.gvr, &kinds::claims()) && !change.deleted {
            let all = client.list(&kinds::pods(), Some(namespace(&change.object))).unwrap_or_default();
            let uses = |p: &&Value| pvc::claims_of(p).any(|c| c == name(&change.object));
            return all.iter().filter(waits).filter(uses).map(key).collect();
        }
        Vec::new()
    }

    fn reconcile(&self, client: &dyn Client, key: &Key) -> Result<Outcome, ApiError> {
        let Some(pod) = get(client, &kinds::pods(), key)? else { return Ok(Outcome::default()) };
        let done = !text(&pod, "/spec/nodeName").is_empty() || is_terminating(&pod) || pods::is_finished(&pod);
        let other = !matches!(text(&pod, "/spec/schedulerName"), "" | "default-scheduler");
        if done || other {
            return Ok(Outcome::default());
        }
        if !list(&pod, "/spec/schedulingGates").is_empty() {
            return hold(client, &pod, "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates");
        }
        let mut nodes = client.list(&kinds::nodes(), None)?;
        nodes.sort_by_key(|n| name(n).to_owned());
        let pinned = pinned_to(&pod);
        let node = nodes.iter().map(name).find(|n| pinned.is_none_or(|p| p == *n));
        let Some(node) = node else {
            return hold(client, &pod, "Unschedulable", "no nodes available to schedule pods");
        };
        let nodes_up = nodes.len();
        if let Some(why) = claim_problem(client, &pod)? {
            return hold(client, &pod, "Unschedulable", &format!("0/{nodes_up} nodes are available: {why}"));
        }
        bind(client, &pod, node)?;
        Ok(Outcome::default())
    }
}

fn pinned_to(pod: &Value) -> Option<&str> {
    let terms = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0";
    let field = pod.pointer(terms)?.pointer("/matchFields/0")?;
    (text(field, "/key") == "metadata.name").then(|| text(field, "/values/0"))
}

fn claim_problem(client: &dyn Client, pod: &Value) -> Result<Option<String>, ApiError> {
    for claim in pvc::claims_of(pod) {
        let own = Key { namespace: namespace(pod).into(), name: claim.into() };
        match get(client, &kinds::claims(), &own)? {
            None => return Ok(Some(format!("persistentvolumeclaim \"{claim}\" not found"))),
            Some(c) if is_terminating(&c) => {
                return Ok(Some(format!("persistentvolumeclaim \"{claim}\" is being deleted")));
            }
            Some(c) if text(&c, "/status/phase") != "Bound" => {
                return Ok(Some("pod has unbound immediate PersistentVolumeClaims".into()));
            }
            Some(_) => {}
        }
    }
    Ok(None)
}

fn hold(client: &dyn Client, pod: &Value, reason: &str, message: &str) -> Result<Outcome, ApiError> {
    let mut status = status_of(pod);
    status["phase"] = json!("Pending");
    let condition = Condition { kind: "PodScheduled", status: "False", reason, message };
    condition::set(&mut status, &condition, Times::NullProbe, client.now());
    write_status(client, &kinds::pods(), pod, status)?;
    Ok(Outcome::default())
}

/// Binds by the `binding` subresource, or by `spec.nodeName` where the client has no such call.
fn bind(client: &dyn Client, pod: &Value, node: &str) -> Result<(), ApiError> {
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": name(pod), "namespace": namespace(pod), "uid": uid(pod)},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    match client.create_subresource(&kinds::pods(), "binding", namespace(pod), name(pod), &binding) {
        Ok(_) => Ok(()),
        Err(e) if e.code == 501 => {
            let mut next = pod.clone();
            next["spec"]["nodeName"] = json!(node);
            client.update(&kinds::pods(), "", &next).map(|_| ())
        }
        Err(e) => Err(e),
    }
}
