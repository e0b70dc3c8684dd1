//! Secrets, config maps, claims, access control, ingresses and network policies.

use serde_json::Value;

use super::{super::quantity::Quantity, immutable, list, text, workloads::label_selector};
use crate::{
    crd::cause::{child, forbidden, index, invalid, key, not_supported, too_long},
    status::Cause,
};

/// What one config map or secret may hold.
const MAX_SIZE: usize = 1024 * 1024;
const RBAC: &str = "rbac.authorization.k8s.io";

pub(super) fn check(kind: &str, new: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    match kind {
        "Secret" => secret(new, old, out),
        "ConfigMap" => config_map(new, old, out),
        "PersistentVolumeClaim" => claim(new, old, out),
        "StorageClass" => storage_class(new, old, out),
        "RoleBinding" | "ClusterRoleBinding" => binding(kind, new, old, out),
        "Role" | "ClusterRole" => role(kind, new, out),
        "Ingress" => ingress(new, out),
        "NetworkPolicy" => label_selector(&new["spec"]["podSelector"], "spec.podSelector", out),
        "PriorityClass" => priority_class(new, old, out),
        "Lease" => lease(new, out),
        _ => {}
    }
}

fn data_keys(object: &Value, name: &str, out: &mut Vec<Cause>) -> usize {
    let mut size = 0;
    for (entry, value) in object.get(name).and_then(Value::as_object).into_iter().flatten() {
        size += value.as_str().map_or(0, str::len);
        let good = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        if entry.is_empty() || !entry.bytes().all(good) {
            let why = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
            out.push(invalid(key(name, entry), &Value::from(entry.as_str()), why));
        } else if matches!(entry.as_str(), "." | "..") {
            out.push(invalid(key(name, entry), &Value::from(entry.as_str()), &format!("must not be '{entry}'")));
        }
    }
    size
}

/// An object that declared itself immutable keeps its data.
fn frozen(new: &Value, old: Option<&Value>, fields: &[&str], out: &mut Vec<Cause>) {
    let Some(old) = old.filter(|o| o["immutable"] == true) else { return };
    let why = "field is immutable when `immutable` is set";
    if new["immutable"] != true {
        out.push(forbidden("immutable", why));
    }
    for name in fields {
        if new.get(name) != old.get(name) {
            out.push(forbidden(*name, why));
        }
    }
}

fn secret(new: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    if let Some(old) = old {
        immutable(new, old, "/type", out);
    }
    frozen(new, old, &["data"], out);
    // Stored values are base64: four characters for three bytes.
    if data_keys(new, "data", out) / 4 * 3 > MAX_SIZE {
        out.push(too_long("data", MAX_SIZE as u64));
    }
    let required: &[&str] = match text(new, "type") {
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        _ => &[],
    };
    for name in required.iter().filter(|name| new["data"].get(**name).is_none()) {
        out.push(Cause::required(key("data", name), ""));
    }
    let account = "kubernetes.io/service-account.name";
    if text(new, "type") == "kubernetes.io/service-account-token"
        && text(&new["metadata"]["annotations"], account).is_empty()
    {
        out.push(Cause::required(key("metadata.annotations", account), ""));
    }
}

fn config_map(new: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    frozen(new, old, &["data", "binaryData"], out);
    let size = data_keys(new, "data", out) + data_keys(new, "binaryData", out);
    for (name, _) in new.get("binaryData").and_then(Value::as_object).into_iter().flatten() {
        if new["data"].get(name).is_some() {
            let why = format!("duplicate of key present in data: {name}");
            out.push(invalid(key("binaryData", name), &Value::from(name.as_str()), &why));
        }
    }
    if size > MAX_SIZE {
        out.push(too_long("", MAX_SIZE as u64));
    }
}

fn claim(new: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    let spec = &new["spec"];
    if list(spec, "accessModes").is_empty() {
        out.push(Cause::required("spec.accessModes", "at least 1 access mode is required"));
    }
    let known = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    for mode in list(spec, "accessModes").iter().filter(|m| !m.as_str().is_some_and(|m| known.contains(&m))) {
        out.push(not_supported("spec.accessModes", mode, &known.map(str::to_owned)));
    }
    let amount =
        |object: &Value, pointer: &str| object.pointer(pointer).and_then(Value::as_str).and_then(Quantity::parse);
    let request = "/spec/resources/requests/storage";
    match amount(new, request) {
        None => out.push(Cause::required("spec.resources[storage]", "")),
        Some(size) if size.is_zero() || size.is_negative() => {
            let at = "spec.resources[storage]";
            out.push(invalid(at, new.pointer(request).unwrap_or(&Value::Null), "must be greater than zero"));
        }
        Some(_) => {}
    }
    let Some(old) = old else { return };
    let bound = new["status"]["phase"] == "Bound";
    let fixed = |object: &Value| {
        let mut copy = object["spec"].clone();
        if bound {
            for pointer in [request.trim_start_matches("/spec"), "/volumeAttributesClassName"] {
                if let Some(found) = copy.pointer_mut(pointer) {
                    *found = Value::Null;
                }
            }
        }
        // The volume is named once, by the binder.
        if text(&old["spec"], "volumeName").is_empty()
            && let Some(map) = copy.as_object_mut()
        {
            map.remove("volumeName");
        }
        // Nulls and absence are one.
        if let Some(map) = copy.as_object_mut() {
            map.retain(|_, value| !value.is_null());
        }
        copy
    };
    if fixed(new) != fixed(old) {
        let why =
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        out.push(forbidden("spec", why));
    }
    if amount(new, request) < amount(old, request) && amount(new, request) <= amount(old, "/status/capacity/storage") {
        let why = "field can not be less than status.capacity";
        out.push(forbidden("spec.resources.requests.storage", why));
    }
}

