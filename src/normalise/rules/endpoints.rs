//! Endpoints that the cluster makes for Services.

use crate::normalise::{Context, Effect, Rule, Scope};

pub(super) static RULE: Rule = Rule {
    id: "endpoints",
    reason: "They follow from Services and Pods, which are compared themselves, and hold pod addresses.",
    scope: Scope::Both,
    effect: Effect::Objects(hides),
};

use serde_json::Value;

use crate::object::ObjectKey;

fn hides(key: &ObjectKey, object: &Value, context: &Context<'_>) -> bool {
    match (key.group.as_str(), key.kind.as_str()) {
        ("discovery.k8s.io", "EndpointSlice") => object
            .pointer("/metadata/labels/endpointslice.kubernetes.io~1managed-by")
            .and_then(Value::as_str)
            .is_some_and(|manager| manager.ends_with("controller.k8s.io")),
        // Without a selector on its Service, somebody else wrote it.
        ("", "Endpoints") => {
            let service = ObjectKey { kind: "Service".into(), ..key.clone() };
            let selects = |service: &&Value| service.pointer("/spec/selector").is_some_and(Value::is_object);
            context.objects.get(&service).is_some_and(selects)
                || (key.namespace == "default" && key.name == "kubernetes")
        }
        _ => false,
    }
}
