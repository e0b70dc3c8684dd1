//! Pods and pod templates.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{super::quantity::Quantity, list, text};
use crate::{
    crd::{
        UNSUPPORTED,
        cause::{child, duplicate, forbidden, index, invalid, key, not_supported},
        names::dns1123_label,
    },
    status::Cause,
};

pub(super) fn check(new: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    spec(&new["spec"], "spec", out);
    if new.pointer("/spec/resources").and_then(Value::as_object).is_some_and(|m| !m.is_empty()) {
        out.push(Cause::new(UNSUPPORTED, "spec.resources", "resources at pod level are not supported"));
    }
    if let Some(old) = old {
        update(&new["spec"], &old["spec"], out);
    }
}

/// A pod specification, in a pod or in a template.
pub(super) fn spec(spec: &Value, path: &str, out: &mut Vec<Cause>) {
    let volumes = volumes(list(spec, "volumes"), &child(path, "volumes"), out);
    let containers = list(spec, "containers");
    if containers.is_empty() {
        out.push(Cause::required(child(path, "containers"), ""));
    }
    let mut names = BTreeSet::new();
    for group in ["containers", "initContainers"] {
        for (at, item) in list(spec, group).iter().enumerate() {
            let here = index(&child(path, group), at);
            container(item, &here, &volumes, out);
            let name = text(item, "name");
            if !name.is_empty() && !names.insert(name) {
                out.push(duplicate(child(&here, "name"), &Value::from(name)));
            }
        }
    }
    for (name, known) in [
        ("restartPolicy", &["Always", "OnFailure", "Never"][..]),
        ("dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"][..]),
    ] {
        one_of(spec, name, known, path, out);
    }
    if let Some(seconds) = spec.get("activeDeadlineSeconds").filter(|s| s.as_i64().is_some_and(|n| n < 1)) {
        out.push(invalid(child(path, "activeDeadlineSeconds"), seconds, "must be between 1 and 2147483647, inclusive"));
    }
    let account = text(spec, "serviceAccountName");
    if !account.is_empty() {
        for why in crate::crd::names::dns1123_subdomain(account) {
            out.push(invalid(child(path, "serviceAccountName"), &Value::from(account), &why));
        }
    }
}

fn one_of(value: &Value, name: &str, known: &[&str], path: &str, out: &mut Vec<Cause>) {
    let found = text(value, name);
    let names: Vec<String> = known.iter().map(|k| (*k).to_owned()).collect();
    if found.is_empty() {
        out.push(Cause::required(child(path, name), ""));
    } else if !known.contains(&found) {
        out.push(not_supported(child(path, name), &Value::from(found), &names));
    }
}

fn volumes<'a>(volumes: &'a [Value], path: &str, out: &mut Vec<Cause>) -> BTreeSet<&'a str> {
    let mut names = BTreeSet::new();
    for (at, volume) in volumes.iter().enumerate() {
        let here = index(path, at);
        let name = text(volume, "name");
        let start = out.len();
        named(name, &child(&here, "name"), out);
        let sources: Vec<&String> =
            volume.as_object().into_iter().flatten().map(|(k, _)| k).filter(|k| *k != "name").collect();
        if let [_, second, ..] = sources.as_slice() {
            out.push(forbidden(child(&here, second), "may not specify more than 1 volume type"));
        }
        for (pointer, field) in [
            ("/secret/secretName", "secret.secretName"),
            ("/configMap/name", "configMap.name"),
            ("/persistentVolumeClaim/claimName", "persistentVolumeClaim.claimName"),
        ] {
            let kind = pointer.split('/').nth(1).unwrap_or_default();
            if volume.get(kind).is_some()
                && volume.pointer(pointer).and_then(Value::as_str).unwrap_or_default().is_empty()
            {
                out.push(Cause::required(child(&here, field), ""));
            }
        }
        // A volume with other faults is not compared with the rest.
        if !names.insert(name) && out.len() == start {
            out.push(duplicate(child(&here, "name"), &Value::from(name)));
        }
    }
    names
}

fn named(name: &str, at: &str, out: &mut Vec<Cause>) {
    if name.is_empty() {
        out.push(Cause::required(at, ""));
        return;
    }
    out.extend(dns1123_label(name).iter().map(|why| invalid(at, &Value::from(name), why)));
}

