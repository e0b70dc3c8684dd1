//! What every namespace gets.

use crate::normalise::{Context, Effect, Rule, Scope};

pub(super) static RULE: Rule = Rule {
    id: "namespace-defaults",
    reason: "The cluster puts a ServiceAccount and its CA into every namespace, some time after it was made.",
    scope: Scope::Both,
    effect: Effect::Objects(hides),
};

use serde_json::Value;

use crate::object::ObjectKey;

fn hides(key: &ObjectKey, _: &Value, _: &Context<'_>) -> bool {
    key.group.is_empty()
        && matches!(
            (key.kind.as_str(), key.name.as_str()),
            ("ServiceAccount", "default") | ("ConfigMap", "kube-root-ca.crt")
        )
}
