//! Counting the ends of pods exactly once.

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::indexes;
use crate::controllers::{
    object::{has_finalizer, int, is_terminating, list, put_count, text, time, uid},
    pods,
};

/// The finalizer that keeps an ended pod until it is counted.
pub(super) const TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// The counts of a Job, brought up to date with its pods.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    succeeded: i64,
    failed: i64,
    /// Ends noted in the status while the pod still has its finalizer.
    open_succeeded: BTreeSet<String>,
    open_failed: BTreeSet<String>,
    indexes: BTreeSet<i64>,
}

impl Ledger {
    pub(super) fn open(job: &Value, all: &[Value]) -> Self {
        let mut ledger = Self {
            succeeded: int(job, "/status/succeeded"),
            failed: int(job, "/status/failed"),
            indexes: indexes::parse(text(job, "/status/completedIndexes")),
            ..Self::default()
        };
        let noted = |field: &str| -> BTreeSet<String> {
            let uids = list(job, &format!("/status/uncountedTerminatedPods/{field}")).iter();
            uids.filter_map(|u| u.as_str().map(Into::into)).collect()
        };
        let (old_succeeded, old_failed) = (noted("succeeded"), noted("failed"));
        let held: BTreeSet<&str> = all.iter().filter(|p| has_finalizer(p, TRACKING)).map(uid).collect();
        // Noted and released: now it counts.
        ledger.succeeded += count(old_succeeded.iter().filter(|u| !held.contains(u.as_str())));
        ledger.failed += count(old_failed.iter().filter(|u| !held.contains(u.as_str())));
        for pod in all.iter().filter(|p| has_finalizer(p, TRACKING)) {
            let own = uid(pod);
            // A pod deleted before it was bound never ran and never ends by itself.
            let lost = is_terminating(pod) && text(pod, "/spec/nodeName").is_empty();
            if old_succeeded.contains(own) || pods::phase(pod) == "Succeeded" {
                ledger.open_succeeded.insert(own.into());
            } else if old_failed.contains(own) || pods::phase(pod) == "Failed" || lost {
                ledger.open_failed.insert(own.into());
            }
        }
        let ended = all.iter().filter(|p| pods::phase(p) == "Succeeded");
        ledger.indexes.extend(ended.filter_map(indexes::of_pod));
        ledger
    }

    pub(super) fn succeeded(&self) -> i64 {
        self.succeeded + count(self.open_succeeded.iter())
    }

    pub(super) fn failed(&self) -> i64 {
        self.failed + count(self.open_failed.iter())
    }

    pub(super) fn completed_indexes(&self) -> BTreeSet<i64> {
        self.indexes.clone()
    }

    /// Every end is counted.
    pub(super) fn is_settled(&self) -> bool {
        self.open_succeeded.is_empty() && self.open_failed.is_empty()
    }

    /// The pods whose end the status notes, ready to be released.
    pub(super) fn noted<'a>(&self, all: &'a [Value]) -> Vec<&'a Value> {
        let noted = |p: &&Value| self.open_succeeded.contains(uid(p)) || self.open_failed.contains(uid(p));
        all.iter().filter(noted).collect()
    }

    pub(super) fn write(&self, status: &mut Value, indexed: bool) {
        // An indexed Job counts indexes, so that a pod that ran twice for one counts once.
        let succeeded = if indexed { count(self.indexes.iter()) } else { self.succeeded };
        put_count(status, "succeeded", succeeded);
        put_count(status, "failed", self.failed);
        let mut open = json!({});
        for (field, uids) in [("succeeded", &self.open_succeeded), ("failed", &self.open_failed)] {
            if !uids.is_empty() {
                open[field] = json!(uids);
            }
        }
        status["uncountedTerminatedPods"] = open;
        if indexed && !self.indexes.is_empty() {
            status["completedIndexes"] = json!(indexes::format(&self.indexes));
        }
    }

    /// How long new pods have to wait after the latest failure.
    pub(super) fn backoff(&self, all: &[Value], first: Duration, last: Duration, now: Timestamp) -> Option<Duration> {
        let failures = u32::try_from(self.failed()).unwrap_or(u32::MAX);
        if failures == 0 {
            return None;
        }
        let ended =
            all.iter().filter(|p| pods::phase(p) == "Failed").flat_map(|p| list(p, "/status/containerStatuses"));
        let latest = ended.filter_map(|c| time(c, "/state/terminated/finishedAt")).max()?;
        let pause = first.saturating_mul(2_u32.saturating_pow(failures.min(16) - 1)).min(last);
        let waited = Duration::try_from(now.duration_since(latest)).unwrap_or(Duration::ZERO);
        pause.checked_sub(waited).filter(|left| !left.is_zero())
    }
}

fn count<T>(items: impl Iterator<Item = T>) -> i64 {
    i64::try_from(items.count()).unwrap_or(0)
}
