//! What creating and updating do to the parts of an object that clients do not own.
//!
//! Status belongs to its subresource, specifications to the main resource, and generations count the changes of what is desired.

use serde_json::{Map, Value, json};

use super::{openapi::definitions_for, quantity::Quantity, wire::normalise_wire};
use crate::resource::Gvk;

/// Kinds whose status only their subresource may write.
fn has_status(gvk: &Gvk) -> bool {
    match gvk.group.as_str() {
        "" => matches!(
            gvk.kind.as_str(),
            "Pod"
                | "Service"
                | "Namespace"
                | "Node"
                | "PersistentVolume"
                | "PersistentVolumeClaim"
                | "ReplicationController"
                | "ResourceQuota"
        ),
        "apps" => gvk.kind != "ControllerRevision",
        "batch" | "autoscaling" | "flowcontrol.apiserver.k8s.io" | "apiregistration.k8s.io" => true,
        "networking.k8s.io" => matches!(gvk.kind.as_str(), "Ingress" | "ServiceCIDR"),
        "policy" => gvk.kind == "PodDisruptionBudget",
        "apiextensions.k8s.io" => gvk.kind == "CustomResourceDefinition",
        "certificates.k8s.io" => gvk.kind == "CertificateSigningRequest",
        "admissionregistration.k8s.io" => gvk.kind == "ValidatingAdmissionPolicy",
        "storage.k8s.io" => gvk.kind == "VolumeAttachment",
        _ => false,
    }
}

/// Prepares a defaulted object for its first write. Persistent volumes still want `status.lastPhaseTransitionTime`, which needs a clock.
pub fn prepare_create(gvk: &Gvk, object: &mut Value) {
    let Some(ty) = definitions_for(gvk) else { return };
    let Some(map) = object.as_object_mut() else { return };
    // Nodes register with their status; definitions keep their stored versions.
    if has_status(gvk) && !matches!(gvk.kind.as_str(), "Node" | "CustomResourceDefinition") {
        map.remove("status");
    }
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("", "Pod") => {
            let status = pod_status(map.get("spec").unwrap_or(&Value::Null));
            map.insert("status".into(), status);
        }
        ("", "Namespace") => {
            map.insert("status".into(), json!({"phase": "Active"}));
            if let Some(spec) = map.entry("spec").or_insert_with(|| json!({})).as_object_mut() {
                add_kubernetes_finalizer(spec);
            }
        }
        ("", "PersistentVolumeClaim" | "PersistentVolume") => {
            map.insert("status".into(), json!({"phase": "Pending"}));
        }
        ("apps", "DaemonSet") => {
            let first = template_generation(object).max(1);
            set_template_generation(object, first);
        }
        ("batch", "Job") => select_own_pods(object),
        _ => {}
    }
    normalise_wire(gvk, object, ty);
}

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn template_generation(object: &Value) -> i64 {
    let text = object["metadata"]["annotations"][TEMPLATE_GENERATION].as_str();
    text.and_then(|t| t.parse().ok()).unwrap_or_default()
}

fn set_template_generation(object: &mut Value, generation: i64) {
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut)
        && let Some(annotations) = meta.entry("annotations").or_insert_with(|| json!({})).as_object_mut()
    {
        annotations.insert(TEMPLATE_GENERATION.into(), generation.to_string().into());
    }
}

/// A job without a selector of its own selects its pods by its uid, which must have been assigned by now.
fn select_own_pods(job: &mut Value) {
    let (name, uid) = (job["metadata"]["name"].clone(), job["metadata"]["uid"].clone());
    if job["spec"]["manualSelector"] == true || !uid.is_string() {
        return;
    }
    let object = |value: &mut Value| {
        if !value.is_object() {
            *value = json!({});
        }
    };
    let Some(spec) = job.get_mut("spec") else { return };
    object(&mut spec["template"]["metadata"]["labels"]);
    let labels = &mut spec["template"]["metadata"]["labels"];
    for (key, value) in [
        ("job-name", &name),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("batch.kubernetes.io/controller-uid", &uid),
    ] {
        if labels.get(key).is_none() {
            labels[key] = value.clone();
        }
    }
    object(&mut spec["selector"]["matchLabels"]);
    let selector = &mut spec["selector"]["matchLabels"];
    if selector.get("batch.kubernetes.io/controller-uid").is_none() {
        selector["batch.kubernetes.io/controller-uid"] = uid;
    }
}

