//! Pods of Jobs that have ended.

use crate::normalise::{Context, Effect, Rule, Scope};

pub(super) static RULE: Rule = Rule {
    id: "finished-job-pods",
    reason: "A Job may need several pods for one success; the Job's own result is compared.",
    scope: Scope::AcrossRuns,
    effect: Effect::Objects(hides),
};

use serde_json::Value;

use crate::object::{ObjectKey, owner_references};

fn hides(key: &ObjectKey, object: &Value, _: &Context<'_>) -> bool {
    key.group.is_empty()
        && key.kind == "Pod"
        && owner_references(object).iter().any(|owner| owner.get("kind") == Some(&"Job".into()))
        && object
            .pointer("/status/phase")
            .and_then(Value::as_str)
            .is_some_and(|phase| matches!(phase, "Succeeded" | "Failed"))
}