fn storage_class(new: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    if text(new, "provisioner").is_empty() {
        out.push(Cause::required("provisioner", ""));
    }
    let Some(old) = old else { return };
    for (name, why) in [
        ("parameters", "updates to parameters are forbidden."),
        ("provisioner", "updates to provisioner are forbidden."),
        ("reclaimPolicy", "updates to reclaimPolicy are forbidden."),
    ] {
        if new.get(name) != old.get(name) {
            out.push(forbidden(name, why));
        }
    }
    immutable(new, old, "/volumeBindingMode", out);
}

fn binding(kind: &str, new: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    let role = &new["roleRef"];
    if text(role, "apiGroup") != RBAC {
        out.push(not_supported("roleRef.apiGroup", &role["apiGroup"], &[RBAC.to_owned()]));
    }
    let kinds: &[&str] = if kind == "RoleBinding" { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&text(role, "kind")) {
        let known: Vec<String> = kinds.iter().map(|k| (*k).to_owned()).collect();
        out.push(not_supported("roleRef.kind", &Value::from(text(role, "kind")), &known));
    }
    if text(role, "name").is_empty() {
        out.push(Cause::required("roleRef.name", ""));
    }
    for (at, subject) in list(new, "subjects").iter().enumerate() {
        self::subject(subject, kind == "RoleBinding", &index("subjects", at), out);
    }
    if old.is_some_and(|o| o["roleRef"] != *role) {
        out.push(invalid("roleRef", role, "cannot change roleRef"));
    }
}

fn subject(subject: &Value, namespaced: bool, path: &str, out: &mut Vec<Cause>) {
    if text(subject, "name").is_empty() {
        out.push(Cause::required(child(path, "name"), ""));
    }
    let group = text(subject, "apiGroup");
    match text(subject, "kind") {
        "ServiceAccount" => {
            if !group.is_empty() {
                out.push(not_supported(child(path, "apiGroup"), &Value::from(group), &[String::new()]));
            }
            if !namespaced && text(subject, "namespace").is_empty() {
                out.push(Cause::required(child(path, "namespace"), ""));
            }
        }
        "User" | "Group" => {
            if group != RBAC {
                out.push(not_supported(child(path, "apiGroup"), &Value::from(group), &[RBAC.to_owned()]));
            }
        }
        other => {
            let known = ["ServiceAccount", "User", "Group"].map(str::to_owned);
            out.push(not_supported(child(path, "kind"), &Value::from(other), &known));
        }
    }
}

fn role(kind: &str, new: &Value, out: &mut Vec<Cause>) {
    for (at, rule) in list(new, "rules").iter().enumerate() {
        let path = index("rules", at);
        if list(rule, "verbs").is_empty() {
            out.push(Cause::required(child(&path, "verbs"), "verbs must contain at least one value"));
        }
        if !list(rule, "nonResourceURLs").is_empty() {
            if kind == "Role" {
                let why = "namespaced rules cannot apply to non-resource URLs";
                out.push(invalid(child(&path, "nonResourceURLs"), &rule["nonResourceURLs"], why));
            }
            continue;
        }
        for (name, why) in [
            ("apiGroups", "resource rules must supply at least one api group"),
            ("resources", "resource rules must supply at least one resource"),
        ] {
            if list(rule, name).is_empty() {
                out.push(Cause::required(child(&path, name), why));
            }
        }
    }
}

fn ingress(new: &Value, out: &mut Vec<Cause>) {
    let spec = &new["spec"];
    if list(spec, "rules").is_empty() && spec.get("defaultBackend").is_none() {
        let why = "either `defaultBackend` or `rules` must be specified";
        out.push(invalid("spec", spec, why));
    }
    for (at, rule) in list(spec, "rules").iter().enumerate() {
        let Some(http) = rule.get("http") else { continue };
        let base = format!("{}.http.paths", index("spec.rules", at));
        if list(http, "paths").is_empty() {
            out.push(Cause::required(&base, ""));
        }
        for (i, entry) in list(http, "paths").iter().enumerate() {
            let here = index(&base, i);
            let path = text(entry, "path");
            match text(entry, "pathType") {
                "" => out.push(Cause::required(child(&here, "pathType"), "pathType must be specified")),
                "Exact" | "Prefix" if !path.starts_with('/') => {
                    out.push(invalid(child(&here, "path"), &Value::from(path), "must be an absolute path"));
                }
                "Exact" | "Prefix" | "ImplementationSpecific" => {}
                other => {
                    let known = ["Exact", "ImplementationSpecific", "Prefix"].map(str::to_owned);
                    out.push(not_supported(child(&here, "pathType"), &Value::from(other), &known));
                }
            }
        }
    }
}

fn priority_class(new: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    if let Some(old) = old {
        if new["value"] != old["value"] {
            out.push(forbidden("value", "may not be changed in an update."));
        }
        immutable(new, old, "/preemptionPolicy", out);
    }
}

fn lease(new: &Value, out: &mut Vec<Cause>) {
    let spec = &new["spec"];
    if let Some(seconds) = spec.get("leaseDurationSeconds").filter(|s| s.as_i64().is_some_and(|n| n <= 0)) {
        out.push(invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"));
    }
    if let Some(count) = spec.get("leaseTransitions").filter(|s| s.as_i64().is_some_and(|n| n < 0)) {
        out.push(invalid("spec.leaseTransitions", count, "must be greater than or equal to 0"));
    }
    if spec.get("holderIdentity").is_some_and(|h| h == "") {
        out.push(invalid("spec.holderIdentity", &Value::from(""), "must not be empty"));
    }
}
