//! Claims and volumes.

use serde_json::{Value, json};

use super::Cluster;
use crate::controllers::{kinds, object::text};

fn claim(name: &str, spec: Value) -> Value {
    let mut claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", "finalizers": ["kubernetes.io/pvc-protection"]},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    for (key, value) in spec.as_object().unwrap() {
        claim["spec"][key.as_str()] = value.clone();
    }
    claim
}

#[test]
fn a_claim_is_bound_grown_and_reclaimed() {
    let mut cluster = Cluster::start();
    cluster.create(claim("data", json!({"storageClassName": "standard"})));
    cluster.settle();
    let bound = cluster.get(&kinds::claims(), "data").unwrap();
    assert_eq!(text(&bound, "/status/phase"), "Bound");
    let volume = cluster.get(&kinds::volumes(), text(&bound, "/spec/volumeName")).unwrap();
    assert_eq!(text(&volume, "/status/phase"), "Bound");
    assert_eq!(text(&volume, "/spec/claimRef/uid"), text(&bound, "/metadata/uid"));
    cluster.patch(&kinds::claims(), "data", json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}}));
    cluster.settle();
    assert_eq!(text(&cluster.get(&kinds::claims(), "data").unwrap(), "/status/capacity/storage"), "2Gi");
    cluster.delete(&kinds::claims(), "data", json!({}));
    cluster.settle();
    assert!(cluster.list(&kinds::claims()).is_empty() && cluster.list(&kinds::volumes()).is_empty());
}

#[test]
fn a_static_volume_is_taken_and_released() {
    let mut cluster = Cluster::start();
    cluster.create(claim("static", json!({"storageClassName": ""})));
    cluster.settle();
    let waiting = cluster.get(&kinds::claims(), "static").unwrap();
    assert_eq!(text(&waiting, "/status/phase"), "Pending", "an empty class is not provisioned for");
    cluster.create(json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"},
        "spec": {"capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Retain"},
    }));
    cluster.settle();
    let bound = cluster.get(&kinds::claims(), "static").unwrap();
    assert_eq!((text(&bound, "/spec/volumeName"), text(&bound, "/status/capacity/storage")), ("disk", "5Gi"));
    cluster.delete(&kinds::claims(), "static", json!({}));
    cluster.settle();
    assert_eq!(text(&cluster.get(&kinds::volumes(), "disk").unwrap(), "/status/phase"), "Released");
}

#[test]
fn a_claim_in_use_stays_until_its_pod_is_gone() {
    let mut cluster = Cluster::start();
    cluster.create(claim("data", json!({})));
    cluster.create(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "user", "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": "app:1"}],
                 "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]},
    }));
    cluster.settle();
    cluster.delete(&kinds::claims(), "data", json!({}));
    cluster.settle();
    assert!(cluster.get(&kinds::claims(), "data").is_some());
    cluster.delete(&kinds::pods(), "user", json!({}));
    cluster.settle();
    assert!(cluster.get(&kinds::claims(), "data").is_none());
}
