//! Runs a Job's pods to completion and counts how they ended.
//!
//! # Flow
//! Ended pods are noted in `uncountedTerminatedPods`, released from their tracking finalizer, then counted; so no end
//! is lost or counted twice whenever the controller stops in between ([`ledger`]). Then pods are made or removed
//! ([`Run`]), and the conditions set: `SuccessCriteriaMet` or `FailureTarget` first, `Complete` or `Failed` when the last
//! pod is gone. A Job past `ttlSecondsAfterFinished` is deleted.
//!
//! # Not done
//! `podFailurePolicy`, `successPolicy` and `backoffLimitPerIndex` are refused: such a Job fails its step with 501.

mod indexes;
mod ledger;

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use self::ledger::{Ledger, TRACKING};
use super::{
    Change, Client, Controller, Key, Outcome,
    claim::{self, Owner},
    condition::{self, Condition, Times},
    kinds,
    object::{
        controller_key, controller_of, delete, flag, get, has_finalizer, int, is_terminating, key, list, name,
        namespace, opt_int, put_count, remove_finalizer, status_of, text, time, uid, write_status,
    },
    pods, template,
};
use crate::{clock::rfc3339_seconds, status::ApiError};

/// The pause before a failed pod is replaced; it doubles with each failure.
const FIRST_BACKOFF: Duration = Duration::from_secs(10);
const LAST_BACKOFF: Duration = Duration::from_mins(10);

/// See the module.
#[derive(Debug, Default)]
pub struct JobController;

impl Controller for JobController {
    fn name(&self) -> &'static str {
        "job-controller"
    }

    fn keys(&self, change: &Change, client: &dyn Client) -> Vec<Key> {
        if kinds::is(&change.gvr, &kinds::jobs()) {
            return vec![key(&change.object)];
        }
        if kinds::is(&change.gvr, &kinds::pods()) {
            if controller_of(&change.object).is_none() && has_finalizer(&change.object, TRACKING) {
                // Orphaned by the deletion of its Job: the label still tells which.
                let job = super::object::label(&change.object, "batch.kubernetes.io/job-name");
                return vec![Key { namespace: namespace(&change.object).into(), name: job.into() }];
            }
            return super::replicaset::pod_keys(client, &change.object, &kinds::jobs(), "batch", "Job");
        }
        Vec::new()
    }

    fn reconcile(&self, client: &dyn Client, key: &Key) -> Result<Outcome, ApiError> {
        let job = get(client, &kinds::jobs(), key)?;
        release_strays(client, key, job.as_ref())?;
        let Some(job) = job else { return Ok(Outcome::default()) };
        let manager = text(&job, "/spec/managedBy");
        if !manager.is_empty() && manager != "kubernetes.io/job-controller" {
            return Ok(Outcome::default());
        }
        for field in ["podFailurePolicy", "successPolicy", "backoffLimitPerIndex"] {
            if job["spec"].get(field).is_some_and(|v| !v.is_null()) {
                return Err(ApiError::unsupported(&format!("Jobs with spec.{field}")));
            }
        }
        if is_finished(&job) {
            return expire(client, &job);
        }
        let owner = Owner { object: &job, api_version: "batch/v1", kind: "Job" };
        let all = client.list(&kinds::pods(), Some(&key.namespace))?;
        let pods = claim::claim(client, &kinds::pods(), owner, all, |_| true)?;
        Run { client, owner, job: &job, pods }.step()
    }
}

fn is_finished(job: &Value) -> bool {
    job.get("status").is_some_and(|s| condition::is_true(s, "Complete") || condition::is_true(s, "Failed"))
}

