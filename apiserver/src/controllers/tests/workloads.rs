//! Deployments, StatefulSets, DaemonSets.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Cluster, condition_of, ready_pods, workload};
use crate::controllers::{
    Client, kinds,
    object::{int, is_terminating, label, name, text},
    pods,
};

fn deployment(replicas: i64) -> Value {
    workload(
        "Deployment",
        "web",
        json!({
            "replicas": replicas, "progressDeadlineSeconds": 600,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
        }),
    )
}

fn set_image(cluster: &Cluster, gvr: &crate::resource::Gvr, name: &str, image: &str) {
    let containers = json!([{"name": "main", "image": image}]);
    cluster.patch(gvr, name, json!({"spec": {"template": {"spec": {"containers": containers}}}}));
}

#[test]
fn a_deployment_becomes_available() {
    let mut cluster = Cluster::start();
    cluster.create(deployment(3));
    cluster.settle();
    let web = cluster.get(&kinds::deployments(), "web").unwrap();
    let counts = |f: &str| int(&web, &format!("/status/{f}"));
    assert_eq!(["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"].map(counts), [3; 4]);
    assert_eq!(web["status"].get("unavailableReplicas"), None);
    assert_eq!(int(&web, "/status/observedGeneration"), 1, "its own writes must not bump the generation");
    assert_eq!(condition_of(&web, "Available"), ("True".into(), "MinimumReplicasAvailable".into()));
    assert_eq!(condition_of(&web, "Progressing"), ("True".into(), "NewReplicaSetAvailable".into()));
    assert_eq!(web["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
    let set = &cluster.list(&kinds::replica_sets())[0];
    let hash = label(set, "pod-template-hash");
    assert_eq!(name(set), format!("web-{hash}"));
    assert_eq!(set["spec"]["selector"]["matchLabels"]["pod-template-hash"], hash);
    assert!(cluster.list(&kinds::pods()).iter().all(|p| label(p, "pod-template-hash") == hash));
}

#[test]
fn a_rolling_update_keeps_its_bounds() {
    let mut cluster = Cluster::start();
    cluster.create(deployment(4));
    cluster.settle();
    set_image(&cluster, &kinds::deployments(), "web", "app:2");
    // Without the bounds all pods would be replaced at once: ready would fall to 0, or the sets' sum rise to 8.
    let (mut lowest, mut most) = (usize::MAX, 0);
    cluster.settle_watched(|api| {
        lowest = lowest.min(ready_pods(api));
        let sets = api.list(&kinds::replica_sets(), None).unwrap();
        most = most.max(sets.iter().map(|s| int(s, "/spec/replicas")).sum::<i64>());
    });
    assert_eq!((lowest, most), (3, 5));
    let sets = cluster.list(&kinds::replica_sets());
    let mut sizes: Vec<i64> = sets.iter().map(|s| int(s, "/spec/replicas")).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [0, 4]);
    let web = cluster.get(&kinds::deployments(), "web").unwrap();
    assert_eq!(web["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "2");
    // Going back reuses the old set under a new revision.
    set_image(&cluster, &kinds::deployments(), "web", "app:1");
    cluster.patch(
        &kinds::deployments(),
        "web",
        json!({"spec": {"template": {"spec": {"containers": [
        {"name": "main", "image": "app:1", "ports": [{"name": "http", "containerPort": 8080}]}]}}}}),
    );
    cluster.settle();
    let web = cluster.get(&kinds::deployments(), "web").unwrap();
    assert_eq!(int(&web, "/status/updatedReplicas"), 4);
    let current = cluster.list(&kinds::replica_sets()).into_iter().find(|s| int(s, "/spec/replicas") == 4).unwrap();
    assert_eq!(
        current["metadata"]["annotations"]["deployment.kubernetes.io/revision"],
        web["metadata"]["annotations"]["deployment.kubernetes.io/revision"]
    );
}

#[test]
fn recreate_stops_all_before_it_starts_any() {
    let mut cluster = Cluster::start();
    let mut web = deployment(3);
    web["spec"]["strategy"] = json!({"type": "Recreate"});
    cluster.create(web);
    cluster.settle();
    set_image(&cluster, &kinds::deployments(), "web", "app:2");
    cluster.settle_watched(|api| {
        let images: std::collections::BTreeSet<String> = api
            .list(&kinds::pods(), None)
            .unwrap()
            .iter()
            .filter(|p| !pods::is_finished(p))
            .map(|p| text(p, "/spec/containers/0/image").to_owned())
            .collect();
        assert!(images.len() <= 1, "old and new at the same time");
    });
    assert_eq!(ready_pods(&cluster.api), 3);
}

#[test]
fn scaling_there_and_back() {
    let mut cluster = Cluster::start();
    cluster.create(deployment(3));
    cluster.settle();
    for replicas in [2, 3, 0, 3] {
        cluster.patch(&kinds::deployments(), "web", json!({"spec": {"replicas": replicas}}));
        cluster.settle();
        assert_eq!(cluster.list(&kinds::pods()).len(), replicas);
        let web = cluster.get(&kinds::deployments(), "web").unwrap();
        assert_eq!(int(&web, "/status/readyReplicas"), i64::try_from(replicas).unwrap());
    }
    assert_eq!(cluster.list(&kinds::replica_sets()).len(), 1, "scaling makes no revision");
}

#[test]
fn a_paused_deployment_scales_but_does_not_roll() {
    let mut cluster = Cluster::start();
    cluster.create(deployment(2));
    cluster.settle();
    cluster.patch(&kinds::deployments(), "web", json!({"spec": {"paused": true, "replicas": 3}}));
    set_image(&cluster, &kinds::deployments(), "web", "app:2");
    cluster.settle();
    let old = |p: &Value| text(p, "/spec/containers/0/image") == "app:1";
    let all = cluster.list(&kinds::pods());
    assert!(all.len() == 3 && all.iter().all(old));
    cluster.patch(&kinds::deployments(), "web", json!({"spec": {"paused": false}}));
    cluster.settle();
    assert!(!cluster.list(&kinds::pods()).iter().any(old));
}

#[test]
fn a_rollout_that_hangs_misses_its_deadline() {
    let mut cluster = Cluster::start();
    cluster.create(deployment(2));
    cluster.settle();
    let stuck = json!({"metadata": {"annotations": {"reconverge.dev/pod": "pending"}}});
    cluster.patch(&kinds::deployments(), "web", json!({"spec": {"template": stuck}}));
    cluster.settle();
    cluster.advance(Duration::from_secs(601));
    cluster.settle();
    let web = cluster.get(&kinds::deployments(), "web").unwrap();
    assert_eq!(condition_of(&web, "Progressing"), ("False".into(), "ProgressDeadlineExceeded".into()));
    assert_eq!(condition_of(&web, "Available").0, "True", "the old pods still serve");
}

#[test]
fn history_is_limited() {
    let mut cluster = Cluster::start();
    let mut web = deployment(1);
    web["spec"]["revisionHistoryLimit"] = json!(1);
    cluster.create(web);
    cluster.settle();
    for image in ["app:2", "app:3", "app:4"] {
        set_image(&cluster, &kinds::deployments(), "web", image);
        cluster.settle();
    }
    assert_eq!(cluster.list(&kinds::replica_sets()).len(), 2);
}

#[test]
fn an_orphan_pod_is_adopted_and_a_relabelled_one_released() {
    let mut cluster = Cluster::start();
    cluster.create(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stray", "namespace": "default", "labels": {"app": "rs"}},
        "spec": {"containers": [{"name": "main", "image": "app:1"}]},
    }));
    cluster.create(workload("ReplicaSet", "rs", json!({"replicas": 2})));
    cluster.settle();
    assert_eq!(cluster.list(&kinds::pods()).len(), 2, "the stray counts");
    cluster.patch(&kinds::pods(), "stray", json!({"metadata": {"labels": {"app": "other"}}}));
    cluster.settle();
    assert_eq!(cluster.list(&kinds::pods()).len(), 3);
    assert!(cluster.get(&kinds::pods(), "stray").unwrap()["metadata"].get("ownerReferences").is_none());
}

fn stateful(spec: Value) -> Value {
    let mut set = workload(
        "StatefulSet",
        "db",
        json!({
            "serviceName": "db", "podManagementPolicy": "OrderedReady",
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}],
        }),
    );
    for (key, value) in spec.as_object().unwrap() {
        set["spec"][key.as_str()] = value.clone();
    }
    set
}

