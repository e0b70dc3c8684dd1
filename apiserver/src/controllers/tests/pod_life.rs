//! The scheduler and the simulated node.

use serde_json::{Value, json};

use super::{Cluster, condition_of};
use crate::controllers::{
    kinds,
    object::{int, list, text},
};

fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {"restartPolicy": "Always", "containers": [{"name": "main", "image": "app:1"}]},
    });
    for (key, value) in spec.as_object().unwrap() {
        pod["spec"][key.as_str()] = value.clone();
    }
    pod
}

fn waiting_reason(cluster: &Cluster, name: &str) -> String {
    let pod = cluster.get(&kinds::pods(), name).unwrap();
    text(&pod, "/status/containerStatuses/0/state/waiting/reason").into()
}

fn phase(cluster: &Cluster, name: &str) -> String {
    text(&cluster.get(&kinds::pods(), name).unwrap(), "/status/phase").into()
}

#[test]
fn a_pod_runs_with_everything_in_its_status() {
    let mut cluster = Cluster::start();
    cluster.create(pod(
        "a",
        json!({"initContainers": [
        {"name": "setup", "image": "app:0"}, {"name": "side", "image": "app:s", "restartPolicy": "Always"}]}),
    ));
    cluster.settle();
    let pod = cluster.get(&kinds::pods(), "a").unwrap();
    for kind in ["PodScheduled", "Initialized", "ContainersReady", "Ready", "PodReadyToStartContainers"] {
        assert_eq!(condition_of(&pod, kind).0, "True", "{kind}");
    }
    assert!(text(&pod, "/status/podIP").starts_with("10.244."));
    assert_eq!(pod["status"]["containerStatuses"][0]["ready"], true);
    assert_eq!(text(&pod, "/status/initContainerStatuses/0/state/terminated/reason"), "Completed");
    assert!(pod["status"]["initContainerStatuses"][1]["state"]["running"].is_object());
    // A new image restarts the container in place.
    cluster.patch(&kinds::pods(), "a", json!({"spec": {"containers": [{"name": "main", "image": "app:2"}]}}));
    cluster.settle();
    let pod = cluster.get(&kinds::pods(), "a").unwrap();
    assert_eq!(int(&pod, "/status/containerStatuses/0/restartCount"), 1);
}

#[test]
fn addresses_are_unique() {
    let mut cluster = Cluster::start();
    for i in 0..40 {
        cluster.create(pod(&format!("p{i}"), json!({})));
    }
    cluster.settle();
    let all = cluster.list(&kinds::pods());
    let addresses: std::collections::BTreeSet<&str> = all.iter().map(|p| text(p, "/status/podIP")).collect();
    assert_eq!(addresses.len(), 40);
}

/// Each row: what the pod refers to, how it is held, and the object that lets it start.
#[test]
fn a_pod_waits_for_what_it_refers_to() {
    let secret = || json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}, "data": {"k": "dg=="}});
    let map = || json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}, "data": {"k": "v"}});
    let env = |field: &str, name: &str| {
        json!({"containers": [{"name": "main", "image": "app:1", "env": [
        {"name": "X", "valueFrom": {field: {"name": name, "key": "k"}}}]}]})
    };
    let from = |field: &str, name: &str| {
        json!({"containers": [{"name": "main", "image": "app:1", "envFrom": [
        {field: {"name": name}}]}]})
    };
    let rows = [
        (json!({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}), "ContainerCreating", secret()),
        (json!({"volumes": [{"name": "v", "configMap": {"name": "c"}}]}), "ContainerCreating", map()),
        (
            json!({"volumes": [{"name": "v", "projected": {"sources": [{"secret": {"name": "s"}}]}}]}),
            "ContainerCreating",
            secret(),
        ),
        (env("secretKeyRef", "s"), "CreateContainerConfigError", secret()),
        (env("configMapKeyRef", "c"), "CreateContainerConfigError", map()),
        (from("secretRef", "s"), "CreateContainerConfigError", secret()),
        (from("configMapRef", "c"), "CreateContainerConfigError", map()),
    ];
    for (spec, reason, object) in rows {
        let mut cluster = Cluster::start();
        cluster.create(pod("a", spec.clone()));
        cluster.settle();
        assert_eq!(
            (phase(&cluster, "a").as_str(), waiting_reason(&cluster, "a").as_str()),
            ("Pending", reason),
            "{spec}"
        );
        // The wrong key does not help a variable.
        let mut wrong = object.clone();
        wrong["data"] = json!({"other": "dg=="});
        cluster.create(wrong);
        cluster.settle();
        let gvr = cluster.api.gvr_of(&object);
        if spec.to_string().contains("KeyRef") {
            assert_eq!(phase(&cluster, "a"), "Pending", "{spec}");
        }
        cluster.patch(&gvr, text(&object, "/metadata/name"), json!({"data": object["data"]}));
        cluster.settle();
        assert_eq!(phase(&cluster, "a"), "Running", "{spec}");
    }
}