fn add_kubernetes_finalizer(spec: &mut Map<String, Value>) {
    if let Some(list) = spec.entry("finalizers").or_insert_with(|| json!([])).as_array_mut()
        && !list.iter().any(|f| f == "kubernetes")
    {
        list.push("kubernetes".into());
    }
}

fn pod_status(spec: &Value) -> Value {
    let mut status = json!({"phase": "Pending", "qosClass": qos_class(spec)});
    if spec["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        status["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
    status
}

/// Guaranteed when every container's limits equal its requests, best effort when nothing is asked for.
fn qos_class(spec: &Value) -> &'static str {
    let containers =
        ["containers", "initContainers"].into_iter().flat_map(|g| spec[g].as_array().into_iter().flatten());
    let (mut any, mut guaranteed) = (false, true);
    for container in containers {
        let amount = |group: &str, name: &str| {
            let found = container["resources"][group][name].as_str().and_then(Quantity::parse);
            found.filter(|q| !q.is_zero())
        };
        for name in ["cpu", "memory"] {
            let (request, limit) = (amount("requests", name), amount("limits", name));
            any |= request.is_some() || limit.is_some();
            guaranteed &= limit.is_some() && request.or(limit) == limit;
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// Undoes what an update through `subresource` (empty for the object itself) may not change.
pub fn prepare_update(gvk: &Gvk, subresource: &str, new: &mut Value, old: &Value) {
    match subresource {
        "" => main_update(gvk, new, old),
        "status" => status_update(gvk, new, old),
        "finalize" => keep(new, old, "status"),
        "ephemeralcontainers" => only(new, old, |spec, from| {
            spec.insert("ephemeralContainers".into(), from["ephemeralContainers"].clone());
        }),
        "resize" => only(new, old, resize),
        _ => {}
    }
    if let Some(ty) = definitions_for(gvk) {
        normalise_wire(gvk, new, ty);
    }
}

fn main_update(gvk: &Gvk, new: &mut Value, old: &Value) {
    if has_status(gvk) {
        keep(new, old, "status");
    }
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("", "Namespace") => keep(new, old, "spec"),
        ("", "Service") => keep_allocated(&mut new["spec"], &old["spec"]),
        ("apps", "DaemonSet") => {
            let changed = new["spec"]["template"] != old["spec"]["template"];
            set_template_generation(new, template_generation(old) + i64::from(changed));
        }
        _ => {}
    }
}

fn status_update(gvk: &Gvk, new: &mut Value, old: &Value) {
    let fields: Vec<String> = old.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
    for name in fields.iter().filter(|name| !matches!(name.as_str(), "metadata" | "status")) {
        keep(new, old, name);
    }
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("", "Pod") => {
            keep(&mut new["metadata"], &old["metadata"], "ownerReferences");
            if new["status"]["qosClass"].as_str().unwrap_or_default().is_empty() && new["status"].is_object() {
                new["status"]["qosClass"] = old["status"]["qosClass"].clone();
            }
        }
        ("apps", "Deployment") => keep(&mut new["metadata"], &old["metadata"], "labels"),
        _ => {}
    }
}

/// Takes one field from the stored object.
fn keep(new: &mut Value, old: &Value, name: &str) {
    let Some(map) = new.as_object_mut() else { return };
    match old.get(name) {
        Some(value) => {
            map.insert(name.to_owned(), value.clone());
        }
        None => {
            map.remove(name);
        }
    }
}

/// The stored object, with one change to its specification.
fn only(new: &mut Value, old: &Value, change: impl Fn(&mut Map<String, Value>, &Value)) {
    let asked = std::mem::replace(new, old.clone());
    // The precondition of the request must survive.
    if let Some(version) = asked["metadata"].get("resourceVersion") {
        new["metadata"]["resourceVersion"] = version.clone();
    }
    if let Some(fields) = asked["metadata"].get("managedFields") {
        new["metadata"]["managedFields"] = fields.clone();
    }
    if let Some(spec) = new["spec"].as_object_mut() {
        change(spec, &asked["spec"]);
    }
}

fn resize(spec: &mut Map<String, Value>, from: &Value) {
    for group in ["containers", "initContainers"] {
        let asked = from[group].as_array().map(Vec::as_slice).unwrap_or_default();
        for container in spec.get_mut(group).and_then(Value::as_array_mut).into_iter().flatten() {
            let Some(wanted) = asked.iter().find(|c| c["name"] == container["name"]) else { continue };
            for name in ["resources", "resizePolicy"] {
                keep(container, wanted, name);
            }
        }
    }
}

/// A service that leaves out what was allocated for it keeps it.
fn keep_allocated(new: &mut Value, old: &Value) {
    let kind = |spec: &Value| spec["type"].as_str().unwrap_or("ClusterIP").to_owned();
    let (now, before) = (kind(new), kind(old));
    let has_ip = |kind: &str| matches!(kind, "ClusterIP" | "NodePort" | "LoadBalancer");
    let has_node_port = |kind: &str| matches!(kind, "NodePort" | "LoadBalancer");
    if !new.is_object() || !has_ip(&now) || !has_ip(&before) {
        return;
    }
    let missing = |spec: &Value, name: &str| match &spec[name] {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    if missing(new, "clusterIP") && missing(new, "clusterIPs") {
        keep(new, old, "clusterIP");
        keep(new, old, "clusterIPs");
    }
    for name in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if missing(new, name) && !missing(old, name) {
            keep(new, old, name);
        }
    }
    if has_node_port(&now) && has_node_port(&before) {
        let stored = old["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
        for port in new["ports"].as_array_mut().into_iter().flatten() {
            let same = |p: &&Value| p["port"] == port["port"] && p["protocol"] == port["protocol"];
            if port["nodePort"].as_i64().unwrap_or_default() == 0
                && let Some(number) = stored.iter().find(same).map(|p| p["nodePort"].clone()).filter(|n| !n.is_null())
            {
                port["nodePort"] = number;
            }
        }
        if new["healthCheckNodePort"].as_i64().unwrap_or_default() == 0 && new["externalTrafficPolicy"] == "Local" {
            keep(new, old, "healthCheckNodePort");
        }
    }
}

/// The same for a custom kind with a status subresource; without one, nothing needs undoing.
pub fn prepare_update_custom(subresource: &str, new: &mut Value, old: &Value) {
    if subresource != "status" {
        return keep(new, old, "status");
    }
    let asked = std::mem::replace(new, old.clone());
    keep(new, &asked, "status");
    for name in ["resourceVersion", "managedFields"] {
        if asked["metadata"].get(name).is_some() {
            keep(&mut new["metadata"], &asked["metadata"], name);
        }
    }
}

/// Whether a kind counts generations, starting with 1. Custom kinds all do.
#[must_use]
pub fn has_generation(gvk: &Gvk) -> bool {
    let kind = gvk.kind.as_str();
    match gvk.group.as_str() {
        "" => matches!(kind, "Pod" | "ReplicationController" | "PodTemplate"),
        "apps" => kind != "ControllerRevision",
        "batch" | "admissionregistration.k8s.io" | "flowcontrol.apiserver.k8s.io" => true,
        "networking.k8s.io" => matches!(kind, "Ingress" | "NetworkPolicy" | "IngressClass"),
        "policy" => kind == "PodDisruptionBudget",
        "scheduling.k8s.io" => kind == "PriorityClass",
        "discovery.k8s.io" => kind == "EndpointSlice",
        "apiextensions.k8s.io" => kind == "CustomResourceDefinition",
        _ => definitions_for(gvk).is_none(),
    }
}

/// Whether an update of the main resource makes a new generation. Updates of a status never do: callers do not ask then.
#[must_use]
pub fn generation_changes(gvk: &Gvk, new: &Value, old: &Value) -> bool {
    if !has_generation(gvk) {
        return false;
    }
    let differs = |name: &str| new.get(name) != old.get(name);
    let meta_differs = |name: &str| {
        let get = |object: &'_ Value| {
            object["metadata"].get(name).cloned().filter(|v| v.as_object().is_none_or(|m| !m.is_empty()))
        };
        get(new) != get(old)
    };
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("apps", "Deployment") => differs("spec") || meta_differs("annotations"),
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration") => {
            differs("webhooks")
        }
        ("", "PodTemplate") => differs("template"),
        // A priority class never changes what it stands for.
        ("scheduling.k8s.io", _) => false,
        ("discovery.k8s.io", _) => outside_metadata_differs(new, old) || meta_differs("labels"),
        _ if definitions_for(gvk).is_some() => differs("spec"),
        _ => outside_metadata_differs(new, old),
    }
}

fn outside_metadata_differs(new: &Value, old: &Value) -> bool {
    let rest = |object: &Value| -> Map<String, Value> {
        let fields =
            object.as_object().into_iter().flatten().filter(|(name, _)| *name != "metadata" && *name != "apiVersion");
        fields.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    rest(new) != rest(old)
}
