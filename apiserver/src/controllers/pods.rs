//! What controllers ask of a pod: is it active, ready, available.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::{
    condition,
    object::{is_terminating, text, time},
};

pub(super) fn phase(pod: &Value) -> &str {
    text(pod, "/status/phase")
}

pub(super) fn is_finished(pod: &Value) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Counts towards replicas: neither finished nor on its way out.
pub(super) fn is_active(pod: &Value) -> bool {
    !is_finished(pod) && !is_terminating(pod)
}

pub(super) fn is_ready(pod: &Value) -> bool {
    pod.get("status").is_some_and(|s| condition::is_true(s, "Ready"))
}

/// Ready for at least `minReadySeconds`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Availability {
    Available,
    /// Ready, and available after this time if it stays so.
    After(Duration),
    NotReady,
}

pub(super) fn availability(pod: &Value, min_ready_seconds: i64, now: Timestamp) -> Availability {
    if !is_ready(pod) {
        return Availability::NotReady;
    }
    let since =
        pod.get("status").and_then(|s| condition::find(s, "Ready")).and_then(|c| time(c, "/lastTransitionTime"));
    match (min_ready_seconds, since) {
        (..=0, _) => Availability::Available,
        (_, None) => Availability::NotReady,
        (seconds, Some(since)) => {
            let waited = now.duration_since(since).as_millis();
            let left = i128::from(seconds) * 1000 - waited;
            if left <= 0 {
                Availability::Available
            } else {
                Availability::After(Duration::from_millis(u64::try_from(left).unwrap_or(0)))
            }
        }
    }
}

/// The counts that a workload's status is made of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub total: i64,
    pub ready: i64,
    pub available: i64,
    /// When the next ready pod becomes available.
    pub recheck: Option<Duration>,
}

pub(super) fn count<'a>(pods: impl IntoIterator<Item = &'a Value>, min_ready_seconds: i64, now: Timestamp) -> Counts {
    let mut counts = Counts::default();
    for pod in pods {
        counts.total += 1;
        match availability(pod, min_ready_seconds, now) {
            Availability::Available => {
                counts.ready += 1;
                counts.available += 1;
            }
            Availability::After(left) => {
                counts.ready += 1;
                counts.recheck = Some(counts.recheck.map_or(left, |r| r.min(left)));
            }
            Availability::NotReady => {}
        }
    }
    counts
}
