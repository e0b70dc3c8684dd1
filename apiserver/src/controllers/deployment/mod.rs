//! Rolls a Deployment's template out over ReplicaSets and reports progress.
//!
//! # Flow
//! claim ReplicaSets -> find or create the one of the present template ([`revisions`]) -> move replicas between
//! them ([`rolling`]) -> status and conditions ([`progress`]). One step makes one move; the changes it causes bring
//! the next step.
//!
//! # Guarantees
//! `maxSurge` and `maxUnavailable` hold at every step. Nothing is written once the rollout is complete.
//!
//! # Not done
//! The value of `pod-template-hash` is stable but not upstream's. The long deprecated rollback annotation is ignored.

mod progress;
mod revisions;
mod rolling;

use serde_json::Value;

use self::revisions::Sets;
use super::{
    Change, Client, Controller, Key, Outcome,
    claim::{self, Owner},
    kinds,
    object::{
        controller_key, controller_of, flag, generation, get, is_terminating, key, name, namespace, opt_int, scaled,
        status_of, text, write_status,
    },
    selector,
};
use crate::status::ApiError;

/// See the module.
#[derive(Debug, Default)]
pub struct DeploymentController;

impl Controller for DeploymentController {
    fn name(&self) -> &'static str {
        "deployment-controller"
    }

    fn keys(&self, change: &Change, client: &dyn Client) -> Vec<Key> {
        if kinds::is(&change.gvr, &kinds::deployments()) {
            return vec![key(&change.object)];
        }
        if kinds::is(&change.gvr, &kinds::replica_sets()) {
            return super::replicaset::pod_keys(client, &change.object, &kinds::deployments(), "apps", "Deployment");
        }
        if kinds::is(&change.gvr, &kinds::pods()) {
            // Recreate waits for the old pods to end; no other strategy looks at pods.
            let Some(set) = controller_key(&change.object, "apps", "ReplicaSet") else { return Vec::new() };
            let set = get(client, &kinds::replica_sets(), &set).ok().flatten();
            let owner = set.and_then(|s| controller_key(&s, "apps", "Deployment"));
            let recreates =
                |k: &Key| get(client, &kinds::deployments(), k).ok().flatten().is_some_and(|d| is_recreate(&d));
            return owner.filter(recreates).into_iter().collect();
        }
        Vec::new()
    }

    fn reconcile(&self, client: &dyn Client, key: &Key) -> Result<Outcome, ApiError> {
        let gvr = kinds::deployments();
        let Some(deployment) = get(client, &gvr, key)? else { return Ok(Outcome::default()) };
        if selector::is_empty(deployment.pointer("/spec/selector")) {
            let mut status = status_of(&deployment);
            status["observedGeneration"] = generation(&deployment).into();
            write_status(client, &gvr, &deployment, status)?;
            return Ok(Outcome::default());
        }
        let owner = Owner { object: &deployment, api_version: "apps/v1", kind: "Deployment" };
        let all = client.list(&kinds::replica_sets(), Some(&key.namespace))?;
        let mine = claim::claim(client, &kinds::replica_sets(), owner, all, |_| true)?;
        let mut rollout = Rollout { client, sets: Sets::of(&deployment, mine), deployment };
        rollout.step()
    }
}

/// One step over one Deployment.
struct Rollout<'a> {
    client: &'a dyn Client,
    deployment: Value,
    sets: Sets,
}

impl Rollout<'_> {
    fn step(&mut self) -> Result<Outcome, ApiError> {
        if is_terminating(&self.deployment) {
            return self.report();
        }
        self.note_pause()?;
        if flag(&self.deployment, "/spec/paused") || self.was_scaled() {
            if !self.find_new(false)? {
                return Ok(Outcome::default());
            }
            if !self.scale_in_proportion()? && flag(&self.deployment, "/spec/paused") {
                self.clean_up()?;
            }
            return self.report();
        }
        if is_recreate(&self.deployment) {
            return self.recreate();
        }
        if !self.find_new(true)? {
            // The Deployment itself was written (a collision was counted); its change brings the next step.
            return Ok(Outcome::default());
        }
        if self.grow_new()? || self.shrink_old()? {
            return self.report();
        }
        if self.is_complete() {
            self.clean_up()?;
        }
        self.report()
    }

    fn recreate(&mut self) -> Result<Outcome, ApiError> {
        if !self.find_new(false)? {
            return Ok(Outcome::default());
        }
        if self.stop_old()? {
            return self.report();
        }
        if self.old_pods_run()? {
            return self.report();
        }
        if !self.find_new(true)? {
            return Ok(Outcome::default());
        }
        let wanted = self.replicas();
        if self.scale_new(wanted)? {
            return self.report();
        }
        if self.is_complete() {
            self.clean_up()?;
        }
        self.report()
    }

    fn replicas(&self) -> i64 {
        opt_int(&self.deployment, "/spec/replicas").unwrap_or(1)
    }

    /// How many pods more than asked for there may be.
    fn max_surge(&self) -> i64 {
        if is_recreate(&self.deployment) {
            return 0;
        }
        scaled(self.deployment.pointer("/spec/strategy/rollingUpdate/maxSurge"), self.replicas(), true, 1)
    }

    /// How many pods fewer than asked for may be available.
    fn max_unavailable(&self) -> i64 {
        if is_recreate(&self.deployment) || self.replicas() == 0 {
            return 0;
        }
        let value = self.deployment.pointer("/spec/strategy/rollingUpdate/maxUnavailable");
        let count = scaled(value, self.replicas(), false, 1);
        // Percentages may both round to zero, and then nothing could ever move.
        let count = if count == 0 && self.max_surge() == 0 { 1 } else { count };
        count.min(self.replicas())
    }

    fn describe(&self, set: &Value) -> String {
        format!("ReplicaSet \"{}\"", name(set))
    }

    fn namespace(&self) -> &str {
        namespace(&self.deployment)
    }

    /// Pods of replaced ReplicaSets that have not ended.
    fn old_pods_run(&self) -> Result<bool, ApiError> {
        let current = self.sets.new.as_ref().map_or("", |s| super::object::uid(s));
        let pods = self.client.list(&kinds::pods(), Some(self.namespace()))?;
        let old: Vec<&str> = self.sets.old.iter().map(super::object::uid).collect();
        Ok(pods.iter().any(|pod| {
            let owner = controller_of(pod).map_or("", |r| text(r, "/uid"));
            owner != current && old.contains(&owner) && !super::pods::is_finished(pod)
        }))
    }
}

fn is_recreate(deployment: &Value) -> bool {
    text(deployment, "/spec/strategy/type") == "Recreate"
}
