//! The server with its controllers: what a user of a cluster expects to happen by itself.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::{MAPS, Tester};
use crate::server::RunningControllers;

/// The controllers' own delays add up to a few seconds; the bound only stops a hang.
const LONG: Duration = Duration::from_secs(60);

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn deployment(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    })
}

struct Running {
    t: Tester,
    controllers: RunningControllers,
}

impl Running {
    fn start() -> Self {
        let t = Tester::new();
        let controllers = t.server.run_controllers("PEM");
        Self { t, controllers }
    }

    /// Waits until the answer of a GET is as wanted, looking again whenever the controllers have moved.
    async fn until(&self, uri: &str, wanted: impl Fn(u16, &Value) -> bool) -> Value {
        let mut progress = self.controllers.progress();
        let mut last = Value::Null;
        let reached = timeout(LONG, async {
            loop {
                let got = self.t.get(uri).await;
                let done = wanted(got.code, &got.body);
                last = got.body;
                if done {
                    return;
                }
                progress.changed().await.expect("the controllers have ended");
            }
        });
        let reached = reached.await;
        assert!(reached.is_ok(), "{uri} never came to the wanted state; last seen: {last:#}");
        last
    }
}

#[tokio::test]
async fn a_deployment_becomes_available_and_its_pods_go_with_it() {
    let running = Running::start();
    running.until("/api/v1/namespaces/default/serviceaccounts/default", |code, _| code == 200).await;
    let made = running.t.post(DEPLOYMENTS, &deployment("web")).await;
    assert_eq!(made.code, 201, "{made:?}");
    let uri = format!("{DEPLOYMENTS}/web");
    let ready = running.until(&uri, |_, d| d["status"]["availableReplicas"] == 2).await;
    assert_eq!(ready["status"]["observedGeneration"], ready["metadata"]["generation"]);
    let pods = "/api/v1/namespaces/default/pods?labelSelector=app%3Dweb";
    let list = running.t.get(pods).await.body;
    assert_eq!(list["items"][0]["status"]["phase"], "Running");
    assert_eq!(list["items"][0]["spec"]["nodeName"], "node-1");
    assert_eq!(running.t.merge(&uri, &json!({"spec": {"replicas": 1}})).await.code, 200);
    running.until(pods, |_, l| l["items"].as_array().is_some_and(|i| i.len() == 1)).await;
    running.t.delete(&uri, &json!({})).await;
    running.until(pods, |_, l| l["items"].as_array().is_some_and(Vec::is_empty)).await;
    running.until("/apis/apps/v1/replicasets", |_, l| l["items"].as_array().is_some_and(Vec::is_empty)).await;
    running.controllers.shutdown().await;
}

#[tokio::test]
async fn a_deleted_namespace_takes_everything_along() {
    let running = Running::start();
    let made = running.t.post("/api/v1/namespaces", &json!({"metadata": {"name": "a"}})).await;
    assert_eq!(made.code, 201);
    running.until("/api/v1/namespaces/a/configmaps/kube-root-ca.crt", |code, _| code == 200).await;
    running.until("/api/v1/namespaces/a/serviceaccounts/default", |code, _| code == 200).await;
    running.t.delete("/api/v1/namespaces/a", &json!({})).await;
    running.until("/api/v1/namespaces/a", |code, _| code == 404).await;
    let left = running.t.get("/api/v1/configmaps?fieldSelector=metadata.namespace%3Da").await.body;
    assert_eq!(left["items"], json!([]));
    running.controllers.shutdown().await;
}

#[tokio::test]
async fn dependents_are_collected_or_orphaned() {
    let running = Running::start();
    for (policy, survives) in [("Background", false), ("Foreground", false), ("Orphan", true)] {
        let owner = running.t.config_map(&format!("owner-{}", policy.to_lowercase()), json!({})).await;
        let name = format!("child-{}", policy.to_lowercase());
        let reference = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true,
        });
        let child = json!({"metadata": {"name": name, "ownerReferences": [reference]}});
        assert_eq!(running.t.post(MAPS, &child).await.code, 201);
        let uri = format!("{MAPS}/{}", owner["metadata"]["name"].as_str().unwrap());
        running.t.delete(&uri, &json!({"propagationPolicy": policy})).await;
        running.until(&uri, |code, _| code == 404).await;
        let child = format!("{MAPS}/{name}");
        if survives {
            let left = running.t.get(&child).await;
            assert_eq!(left.code, 200);
            assert!(left.body["metadata"].get("ownerReferences").is_none_or(|o| o == &json!([])), "{left:?}");
        } else {
            running.until(&child, |code, _| code == 404).await;
        }
    }
    running.controllers.shutdown().await;
}

#[tokio::test]
async fn a_job_runs_its_pods() {
    let running = Running::start();
    running.until("/api/v1/namespaces/default/serviceaccounts/default", |code, _| code == 200).await;
    let job = json!({
        "metadata": {"name": "j"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}},
    });
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let made = running.t.post(jobs, &job).await;
    assert_eq!(made.code, 201, "{made:?}");
    assert_eq!(
        made.body["spec"]["selector"]["matchLabels"]["batch.kubernetes.io/controller-uid"],
        made.body["metadata"]["uid"]
    );
    running.until(&format!("{jobs}/j"), |_, j| j["status"]["succeeded"] == 1 || j["status"]["active"] == 1).await;
    running.controllers.shutdown().await;
}
