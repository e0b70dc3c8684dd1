//! Keeps the pods of a StatefulSet, by ordinal, with their claims and their revisions.
//!
//! # Flow
//! ControllerRevisions -> pods by ordinal ([`identity`]) -> one pass over wanted, surplus and outdated pods
//! ([`Pass`]) -> status. With `OrderedReady` a pass stops at the first pod that is not ready.
//!
//! # Guarantees
//! Ordinals come up in order and go down in reverse; a pod below the partition keeps its revision. Claims outlive
//! their pods unless `persistentVolumeClaimRetentionPolicy` says otherwise ([`claims`]).
//!
//! # Not done
//! `maxUnavailable` of rolling updates (an alpha field) is taken as 1.

mod claims;
mod identity;
mod pass;

use std::time::Duration;

use serde_json::{Value, json};

use self::pass::Pass;
use super::{
    Change, Client, Controller, Key, Outcome,
    claim::{self, Owner},
    kinds,
    object::{
        generation, get, int, is_terminating, key, label, name, opt_int, put_count, status_of, text, write_status,
    },
    pods,
    revision::{self, Lookup},
};
use crate::status::ApiError;

pub(super) const REVISION_LABEL: &str = "controller-revision-hash";

/// See the module.
#[derive(Debug, Default)]
pub struct StatefulSetController;

impl Controller for StatefulSetController {
    fn name(&self) -> &'static str {
        "statefulset-controller"
    }

    fn keys(&self, change: &Change, client: &dyn Client) -> Vec<Key> {
        if kinds::is(&change.gvr, &kinds::stateful_sets()) {
            return vec![key(&change.object)];
        }
        if kinds::is(&change.gvr, &kinds::pods()) {
            return super::replicaset::pod_keys(client, &change.object, &kinds::stateful_sets(), "apps", "StatefulSet");
        }
        Vec::new()
    }

    fn reconcile(&self, client: &dyn Client, key: &Key) -> Result<Outcome, ApiError> {
        let gvr = kinds::stateful_sets();
        let Some(set) = get(client, &gvr, key)? else { return Ok(Outcome::default()) };
        if is_terminating(&set) {
            return Ok(Outcome::default());
        }
        let owner = Owner { object: &set, api_version: "apps/v1", kind: "StatefulSet" };
        let all = client.list(&kinds::pods(), Some(&key.namespace))?;
        let mine =
            claim::claim(client, &kinds::pods(), owner, all, |pod| identity::ordinal(&set, name(pod)).is_some())?;
        let mut history = revision::history(client, owner)?;
        let collisions = int(&set, "/status/collisionCount");
        let update = match revision::current(client, owner, &mut history, collisions)? {
            Lookup::Found(update) => update,
            Lookup::Collision => {
                let mut status = base_status(&set);
                status["collisionCount"] = json!(collisions + 1);
                write_status(client, &gvr, &set, status)?;
                return Ok(Outcome::default());
            }
        };
        let recorded = text(&set, "/status/currentRevision");
        let current = history.iter().find(|r| name(r) == recorded).unwrap_or(&update).clone();
        let mut pass = Pass::new(client, owner, mine, &current, &update);
        let result = pass.run();
        let pods = pass.into_pods();
        let (status, recheck) = status(client, &set, &pods, &current, &update);
        write_status(client, &gvr, &set, status)?;
        result?;
        let live: Vec<&str> =
            pods.iter().map(|p| label(p, REVISION_LABEL)).chain([name(&current), name(&update)]).collect();
        let limit = opt_int(&set, "/spec/revisionHistoryLimit").unwrap_or(10);
        revision::truncate(client, &history, &live, limit)?;
        Ok(Outcome { requeue_after: recheck })
    }
}

fn replicas(set: &Value) -> i64 {
    opt_int(set, "/spec/replicas").unwrap_or(1)
}

/// The first ordinal.
fn first(set: &Value) -> i64 {
    int(set, "/spec/ordinals/start")
}

fn is_rolling(set: &Value) -> bool {
    text(set, "/spec/updateStrategy/type") != "OnDelete"
}

fn base_status(set: &Value) -> Value {
    let mut status = status_of(set);
    // These are present even when zero.
    for field in ["replicas", "availableReplicas", "collisionCount"] {
        status[field] = json!(int(set, &format!("/status/{field}")));
    }
    status
}

fn status(
    client: &dyn Client,
    set: &Value,
    pods: &[Value],
    current: &Value,
    update: &Value,
) -> (Value, Option<Duration>) {
    let counts = pods::count(pods, int(set, "/spec/minReadySeconds"), client.now());
    let of = |revision: &Value| {
        let here = pods.iter().filter(|p| !is_terminating(p) && label(p, REVISION_LABEL) == name(revision));
        i64::try_from(here.count()).unwrap_or(0)
    };
    let mut status = base_status(set);
    let mut current_name = name(current).to_owned();
    let mut current_pods = of(current);
    let updated = of(update);
    // The update has arrived everywhere: it is the current revision from now on.
    if is_rolling(set) && updated == replicas(set) && counts.ready == replicas(set) && counts.total == replicas(set) {
        current_name = name(update).into();
        current_pods = updated;
    }
    status["replicas"] = json!(counts.total);
    status["availableReplicas"] = json!(counts.available);
    put_count(&mut status, "readyReplicas", counts.ready);
    put_count(&mut status, "currentReplicas", current_pods);
    put_count(&mut status, "updatedReplicas", updated);
    put_count(&mut status, "observedGeneration", generation(set));
    status["currentRevision"] = json!(current_name);
    status["updateRevision"] = json!(name(update));
    (status, counts.recheck)
}
