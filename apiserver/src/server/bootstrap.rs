//! The objects that a cluster has before anybody has done anything.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    captured,
    clock::rfc3339_seconds,
    discovery::{self, ResourceType},
    pipeline::Cluster,
    resource::Gvk,
};

/// Recorded lists, in the order in which their objects are made.
const RECORDED: [&str; 10] = [
    "namespaces",
    "priorityclasses",
    "clusterroles",
    "clusterrolebindings",
    "roles",
    "rolebindings",
    "flowschemas",
    "apiservices",
    "servicecidrs",
    "services",
];

/// The network of cluster IPs, and the first address in it.
const SERVICE_CIDR: &str = "10.96.0.0/16";
const KUBERNETES_IP: &str = "10.96.0.1";

/// The one node of the cluster.
const NODE: &str = "node-1";

/// Fills an empty cluster.
pub(super) fn fill(cluster: &Cluster) {
    cluster.seed(templates());
}

/// All objects with their types, without uids and times; read once per process.
fn templates() -> &'static [(Arc<ResourceType>, Value)] {
    static ALL: OnceLock<Vec<(Arc<ResourceType>, Value)>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut out = Vec::new();
        for name in RECORDED {
            out.extend(recorded(name));
        }
        for object in [storage_class(), node()] {
            out.extend(typed(object));
        }
        out
    })
}

fn recorded(name: &str) -> Vec<(Arc<ResourceType>, Value)> {
    let Some(list) = captured::json(&format!("bootstrap/{name}.json")) else { return Vec::new() };
    let api_version = list["apiVersion"].clone();
    let kind = list["kind"].as_str().unwrap_or_default().trim_end_matches("List").to_owned();
    let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let complete = |item: &Value| {
        let mut object = item.clone();
        object["apiVersion"] = api_version.clone();
        object["kind"] = kind.as_str().into();
        typed(own(object))
    };
    items.iter().filter_map(complete).collect()
}

/// The recorded server had other addresses.
fn own(mut object: Value) -> Value {
    match object["kind"].as_str() {
        Some("Service") => {
            object["spec"]["clusterIP"] = KUBERNETES_IP.into();
            object["spec"]["clusterIPs"] = json!([KUBERNETES_IP]);
        }
        Some("ServiceCIDR") => object["spec"]["cidrs"] = json!([SERVICE_CIDR]),
        _ => {}
    }
    object
}

fn typed(object: Value) -> Option<(Arc<ResourceType>, Value)> {
    let kind = Gvk::parse(object["apiVersion"].as_str()?, object["kind"].as_str()?);
    Some((discovery::type_of_kind(&kind)?, object))
}

/// What a cluster has from whoever set it up, and not from its API server: the default StorageClass and the node. For
/// servers that the simulated kubelet works with from outside.
#[must_use]
pub fn local_objects(now: Timestamp) -> [Value; 2] {
    let mut objects = [storage_class(), node()];
    for object in &mut objects {
        stamp_times(object, &rfc3339_seconds(now));
    }
    objects
}

fn storage_class() -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {
            "name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "reconverge.dev/simulated", "reclaimPolicy": "Delete", "allowVolumeExpansion": true,
        "volumeBindingMode": "Immediate",
    })
}

fn node() -> Value {
    let conditions: Vec<Value> = [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ]
    .into_iter()
    .map(|(kind, status, reason, message)| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": "", "lastTransitionTime": "",
        })
    })
    .collect();
    let labels: BTreeMap<&str, &str> = BTreeMap::from([
        ("beta.kubernetes.io/arch", "amd64"),
        ("beta.kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", "amd64"),
        ("kubernetes.io/hostname", NODE),
        ("kubernetes.io/os", "linux"),
    ]);
    let resources = json!({"cpu": "32", "memory": "256Gi", "pods": "1000", "ephemeral-storage": "1Ti"});
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "labels": labels},
        "spec": {"podCIDR": "10.244.0.0/16", "podCIDRs": ["10.244.0.0/16"]},
        "status": {
            "capacity": resources, "allocatable": resources, "conditions": conditions,
            "addresses": [
                {"type": "InternalIP", "address": "192.168.0.1"}, {"type": "Hostname", "address": NODE},
            ],
            "nodeInfo": {
                "kubeletVersion": format!("v{}", captured::VERSION), "operatingSystem": "linux", "architecture": "amd64",
                "containerRuntimeVersion": "simulated://1", "kernelVersion": "", "osImage": "", "machineID": "",
                "systemUUID": "", "bootID": "", "kubeProxyVersion": "",
            },
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        },
    })
}

/// Every time in a template is the time of the cluster's start.
pub(crate) fn stamp_times(value: &mut Value, now: &str) {
    const TIMES: [&str; 5] = ["creationTimestamp", "time", "lastTransitionTime", "lastHeartbeatTime", "lastUpdateTime"];
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                if inner.is_string() && TIMES.contains(&key.as_str()) {
                    *inner = now.into();
                } else {
                    stamp_times(inner, now);
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|v| stamp_times(v, now)),
        _ => {}
    }
}

impl Cluster {
    /// Stores ready-made objects with fresh uids and times, past admission and validation.
    pub(crate) fn seed(&self, objects: &[(Arc<ResourceType>, Value)]) {
        self.transact(|tx| {
            let now = rfc3339_seconds(tx.now);
            for (kind, template) in objects {
                let mut object = template.clone();
                stamp_times(&mut object, &now);
                object["metadata"]["uid"] = tx.cluster.entropy.uuid().into();
                object["metadata"]["creationTimestamp"] = now.as_str().into();
                let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
                let key = kind.key(&namespace, &name);
                tx.put(kind, &key, object);
            }
        });
    }
}
