//! The status of a Deployment: counts, `Available`, `Progressing`.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Rollout, revisions::size};
use crate::{
    controllers::{
        Outcome,
        condition::{self, Condition, Times},
        kinds,
        object::{flag, generation, int, list, opt_int, put_count, status_of, text, time, write_status},
    },
    status::ApiError,
};

/// A deadline of this many seconds means none.
const NO_DEADLINE: i64 = i32::MAX as i64;

impl Rollout<'_> {
    pub(super) fn has_deadline(&self) -> bool {
        opt_int(&self.deployment, "/spec/progressDeadlineSeconds").is_some_and(|s| s != NO_DEADLINE)
    }

    fn sum(&self, field: &str) -> i64 {
        self.sets.all().map(|s| int(s, field)).sum()
    }

    fn updated(&self) -> i64 {
        self.sets.new.as_ref().map_or(0, |s| int(s, "/status/replicas"))
    }

    /// All replicas are of the new set, available, and nothing else runs.
    pub(super) fn is_complete(&self) -> bool {
        let wanted = self.replicas();
        self.updated() == wanted
            && self.sum("/status/replicas") == wanted
            && self.sum("/status/availableReplicas") == wanted
            && self.sets.new.as_ref().is_some_and(|s| int(s, "/status/observedGeneration") >= generation(s))
    }

    /// Writes the status if it changed, and asks to be called again when the progress deadline is near.
    pub(super) fn report(&self) -> Result<Outcome, ApiError> {
        let now = self.client.now();
        let mut status = status_of(&self.deployment);
        let available = self.sum("/status/availableReplicas");
        put_count(&mut status, "observedGeneration", generation(&self.deployment));
        put_count(&mut status, "replicas", self.sum("/status/replicas"));
        put_count(&mut status, "updatedReplicas", self.updated());
        put_count(&mut status, "readyReplicas", self.sum("/status/readyReplicas"));
        put_count(&mut status, "availableReplicas", available);
        let unavailable = self.sets.all().map(size).sum::<i64>() - available;
        put_count(&mut status, "unavailableReplicas", unavailable.max(0));
        let (state, reason, message) = if available >= self.replicas() - self.max_unavailable() {
            ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
        } else {
            ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
        };
        let condition = Condition { kind: "Available", status: state, reason, message };
        condition::set(&mut status, &condition, Times::Update, now);
        let outcome = self.judge_progress(&mut status);
        self.copy_failure(&mut status);
        write_status(self.client, &kinds::deployments(), &self.deployment, status)?;
        Ok(outcome)
    }

    fn judge_progress(&self, status: &mut Value) -> Outcome {
        if !self.has_deadline() {
            condition::remove(status, "Progressing");
            return Outcome::default();
        }
        let old = status_of(&self.deployment);
        let reason = condition::find(&old, "Progressing").map_or("", |c| text(c, "/reason"));
        if int(status, "/replicas") == int(status, "/updatedReplicas") && reason == "NewReplicaSetAvailable" {
            return Outcome::default();
        }
        if flag(&self.deployment, "/spec/paused") {
            return Outcome::default();
        }
        let subject = self.sets.new.as_ref().map_or_else(
            || format!("Deployment \"{}\"", text(&self.deployment, "/metadata/name")),
            |s| self.describe(s),
        );
        if self.is_complete() {
            let message = format!("{subject} has successfully progressed.");
            self.set_progress(status, "True", "NewReplicaSetAvailable", &message);
            return Outcome::default();
        }
        if moved(&old, status) {
            let message = format!("{subject} is progressing.");
            // Each sign of progress restarts the deadline, even if the text stays the same.
            let transition = condition::find(status, "Progressing")
                .filter(|c| text(c, "/status") == "True")
                .map(|c| text(c, "/lastTransitionTime").to_owned());
            condition::remove(status, "Progressing");
            self.set_progress(status, "True", "ReplicaSetUpdated", &message);
            if let Some(transition) = transition
                && let Some(all) = status["conditions"].as_array_mut()
                && let Some(condition) = all.iter_mut().find(|c| text(c, "/type") == "Progressing")
            {
                condition["lastTransitionTime"] = json!(transition);
            }
            return Outcome { requeue_after: Some(self.deadline()) };
        }
        let since = condition::find(status, "Progressing").and_then(|c| time(c, "/lastUpdateTime"));
        let Some(since) = since else { return Outcome::default() };
        let waited = Duration::try_from(self.client.now().duration_since(since)).unwrap_or(Duration::ZERO);
        match self.deadline().checked_sub(waited).filter(|left| !left.is_zero()) {
            Some(left) => Outcome { requeue_after: Some(left) },
            None => {
                let message = format!("{subject} has timed out progressing.");
                self.set_progress(status, "False", "ProgressDeadlineExceeded", &message);
                Outcome::default()
            }
        }
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs(u64::try_from(int(&self.deployment, "/spec/progressDeadlineSeconds")).unwrap_or(0))
    }

    fn set_progress(&self, status: &mut Value, state: &str, reason: &str, message: &str) {
        let condition = Condition { kind: "Progressing", status: state, reason, message };
        condition::set(status, &condition, Times::Update, self.client.now());
    }

    /// Tells of a pause or its end in `Progressing`, so that the deadline does not run meanwhile.
    pub(super) fn note_pause(&mut self) -> Result<(), ApiError> {
        let mut status = status_of(&self.deployment);
        let reason = condition::find(&status, "Progressing").map_or("", |c| text(c, "/reason")).to_owned();
        if !self.has_deadline() || reason == "ProgressDeadlineExceeded" {
            return Ok(());
        }
        let paused = flag(&self.deployment, "/spec/paused");
        if paused && reason != "DeploymentPaused" {
            self.set_progress(&mut status, "Unknown", "DeploymentPaused", "Deployment is paused");
        } else if !paused && reason == "DeploymentPaused" {
            self.set_progress(&mut status, "Unknown", "DeploymentResumed", "Deployment is resumed");
        } else {
            return Ok(());
        }
        let mut next = self.deployment.clone();
        next["status"] = status;
        self.deployment = self.client.update(&kinds::deployments(), "status", &next)?;
        Ok(())
    }

    /// Shows a ReplicaSet's failure to make pods on the Deployment.
    fn copy_failure(&self, status: &mut Value) {
        let failure = self
            .sets
            .new
            .iter()
            .chain(self.sets.old.iter().rev())
            .flat_map(|s| list(s, "/status/conditions"))
            .find(|c| text(c, "/type") == "ReplicaFailure" && text(c, "/status") == "True");
        match failure {
            Some(found) => {
                let condition = Condition {
                    kind: "ReplicaFailure",
                    status: "True",
                    reason: text(found, "/reason"),
                    message: text(found, "/message"),
                };
                condition::set(status, &condition, Times::Update, self.client.now());
            }
            None => condition::remove(status, "ReplicaFailure"),
        }
    }
}

/// Whether the new counts are nearer to the goal than the old.
fn moved(old: &Value, new: &Value) -> bool {
    let grew = |field| int(new, field) > int(old, field);
    let stale = |s: &Value| int(s, "/replicas") - int(s, "/updatedReplicas");
    grew("/updatedReplicas") || grew("/readyReplicas") || grew("/availableReplicas") || stale(new) < stale(old)
}
