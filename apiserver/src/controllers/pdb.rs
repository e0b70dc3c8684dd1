//! Reports in a PodDisruptionBudget's status how many pods may be disrupted now.
//!
//! Evictions are decided by the API server from this status; it notes each in `disruptedPods`. Such a pod does not count
//! as healthy, and its note goes when the pod is on its way out, or after two minutes.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{
    Change, Client, Controller, Key, Outcome,
    condition::{self, Condition, Times},
    kinds,
    object::{
        controller_of, generation, get, group_of, is_terminating, key, map, name, namespace, opt_int, put_count,
        scaled, status_of, text, uid, write_status,
    },
    pods, selector,
};
use crate::{resource::Gvr, status::ApiError};

/// An eviction whose pod is still there after this time has failed.
const NOTE_LIFE: Duration = Duration::from_mins(2);

/// See the module.
#[derive(Debug, Default)]
pub struct DisruptionController;

impl Controller for DisruptionController {
    fn name(&self) -> &'static str {
        "disruption-controller"
    }

    fn keys(&self, change: &Change, client: &dyn Client) -> Vec<Key> {
        let gvr = kinds::disruption_budgets();
        if kinds::is(&change.gvr, &gvr) {
            return vec![key(&change.object)];
        }
        let scales = change.gvr.group == "apps" && change.gvr.resource != "controllerrevisions";
        let pod = kinds::is(&change.gvr, &kinds::pods());
        if !scales && !pod {
            return Vec::new();
        }
        let budgets = client.list(&gvr, Some(namespace(&change.object))).unwrap_or_default();
        let concerns = |b: &&Value| scales || selector::matches(b.pointer("/spec/selector"), &change.object);
        budgets.iter().filter(concerns).map(key).collect()
    }

    fn reconcile(&self, client: &dyn Client, key: &Key) -> Result<Outcome, ApiError> {
        let gvr = kinds::disruption_budgets();
        let Some(budget) = get(client, &gvr, key)? else { return Ok(Outcome::default()) };
        let mut all = client.list(&kinds::pods(), Some(&key.namespace))?;
        all.retain(|p| selector::matches(budget.pointer("/spec/selector"), p) && !pods::is_finished(p));
        let (noted, recheck) = disrupted(&budget, &all, client.now());
        let up = |p: &&Value| pods::is_ready(p) && !is_terminating(p) && !noted.contains_key(name(p));
        let healthy = all.iter().filter(up).count();
        let healthy = i64::try_from(healthy).unwrap_or(0);
        let (expected, desired) = expectation(client, &budget, &all)?;
        let allowed = if expected > 0 { (healthy - desired).max(0) } else { 0 };
        let mut status = status_of(&budget);
        if noted.is_empty() {
            if let Some(fields) = status.as_object_mut() {
                fields.remove("disruptedPods");
            }
        } else {
            status["disruptedPods"] = Value::Object(noted);
        }
        status["currentHealthy"] = json!(healthy);
        status["desiredHealthy"] = json!(desired);
        status["disruptionsAllowed"] = json!(allowed);
        status["expectedPods"] = json!(expected);
        put_count(&mut status, "observedGeneration", generation(&budget));
        let (state, reason) = if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
        let condition = Condition { kind: "DisruptionAllowed", status: state, reason, message: "" };
        condition::set(&mut status, &condition, Times::TransitionOnly, client.now());
        if let Some(all) = status["conditions"].as_array_mut() {
            for entry in all.iter_mut().filter(|c| text(c, "/type") == "DisruptionAllowed") {
                // The API requires the field; `set` leaves an empty one out, and so would differ forever.
                entry["message"] = json!("");
                entry["observedGeneration"] = json!(generation(&budget));
            }
        }
        write_status(client, &gvr, &budget, status)?;
        Ok(Outcome { requeue_after: recheck })
    }
}

/// The notes of evictions whose pod has not begun to go, and when the first of them lapses.
fn disrupted(budget: &Value, all: &[Value], now: Timestamp) -> (Map<String, Value>, Option<Duration>) {
    let mut kept = Map::new();
    let mut recheck: Option<Duration> = None;
    for (pod, at) in map(budget, "/status/disruptedPods").into_iter().flatten() {
        let stays = all.iter().any(|p| name(p) == pod && !is_terminating(p));
        let since = at.as_str().and_then(|t| t.parse::<Timestamp>().ok());
        let waited = since.and_then(|s| Duration::try_from(now.duration_since(s)).ok()).unwrap_or_default();
        if let Some(left) = NOTE_LIFE.checked_sub(waited).filter(|left| stays && !left.is_zero()) {
            recheck = Some(recheck.map_or(left, |r| r.min(left)));
            kept.insert(pod.clone(), at.clone());
        }
    }
    (kept, recheck)
}

/// How many pods there should be, and how many have to be healthy.
fn expectation(client: &dyn Client, budget: &Value, all: &[Value]) -> Result<(i64, i64), ApiError> {
    let listed = i64::try_from(all.len()).unwrap_or(0);
    if let Some(outage) = budget.pointer("/spec/maxUnavailable").filter(|v| !v.is_null()) {
        let expected = expected_by_scale(client, all)?;
        return Ok((expected, (expected - scaled(Some(outage), expected, true, 0)).max(0)));
    }
    match budget.pointer("/spec/minAvailable") {
        Some(Value::String(percent)) => {
            let expected = expected_by_scale(client, all)?;
            Ok((expected, scaled(Some(&json!(percent)), expected, true, 1)))
        }
        other => Ok((listed, scaled(other, listed, true, 1))),
    }
}

/// The sizes of the pods' controllers, each counted once; a bare pod counts as itself.
fn expected_by_scale(client: &dyn Client, all: &[Value]) -> Result<i64, ApiError> {
    let mut sizes: BTreeMap<String, i64> = BTreeMap::new();
    for pod in all {
        let (owner, size) = match controller_of(pod) {
            None => (uid(pod).to_owned(), 1),
            Some(reference) => size_of(client, namespace(pod), reference)?,
        };
        sizes.insert(owner, size);
    }
    Ok(sizes.values().sum())
}

fn size_of(client: &dyn Client, namespace: &str, reference: &Value) -> Result<(String, i64), ApiError> {
    let group = group_of(text(reference, "/apiVersion"));
    let gvr = match (group, text(reference, "/kind")) {
        ("apps", "ReplicaSet") => kinds::replica_sets(),
        ("apps", "StatefulSet") => kinds::stateful_sets(),
        ("apps", "Deployment") => kinds::deployments(),
        ("", "ReplicationController") => Gvr::new("", "v1", "replicationcontrollers"),
        _ => return Ok((text(reference, "/uid").into(), 1)),
    };
    let own = Key { namespace: namespace.into(), name: text(reference, "/name").into() };
    let Some(owner) = get(client, &gvr, &own)? else { return Ok((text(reference, "/uid").into(), 0)) };
    // A ReplicaSet is in turn sized by its Deployment, so that both sets of a rollout count once.
    if let Some(above) = controller_of(&owner)
        && text(above, "/kind") == "Deployment"
    {
        return size_of(client, namespace, above);
    }
    Ok((uid(&owner).into(), opt_int(&owner, "/spec/replicas").unwrap_or(1)))
}
