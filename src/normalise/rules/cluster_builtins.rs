//! What the cluster brings along.

use crate::normalise::{Context, Effect, Rule, Scope};

pub(super) static RULE: Rule = Rule {
    id: "cluster-builtins",
    reason: "Nodes, system namespaces, system roles and the like belong to the cluster and not to the operator.",
    scope: Scope::Both,
    effect: Effect::Objects(hides),
};

use serde_json::Value;

use crate::object::ObjectKey;

fn hides(key: &ObjectKey, object: &Value, _: &Context<'_>) -> bool {
    let system = |namespace: &str| matches!(namespace, "kube-system" | "kube-public" | "kube-node-lease");
    if system(&key.namespace) {
        return true;
    }
    match (key.group.as_str(), key.kind.as_str()) {
        ("", "Namespace") => system(&key.name) || key.name == "default",
        ("", "Node" | "ComponentStatus")
        | ("flowcontrol.apiserver.k8s.io", _)
        | ("storage.k8s.io", "CSINode" | "CSIDriver" | "VolumeAttachment")
        | ("networking.k8s.io", "IPAddress" | "ServiceCIDR") => true,
        ("", "Service") => key.namespace == "default" && key.name == "kubernetes",
        ("apiregistration.k8s.io", "APIService") => object.pointer("/spec/service").is_none(),
        ("storage.k8s.io", "StorageClass") => matches!(key.name.as_str(), "standard" | "local-path"),
        ("scheduling.k8s.io", "PriorityClass") => key.name.starts_with("system-"),
        ("rbac.authorization.k8s.io", _) => {
            key.name.starts_with("system:") || matches!(key.name.as_str(), "cluster-admin" | "admin" | "edit" | "view")
        }
        _ => false,
    }
}
