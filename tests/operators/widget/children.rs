//! The objects that belong to a Widget, as they should be.

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Secret, Service},
};
use kube::{Resource as _, ResourceExt as _, api::ApiResource};
use serde_json::{Value, json};

use crate::api::Widget;

/// On registrations, whose Widget is not their owner.
pub const WIDGET_LABEL: &str = "specimen.reconverge.dev/widget";
pub const REGISTRATION_LABEL: &str = "specimen.reconverge.dev/registration";

/// An object that should be there, and how to reach its kind.
pub struct Child {
    pub resource: ApiResource,
    pub object: Value,
    /// Added when the object is made, and left alone afterwards.
    pub on_create: Option<Value>,
}

impl Child {
    pub fn name(&self) -> &str {
        self.object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
    }
}

pub fn registration_name(widget: &Widget) -> String {
    format!("{}-registration", widget.name_any())
}

/// Stands for an entry in a system outside of the cluster: nobody but the finalizer removes it.
pub fn registration(widget: &Widget) -> Child {
    let object = json!({
        "metadata": {
            "name": registration_name(widget),
            "labels": { WIDGET_LABEL: widget.name_any(), REGISTRATION_LABEL: "true" },
        },
        "data": { "uid": widget.uid().unwrap_or_default() },
    });
    Child { resource: ApiResource::erase::<ConfigMap>(&()), object, on_create: None }
}

pub fn secret(widget: &Widget, token: &str) -> Child {
    let mut object = owned(widget, &format!("{}-token", widget.name_any()));
    object["type"] = "Opaque".into();
    let on_create = Some(json!({ "stringData": { "token": token } }));
    Child { resource: ApiResource::erase::<Secret>(&()), object, on_create }
}

pub fn config(widget: &Widget) -> Child {
    let mut object = owned(widget, &format!("{}-config", widget.name_any()));
    object["data"] = json!({ "message": widget.spec.message });
    Child { resource: ApiResource::erase::<ConfigMap>(&()), object, on_create: None }
}

pub fn service(widget: &Widget) -> Child {
    let mut object = owned(widget, &widget.name_any());
    object["spec"] = json!({
        "selector": selector(widget),
        "ports": [{ "name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP" }],
    });
    Child { resource: ApiResource::erase::<Service>(&()), object, on_create: None }
}

pub fn deployment(widget: &Widget) -> Child {
    let mut object = owned(widget, &widget.name_any());
    object["spec"] = json!({
        "replicas": widget.spec.replicas,
        "selector": { "matchLabels": selector(widget) },
        "template": {
            "metadata": {
                "labels": selector(widget),
                // A new message is a new template, so that the pods are rolled.
                "annotations": { "specimen.reconverge.dev/message": widget.spec.message },
            },
            "spec": {
                "containers": [{
                    "name": "widget",
                    "image": "pause:3.10",
                    "env": [
                        { "name": "TOKEN", "valueFrom": { "secretKeyRef": {
                            "name": format!("{}-token", widget.name_any()), "key": "token" } } },
                    ],
                }],
            },
        },
    });
    Child { resource: ApiResource::erase::<Deployment>(&()), object, on_create: None }
}

/// Only with the bug `random-name-on-create`.
pub fn cache(widget: &Widget) -> Child {
    let mut object = owned(widget, "");
    object["metadata"]["generateName"] = format!("{}-cache-", widget.name_any()).into();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("name");
    }
    Child { resource: ApiResource::erase::<ConfigMap>(&()), object, on_create: None }
}

fn selector(widget: &Widget) -> Value {
    json!({ "app.kubernetes.io/name": "widget", "app.kubernetes.io/instance": widget.name_any() })
}

/// Name, labels and owner of a child.
fn owned(widget: &Widget, name: &str) -> Value {
    let owner = widget.controller_owner_ref(&()).map(|owner| json!([owner])).unwrap_or_default();
    json!({ "metadata": { "name": name, "labels": selector(widget), "ownerReferences": owner } })
}