#[test]
fn a_stateful_set_comes_up_and_goes_down_in_order() {
    let mut cluster = Cluster::start();
    cluster.create(stateful(json!({"replicas": 3})));
    // In order means: no pod exists before all with lower ordinals are ready.
    let in_order = |api: &super::fake::Fake| {
        let all = api.list(&kinds::pods(), None).unwrap();
        let unready = all.iter().position(|p| !pods::is_ready(p));
        assert!(unready.is_none_or(|at| at + 1 >= all.len()), "started ahead of an unready pod");
    };
    cluster.settle_watched(in_order);
    assert_eq!(cluster.names(&kinds::pods()), ["db-0", "db-1", "db-2"]);
    assert_eq!(cluster.names(&kinds::claims()), ["data-db-0", "data-db-1", "data-db-2"]);
    let pod = cluster.get(&kinds::pods(), "db-1").unwrap();
    assert_eq!(label(&pod, "apps.kubernetes.io/pod-index"), "1");
    assert_eq!(label(&pod, "statefulset.kubernetes.io/pod-name"), "db-1");
    assert_eq!((text(&pod, "/spec/hostname"), text(&pod, "/spec/subdomain")), ("db-1", "db"));
    let set = cluster.get(&kinds::stateful_sets(), "db").unwrap();
    assert_eq!(set["status"]["currentRevision"], set["status"]["updateRevision"]);
    assert_eq!(int(&set, "/status/availableReplicas"), 3);
    cluster.patch(&kinds::stateful_sets(), "db", json!({"spec": {"replicas": 1}}));
    cluster.settle_watched(|api| {
        let going = api.list(&kinds::pods(), None).unwrap().iter().filter(|p| is_terminating(p)).count();
        assert!(going <= 1, "two at once");
    });
    assert_eq!(cluster.names(&kinds::pods()), ["db-0"]);
    assert_eq!(cluster.list(&kinds::claims()).len(), 3, "claims are retained");
}

