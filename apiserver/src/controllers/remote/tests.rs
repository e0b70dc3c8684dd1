//! Controllers over a transport, against the embedded server without controllers of its own: what they do in-process
//! they must do from outside.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::{Body, BoxError, RemoteControllers, Transport, start};
use crate::{
    auth::Identity,
    clock::SystemClock,
    controllers::{kubelet::Timing, standard},
    server::{ApiServer, Options},
};

/// The controllers' own delays add up to a few seconds; the bound only stops a hang.
const LONG: Duration = Duration::from_secs(60);

struct InProcess(ApiServer);

impl Transport for InProcess {
    fn send(&self, request: Request<Vec<u8>>) -> BoxFuture<'static, Result<Response<Body>, BoxError>> {
        let service = self.0.service_as(Identity::admin());
        Box::pin(async move {
            let request = request.map(|body| Full::new(bytes::Bytes::from(body)));
            let response = service.oneshot(request).await.map_err(|never| match never {})?;
            Ok(response.map(|body| body.map_err(|never| match never {}).boxed_unsync()))
        })
    }
}

struct Running {
    transport: InProcess,
    controllers: RemoteControllers,
}

impl Running {
    async fn start() -> Self {
        let server = ApiServer::new(Options::default());
        let transport = InProcess(server.clone());
        let list = standard("PEM", Timing::default());
        let controllers = start(Arc::new(InProcess(server)), list, Arc::new(SystemClock), 1).await.unwrap();
        Self { transport, controllers }
    }

    async fn send(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let response = self.transport.send(request.body(body).unwrap()).await.unwrap();
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    async fn until(&self, path: &str, wanted: impl Fn(u16, &Value) -> bool) {
        let mut progress = self.controllers.progress();
        let mut last = Value::Null;
        let reached = tokio::time::timeout(LONG, async {
            loop {
                let (code, body) = self.send("GET", path, &Value::Null).await;
                let done = wanted(code, &body);
                last = body;
                if done {
                    return;
                }
                progress.changed().await.expect("the controllers have ended");
            }
        });
        let reached = reached.await;
        assert!(reached.is_ok(), "{path} never came to the wanted state; last seen: {last:#}");
    }
}

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// Fails when lists are stale after own writes: the ReplicaSet would get more pods than it has replicas.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployment_comes_up_and_goes() {
    let running = Running::start().await;
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": "d"}},
            "template": {
                "metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    });
    let (code, answer) = running.send("POST", DEPLOYMENTS, &deployment).await;
    assert_eq!(code, 201, "{answer}");
    let path = format!("{DEPLOYMENTS}/d");
    running.until(&path, |_, body| body["status"]["readyReplicas"] == 3).await;
    let (_, pods) = running.send("GET", "/api/v1/namespaces/default/pods", &Value::Null).await;
    assert_eq!(pods["items"].as_array().unwrap().len(), 3, "{pods:#}");
    running.send("DELETE", &path, &json!({"propagationPolicy": "Foreground"})).await;
    running.until(&path, |code, _| code == 404).await;
    running.until("/api/v1/namespaces/default/pods", |_, body| body["items"] == json!([])).await;
    running.controllers.shutdown().await;
}

/// Fails when resources that come into being later are not followed: nobody would see the owner go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_custom_resource_owns_goes_with_it() {
    let running = Running::start().await;
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object",
            }}}],
        },
    });
    let (code, answer) = running.send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd).await;
    assert_eq!(code, 201, "{answer}");
    let things = "/apis/example.com/v1/namespaces/default/things";
    let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}});
    let (code, owner) = running.send("POST", things, &thing).await;
    assert_eq!(code, 201, "{owner}");
    let maps = "/api/v1/namespaces/default/configmaps";
    let child = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "ownerReferences": [
        {"apiVersion": "example.com/v1", "kind": "Thing", "name": "t", "uid": owner["metadata"]["uid"]},
    ]}});
    assert_eq!(running.send("POST", maps, &child).await.0, 201);
    running.send("DELETE", &format!("{things}/t"), &Value::Null).await;
    running.until(&format!("{maps}/m"), |code, _| code == 404).await;
    running.controllers.shutdown().await;
}

/// Fails when the namespace controller believes a mirror that is behind: objects would outlive their namespace.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_goes_with_what_it_holds() {
    let running = Running::start().await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    assert_eq!(running.send("POST", "/api/v1/namespaces", &namespace).await.0, 201);
    running.until("/api/v1/namespaces/n/configmaps/kube-root-ca.crt", |code, _| code == 200).await;
    running.send("DELETE", "/api/v1/namespaces/n", &Value::Null).await;
    running.until("/api/v1/namespaces/n", |code, _| code == 404).await;
    running.until("/api/v1/namespaces/n/configmaps/kube-root-ca.crt", |code, _| code == 404).await;
    running.controllers.shutdown().await;
}
