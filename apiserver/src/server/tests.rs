//! The server through its `tower::Service`, as a client sees it.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::{auth::Identity, clock::SystemClock};

use super::{ApiServer, Body, Options};

mod access;
mod basics;
mod controlled;
mod lifecycle;
mod listing;
mod tls;
mod watching;

/// A fresh server and short names for requests to it.
pub(super) struct Tester {
    pub server: ApiServer,
}

/// A decoded answer.
#[derive(Debug)]
pub(super) struct Got {
    pub code: u16,
    pub body: Value,
    pub text: String,
    pub headers: http::HeaderMap,
}

impl Tester {
    pub fn new() -> Self {
        Self { server: ApiServer::new(Options { clock: Arc::new(SystemClock), seed: 7 }) }
    }

    pub async fn raw(&self, request: Request<Full<Bytes>>) -> Response<Body> {
        self.server.service_as(Identity::admin()).oneshot(request).await.unwrap()
    }

    pub async fn send(&self, method: &str, uri: &str, headers: &[(&str, &str)], body: &str) -> Got {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.raw(request.body(Full::new(Bytes::from(body.to_owned()))).unwrap()).await;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Got { code: parts.status.as_u16(), body, text, headers: parts.headers }
    }

    pub async fn get(&self, uri: &str) -> Got {
        self.send("GET", uri, &[], "").await
    }

    pub async fn post(&self, uri: &str, body: &Value) -> Got {
        self.send("POST", uri, &[("content-type", "application/json")], &body.to_string()).await
    }

    pub async fn put(&self, uri: &str, body: &Value) -> Got {
        self.send("PUT", uri, &[("content-type", "application/json")], &body.to_string()).await
    }

    pub async fn merge(&self, uri: &str, body: &Value) -> Got {
        self.send("PATCH", uri, &[("content-type", "application/merge-patch+json")], &body.to_string()).await
    }

    pub async fn delete(&self, uri: &str, body: &Value) -> Got {
        self.send("DELETE", uri, &[("content-type", "application/json")], &body.to_string()).await
    }

    /// Creates a ConfigMap in `default` and gives it back.
    pub async fn config_map(&self, name: &str, labels: Value) -> Value {
        let object = json!({"metadata": {"name": name, "labels": labels}, "data": {"a": "1"}});
        let got = self.post(MAPS, &object).await;
        assert_eq!(got.code, 201, "{got:?}");
        got.body
    }

    /// The frames of a watch, one by one.
    pub async fn watch(&self, uri: &str) -> Frames {
        let response = self.raw(Request::get(uri).body(Full::default()).unwrap()).await;
        assert_eq!(response.status(), 200);
        Frames(response.into_body().into_data_stream())
    }

    /// A CRD `widgets.example.com`, with status and scale.
    pub async fn widgets(&self) {
        let got = self.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &widget_crd()).await;
        assert_eq!(got.code, 201, "{got:?}");
    }

    /// A pod needs its account, which a controller makes in a running cluster.
    pub async fn account(&self) {
        let got =
            self.post("/api/v1/namespaces/default/serviceaccounts", &json!({"metadata": {"name": "default"}})).await;
        assert_eq!(got.code, 201, "{got:?}");
    }
}

pub(super) const MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(super) const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

pub(super) fn widget_crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {
                        "replicas": {"type": "integer"}, "text": {"type": "string"}}},
                    "status": {"type": "object", "properties": {
                        "replicas": {"type": "integer"}, "selector": {"type": "string"}}},
                }}},
                "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                    "labelSelectorPath": ".status.selector"}},
                "additionalPrinterColumns": [{"name": "Text", "type": "string", "jsonPath": ".spec.text"}],
            }],
        },
    })
}

pub(super) fn widget(name: &str) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name},
        "spec": {"replicas": 1, "text": "x"}, "status": {"replicas": 9},
    })
}

pub(super) fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

/// A running watch.
pub(super) struct Frames(http_body_util::BodyDataStream<Body>);

impl Frames {
    /// The next event as type and object.
    pub async fn next(&mut self) -> (String, Value) {
        let frame = self.0.next().await.expect("the watch has ended").unwrap();
        let event: Value = serde_json::from_slice(&frame).unwrap();
        (event["type"].as_str().unwrap().to_owned(), event["object"].clone())
    }

    /// The next event as `TYPE name`.
    pub async fn brief(&mut self) -> String {
        let (kind, object) = self.next().await;
        format!("{kind} {}", object["metadata"]["name"].as_str().unwrap_or_default())
    }

    pub async fn ended(&mut self) -> bool {
        self.0.next().await.is_none()
    }
}
