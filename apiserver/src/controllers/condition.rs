//! `status.conditions`: a set keyed by type, whose transition time moves only with the status.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::object::{list, text};
use crate::clock::rfc3339_seconds;

/// One condition to be set.
#[derive(Debug, Clone)]
pub(super) struct Condition<'a> {
    pub kind: &'a str,
    pub status: &'a str,
    pub reason: &'a str,
    pub message: &'a str,
}

/// Which times a kind of condition has besides `lastTransitionTime`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Times {
    TransitionOnly,
    /// `lastUpdateTime`, which Deployments move with every change of a condition.
    Update,
    /// `lastProbeTime`, as Jobs have.
    Probe,
    /// `lastProbeTime: null`, as pods have.
    NullProbe,
}

pub(super) fn find<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    list(status, "/conditions").iter().find(|c| text(c, "/type") == kind)
}

pub(super) fn is_true(status: &Value, kind: &str) -> bool {
    find(status, kind).is_some_and(|c| text(c, "/status") == "True")
}

/// Sets a condition in `status`; leaves it untouched, times included, when nothing but times would change.
pub(super) fn set(status: &mut Value, condition: &Condition<'_>, times: Times, now: Timestamp) {
    let stamp = rfc3339_seconds(now);
    let old = find(status, condition.kind).cloned();
    if let Some(old) = &old
        && text(old, "/status") == condition.status
        && text(old, "/reason") == condition.reason
        && text(old, "/message") == condition.message
    {
        return;
    }
    let transition = match &old {
        Some(old) if text(old, "/status") == condition.status => text(old, "/lastTransitionTime").to_owned(),
        _ => stamp.clone(),
    };
    let mut next = json!({"type": condition.kind, "status": condition.status, "lastTransitionTime": transition});
    for (field, value) in [("reason", condition.reason), ("message", condition.message)] {
        if !value.is_empty() {
            next[field] = json!(value);
        }
    }
    match times {
        Times::TransitionOnly => {}
        Times::Update => next["lastUpdateTime"] = json!(stamp),
        Times::Probe => next["lastProbeTime"] = json!(stamp),
        Times::NullProbe => next["lastProbeTime"] = Value::Null,
    }
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    if let Some(all) = status["conditions"].as_array_mut() {
        match all.iter_mut().find(|c| text(c, "/type") == condition.kind) {
            Some(slot) => *slot = next,
            None => all.push(next),
        }
    }
}

/// Removes a condition; an emptied list goes, too.
pub(super) fn remove(status: &mut Value, kind: &str) {
    let Some(all) = status["conditions"].as_array_mut() else { return };
    all.retain(|c| text(c, "/type") != kind);
    if all.is_empty()
        && let Some(fields) = status.as_object_mut()
    {
        fields.remove("conditions");
    }
}
