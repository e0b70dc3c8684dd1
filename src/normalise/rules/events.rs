//! Events.

use crate::normalise::{Context, Effect, Rule, Scope};

pub(super) static RULE: Rule = Rule {
    id: "events",
    reason: "Events tell what happened; duplicates and counts of them are legal.",
    scope: Scope::Both,
    effect: Effect::Objects(hides),
};

use serde_json::Value;

use crate::object::ObjectKey;

fn hides(key: &ObjectKey, _: &Value, _: &Context<'_>) -> bool {
    key.kind == "Event" && matches!(key.group.as_str(), "" | "events.k8s.io")
}
