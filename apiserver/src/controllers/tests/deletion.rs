//! Garbage collection and namespaces.

use serde_json::{Value, json};

use super::{Cluster, workload};
use crate::{
    controllers::{
        Client as _, kinds,
        object::{list, text, uid},
    },
    resource::Gvr,
};

fn widgets() -> Gvr {
    Gvr::new("example.com", "v1", "widgets")
}

fn widget(cluster: &Cluster, name: &str) -> Value {
    cluster.create(json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name, "namespace": "default"},
    }))
}

fn child(cluster: &Cluster, name: &str, namespace: &str, owners: &[&Value]) -> Value {
    let owners: Vec<Value> = owners
        .iter()
        .map(|o| {
            json!({
                "apiVersion": o["apiVersion"], "kind": o["kind"], "name": o["metadata"]["name"], "uid": uid(o),
                "controller": false, "blockOwnerDeletion": true,
            })
        })
        .collect();
    cluster.create(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "ownerReferences": owners},
    }))
}

fn has(cluster: &Cluster, name: &str) -> bool {
    cluster.get(&kinds::config_maps(), name).is_some()
}

#[test]
fn background_deletion_takes_dependents_with_their_last_owner() {
    let mut cluster = Cluster::start();
    let (a, b) = (widget(&cluster, "a"), widget(&cluster, "b"));
    child(&cluster, "of-a", "default", &[&a]);
    child(&cluster, "of-both", "default", &[&a, &b]);
    cluster.settle();
    cluster.delete(&widgets(), "a", json!({}));
    cluster.settle();
    assert!(!has(&cluster, "of-a"));
    let both = cluster.get(&kinds::config_maps(), "of-both").unwrap();
    assert_eq!(list(&both, "/metadata/ownerReferences").len(), 1, "the reference to the absent owner goes");
    cluster.delete(&widgets(), "b", json!({}));
    cluster.settle();
    assert!(!has(&cluster, "of-both"));
}

#[test]
fn foreground_deletion_waits_for_blocking_dependents() {
    let mut cluster = Cluster::start();
    let owner = widget(&cluster, "a");
    let mut kept = child(&cluster, "child", "default", &[&owner]);
    kept["metadata"]["finalizers"] = json!(["example.com/hold"]);
    cluster.api.update(&kinds::config_maps(), "", &kept).unwrap();
    cluster.settle();
    cluster.delete(&widgets(), "a", json!({"propagationPolicy": "Foreground"}));
    cluster.settle();
    let held = cluster.get(&kinds::config_maps(), "child").unwrap();
    assert!(!text(&held, "/metadata/deletionTimestamp").is_empty(), "the dependent goes first");
    assert!(cluster.get(&widgets(), "a").is_some(), "the owner waits for it");
    cluster.patch(&kinds::config_maps(), "child", json!({"metadata": {"finalizers": null}}));
    cluster.settle();
    assert!(cluster.get(&widgets(), "a").is_none() && !has(&cluster, "child"));
}

#[test]
fn orphaning_keeps_dependents_without_reference() {
    let mut cluster = Cluster::start();
    let owner = widget(&cluster, "a");
    child(&cluster, "child", "default", &[&owner]);
    cluster.settle();
    cluster.delete(&widgets(), "a", json!({"propagationPolicy": "Orphan"}));
    cluster.settle();
    assert!(cluster.get(&widgets(), "a").is_none());
    let child = cluster.get(&kinds::config_maps(), "child").unwrap();
    assert!(child["metadata"].get("ownerReferences").is_none());
}

#[test]
fn an_owner_elsewhere_or_of_another_uid_is_absent() {
    let mut cluster = Cluster::start();
    cluster.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}));
    let owner = widget(&cluster, "a");
    let realm = cluster.create(json!({"apiVersion": "example.com/v1", "kind": "Realm", "metadata": {"name": "r"}}));
    child(&cluster, "across", "other", &[&owner]);
    child(&cluster, "of-realm", "other", &[&realm]);
    let mut impostor = owner.clone();
    impostor["metadata"]["uid"] = json!("00000000-0000-4000-8000-000000000000");
    child(&cluster, "stale", "default", &[&impostor]);
    cluster.settle();
    let left = cluster.names(&kinds::config_maps());
    assert!(!left.contains(&"across".into()), "a namespaced owner is looked up in the child's namespace");
    assert!(left.contains(&"of-realm".into()), "a cluster-scoped owner is not");
    assert!(!left.contains(&"stale".into()));
}

#[test]
fn an_owner_of_an_unknown_kind_keeps_its_dependents() {
    let mut cluster = Cluster::start();
    let owner = json!({"apiVersion": "gone.example.com/v1", "kind": "Gone", "metadata": {"name": "g", "uid": "u"}});
    child(&cluster, "child", "default", &[&owner]);
    cluster.settle();
    assert!(has(&cluster, "child"));
}

#[test]
fn a_deployment_goes_with_all_that_it_made() {
    for policy in ["Background", "Foreground"] {
        let mut cluster = Cluster::start();
        cluster.create(workload("Deployment", "web", json!({"replicas": 2})));
        cluster.settle();
        cluster.delete(&kinds::deployments(), "web", json!({"propagationPolicy": policy}));
        cluster.settle();
        for gvr in [kinds::deployments(), kinds::replica_sets(), kinds::pods()] {
            assert_eq!(cluster.names(&gvr), Vec::<String>::new(), "{policy} {gvr}");
        }
    }
}

#[test]
fn a_namespace_is_provided_for_and_emptied() {
    let mut cluster = Cluster::start();
    assert!(cluster.get(&kinds::service_accounts(), "default").is_some());
    let ca = cluster.get(&kinds::config_maps(), "kube-root-ca.crt").unwrap();
    assert_eq!(ca["data"]["ca.crt"], "PEM");
    cluster.delete(&kinds::config_maps(), "kube-root-ca.crt", json!({}));
    cluster.delete(&kinds::service_accounts(), "default", json!({}));
    cluster.settle();
    assert!(has(&cluster, "kube-root-ca.crt") && cluster.get(&kinds::service_accounts(), "default").is_some());
    cluster.create(workload("Deployment", "web", json!({"replicas": 2})));
    let mut held = widget(&cluster, "held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    cluster.api.update(&widgets(), "", &held).unwrap();
    cluster.settle();
    cluster.delete(&kinds::namespaces(), "default", json!({}));
    cluster.settle();
    let namespace = cluster.get(&kinds::namespaces(), "default").unwrap();
    let condition = super::condition_of(&namespace, "NamespaceFinalizersRemaining");
    assert_eq!(condition, ("True".into(), "SomeFinalizersRemain".into()));
    assert_eq!(cluster.names(&kinds::pods()), Vec::<String>::new());
    cluster.patch(&widgets(), "held", json!({"metadata": {"finalizers": null}}));
    cluster.settle();
    assert!(cluster.get(&kinds::namespaces(), "default").is_none());
    let left = cluster.api.resources().into_iter().filter(|r| r.namespaced);
    for resource in left {
        assert_eq!(cluster.names(&resource.gvr), Vec::<String>::new(), "{}", resource.gvr);
    }
}