/// Lets pods go whose Job is gone, or that are orphans of it.
fn release_strays(client: &dyn Client, key: &Key, job: Option<&Value>) -> Result<(), ApiError> {
    for pod in client.list(&kinds::pods(), Some(&key.namespace))? {
        let named = controller_key(&pod, "batch", "Job").as_ref() == Some(key)
            || (controller_of(&pod).is_none()
                && super::object::label(&pod, "batch.kubernetes.io/job-name") == key.name);
        let owned = job.is_some_and(|j| super::object::is_controlled_by(&pod, uid(j)));
        let adoptable = job.is_some() && controller_of(&pod).is_none() && !is_terminating(&pod);
        if named && !owned && !adoptable && has_finalizer(&pod, TRACKING) {
            remove_finalizer(client, &kinds::pods(), &pod, TRACKING)?;
        }
    }
    Ok(())
}

/// Deletes a finished Job when its time to live is over.
fn expire(client: &dyn Client, job: &Value) -> Result<Outcome, ApiError> {
    let Some(ttl) = opt_int(job, "/spec/ttlSecondsAfterFinished").filter(|_| !is_terminating(job)) else {
        return Ok(Outcome::default());
    };
    let status = status_of(job);
    let ended = ["Complete", "Failed"]
        .iter()
        .filter_map(|kind| condition::find(&status, kind).filter(|c| text(c, "/status") == "True"))
        .find_map(|c| time(c, "/lastTransitionTime"));
    let Some(ended) = ended else { return Ok(Outcome::default()) };
    let left = left_of(ttl, ended, client.now());
    if left.is_zero() {
        delete(client, &kinds::jobs(), job, Some("Foreground"))?;
        return Ok(Outcome::default());
    }
    Ok(Outcome { requeue_after: Some(left) })
}

/// What is left of `seconds` that began at `since`.
fn left_of(seconds: i64, since: Timestamp, now: Timestamp) -> Duration {
    let waited = Duration::try_from(now.duration_since(since)).unwrap_or(Duration::ZERO);
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0)).saturating_sub(waited)
}

/// Why a Job is about to end.
enum Verdict {
    Running,
    Succeeded,
    Failed { reason: &'static str, message: &'static str },
}

/// One step over an unfinished Job.
struct Run<'a> {
    client: &'a dyn Client,
    owner: Owner<'a>,
    job: &'a Value,
    pods: Vec<Value>,
}