fn container(container: &Value, path: &str, volumes: &BTreeSet<&str>, out: &mut Vec<Cause>) {
    named(text(container, "name"), &child(path, "name"), out);
    let image = text(container, "image");
    if image.is_empty() {
        out.push(Cause::required(child(path, "image"), ""));
    } else if image.trim() != image {
        out.push(invalid(child(path, "image"), &Value::from(image), "must not have leading or trailing whitespace"));
    }
    ports(list(container, "ports"), &child(path, "ports"), out);
    env(list(container, "env"), &child(path, "env"), out);
    let mut mounted = BTreeSet::new();
    for (at, mount) in list(container, "volumeMounts").iter().enumerate() {
        let here = index(&child(path, "volumeMounts"), at);
        let (name, target) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            out.push(Cause::required(child(&here, "name"), ""));
        } else if !volumes.contains(name) {
            let not_found = format!("Not found: {}", json!(name));
            out.push(Cause::new("FieldValueNotFound", child(&here, "name"), not_found));
        }
        if target.is_empty() {
            out.push(Cause::required(child(&here, "mountPath"), ""));
        } else if !mounted.insert(target) {
            out.push(invalid(child(&here, "mountPath"), &Value::from(target), "must be unique"));
        }
    }
    one_of(container, "imagePullPolicy", &["Always", "IfNotPresent", "Never"], path, out);
    one_of(container, "terminationMessagePolicy", &["File", "FallbackToLogsOnError"], path, out);
    for hook in ["livenessProbe", "readinessProbe", "startupProbe", "lifecycle.postStart", "lifecycle.preStop"] {
        let found = hook.split('.').try_fold(container, |value, name| value.get(name));
        if let Some(found) = found {
            handler(found, &child(path, hook), out);
        }
    }
    resources(&container["resources"], &child(path, "resources"), out);
}

/// Probes and hooks do exactly one thing.
fn handler(hook: &Value, path: &str, out: &mut Vec<Cause>) {
    let given: Vec<&str> = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"]
        .into_iter()
        .filter(|name| hook.get(*name).is_some())
        .collect();
    let Some((first, more)) = given.split_first() else {
        out.push(Cause::required(path, "must specify a handler type"));
        return;
    };
    if *first == "exec" && list(&hook["exec"], "command").is_empty() {
        out.push(Cause::required(child(path, "exec.command"), ""));
    }
    for name in more {
        out.push(forbidden(child(path, name), "may not specify more than 1 handler type"));
    }
}

fn ports(ports: &[Value], path: &str, out: &mut Vec<Cause>) {
    let mut names = BTreeSet::new();
    for (at, port) in ports.iter().enumerate() {
        let here = index(path, at);
        let name = text(port, "name");
        if !name.is_empty() {
            out.extend(port_name(name).iter().map(|why| invalid(child(&here, "name"), &Value::from(name), why)));
            if !names.insert(name) {
                out.push(duplicate(child(&here, "name"), &Value::from(name)));
            }
        }
        match port.get("containerPort").and_then(Value::as_i64).unwrap_or_default() {
            0 => out.push(Cause::required(child(&here, "containerPort"), "")),
            1..=65535 => {}
            _ => {
                let why = "must be between 1 and 65535, inclusive";
                out.push(invalid(child(&here, "containerPort"), &port["containerPort"], why));
            }
        }
        one_of(port, "protocol", &["TCP", "UDP", "SCTP"], &here, out);
    }
}

/// What is wrong with the name of a port.
pub(super) fn port_name(name: &str) -> Vec<&'static str> {
    let mut wrong = Vec::new();
    if name.len() > 15 {
        wrong.push("must be no more than 15 characters");
    }
    if !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
        wrong.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    }
    if !name.bytes().any(|b| b.is_ascii_lowercase()) {
        wrong.push("must contain at least one letter (a-z)");
    }
    if name.contains("--") {
        wrong.push("must not contain consecutive hyphens");
    }
    if name.starts_with('-') || name.ends_with('-') {
        wrong.push("must not begin or end with a hyphen");
    }
    wrong
}

