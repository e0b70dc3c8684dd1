//! Null, absent, empty list and empty map.

use crate::normalise::{Context, Effect, Rule, Scope, Subject};

pub(super) static RULE: Rule = Rule {
    id: "empty-values",
    reason: "Null, absent, [] and {} mean the same, except for selectors and emptyDir.",
    scope: Scope::Both,
    effect: Effect::Values(apply),
};

use serde_json::Value;

fn apply(subject: &mut Subject<'_>, _: &Context<'_>) {
    prune(subject.object);
}

fn prune(value: &mut Value) {
    match value {
        Value::Object(map) => map.retain(|key, child| {
            prune(child);
            !is_empty(child) || (child.is_object() && says_something(key))
        }),
        // Elements stay: an empty one still counts.
        Value::Array(list) => list.iter_mut().for_each(prune),
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

/// An empty selector selects everything, an absent one nothing.
fn says_something(key: &str) -> bool {
    key == "emptyDir" || key.to_lowercase().ends_with("selector")
}
