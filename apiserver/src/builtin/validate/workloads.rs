//! Deployments, replica sets, stateful and daemon sets, jobs, cron jobs, autoscalers and disruption budgets.

use serde_json::{Map, Value, json};

use super::{immutable, list, meta, non_negative, pods, shown_selector, text};
use crate::{
    crd::cause::{child, forbidden, index, invalid, invalid_as, not_supported},
    status::Cause,
};

pub(super) fn check(kind: &str, new: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    match kind {
        "Deployment" => deployment(new, old, out),
        "ReplicaSet" => replica_set(new, old, out),
        "StatefulSet" => stateful_set(new, old, out),
        "DaemonSet" => daemon_set(new, old, out),
        "Job" => job(new, old, out),
        "CronJob" => cron_job(new, out),
        "HorizontalPodAutoscaler" => autoscaler(new, out),
        "PodDisruptionBudget" => disruption_budget(new, out),
        _ => {}
    }
}

fn deployment(new: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    let spec = &new["spec"];
    non_negative(new, "/spec/replicas", out);
    selector_and_template(spec, "deployment", out);
    strategy(&spec["strategy"], out);
    for pointer in ["/spec/minReadySeconds", "/spec/revisionHistoryLimit", "/spec/progressDeadlineSeconds"] {
        non_negative(new, pointer, out);
    }
    let number = |name: &str| spec.get(name).and_then(Value::as_i64).unwrap_or_default();
    if spec.get("progressDeadlineSeconds").is_some() && number("progressDeadlineSeconds") <= number("minReadySeconds") {
        let why = "must be greater than minReadySeconds";
        out.push(invalid("spec.progressDeadlineSeconds", &spec["progressDeadlineSeconds"], why));
    }
    if let Some(old) = old {
        immutable(new, old, "/spec/selector", out);
    }
}

fn strategy(strategy: &Value, out: &mut Vec<Cause>) {
    match text(strategy, "type") {
        "Recreate" => {
            if strategy.get("rollingUpdate").is_some() {
                let why = "may not be specified when strategy `type` is 'Recreate'";
                out.push(forbidden("spec.strategy.rollingUpdate", why));
            }
        }
        "RollingUpdate" => {
            let zero = |v: &Value| *v == 0 || v == "0%";
            let (surge, unavailable) =
                (&strategy["rollingUpdate"]["maxSurge"], &strategy["rollingUpdate"]["maxUnavailable"]);
            for (name, value) in [("maxUnavailable", unavailable), ("maxSurge", surge)] {
                int_or_percent(value, &child("spec.strategy.rollingUpdate", name), out);
            }
            if zero(surge) && zero(unavailable) {
                let why = "may not be 0 when `maxSurge` is 0";
                out.push(invalid("spec.strategy.rollingUpdate.maxUnavailable", unavailable, why));
            }
        }
        _ => out.push(not_supported("spec.strategy", strategy, &["Recreate", "RollingUpdate"].map(str::to_owned))),
    }
}

fn int_or_percent(value: &Value, at: &str, out: &mut Vec<Cause>) {
    match value {
        Value::Number(n) if n.as_i64().is_some_and(|n| n < 0) => {
            out.push(invalid(at, value, "must be greater than or equal to 0"));
        }
        Value::String(text) => {
            let digits = text.strip_suffix('%').filter(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()));
            if digits.is_none() {
                let why = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
                out.push(invalid(at, value, why));
            }
        }
        _ => {}
    }
}

fn replica_set(new: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    non_negative(new, "/spec/replicas", out);
    non_negative(new, "/spec/minReadySeconds", out);
    selector_and_template(&new["spec"], "deployment", out);
    if let Some(old) = old {
        immutable(new, old, "/spec/selector", out);
    }
}

fn daemon_set(new: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    selector_and_template(&new["spec"], "daemonset", out);
    non_negative(new, "/spec/minReadySeconds", out);
    if let Some(old) = old {
        immutable(new, old, "/spec/selector", out);
    }
}