fn env(env: &[Value], path: &str, out: &mut Vec<Cause>) {
    for (at, variable) in env.iter().enumerate() {
        let here = index(path, at);
        let name = text(variable, "name");
        if name.is_empty() {
            out.push(Cause::required(child(&here, "name"), ""));
        } else if !name.bytes().all(|b| (0x20..0x7f).contains(&b) && b != b'=') {
            let why =
                "a valid environment variable name must consist only of printable ASCII characters other than '='";
            out.push(invalid(child(&here, "name"), &Value::from(name), why));
        }
        if variable.get("valueFrom").is_some() && !text(variable, "value").is_empty() {
            let why = "may not be specified when `value` is not empty";
            out.push(invalid(child(&here, "valueFrom"), &Value::from(""), why));
        }
    }
}

/// Requests must not be negative, nor exceed their limits.
fn resources(resources: &Value, path: &str, out: &mut Vec<Cause>) {
    let amount = |value: &Value| value.as_str().and_then(Quantity::parse);
    for group in ["limits", "requests"] {
        for (name, value) in resources.get(group).and_then(Value::as_object).into_iter().flatten() {
            if amount(value).is_some_and(Quantity::is_negative) {
                out.push(invalid(key(&child(path, group), name), value, "must be greater than or equal to 0"));
            }
        }
    }
    let limits = resources.get("limits").and_then(Value::as_object);
    for (name, request) in resources.get("requests").and_then(Value::as_object).into_iter().flatten() {
        let Some(limit) = limits.and_then(|l| l.get(name)) else { continue };
        if amount(request) > amount(limit) {
            let shown = limit.as_str().unwrap_or_default();
            let why = format!("must be less than or equal to {name} limit of {shown}");
            out.push(invalid(child(path, "requests"), request, &why));
        }
    }
}

/// Pods keep their specification, but for images, deadlines, added tolerations and removed scheduling gates.
fn update(new: &Value, old: &Value, out: &mut Vec<Cause>) {
    for group in ["containers", "initContainers"] {
        if list(new, group).len() != list(old, group).len() {
            out.push(forbidden(child("spec", group), "pod updates may not add or remove containers"));
            return;
        }
    }
    deadline(new, old, out);
    let tolerations = list(new, "tolerations");
    if !list(old, "tolerations").iter().all(|t| tolerations.contains(t)) {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        out.push(forbidden("spec.tolerations", why));
    }
    let gates = list(old, "schedulingGates");
    for (at, gate) in list(new, "schedulingGates").iter().enumerate() {
        if !gates.contains(gate) {
            let why = "only deletion is allowed, but found new scheduling gate";
            let name = text(gate, "name");
            out.push(forbidden(index("spec.schedulingGates", at), &format!("{why} '{name}'")));
        }
    }
    if comparable(new, old) != comparable(old, old) {
        let why = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
                   `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
                   `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
        out.push(forbidden("spec", why));
    }
}

fn deadline(new: &Value, old: &Value, out: &mut Vec<Cause>) {
    let number = |spec: &Value| spec.get("activeDeadlineSeconds").and_then(Value::as_i64);
    let at = "spec.activeDeadlineSeconds";
    match (number(new), number(old)) {
        (Some(now), Some(before)) if now > before => {
            out.push(invalid(at, &json!(now), "must be less than or equal to previous value"));
        }
        (None, Some(_)) => {
            out.push(invalid(at, &Value::Null, "must not update from a positive integer to nil value"));
        }
        _ => {}
    }
}

/// The specification with the fields that may change taken from `old`.
fn comparable(spec: &Value, old: &Value) -> Value {
    let mut copy = spec.clone();
    let Some(map) = copy.as_object_mut() else { return copy };
    let mut fields = vec!["activeDeadlineSeconds", "tolerations", "schedulingGates"];
    if old["terminationGracePeriodSeconds"].as_i64().is_some_and(|n| n < 0)
        && spec["terminationGracePeriodSeconds"] == 1
    {
        fields.push("terminationGracePeriodSeconds");
    }
    // A gated pod may still be steered to other nodes.
    if !list(old, "schedulingGates").is_empty() {
        fields.extend(["nodeSelector", "affinity"]);
    }
    for name in fields {
        map.remove(name);
    }
    for group in ["containers", "initContainers"] {
        for container in map.get_mut(group).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(container) = container.as_object_mut() {
                container.remove("image");
            }
        }
    }
    copy
}

/// A template: its labels and its specification.
pub(super) fn template(template: &Value, path: &str, out: &mut Vec<Cause>) {
    super::meta::labels(&template["metadata"]["labels"], &child(path, "labels"), out);
    spec(&template["spec"], &child(path, "spec"), out);
}