#[test]
fn parallel_pods_do_not_wait_for_each_other() {
    let mut cluster = Cluster::start();
    cluster.create(stateful(json!({"replicas": 3, "podManagementPolicy": "Parallel"})));
    cluster.run_now(|_| {});
    assert_eq!(cluster.list(&kinds::pods()).len(), 3, "all exist before any is ready");
    cluster.settle();
}

#[test]
fn a_partition_holds_the_lower_ordinals_back() {
    let mut cluster = Cluster::start();
    cluster.create(stateful(json!({"replicas": 3,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}})));
    cluster.settle();
    set_image(&cluster, &kinds::stateful_sets(), "db", "app:2");
    cluster.settle();
    let images = |c: &Cluster| -> Vec<String> {
        c.list(&kinds::pods()).iter().map(|p| text(p, "/spec/containers/0/image").to_owned()).collect()
    };
    assert_eq!(images(&cluster), ["app:1", "app:1", "app:2"]);
    // A held-back pod that dies comes back at its old revision.
    cluster.delete(&kinds::pods(), "db-0", json!({}));
    cluster.settle();
    assert_eq!(images(&cluster), ["app:1", "app:1", "app:2"]);
    let set = cluster.get(&kinds::stateful_sets(), "db").unwrap();
    assert_ne!(set["status"]["currentRevision"], set["status"]["updateRevision"]);
    cluster.patch(
        &kinds::stateful_sets(),
        "db",
        json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}),
    );
    cluster.settle();
    assert_eq!(images(&cluster), ["app:2"; 3]);
    let set = cluster.get(&kinds::stateful_sets(), "db").unwrap();
    assert_eq!(set["status"]["currentRevision"], set["status"]["updateRevision"]);
    assert_eq!(int(&set, "/status/currentReplicas"), 3);
}

#[test]
fn on_delete_waits_for_the_user() {
    let mut cluster = Cluster::start();
    cluster.create(stateful(json!({"replicas": 2, "updateStrategy": {"type": "OnDelete"}})));
    cluster.settle();
    set_image(&cluster, &kinds::stateful_sets(), "db", "app:2");
    cluster.settle();
    cluster.delete(&kinds::pods(), "db-1", json!({}));
    cluster.settle();
    let image = |n: &str| text(&cluster.get(&kinds::pods(), n).unwrap(), "/spec/containers/0/image").to_owned();
    assert_eq!((image("db-0"), image("db-1")), ("app:1".into(), "app:2".into()));
}

#[test]
fn claims_follow_the_retention_policy() {
    let mut cluster = Cluster::start();
    cluster.create(stateful(json!({"replicas": 2,
        "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete", "whenDeleted": "Delete"}})));
    cluster.settle();
    cluster.patch(&kinds::stateful_sets(), "db", json!({"spec": {"replicas": 1}}));
    cluster.settle();
    assert_eq!(cluster.names(&kinds::claims()), ["data-db-0"]);
    cluster.delete(&kinds::stateful_sets(), "db", json!({}));
    cluster.settle();
    assert!(cluster.list(&kinds::claims()).is_empty() && cluster.list(&kinds::pods()).is_empty());
}

#[test]
fn a_daemon_set_has_one_pod_per_node_and_rolls() {
    let mut cluster = Cluster::start();
    cluster.create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "other"}}));
    cluster.create(workload(
        "DaemonSet",
        "agent",
        json!({"updateStrategy": {"type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": 1}}}),
    ));
    cluster.settle();
    assert_eq!(cluster.list(&kinds::pods()).len(), 2);
    let set = cluster.get(&kinds::daemon_sets(), "agent").unwrap();
    let counts = |f: &str| int(&set, &format!("/status/{f}"));
    // Nobody runs pods on the other node.
    assert_eq!(["desiredNumberScheduled", "currentNumberScheduled", "numberReady"].map(counts), [2, 2, 1]);
    cluster.delete(&kinds::nodes(), "other", json!({}));
    set_image(&cluster, &kinds::daemon_sets(), "agent", "app:2");
    cluster.settle();
    let all = cluster.list(&kinds::pods());
    let running: Vec<&Value> = all.iter().filter(|p| !is_terminating(p)).collect();
    assert_eq!(running.len(), 1);
    assert_eq!(text(running[0], "/spec/containers/0/image"), "app:2");
}
