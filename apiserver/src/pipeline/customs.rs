//! Custom resource definitions: what they serve, and what happens to their objects.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;

use crate::{
    auth::Identity,
    crd,
    discovery::{CustomType, ResourceType, ScalePaths, Subresource, builtin},
    resource::{Gvk, Gvr},
    status::ApiError,
    store::{Event, EventKind},
};

use super::{
    call::Call,
    cluster::{State, Tx},
    delete, meta,
};

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

/// Deletes the objects of a definition that was marked for deletion, and the definition when that was all.
pub(crate) fn cleanup(tx: &mut Tx<'_>, user: &Identity, crd: &Value) -> Result<(), ApiError> {
    let name = meta::name(crd).to_owned();
    let kind = tx.state.customs.values().find(|k| k.table == name).cloned();
    let options = delete::DeleteOptions::default();
    for object in tx.state.store.objects(&name).values() {
        let Some(kind) = &kind else { break };
        let (namespace, name) = (meta::namespace(object), meta::name(object));
        let call = Call::internal(Arc::clone(kind), namespace, name, user.clone(), "");
        delete::delete(tx, &call, &options)?;
    }
    finish(tx, &name);
    Ok(())
}

/// Ends a definition that only waited for its objects, once there are none.
pub(crate) fn finish(tx: &mut Tx<'_>, name: &str) {
    let Some(crd) = tx.lookup(TABLE, name) else { return };
    if !meta::is_terminating(&crd) || !tx.state.store.objects(name).is_empty() {
        return;
    }
    let Some(kind) = builtin(&Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions")) else { return };
    let mut crd = (*crd).clone();
    let rest: Vec<String> =
        meta::finalizers(&crd).into_iter().filter(|f| *f != CLEANUP_FINALIZER).map(str::to_owned).collect();
    let last = rest.is_empty();
    meta::set(&mut crd, "finalizers", rest);
    if last {
        tx.remove(&kind, name, crd);
    } else {
        tx.put(&kind, name, crd);
    }
}

/// Refuses a create of a custom resource whose definition goes away.
pub(crate) fn check_create(tx: &Tx<'_>, kind: &ResourceType) -> Result<(), ApiError> {
    let ending = kind.custom.is_some() && tx.lookup(TABLE, &kind.table).is_some_and(|crd| meta::is_terminating(&crd));
    if !ending {
        return Ok(());
    }
    let why = "create not allowed while custom resource definition is terminating";
    Err(ApiError::new(405, "MethodNotAllowed", why))
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
    let custom = compile(crd, version)?;
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

fn compile(crd: &Value, version: &Value) -> Result<CustomType, ApiError> {
    let name = version["name"].as_str().unwrap_or_default();
    let compiled = crd::compile_version(crd, name)?;
    let warning = || format!("{}/{name} {} is deprecated", text(crd, "/spec/group"), text(crd, "/spec/names/kind"));
    Ok(CustomType {
        definitions: compiled.definitions,
        schema: compiled.schema,
        status: compiled.status,
        deprecation: compiled.deprecated.then(|| compiled.deprecation_warning.unwrap_or_else(warning)),
        scale: compiled.scale.map(|s| ScalePaths {
            spec: s.spec_replicas,
            status: s.status_replicas,
            selector: s.label_selector,
        }),
        columns: compiled.printer_columns.as_array().cloned().unwrap_or_default(),
        selectable: compiled.selectable_fields,
        raw: version.pointer("/schema/openAPIV3Schema").cloned().unwrap_or(Value::Null),
    })
}

fn text<'a>(crd: &'a Value, path: &str) -> &'a str {
    crd.pointer(path).and_then(Value::as_str).unwrap_or_default()
}