#[test]
fn optional_references_and_pull_secrets_do_not_hold() {
    let mut cluster = Cluster::start();
    cluster.create(pod(
        "a",
        json!({
            "imagePullSecrets": [{"name": "none"}],
            "volumes": [{"name": "v", "secret": {"secretName": "s", "optional": true}},
                        {"name": "w", "configMap": {"name": "c", "optional": true}}],
        }),
    ));
    cluster.settle();
    assert_eq!(phase(&cluster, "a"), "Running");
}

#[test]
fn a_missing_claim_keeps_the_pod_unscheduled() {
    let mut cluster = Cluster::start();
    cluster.create(pod("a", json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]})));
    cluster.settle();
    let held = cluster.get(&kinds::pods(), "a").unwrap();
    assert_eq!(condition_of(&held, "PodScheduled"), ("False".into(), "Unschedulable".into()));
    cluster.create(json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }));
    cluster.settle();
    assert_eq!(phase(&cluster, "a"), "Running");
}

#[test]
fn annotations_steer_a_pod() {
    let rows = [
        ("pending", "Pending", "False", "ContainerCreating"),
        ("not-ready", "Running", "False", ""),
        ("crash-loop", "Running", "False", "CrashLoopBackOff"),
        ("nonsense", "Pending", "False", "InvalidBehaviour"),
    ];
    for (behaviour, expected_phase, ready, reason) in rows {
        let mut cluster = Cluster::start();
        let mut object = pod("a", json!({}));
        object["metadata"]["annotations"] = json!({"reconverge.dev/pod": behaviour});
        cluster.create(object);
        cluster.settle();
        let held = cluster.get(&kinds::pods(), "a").unwrap();
        assert_eq!(phase(&cluster, "a"), expected_phase, "{behaviour}");
        assert_eq!(condition_of(&held, "Ready").0, ready, "{behaviour}");
        assert_eq!(waiting_reason(&cluster, "a"), reason, "{behaviour}");
        cluster.patch(&kinds::pods(), "a", json!({"metadata": {"annotations": null}}));
        cluster.settle();
        assert_eq!(condition_of(&cluster.get(&kinds::pods(), "a").unwrap(), "Ready").0, "True", "{behaviour} recovers");
    }
}

#[test]
fn readiness_gates_hold_ready_back() {
    use crate::controllers::Client as _;
    let mut cluster = Cluster::start();
    cluster.create(pod("a", json!({"readinessGates": [{"conditionType": "example.com/ok"}]})));
    cluster.settle();
    let mut held = cluster.get(&kinds::pods(), "a").unwrap();
    assert_eq!(condition_of(&held, "Ready"), ("False".into(), "ReadinessGatesNotReady".into()));
    held["status"]["conditions"].as_array_mut().unwrap().push(json!({"type": "example.com/ok", "status": "True"}));
    cluster.api.update(&kinds::pods(), "status", &held).unwrap();
    cluster.settle();
    assert_eq!(condition_of(&cluster.get(&kinds::pods(), "a").unwrap(), "Ready").0, "True");
}

#[test]
fn deleted_pods_go_after_a_while() {
    let mut cluster = Cluster::start();
    cluster.create(pod("a", json!({})));
    let mut held = pod("b", json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    cluster.create(held);
    cluster.settle();
    for name in ["a", "b"] {
        cluster.delete(&kinds::pods(), name, json!({}));
    }
    cluster.settle();
    assert_eq!(cluster.names(&kinds::pods()), ["b"], "a finalizer keeps the pod");
    assert_eq!(phase(&cluster, "b"), "Failed");
    assert!(list(&cluster.get(&kinds::pods(), "b").unwrap(), "/status/containerStatuses").len() == 1);
}
