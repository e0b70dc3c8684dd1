//! The types of resources, built-in and custom, by URL name.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use serde_json::Value;

use crate::{
    captured,
    resource::{Gvk, Gvr},
    schema::{Definitions, Schema, TypeRef},
};

/// A subresource as discovery lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subresource {
    pub kind: Gvk,
    pub verbs: Vec<String>,
}

/// Where a custom resource keeps what `/scale` shows, as JSON paths such as `.spec.replicas`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScalePaths {
    pub spec: String,
    pub status: String,
    pub selector: Option<String>,
}

/// What only custom resources have.
#[derive(Debug, Clone)]
pub struct CustomType {
    pub definitions: Definitions,
    pub schema: Schema,
    pub status: bool,
    /// The warning that clients of a deprecated version get.
    pub deprecation: Option<String>,
    pub scale: Option<ScalePaths>,
    /// `additionalPrinterColumns` of the version.
    pub columns: Vec<Value>,
    /// JSON paths of `selectableFields`.
    pub selectable: Vec<String>,
    /// The schema as the CRD has it, for OpenAPI.
    pub raw: Value,
}

/// One served resource in one version.
#[derive(Debug, Clone)]
pub struct ResourceType {
    pub gvr: Gvr,
    pub kind: Gvk,
    pub list_kind: String,
    pub singular: String,
    pub namespaced: bool,
    pub verbs: Vec<String>,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub subresources: BTreeMap<String, Subresource>,
    /// The store's table; versions and aliases of a resource share it.
    pub table: String,
    /// The `apiVersion` of stored objects.
    pub storage_version: String,
    pub custom: Option<Arc<CustomType>>,
}

impl ResourceType {
    /// The structural schema of a custom resource; built-in kinds keep theirs elsewhere.
    #[must_use]
    pub fn custom_type(&self) -> Option<TypeRef<'_>> {
        self.custom.as_deref().map(|c| TypeRef::new(&c.definitions, &c.schema))
    }

    /// The key of an object in the store.
    #[must_use]
    pub fn key(&self, namespace: &str, name: &str) -> String {
        if self.namespaced { format!("{namespace}/{name}") } else { name.to_owned() }
    }

    /// The resource in its storage version, under which changes are reported.
    #[must_use]
    pub fn storage_gvr(&self) -> Gvr {
        let (group, version) = self.storage_version.split_once('/').unwrap_or(("", &self.storage_version));
        Gvr::new(group, version, &self.gvr.resource)
    }

    #[must_use]
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| v == verb)
    }
}

type Builtins = BTreeMap<Gvr, Arc<ResourceType>>;

/// Every built-in resource.
pub fn builtins() -> &'static Builtins {
    static ALL: OnceLock<Builtins> = OnceLock::new();
    ALL.get_or_init(|| {
        let documents = ["api.aggregated-v2.json", "apis.aggregated-v2.json"];
        documents.into_iter().filter_map(captured::json).flat_map(|d| read_groups(&d)).collect()
    })
}

/// The built-in resource of that name.
#[must_use]
pub fn builtin(gvr: &Gvr) -> Option<Arc<ResourceType>> {
    builtins().get(gvr).cloned()
}

/// The built-in resource whose objects have that kind.
#[must_use]
pub fn type_of_kind(kind: &Gvk) -> Option<Arc<ResourceType>> {
    static BY_KIND: OnceLock<BTreeMap<Gvk, Arc<ResourceType>>> = OnceLock::new();
    let index = BY_KIND.get_or_init(|| builtins().values().map(|t| (t.kind.clone(), Arc::clone(t))).collect());
    index.get(kind).cloned()
}

fn read_groups(document: &Value) -> Vec<(Gvr, Arc<ResourceType>)> {
    let mut out = Vec::new();
    for group in list(document, "items") {
        let name = group.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        for version in list(group, "versions") {
            let number = text(version, "version");
            for resource in list(version, "resources") {
                let t = read_resource(name, number, resource);
                out.push((t.gvr.clone(), Arc::new(t)));
            }
        }
    }
    out
}

fn read_resource(group: &str, version: &str, node: &Value) -> ResourceType {
    let gvr = Gvr::new(group, version, text(node, "resource"));
    let kind = read_kind(group, version, node);
    let subresources = list(node, "subresources").iter().map(|sub| {
        let entry = Subresource { kind: read_kind(group, version, sub), verbs: strings(sub, "verbs") };
        (text(sub, "subresource").to_owned(), entry)
    });
    let (table, storage_version) = storage(&gvr);
    ResourceType {
        list_kind: format!("{}List", kind.kind),
        singular: text(node, "singularResource").into(),
        namespaced: text(node, "scope") == "Namespaced",
        verbs: strings(node, "verbs"),
        short_names: strings(node, "shortNames"),
        categories: strings(node, "categories"),
        subresources: subresources.collect(),
        table,
        storage_version,
        custom: None,
        gvr,
        kind,
    }
}

/// An empty group or version in a `responseKind` stands for the surrounding one; the core group is never elsewhere.
fn read_kind(group: &str, version: &str, node: &Value) -> Gvk {
    let given = node.get("responseKind").unwrap_or(&Value::Null);
    let version = Some(text(given, "version")).filter(|v| !v.is_empty()).unwrap_or(version);
    let group = Some(text(given, "group")).filter(|g| !g.is_empty()).unwrap_or(group);
    Gvk::new(group, version, text(given, "kind"))
}

/// Events of both groups are the same objects, and so are the versions of autoscalers.
fn storage(gvr: &Gvr) -> (String, String) {
    match (gvr.group.as_str(), gvr.resource.as_str()) {
        ("events.k8s.io", "events") => ("events".into(), "v1".into()),
        ("autoscaling", "horizontalpodautoscalers") => (gvr.group_resource(), "autoscaling/v2".into()),
        _ => (gvr.group_resource(), gvr.api_version()),
    }
}

fn list<'a>(node: &'a Value, key: &str) -> &'a [Value] {
    node.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn text<'a>(node: &'a Value, key: &str) -> &'a str {
    node.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn strings(node: &Value, key: &str) -> Vec<String> {
    list(node, key).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captured_resources_carry_scope_and_subresources() {
        let deployments = builtin(&Gvr::new("apps", "v1", "deployments")).unwrap();
        assert!(deployments.namespaced && deployments.has_verb("deletecollection"));
        assert_eq!(deployments.subresources["scale"].kind, Gvk::new("autoscaling", "v1", "Scale"));
        assert_eq!(deployments.kind, Gvk::new("apps", "v1", "Deployment"));
        let pods = builtin(&Gvr::new("", "v1", "pods")).unwrap();
        assert_eq!(pods.subresources["eviction"].kind, Gvk::new("policy", "v1", "Eviction"));
        assert_eq!(pods.key("a", "b"), "a/b");
        assert_eq!(builtin(&Gvr::new("", "v1", "nodes")).unwrap().key("", "n"), "n");
    }

    #[test]
    fn both_event_groups_share_a_table() {
        assert_eq!(builtin(&Gvr::new("events.k8s.io", "v1", "events")).unwrap().table, "events");
    }
}
