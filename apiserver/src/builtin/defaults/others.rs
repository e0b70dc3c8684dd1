//! Configuration, storage, access control, namespaces and webhooks.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

use super::{put, sub, text};

pub(super) fn apply(name: &str, map: &mut Map<String, Value>) {
    match name {
        "core.v1.Secret" => secret(map),
        "core.v1.Namespace" => namespace(map),
        "core.v1.NodeStatus" => {
            if let Some(capacity) = map.get("capacity").cloned() {
                put(map, "allocatable", capacity);
            }
        }
        "core.v1.LimitRangeItem" => limit_range(map),
        "core.v1.PersistentVolumeClaim" => status_phase(map, "Pending"),
        "core.v1.PersistentVolumeClaimSpec" => put(map, "volumeMode", "Filesystem"),
        "core.v1.PersistentVolume" => status_phase(map, "Pending"),
        "core.v1.PersistentVolumeSpec" => {
            put(map, "persistentVolumeReclaimPolicy", "Retain");
            put(map, "volumeMode", "Filesystem");
        }
        "storage.v1.StorageClass" => {
            put(map, "reclaimPolicy", "Delete");
            put(map, "volumeBindingMode", "Immediate");
        }
        "storage.v1.CSIDriverSpec" => csi_driver(map),
        "rbac.v1.RoleRef" => put(map, "apiGroup", "rbac.authorization.k8s.io"),
        "rbac.v1.Subject" => {
            if matches!(text(map, "kind"), "User" | "Group") {
                put(map, "apiGroup", "rbac.authorization.k8s.io");
            }
        }
        "scheduling.v1.PriorityClass" => put(map, "preemptionPolicy", "PreemptLowerPriority"),
        "admissionregistration.v1.ValidatingWebhook" => webhook(map),
        "admissionregistration.v1.MutatingWebhook" => {
            webhook(map);
            put(map, "reinvocationPolicy", "Never");
        }
        "admissionregistration.v1.RuleWithOperations" | "admissionregistration.v1.NamedRuleWithOperations" => {
            put(map, "scope", "*");
        }
        "admissionregistration.v1.ServiceReference" => put(map, "port", 443),
        "admissionregistration.v1.ValidatingAdmissionPolicySpec" => put(map, "failurePolicy", "Fail"),
        "admissionregistration.v1.MatchResources" => {
            put(map, "matchPolicy", "Equivalent");
            put(map, "namespaceSelector", json!({}));
            put(map, "objectSelector", json!({}));
        }
        _ => {}
    }
}

fn webhook(map: &mut Map<String, Value>) {
    put(map, "failurePolicy", "Fail");
    put(map, "matchPolicy", "Equivalent");
    put(map, "namespaceSelector", json!({}));
    put(map, "objectSelector", json!({}));
    put(map, "timeoutSeconds", 10);
}

/// `stringData` is write-only: it ends up in `data`.
fn secret(map: &mut Map<String, Value>) {
    put(map, "type", "Opaque");
    let Some(Value::Object(strings)) = map.remove("stringData") else { return };
    if let Some(data) = sub(map, "data") {
        for (name, value) in strings {
            let plain = value.as_str().unwrap_or_default();
            data.insert(name, STANDARD.encode(plain).into());
        }
    }
}

fn namespace(map: &mut Map<String, Value>) {
    let Some(meta) = sub(map, "metadata") else { return };
    let name = text(meta, "name").to_owned();
    if !name.is_empty()
        && let Some(labels) = sub(meta, "labels")
    {
        labels.insert("kubernetes.io/metadata.name".into(), name.into());
    }
    status_phase(map, "Active");
}

fn status_phase(map: &mut Map<String, Value>, phase: &str) {
    if let Some(status) = sub(map, "status") {
        put(status, "phase", phase);
    }
}

fn limit_range(map: &mut Map<String, Value>) {
    if text(map, "type") != "Container" {
        return;
    }
    for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
        let source = map.get(from).and_then(Value::as_object).cloned().unwrap_or_default();
        let Some(target) = sub(map, to) else { continue };
        for (name, value) in source {
            target.entry(name).or_insert(value);
        }
    }
}

fn csi_driver(map: &mut Map<String, Value>) {
    put(map, "attachRequired", true);
    put(map, "podInfoOnMount", false);
    put(map, "storageCapacity", false);
    put(map, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    if map.get("volumeLifecycleModes").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        map.insert("volumeLifecycleModes".into(), json!(["Persistent"]));
    }
    put(map, "requiresRepublish", false);
    put(map, "seLinuxMount", false);
}
