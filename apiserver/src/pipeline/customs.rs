//! Custom resource definitions: what they serve, and what happens to their objects.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;

use crate::{
    discovery::{ResourceType, Subresource},
    resource::{Gvk, Gvr},
    status::ApiError,
    store::{Event, EventKind},
};

use super::{cluster::State, rules};

/// The store's table of definitions.
pub(crate) const TABLE: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// Held by a definition until its objects are gone.
pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

pub(crate) fn versions(crd: &Value) -> &[Value] {
    crd.pointer("/spec/versions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Serves what a committed definition says, or stops serving a removed one.
pub(crate) fn refresh(state: &mut State, event: &Event) {
    for crd in event.previous.iter().map(AsRef::as_ref).chain([event.object.as_ref()]) {
        for version in versions(crd) {
            state.customs.remove(&gvr(crd, version));
        }
    }
    if event.kind == EventKind::Deleted {
        return;
    }
    for version in versions(&event.object).iter().filter(|v| v["served"] == true) {
        // Definitions are compiled before they are committed, so this cannot fail.
        if let Ok(t) = resource_type(&event.object, version) {
            state.customs.insert(t.gvr.clone(), Arc::new(t));
        }
    }
}

/// Refuses what this server cannot serve.
pub(crate) fn check(crd: &Value) -> Result<(), ApiError> {
    let served = versions(crd).iter().filter(|v| v["served"] == true).count();
    if served > 1 && text(crd, "/spec/conversion/strategy") == "Webhook" {
        return Err(ApiError::unsupported("conversion webhooks of custom resources with more than one served version"));
    }
    for version in versions(crd) {
        resource_type(crd, version)?;
    }
    Ok(())
}

fn gvr(crd: &Value, version: &Value) -> Gvr {
    Gvr::new(text(crd, "/spec/group"), version["name"].as_str().unwrap_or_default(), text(crd, "/spec/names/plural"))
}

const ALL_VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

fn resource_type(crd: &Value, version: &Value) -> Result<ResourceType, ApiError> {
    let custom = rules::compile_version(crd, version)?;
    let gvr = gvr(crd, version);
    let kind = Gvk::new(&gvr.group, &gvr.version, text(crd, "/spec/names/kind"));
    let strings = |path: &str| -> Vec<String> {
        let list = crd.pointer(path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let verbs = |all: &[&str]| all.iter().map(|v| (*v).to_owned()).collect::<Vec<String>>();
    let mut subresources = BTreeMap::new();
    let rest = verbs(&["get", "patch", "update"]);
    if custom.status {
        subresources.insert("status".into(), Subresource { kind: kind.clone(), verbs: rest.clone() });
    }
    if custom.scale.is_some() {
        subresources.insert("scale".into(), Subresource { kind: Gvk::new("autoscaling", "v1", "Scale"), verbs: rest });
    }
    let storage = versions(crd).iter().find(|v| v["storage"] == true).unwrap_or(version);
    Ok(ResourceType {
        list_kind: text(crd, "/spec/names/listKind").into(),
        singular: text(crd, "/spec/names/singular").into(),
        namespaced: text(crd, "/spec/scope") == "Namespaced",
        verbs: verbs(&ALL_VERBS),
        short_names: strings("/spec/names/shortNames"),
        categories: strings("/spec/names/categories"),
        subresources,
        table: gvr.group_resource(),
        storage_version: format!("{}/{}", gvr.group, storage["name"].as_str().unwrap_or_default()),
        custom: Some(Arc::new(custom)),
        gvr,
        kind,
    })
}

fn text<'a>(crd: &'a Value, path: &str) -> &'a str {
    crd.pointer(path).and_then(Value::as_str).unwrap_or_default()
}
