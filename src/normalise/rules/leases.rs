//! Leader election.

use crate::normalise::{Context, Effect, Rule, Scope};

pub(super) static RULE: Rule = Rule {
    id: "leases",
    reason: "Leases and leader annotations are renewed every few seconds and say who leads, not what is.",
    scope: Scope::Both,
    effect: Effect::Objects(hides),
};

use serde_json::Value;

use crate::object::ObjectKey;

fn hides(key: &ObjectKey, object: &Value, _: &Context<'_>) -> bool {
    let elects = || {
        matches!(key.kind.as_str(), "ConfigMap" | "Endpoints")
            && object.pointer("/metadata/annotations/control-plane.alpha.kubernetes.io~1leader").is_some()
    };
    (key.group == "coordination.k8s.io" && key.kind == "Lease") || elects()
}
