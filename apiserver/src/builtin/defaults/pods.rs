//! Pods, containers and volumes.

use serde_json::{Map, Value, json};

use super::{objects, put, sub, text, unset};

pub(super) fn apply(name: &str, map: &mut Map<String, Value>) {
    match name {
        "core.v1.Pod" => pod(map),
        "core.v1.PodSpec" => pod_spec(map),
        "core.v1.Container" | "core.v1.EphemeralContainer" => container(map),
        "core.v1.Probe" => probe(map),
        "core.v1.HTTPGetAction" => {
            put(map, "path", "/");
            put(map, "scheme", "HTTP");
        }
        "core.v1.ObjectFieldSelector" => put(map, "apiVersion", "v1"),
        "core.v1.Volume" => volume(map),
        "core.v1.SecretVolumeSource"
        | "core.v1.ConfigMapVolumeSource"
        | "core.v1.DownwardAPIVolumeSource"
        | "core.v1.ProjectedVolumeSource" => put(map, "defaultMode", 0o644),
        "core.v1.ServiceAccountTokenProjection" => put(map, "expirationSeconds", 3600),
        // The unset host path type is written out as an empty string.
        "core.v1.HostPathVolumeSource" => {
            map.entry("type").or_insert_with(|| "".into());
        }
        _ => {}
    }
}

fn pod(map: &mut Map<String, Value>) {
    let Some(spec) = sub(map, "spec") else { return };
    for list in ["containers", "initContainers"] {
        for container in objects(spec, list) {
            requests_from_limits(container);
        }
    }
    put(spec, "enableServiceLinks", true);
    if spec.get("hostNetwork") == Some(&Value::Bool(true)) {
        for list in ["containers", "initContainers"] {
            for container in objects(spec, list) {
                for port in objects(container, "ports") {
                    if port.get("hostPort").is_none_or(|p| p == 0) {
                        let same = port.get("containerPort").cloned().unwrap_or(Value::Null);
                        port.insert("hostPort".into(), same);
                    }
                }
            }
        }
    }
}

/// Only pods get this, not pod templates.
fn requests_from_limits(container: &mut Map<String, Value>) {
    let Some(resources) = container.get_mut("resources").and_then(Value::as_object_mut) else { return };
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    let Some(requests) = sub(resources, "requests") else { return };
    for (name, limit) in limits {
        requests.entry(name).or_insert(limit);
    }
}

fn pod_spec(map: &mut Map<String, Value>) {
    put(map, "dnsPolicy", "ClusterFirst");
    put(map, "restartPolicy", "Always");
    put(map, "securityContext", json!({}));
    put(map, "terminationGracePeriodSeconds", 30);
    put(map, "schedulerName", "default-scheduler");
    // The deprecated alias is always written along; the newer field wins.
    let account = [text(map, "serviceAccountName"), text(map, "serviceAccount")]
        .into_iter()
        .find(|name| !name.is_empty())
        .map(str::to_owned);
    match account {
        Some(name) => {
            map.insert("serviceAccountName".into(), name.clone().into());
            map.insert("serviceAccount".into(), name.into());
        }
        None => {
            map.remove("serviceAccount");
        }
    }
}

fn container(map: &mut Map<String, Value>) {
    let policy = if is_latest(text(map, "image")) { "Always" } else { "IfNotPresent" };
    put(map, "imagePullPolicy", policy);
    put(map, "terminationMessagePath", "/dev/termination-log");
    put(map, "terminationMessagePolicy", "File");
}

/// Whether an image reference means the tag `latest`; a digest without a tag does not.
fn is_latest(image: &str) -> bool {
    if image.is_empty() || image.contains(char::is_whitespace) {
        return false;
    }
    let (name, digest) = image.split_once('@').map_or((image, None), |(n, d)| (n, Some(d)));
    let last = name.rsplit('/').next().unwrap_or(name);
    match last.split_once(':') {
        Some((_, tag)) => tag == "latest",
        None => digest.is_none(),
    }
}

fn probe(map: &mut Map<String, Value>) {
    for (name, value) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        if map.get(name).is_none_or(|v| v == 0) {
            map.insert(name.into(), value.into());
        }
    }
}

fn volume(map: &mut Map<String, Value>) {
    if map.keys().all(|name| name == "name") {
        map.insert("emptyDir".into(), json!({}));
    }
    if let Some(image) = map.get_mut("image").and_then(Value::as_object_mut) {
        let policy = if is_latest(text(image, "reference")) { "Always" } else { "IfNotPresent" };
        if unset(image, "pullPolicy") {
            image.insert("pullPolicy".into(), policy.into());
        }
    }
}