impl Run<'_> {
    fn step(mut self) -> Result<Outcome, ApiError> {
        let now = self.client.now();
        let mut status = status_of(self.job);
        if is_terminating(self.job) {
            return self.settle(status, Ledger::open(self.job, &self.pods), Outcome::default());
        }
        let suspended = flag(self.job, "/spec/suspend");
        if !suspended && text(&status, "/startTime").is_empty() {
            status["startTime"] = json!(rfc3339_seconds(now));
        }
        let ledger = Ledger::open(self.job, &self.pods);
        let verdict = self.judge(&status, &ledger, now);
        let running = matches!(verdict, Verdict::Running);
        let mut outcome = Outcome { requeue_after: self.deadline(&status, now).filter(|_| running && !suspended) };
        match verdict {
            Verdict::Running if suspended => {
                self.stop_active()?;
                let condition =
                    Condition { kind: "Suspended", status: "True", reason: "JobSuspended", message: "Job suspended" };
                condition::set(&mut status, &condition, Times::Probe, now);
                if let Some(fields) = status.as_object_mut() {
                    fields.remove("startTime");
                }
            }
            Verdict::Running => {
                if condition::is_true(&status, "Suspended") {
                    let condition =
                        Condition { kind: "Suspended", status: "False", reason: "JobResumed", message: "Job resumed" };
                    condition::set(&mut status, &condition, Times::Probe, now);
                    status["startTime"] = json!(rfc3339_seconds(now));
                }
                let wait = self.manage(&ledger, now)?;
                outcome.requeue_after = [outcome.requeue_after, wait].into_iter().flatten().min();
            }
            Verdict::Succeeded => {
                self.stop_active()?;
                self.conclude(
                    &mut status,
                    &ledger,
                    ["SuccessCriteriaMet", "Complete"],
                    "CompletionsReached",
                    "Reached expected number of succeeded pods",
                );
            }
            Verdict::Failed { reason, message } => {
                self.stop_active()?;
                self.conclude(&mut status, &ledger, ["FailureTarget", "Failed"], reason, message);
            }
        }
        self.settle(status, ledger, outcome)
    }

    fn parallelism(&self) -> i64 {
        opt_int(self.job, "/spec/parallelism").unwrap_or(1)
    }

    fn is_indexed(&self) -> bool {
        text(self.job, "/spec/completionMode") == "Indexed"
    }

    fn active(&self) -> Vec<&Value> {
        self.pods.iter().filter(|p| pods::is_active(p)).collect()
    }

    fn judge(&self, status: &Value, ledger: &Ledger, now: Timestamp) -> Verdict {
        if condition::is_true(status, "SuccessCriteriaMet") {
            return Verdict::Succeeded;
        }
        let doomed = condition::find(status, "FailureTarget").filter(|c| text(c, "/status") == "True");
        let is = |reason: &str| doomed.is_some_and(|c| text(c, "/reason") == reason);
        let limit = opt_int(self.job, "/spec/backoffLimit").unwrap_or(6);
        if is("BackoffLimitExceeded") || (doomed.is_none() && ledger.failed() + self.restarts() > limit) {
            return Verdict::Failed {
                reason: "BackoffLimitExceeded",
                message: "Job has reached the specified backoff limit",
            };
        }
        if is("DeadlineExceeded") || self.deadline(status, now).is_some_and(|left| left.is_zero()) {
            return Verdict::Failed {
                reason: "DeadlineExceeded",
                message: "Job was active longer than specified deadline",
            };
        }
        let done = match opt_int(self.job, "/spec/completions") {
            Some(wanted) if self.is_indexed() => indexes::count(&ledger.completed_indexes()) >= wanted,
            Some(wanted) => ledger.succeeded() >= wanted,
            // A work queue: one success, and nobody works any more.
            None => ledger.succeeded() > 0 && self.active().is_empty(),
        };
        if done { Verdict::Succeeded } else { Verdict::Running }
    }

    /// Restarts inside pods count as failures when containers are restarted in place.
    fn restarts(&self) -> i64 {
        if text(self.job, "/spec/template/spec/restartPolicy") != "OnFailure" {
            return 0;
        }
        let containers =
            self.pods.iter().filter(|p| !pods::is_finished(p)).flat_map(|p| list(p, "/status/containerStatuses"));
        containers.map(|c| int(c, "/restartCount")).sum()
    }

    /// What is left of `activeDeadlineSeconds`.
    fn deadline(&self, status: &Value, now: Timestamp) -> Option<Duration> {
        let seconds = opt_int(self.job, "/spec/activeDeadlineSeconds")?;
        Some(left_of(seconds, time(status, "/startTime")?, now))
    }

    fn stop_active(&mut self) -> Result<(), ApiError> {
        for pod in self.active() {
            delete(self.client, &kinds::pods(), pod, None)?;
        }
        self.refresh()
    }

    fn refresh(&mut self) -> Result<(), ApiError> {
        let fresh = self.client.list(&kinds::pods(), Some(namespace(self.job)))?;
        let uid = uid(self.job);
        self.pods = fresh.into_iter().filter(|p| super::object::is_controlled_by(p, uid)).collect();
        Ok(())
    }

    /// Makes or removes pods; gives the time to wait when a failure holds new pods back.
    fn manage(&mut self, ledger: &Ledger, now: Timestamp) -> Result<Option<Duration>, ApiError> {
        let active = i64::try_from(self.active().len()).unwrap_or(0);
        let wanted = match opt_int(self.job, "/spec/completions") {
            Some(completions) => self.parallelism().min((completions - ledger.succeeded()).max(0)),
            None if ledger.succeeded() > 0 => active.min(self.parallelism()),
            None => self.parallelism(),
        };
        if active > wanted {
            let mut surplus: Vec<Value> = self.active().into_iter().cloned().collect();
            surplus.sort_by_key(|p| (pods::is_ready(p), std::cmp::Reverse(name(p).to_owned())));
            for pod in surplus.iter().take(usize::try_from(active - wanted).unwrap_or(0)) {
                delete(self.client, &kinds::pods(), pod, None)?;
            }
            self.refresh()?;
            return Ok(None);
        }
        let ending = self.pods.iter().filter(|p| is_terminating(p) && !pods::is_finished(p)).count();
        let room = match text(self.job, "/spec/podReplacementPolicy") {
            "Failed" => wanted - active - i64::try_from(ending).unwrap_or(0),
            _ => wanted - active,
        };
        if room <= 0 {
            return Ok(None);
        }
        if let Some(wait) = ledger.backoff(&self.pods, FIRST_BACKOFF, LAST_BACKOFF, now) {
            return Ok(Some(wait));
        }
        let used: Vec<i64> = self.active().into_iter().filter_map(indexes::of_pod).collect();
        let completed = ledger.completed_indexes();
        let completions = opt_int(self.job, "/spec/completions").unwrap_or(i64::MAX);
        let mut free = (0..completions).filter(|i| !used.contains(i) && !indexes::contains(&completed, *i));
        for _ in 0..room {
            let index = if self.is_indexed() { free.next() } else { None };
            if self.is_indexed() && index.is_none() {
                break;
            }
            let created = self.client.create(&kinds::pods(), namespace(self.job), &self.build(index))?;
            self.pods.push(created);
        }
        Ok(None)
    }

    fn build(&self, index: Option<i64>) -> Value {
        let empty = json!({});
        let job_template = self.job.pointer("/spec/template").unwrap_or(&empty);
        let mut pod = template::pod(job_template, namespace(self.job), self.owner.reference());
        pod["metadata"]["generateName"] = json!(template::prefix(self.job));
        pod["metadata"]["finalizers"] = json!([TRACKING]);
        let (job_name, job_uid) = (name(self.job), uid(self.job));
        template::add_labels(
            &mut pod,
            &[
                ("batch.kubernetes.io/job-name", job_name),
                ("batch.kubernetes.io/controller-uid", job_uid),
                ("job-name", job_name),
                ("controller-uid", job_uid),
            ],
        );
        if let Some(index) = index {
            indexes::mark(&mut pod, job_name, index);
        }
        pod
    }

    /// Announces the end, and declares it when no pod runs and every end is counted.
    fn conclude(&self, status: &mut Value, ledger: &Ledger, [interim, last]: [&str; 2], reason: &str, message: &str) {
        let now = self.client.now();
        condition::set(status, &Condition { kind: interim, status: "True", reason, message }, Times::Probe, now);
        let ended = self.pods.iter().all(pods::is_finished);
        if ended && ledger.is_settled() {
            condition::set(status, &Condition { kind: last, status: "True", reason, message }, Times::Probe, now);
            if last == "Complete" {
                status["completionTime"] = json!(rfc3339_seconds(now));
            }
        }
    }

    /// Writes the status, then releases the pods that it has noted.
    fn settle(&self, mut status: Value, ledger: Ledger, outcome: Outcome) -> Result<Outcome, ApiError> {
        let active = self.active();
        put_count(&mut status, "active", i64::try_from(active.len()).unwrap_or(0));
        let ready = active.iter().filter(|p| pods::is_ready(p)).count();
        status["ready"] = json!(ready);
        let ending = self.pods.iter().filter(|p| is_terminating(p) && !pods::is_finished(p)).count();
        status["terminating"] = json!(ending);
        ledger.write(&mut status, self.is_indexed());
        write_status(self.client, &kinds::jobs(), self.job, status)?;
        for pod in ledger.noted(&self.pods) {
            remove_finalizer(self.client, &kinds::pods(), pod, TRACKING)?;
        }
        Ok(outcome)
    }
}