fn stateful_set(new: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    let spec = &new["spec"];
    let policy = text(spec, "podManagementPolicy");
    if !matches!(policy, "OrderedReady" | "Parallel") {
        let why = "must be 'OrderedReady' or 'Parallel'";
        out.push(invalid("spec.podManagementPolicy", &Value::from(policy), why));
    }
    non_negative(new, "/spec/replicas", out);
    non_negative(new, "/spec/minReadySeconds", out);
    // Volumes of the claim templates are added by the controller, so that mounts of them are good.
    let mut with_claims = spec.clone();
    let claims = list(spec, "volumeClaimTemplates");
    if let Some(pod) = with_claims.pointer_mut("/template/spec").and_then(Value::as_object_mut) {
        let volumes = pod.entry("volumes").or_insert_with(|| json!([]));
        if let Some(volumes) = volumes.as_array_mut() {
            for claim in claims {
                let name = &claim["metadata"]["name"];
                if !volumes.iter().any(|v| &v["name"] == name) {
                    volumes.push(json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
                }
            }
        }
    }
    selector_and_template(&with_claims, "statefulset", out);
    if let Some(old) = old {
        const MUTABLE: [&str; 7] = [
            "replicas",
            "ordinals",
            "template",
            "updateStrategy",
            "revisionHistoryLimit",
            "persistentVolumeClaimRetentionPolicy",
            "minReadySeconds",
        ];
        let fixed = |object: &Value| -> Map<String, Value> {
            let fields = object["spec"].as_object().into_iter().flatten();
            fields.filter(|(name, _)| !MUTABLE.contains(&name.as_str())).map(|(n, v)| (n.clone(), v.clone())).collect()
        };
        if fixed(new) != fixed(old) {
            let why = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
                       'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
            out.push(forbidden("spec", why));
        }
    }
}

/// The selector must be there, be valid and match the template, whose pods must restart.
fn selector_and_template(spec: &Value, kind: &str, out: &mut Vec<Cause>) {
    let selector = &spec["selector"];
    let template = &spec["template"];
    if selector.is_null() && kind != "daemonset" {
        out.push(Cause::required("spec.selector", ""));
    } else if !selector.is_null() {
        label_selector(selector, "spec.selector", out);
        if selector_is_empty(selector) {
            let why = format!("empty selector is invalid for {kind}");
            out.push(invalid_as("spec.selector", &shown_selector(selector), &why));
        }
    }
    let labels = &template["metadata"]["labels"];
    // Daemon sets go on to their template, and say nothing more of the selector.
    if !is_readable(selector) && kind != "daemonset" {
        let why = if kind == "deployment" { "invalid label selector" } else { "" };
        let tail = if why.is_empty() { String::new() } else { format!(": {why}") };
        let message = format!("Invalid value: {}{tail}", shown_selector(selector));
        out.push(Cause::new("FieldValueInvalid", "spec.selector", message));
        return;
    }
    // No selector at all selects nothing, whereas an empty one has been reported already.
    let misses = selector.is_null() || (!selector_is_empty(selector) && !selects(selector, labels));
    if misses && is_readable(selector) {
        let why = "`selector` does not match template `labels`";
        out.push(invalid("spec.template.metadata.labels", labels, why));
    }
    pods::template(template, "spec.template", out);
    let policy = text(&template["spec"], "restartPolicy");
    if policy != "Always" {
        let at = "spec.template.spec.restartPolicy";
        out.push(not_supported(at, &Value::from(policy), &["Always".to_owned()]));
    }
    if template["spec"].get("activeDeadlineSeconds").is_some() {
        let owner = match kind {
            "statefulset" => "StatefulSet",
            "daemonset" => "DaemonSet",
            _ => "ReplicaSet",
        };
        let why = format!("activeDeadlineSeconds in {owner} is not Supported");
        out.push(forbidden("spec.template.spec.activeDeadlineSeconds", &why));
    }
}

fn selector_is_empty(selector: &Value) -> bool {
    let labels = selector.get("matchLabels").and_then(Value::as_object).is_none_or(Map::is_empty);
    labels && list(selector, "matchExpressions").is_empty()
}

/// Whether every term has a known operator and as many values as it takes.
fn is_readable(selector: &Value) -> bool {
    list(selector, "matchExpressions").iter().all(|term| match text(term, "operator") {
        "In" | "NotIn" => !list(term, "values").is_empty(),
        "Exists" | "DoesNotExist" => list(term, "values").is_empty(),
        _ => false,
    })
}

/// Judges a label selector.
pub(super) fn label_selector(selector: &Value, at: &str, out: &mut Vec<Cause>) {
    meta::labels(&selector["matchLabels"], &child(at, "matchLabels"), out);
    for (i, term) in list(selector, "matchExpressions").iter().enumerate() {
        let here = index(&child(at, "matchExpressions"), i);
        let values = list(term, "values");
        match text(term, "operator") {
            "In" | "NotIn" if values.is_empty() => {
                let why = "must be specified when `operator` is 'In' or 'NotIn'";
                out.push(Cause::required(child(&here, "values"), why));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                out.push(forbidden(child(&here, "values"), why));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                let why = "not a valid selector operator";
                out.push(invalid(child(&here, "operator"), &Value::from(other), why));
            }
        }
        let name = text(term, "key");
        out.extend(meta::qualified_name(name).iter().map(|why| invalid(child(&here, "key"), &Value::from(name), why)));
    }
}

fn selects(selector: &Value, labels: &Value) -> bool {
    let equal = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
    let mut equal = equal.map(|(name, value)| labels.get(name) == Some(value));
    let mut terms = list(selector, "matchExpressions").iter().map(|term| {
        let found = labels.get(text(term, "key"));
        let listed = found.is_some_and(|value| list(term, "values").contains(value));
        match text(term, "operator") {
            "In" => listed,
            "NotIn" => !listed,
            "Exists" => found.is_some(),
            "DoesNotExist" => found.is_none(),
            _ => true,
        }
    });
    equal.all(|ok| ok) && terms.all(|ok| ok)
}

fn job(new: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    for name in ["parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"] {
        non_negative(new, &format!("/spec/{name}"), out);
    }
    job_spec(&new["spec"], "spec", out);
    let selector = &new["spec"]["selector"];
    let labels = &new["spec"]["template"]["metadata"]["labels"];
    if selector.is_null() {
        out.push(Cause::required("spec.selector", ""));
    } else {
        label_selector(selector, "spec.selector", out);
    }
    if selector.is_null() || !selects(selector, labels) {
        let why = "`selector` does not match template `labels`";
        out.push(invalid("spec.template.metadata.labels", labels, why));
    }
    let Some(old) = old else { return };
    for name in ["selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"]
    {
        immutable(new, old, &format!("/spec/{name}"), out);
    }
    // Indexed jobs may be resized together with their parallelism; suspended jobs that never started may be rescheduled.
    let elastic =
        new["spec"]["completionMode"] == "Indexed" && new["spec"]["completions"] == new["spec"]["parallelism"];
    if !elastic {
        immutable(new, old, "/spec/completions", out);
    }
    let dormant = old["spec"]["suspend"] == true && old["status"].get("startTime").is_none();
    let settled = |object: &Value| {
        let mut template = object["spec"]["template"].clone();
        if dormant {
            for pointer in [
                "/metadata/labels",
                "/metadata/annotations",
                "/spec/nodeSelector",
                "/spec/tolerations",
                "/spec/affinity",
                "/spec/schedulingGates",
            ] {
                if let Some(found) = template.pointer_mut(pointer) {
                    *found = Value::Null;
                }
            }
        }
        template
    };
    if settled(new) != settled(old) {
        out.push(invalid("spec.template", &new["spec"]["template"], "field is immutable"));
    }
}

fn job_spec(spec: &Value, path: &str, out: &mut Vec<Cause>) {
    let at = child(path, "template");
    pods::template(&spec["template"], &at, out);
    let policy = text(&spec["template"]["spec"], "restartPolicy");
    if !matches!(policy, "OnFailure" | "Never") {
        let at = child(&at, "spec.restartPolicy");
        out.push(if policy == "Always" {
            Cause::required(at, "valid values: \"OnFailure\", \"Never\"")
        } else {
            not_supported(at, &Value::from(policy), &["OnFailure", "Never"].map(str::to_owned))
        });
    }
}

fn cron_job(new: &Value, out: &mut Vec<Cause>) {
    let spec = &new["spec"];
    let schedule = text(spec, "schedule");
    if schedule.is_empty() {
        out.push(Cause::required("spec.schedule", ""));
    } else if !schedule.starts_with('@') && schedule.split_whitespace().count() != 5 {
        let found = schedule.split_whitespace().count();
        let shown: Vec<&str> = schedule.split_whitespace().collect();
        let why = format!("expected exactly 5 fields, found {found}: [{}]", shown.join(" "));
        out.push(invalid("spec.schedule", &spec["schedule"], &why));
    }
    for name in ["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        non_negative(new, &format!("/spec/{name}"), out);
    }
    let policy = text(spec, "concurrencyPolicy");
    if !matches!(policy, "Allow" | "Forbid" | "Replace") {
        let known = ["Allow", "Forbid", "Replace"].map(str::to_owned);
        out.push(not_supported("spec.concurrencyPolicy", &Value::from(policy), &known));
    }
    job_spec(&spec["jobTemplate"]["spec"], "spec.jobTemplate.spec", out);
}

fn autoscaler(new: &Value, out: &mut Vec<Cause>) {
    let spec = &new["spec"];
    for name in ["kind", "name"] {
        if text(&spec["scaleTargetRef"], name).is_empty() {
            out.push(Cause::required(child("spec.scaleTargetRef", name), ""));
        }
    }
    let (min, max) = (spec["minReplicas"].as_i64().unwrap_or(1), spec["maxReplicas"].as_i64().unwrap_or_default());
    if min < 1 {
        out.push(invalid("spec.minReplicas", &json!(min), "must be greater than or equal to 1"));
    }
    if max < 1 {
        out.push(invalid("spec.maxReplicas", &json!(max), "must be greater than 0"));
    }
    if max < min {
        out.push(invalid("spec.maxReplicas", &json!(max), "must be greater than or equal to `minReplicas`"));
    }
}

fn disruption_budget(new: &Value, out: &mut Vec<Cause>) {
    let spec = &new["spec"];
    if spec.get("minAvailable").is_some() && spec.get("maxUnavailable").is_some() {
        let why = "minAvailable and maxUnavailable cannot be both set";
        out.push(invalid(
            "spec",
            &json!({"minAvailable": spec["minAvailable"], "maxUnavailable": spec["maxUnavailable"]}),
            why,
        ));
    }
    for name in ["minAvailable", "maxUnavailable"] {
        int_or_percent(&spec[name], &child("spec", name), out);
    }
    label_selector(&spec["selector"], "spec.selector", out);
}
