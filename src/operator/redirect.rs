//! What is added to an operator's Deployment so that its requests arrive at the fault proxy.
//!
//! # Guarantees
//! Image, command and arguments stay as they are. A variable that the Deployment sets itself is replaced, since two of
//! one name would leave it open which is in force.

use std::{collections::BTreeMap, net::IpAddr};

use serde_json::{Map, Value, json};

use crate::scenario::plan::DeploymentPlan;

/// Holds the proxy's authority where the cluster's own does not sign it.
const AUTHORITY: &str = "reconverge-proxy-authority";
/// Where every in-cluster client looks for its token and its trust.
const ACCESS_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// What operators call the API server that do not ask their environment.
pub const NAMES: [&str; 4] =
    ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"];

/// Where the proxy listens, as pods see it.
#[derive(Debug, Clone)]
pub struct Front {
    pub address: IpAddr,
    pub port: u16,
    /// The proxy's own authority, which pods must be given; `None`: the cluster's signed it, which they trust already.
    pub authority_pem: Option<String>,
}

/// The objects to apply: the Deployment, and before it what it needs beside. `local` are the images that were loaded from
/// this machine.
#[must_use]
pub fn redirected(
    plan: &DeploymentPlan,
    env: &BTreeMap<String, String>,
    local: &[String],
    front: &Front,
) -> Vec<Value> {
    let mut object = plan.object.clone();
    let mut objects = Vec::new();
    let added = variables(env, front);
    if let Some(pod) = object.pointer_mut("/spec/template/spec").and_then(Value::as_object_mut) {
        for kind in ["initContainers", "containers"] {
            for container in pod.get_mut(kind).and_then(Value::as_array_mut).into_iter().flatten() {
                set_variables(container, &added);
                keep_local(container, local);
                if front.authority_pem.is_some() {
                    push(
                        container,
                        "volumeMounts",
                        json!({"name": AUTHORITY, "mountPath": ACCESS_PATH, "readOnly": true}),
                    );
                }
            }
        }
        if plan.fixed_address {
            push_to(pod, "hostAliases", json!({"ip": front.address, "hostnames": NAMES}));
        }
        if let Some(pem) = &front.authority_pem {
            pod.insert("automountServiceAccountToken".into(), false.into());
            push_to(pod, "volumes", access_volume());
            objects.push(json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": AUTHORITY, "namespace": plan.namespace},
                "data": {"ca.crt": pem},
            }));
        }
    }
    objects.push(object);
    objects
}

fn variables(env: &BTreeMap<String, String>, front: &Front) -> BTreeMap<String, String> {
    let port = front.port.to_string();
    let mut all = env.clone();
    all.insert("KUBERNETES_SERVICE_HOST".into(), front.address.to_string());
    all.insert("KUBERNETES_SERVICE_PORT".into(), port.clone());
    all.insert("KUBERNETES_SERVICE_PORT_HTTPS".into(), port);
    all
}

fn set_variables(container: &mut Value, added: &BTreeMap<String, String>) {
    let Some(container) = container.as_object_mut() else { return };
    let list = container.entry("env").or_insert_with(|| json!([]));
    let Some(list) = list.as_array_mut() else { return };
    list.retain(|entry| entry.get("name").and_then(Value::as_str).is_none_or(|name| !added.contains_key(name)));
    list.extend(added.iter().map(|(name, value)| json!({"name": name, "value": value})));
}

/// An image that was loaded from this machine is in no registry.
fn keep_local(container: &mut Value, local: &[String]) {
    let is_local = container.get("image").and_then(Value::as_str).is_some_and(|image| local.iter().any(|l| l == image));
    if let Some(container) = container.as_object_mut().filter(|_| is_local) {
        container.insert("imagePullPolicy".into(), "IfNotPresent".into());
    }
}

/// What the kubelet would mount, with another authority.
fn access_volume() -> Value {
    json!({"name": AUTHORITY, "projected": {"sources": [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
        {"configMap": {"name": AUTHORITY, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]}})
}

fn push(object: &mut Value, list: &str, item: Value) {
    if let Some(object) = object.as_object_mut() {
        push_to(object, list, item);
    }
}

fn push_to(object: &mut Map<String, Value>, list: &str, item: Value) {
    if let Some(list) = object.entry(list).or_insert_with(|| json!([])).as_array_mut() {
        list.push(item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> DeploymentPlan {
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "op", "namespace": "system"},
            "spec": {"template": {"spec": {
                "initContainers": [{"name": "wait", "image": "busybox"}],
                "containers": [{
                    "name": "op", "image": "op:1", "args": ["--v=2"],
                    "env": [{"name": "KUBERNETES_SERVICE_HOST", "value": "10.0.0.1"}, {"name": "POD", "value": "x"}],
                }],
            }}},
        });
        DeploymentPlan {
            namespace: "system".into(),
            name: "op".into(),
            object,
            images: vec!["op:1".into()],
            fixed_address: false,
        }
    }

    fn front(authority_pem: Option<&str>) -> Front {
        Front { address: "172.17.0.1".parse().unwrap(), port: 4433, authority_pem: authority_pem.map(str::to_owned) }
    }

    #[test]
    fn every_container_finds_the_proxy_in_its_environment() {
        let env = BTreeMap::from([("BUG".to_owned(), "none".to_owned())]);
        let objects = redirected(&plan(), &env, &plan().images, &front(None));
        let [deployment] = objects.as_slice() else { panic!("{objects:?}") };
        let pod = &deployment["spec"]["template"]["spec"];
        let wanted = json!([
            {"name": "BUG", "value": "none"},
            {"name": "KUBERNETES_SERVICE_HOST", "value": "172.17.0.1"},
            {"name": "KUBERNETES_SERVICE_PORT", "value": "4433"},
            {"name": "KUBERNETES_SERVICE_PORT_HTTPS", "value": "4433"},
        ]);
        assert_eq!(pod["initContainers"][0]["env"], wanted);
        let mut own = vec![json!({"name": "POD", "value": "x"})];
        own.extend(wanted.as_array().unwrap().iter().cloned());
        assert_eq!(pod["containers"][0]["env"], json!(own));
        assert_eq!(pod["containers"][0]["args"], json!(["--v=2"]));
        assert_eq!(pod["containers"][0]["imagePullPolicy"], "IfNotPresent");
        assert!(pod["initContainers"][0].get("imagePullPolicy").is_none());
        assert!(pod.get("hostAliases").is_none() && pod.get("volumes").is_none());
    }

    #[test]
    fn fixed_names_and_a_foreign_authority_are_given_to_the_pod() {
        let plan = DeploymentPlan { fixed_address: true, ..plan() };
        let objects = redirected(&plan, &BTreeMap::new(), &[], &front(Some("PEM")));
        let [authority, deployment] = objects.as_slice() else { panic!("{objects:?}") };
        assert_eq!(authority["data"]["ca.crt"], "PEM");
        let pod = &deployment["spec"]["template"]["spec"];
        assert_eq!(pod["hostAliases"][0]["ip"], "172.17.0.1");
        assert_eq!(pod["automountServiceAccountToken"], false);
        assert_eq!(pod["containers"][0]["volumeMounts"][0]["mountPath"], ACCESS_PATH);
        assert_eq!(pod["volumes"][0]["projected"]["sources"][1]["configMap"]["name"], AUTHORITY);
    }
}
