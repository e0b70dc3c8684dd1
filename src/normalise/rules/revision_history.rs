//! Old revisions of workloads.

use crate::normalise::{Context, Effect, Rule, Scope};

pub(super) static RULE: Rule = Rule {
    id: "revision-history",
    reason: "ControllerRevisions and emptied ReplicaSets are kept for undoing; how many there are is history.",
    scope: Scope::AcrossRuns,
    effect: Effect::Objects(hides),
};

use serde_json::Value;

use crate::object::{ObjectKey, owner_references};

fn hides(key: &ObjectKey, object: &Value, _: &Context<'_>) -> bool {
    let zero = |pointer: &str| object.pointer(pointer).and_then(Value::as_u64).unwrap_or(0) == 0;
    let emptied = || {
        owner_references(object).iter().any(|owner| owner.get("kind") == Some(&"Deployment".into()))
            && object.pointer("/spec/replicas") == Some(&0.into())
            && zero("/status/replicas")
    };
    match (key.group.as_str(), key.kind.as_str()) {
        ("apps", "ControllerRevision") => true,
        ("apps", "ReplicaSet") => emptied(),
        _ => false,
    }
}
