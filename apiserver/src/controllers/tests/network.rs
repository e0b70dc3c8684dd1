//! Endpoints, EndpointSlices, disruption budgets.

use serde_json::{Value, json};

use super::{Cluster, workload};
use crate::controllers::{
    kinds,
    object::{int, label, list, text},
};

fn service(spec: Value) -> Value {
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "namespace": "default", "labels": {"team": "x"}},
        "spec": {"clusterIP": "10.0.0.9", "selector": {"app": "web"},
                 "ports": [{"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"}]},
    });
    for (key, value) in spec.as_object().unwrap() {
        service["spec"][key.as_str()] = value.clone();
    }
    service
}

#[test]
fn endpoints_follow_ready_pods() {
    let mut cluster = Cluster::start();
    cluster.create(service(json!({})));
    cluster.settle();
    assert!(list(&cluster.get(&kinds::endpoints(), "web").unwrap(), "/subsets").is_empty());
    cluster.create(workload("Deployment", "web", json!({"replicas": 2})));
    cluster.settle();
    let endpoints = cluster.get(&kinds::endpoints(), "web").unwrap();
    assert_eq!(list(&endpoints, "/subsets/0/addresses").len(), 2);
    assert_eq!(int(&endpoints, "/subsets/0/ports/0/port"), 8080, "the named port of the pods");
    assert_eq!(label(&endpoints, "team"), "x");
    let slices = cluster.list(&kinds::endpoint_slices());
    assert_eq!(slices.len(), 1, "the empty slice is replaced");
    assert_eq!(label(&slices[0], "kubernetes.io/service-name"), "web");
    assert_eq!(label(&slices[0], "endpointslice.kubernetes.io/managed-by"), "endpointslice-controller.k8s.io");
    assert!(list(&slices[0], "/endpoints").iter().all(|e| e["conditions"]["ready"] == true));
    // A pod that is not ready moves to the other list.
    let stuck = json!({"spec": {"replicas": 3, "paused": true}});
    cluster.patch(&kinds::deployments(), "web", stuck);
    cluster.settle();
    cluster.delete(&kinds::services(), "web", json!({}));
    cluster.settle();
    assert!(cluster.list(&kinds::endpoints()).is_empty() && cluster.list(&kinds::endpoint_slices()).is_empty());
}

#[test]
fn unready_pods_are_listed_apart_and_headless_services_name_their_pods() {
    let mut cluster = Cluster::start();
    // A port without a name: its slice has the empty one, and must be recognised by it.
    cluster.create(service(json!({"clusterIP": "None", "ports": [{"port": 5432}]})));
    let mut set = workload("StatefulSet", "web", json!({"replicas": 1, "serviceName": "web"}));
    set["spec"]["template"]["metadata"]["annotations"] = json!({"reconverge.dev/pod": "not-ready"});
    cluster.create(set);
    cluster.settle();
    let endpoints = cluster.get(&kinds::endpoints(), "web").unwrap();
    assert_eq!(text(&endpoints, "/subsets/0/notReadyAddresses/0/hostname"), "web-0");
    assert!(list(&endpoints, "/subsets/0/addresses").is_empty());
    assert!(endpoints["metadata"]["labels"].get("service.kubernetes.io/headless").is_some());
    let slice = &cluster.list(&kinds::endpoint_slices())[0];
    assert_eq!(slice["endpoints"][0]["conditions"]["ready"], false);
}

#[test]
fn a_budget_counts_what_may_go() {
    let mut cluster = Cluster::start();
    cluster.create(workload("Deployment", "web", json!({"replicas": 3})));
    let budget = |name: &str, spec: Value| {
        let mut budget = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}},
        });
        for (key, value) in spec.as_object().unwrap() {
            budget["spec"][key.as_str()] = value.clone();
        }
        budget
    };
    let cases = [
        ("min", json!({"minAvailable": 2}), [3, 2, 1]),
        ("percent", json!({"minAvailable": "50%"}), [3, 2, 1]),
        ("max", json!({"maxUnavailable": 0}), [3, 3, 0]),
    ];
    for (name, spec, _) in &cases {
        cluster.create(budget(name, spec.clone()));
    }
    cluster.settle();
    for (name, _, expected) in &cases {
        let budget = cluster.get(&kinds::disruption_budgets(), name).unwrap();
        let counts =
            ["expectedPods", "desiredHealthy", "disruptionsAllowed"].map(|f| int(&budget, &format!("/status/{f}")));
        assert_eq!(counts, *expected, "{name}");
    }
    // The note of an eviction lapses once its pod has gone.
    use crate::controllers::Client as _;
    let mut noted = cluster.get(&kinds::disruption_budgets(), "min").unwrap();
    let pod = cluster.names(&kinds::pods())[0].clone();
    noted["status"]["disruptedPods"] = json!({pod.as_str(): "2026-01-01T00:00:00Z"});
    cluster.api.update(&kinds::disruption_budgets(), "status", &noted).unwrap();
    cluster.run_now(|_| {});
    let budget = cluster.get(&kinds::disruption_budgets(), "min").unwrap();
    assert_eq!(int(&budget, "/status/disruptionsAllowed"), 0);
    cluster.delete(&kinds::pods(), &pod, json!({}));
    cluster.settle();
    let budget = cluster.get(&kinds::disruption_budgets(), "min").unwrap();
    assert!(budget["status"].get("disruptedPods").is_none());
    assert_eq!(int(&budget, "/status/disruptionsAllowed"), 1);
}
