//! What a default server adds to pods: service account and its token volume, priority, tolerations.

use serde_json::{Value, json};

use crate::status::ApiError;

use super::super::{call::Call, checks, cluster::Tx, meta};

const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Default tolerance of a lost node, in seconds.
const TOLERATION_SECONDS: i64 = 300;

/// Admits a new pod.
pub(crate) fn admit(tx: &Tx<'_>, call: &Call, pod: &mut Value) -> Result<(), ApiError> {
    service_account(tx, call, pod)?;
    priority(tx, call, pod)?;
    tolerations(pod);
    Ok(())
}

fn service_account(tx: &Tx<'_>, call: &Call, pod: &mut Value) -> Result<(), ApiError> {
    let mirror = meta::field(pod, "annotations").and_then(|a| a.get("kubernetes.io/config.mirror")).is_some();
    if mirror {
        return Ok(());
    }
    let pod_name = meta::name(pod).to_owned();
    let spec = meta::map_at(pod, "spec");
    let text = |key: &str| spec.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut name = text("serviceAccountName");
    if name.is_empty() {
        name = text("serviceAccount");
    }
    if name.is_empty() {
        name = "default".into();
    }
    spec.insert("serviceAccountName".into(), name.as_str().into());
    spec.insert("serviceAccount".into(), name.as_str().into());
    let key = format!("{}/{name}", call.namespace);
    let Some(account) = tx.lookup("serviceaccounts", &key) else {
        let why = format!("error looking up service account {key}: serviceaccount \"{name}\" not found");
        return Err(checks::forbidden(call, &pod_name, &why));
    };
    let wants = spec.get("automountServiceAccountToken").and_then(Value::as_bool);
    let wants = wants.or_else(|| account.get("automountServiceAccountToken").and_then(Value::as_bool));
    if wants.unwrap_or(true) {
        mount_token(tx, spec);
    }
    let secrets = account.get("imagePullSecrets").filter(|s| s.as_array().is_some_and(|a| !a.is_empty()));
    let own = spec.get("imagePullSecrets").and_then(Value::as_array).is_some_and(|a| !a.is_empty());
    if let (Some(secrets), false) = (secrets, own) {
        spec.insert("imagePullSecrets".into(), secrets.clone());
    }
    Ok(())
}

/// Mounts a projected token volume into every container that has nothing at its path.
fn mount_token(tx: &Tx<'_>, spec: &mut serde_json::Map<String, Value>) {
    let volume = format!("kube-api-access-{}", tx.cluster.entropy.suffix(5));
    let mut used = false;
    for list in ["initContainers", "containers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let mounts = meta::as_map(container).entry("volumeMounts").or_insert_with(|| json!([]));
            if let Some(mounts) = mounts.as_array_mut()
                && !mounts.iter().any(|m| m["mountPath"] == TOKEN_PATH)
            {
                mounts.push(json!({"name": volume, "readOnly": true, "mountPath": TOKEN_PATH}));
                used = true;
            }
        }
    }
    if !used {
        return;
    }
    let field = json!({"apiVersion": "v1", "fieldPath": "metadata.namespace"});
    let source = json!({"name": volume, "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": field}]}},
    ]}});
    if let Some(volumes) = spec.entry("volumes").or_insert_with(|| json!([])).as_array_mut() {
        volumes.push(source);
    }
}

fn priority(tx: &Tx<'_>, call: &Call, pod: &mut Value) -> Result<(), ApiError> {
    let pod_name = meta::name(pod).to_owned();
    let spec = meta::map_at(pod, "spec");
    let name = spec.get("priorityClassName").and_then(Value::as_str).unwrap_or_default().to_owned();
    let classes = tx.state.store.objects("priorityclasses.scheduling.k8s.io");
    let class = if name.is_empty() {
        // Of several global defaults the lowest counts.
        let global = classes.values().filter(|c| c["globalDefault"] == true);
        global.min_by_key(|c| c["value"].as_i64().unwrap_or(0)).cloned()
    } else {
        let Some(found) = classes.get(&name) else {
            let why = format!("no PriorityClass with name {name} was found");
            return Err(checks::forbidden(call, &pod_name, &why));
        };
        Some(found.clone())
    };
    let (value, policy) = class.as_ref().map_or((0, "PreemptLowerPriority".to_owned()), |c| {
        let policy = c["preemptionPolicy"].as_str().unwrap_or("PreemptLowerPriority");
        (c["value"].as_i64().unwrap_or(0), policy.to_owned())
    });
    if let (true, Some(class)) = (name.is_empty(), &class) {
        spec.insert("priorityClassName".into(), meta::name(class).into());
    }
    spec.insert("priority".into(), value.into());
    spec.entry("preemptionPolicy").or_insert_with(|| policy.into());
    Ok(())
}

fn tolerations(pod: &mut Value) {
    let spec = meta::map_at(pod, "spec");
    let Some(list) = spec.entry("tolerations").or_insert_with(|| json!([])).as_array_mut() else { return };
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = list.iter().any(|t| {
            let of_key = t["key"] == key || t["key"].as_str().unwrap_or_default().is_empty();
            of_key && (t["effect"] == "NoExecute" || t["effect"].as_str().unwrap_or_default().is_empty())
        });
        if !tolerated {
            list.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_SECONDS,
            }));
        }
    }
}
