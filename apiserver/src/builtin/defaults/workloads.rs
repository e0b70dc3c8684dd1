//! Deployments, stateful and daemon sets, jobs, and what scales or guards them.

use serde_json::{Map, Value, json};

use super::{put, sub, text, unset};

pub(super) fn apply(name: &str, map: &mut Map<String, Value>) {
    match name {
        "apps.v1.DeploymentSpec" => deployment(map),
        "apps.v1.ReplicaSetSpec" => put(map, "replicas", 1),
        "apps.v1.StatefulSetSpec" => stateful_set(map),
        "apps.v1.DaemonSetSpec" => daemon_set(map),
        "apps.v1.DaemonSet" => template_generation(map),
        "batch.v1.Job" => job(map),
        "batch.v1.CronJobSpec" => {
            put(map, "concurrencyPolicy", "Allow");
            put(map, "suspend", false);
            put(map, "successfulJobsHistoryLimit", 3);
            put(map, "failedJobsHistoryLimit", 1);
        }
        "batch.v1.PodFailurePolicyOnPodConditionsPattern" => put(map, "status", "True"),
        "core.v1.ReplicationController" => replication_controller(map),
        "autoscaling.v2.HorizontalPodAutoscalerSpec" => autoscaler(map),
        "autoscaling.v1.HorizontalPodAutoscalerSpec" => put(map, "minReplicas", 1),
        _ => {}
    }
}

fn deployment(map: &mut Map<String, Value>) {
    put(map, "replicas", 1);
    if let Some(strategy) = sub(map, "strategy") {
        put(strategy, "type", "RollingUpdate");
        if text(strategy, "type") == "RollingUpdate"
            && let Some(rolling) = sub(strategy, "rollingUpdate")
        {
            put(rolling, "maxUnavailable", "25%");
            put(rolling, "maxSurge", "25%");
        }
    }
    put(map, "revisionHistoryLimit", 10);
    put(map, "progressDeadlineSeconds", 600);
}

fn stateful_set(map: &mut Map<String, Value>) {
    put(map, "podManagementPolicy", "OrderedReady");
    if let Some(strategy) = sub(map, "updateStrategy") {
        if unset(strategy, "type") {
            strategy.insert("type".into(), "RollingUpdate".into());
            put(strategy, "rollingUpdate", json!({}));
        }
        // A strategy that names its type may do without the details.
        if text(strategy, "type") == "RollingUpdate"
            && let Some(rolling) = strategy.get_mut("rollingUpdate").and_then(Value::as_object_mut)
        {
            put(rolling, "partition", 0);
        }
    }
    if let Some(policy) = sub(map, "persistentVolumeClaimRetentionPolicy") {
        put(policy, "whenDeleted", "Retain");
        put(policy, "whenScaled", "Retain");
    }
    put(map, "replicas", 1);
    put(map, "revisionHistoryLimit", 10);
    // Claims embedded in a stateful set are written with their type meta.
    for claim in super::objects(map, "volumeClaimTemplates") {
        put(claim, "apiVersion", "v1");
        put(claim, "kind", "PersistentVolumeClaim");
    }
}

fn daemon_set(map: &mut Map<String, Value>) {
    if let Some(strategy) = sub(map, "updateStrategy") {
        put(strategy, "type", "RollingUpdate");
        if text(strategy, "type") == "RollingUpdate"
            && let Some(rolling) = sub(strategy, "rollingUpdate")
        {
            put(rolling, "maxUnavailable", 1);
            put(rolling, "maxSurge", 0);
        }
    }
    put(map, "revisionHistoryLimit", 10);
}

/// A counter that an old API version had as a field lives on as an annotation.
fn template_generation(map: &mut Map<String, Value>) {
    if let Some(meta) = sub(map, "metadata")
        && let Some(annotations) = sub(meta, "annotations")
    {
        put(annotations, "deprecated.daemonset.template.generation", "0");
    }
}

fn job(map: &mut Map<String, Value>) {
    let Some(spec) = sub(map, "spec") else { return };
    if unset(spec, "completions") && unset(spec, "parallelism") {
        spec.insert("completions".into(), 1.into());
    }
    put(spec, "parallelism", 1);
    let limit = if unset(spec, "backoffLimitPerIndex") { 6 } else { i32::MAX };
    put(spec, "backoffLimit", limit);
    put(spec, "completionMode", "NonIndexed");
    put(spec, "suspend", false);
    let replacement = if unset(spec, "podFailurePolicy") { "TerminatingOrFailed" } else { "Failed" };
    put(spec, "podReplacementPolicy", replacement);
    put(spec, "manualSelector", false);
    let labels = spec.get("template").and_then(|t| t.pointer("/metadata/labels")).cloned();
    inherit_labels(map, labels);
}

/// An object without labels of its own takes those of its template.
fn inherit_labels(map: &mut Map<String, Value>, labels: Option<Value>) {
    let Some(labels) = labels.filter(Value::is_object) else { return };
    if let Some(meta) = sub(map, "metadata")
        && meta.get("labels").and_then(Value::as_object).is_none_or(Map::is_empty)
    {
        meta.insert("labels".into(), labels);
    }
}

fn replication_controller(map: &mut Map<String, Value>) {
    let Some(spec) = sub(map, "spec") else { return };
    let labels = spec.get("template").and_then(|t| t.pointer("/metadata/labels")).cloned();
    if let Some(labels) = labels.clone().filter(Value::is_object)
        && spec.get("selector").and_then(Value::as_object).is_none_or(Map::is_empty)
    {
        spec.insert("selector".into(), labels);
    }
    inherit_labels(map, labels);
}

fn autoscaler(map: &mut Map<String, Value>) {
    put(map, "minReplicas", 1);
    if map.get("metrics").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        let target = json!({"type": "Utilization", "averageUtilization": 80});
        let metric = json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
        map.insert("metrics".into(), json!([metric]));
    }
    let Some(behavior) = map.get_mut("behavior").and_then(Value::as_object_mut) else { return };
    if let Some(up) = sub(behavior, "scaleUp") {
        put(up, "stabilizationWindowSeconds", 0);
        put(up, "selectPolicy", "Max");
        put(
            up,
            "policies",
            json!([
                {"type": "Pods", "value": 4, "periodSeconds": 15},
                {"type": "Percent", "value": 100, "periodSeconds": 15},
            ]),
        );
    }
    if let Some(down) = sub(behavior, "scaleDown") {
        put(down, "selectPolicy", "Max");
        put(down, "policies", json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]));
    }
}
