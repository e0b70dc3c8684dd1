//! Lists that are sets.

use crate::normalise::{Context, Effect, Rule, Scope, Subject};

pub(super) static RULE: Rule = Rule {
    id: "set-order",
    reason: "Conditions, subjects, metrics, finalizers and owners are sets; env, args, ports and containers are not.",
    scope: Scope::Both,
    effect: Effect::Values(apply),
};

use serde_json::Value;

fn apply(subject: &mut Subject<'_>, _: &Context<'_>) {
    sort(subject.object);
}

fn sort(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, child) in map.iter_mut() {
                sort(child);
                let set = matches!(
                    key.as_str(),
                    "conditions" | "subjects" | "metrics" | "finalizers" | "ownerReferences" | "addresses"
                );
                if let (true, Value::Array(list)) = (set, child) {
                    list.sort_by_cached_key(ToString::to_string);
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(sort),
        _ => {}
    }
}
