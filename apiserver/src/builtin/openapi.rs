//! The captured OpenAPI v3 documents, compiled per group and version on first use and kept for the process.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use serde_json::Value;

use crate::{
    captured,
    resource::Gvk,
    schema::{Definitions, Schema, TypeRef},
};

struct Group {
    definitions: Definitions,
    /// Group, version and kind to the definition's name.
    kinds: BTreeMap<(String, String, String), String>,
}

/// The type of a built-in kind; `None` for custom ones.
#[must_use]
pub fn definitions_for(gvk: &Gvk) -> Option<TypeRef<'static>> {
    let key = (gvk.group.clone(), gvk.version.clone(), gvk.kind.clone());
    // Kinds of subresources, such as Eviction and TokenRequest, stand in the core document only.
    [(gvk.group.as_str(), gvk.version.as_str()), ("", "v1")].into_iter().find_map(|(name, version)| {
        let group = group(name, version)?;
        let schema = group.definitions.0.get(group.kinds.get(&key)?)?;
        Some(TypeRef::new(&group.definitions, schema))
    })
}

fn group(name: &str, version: &str) -> Option<&'static Group> {
    static CACHE: Mutex<BTreeMap<String, Option<&'static Group>>> = Mutex::new(BTreeMap::new());
    let path = if name.is_empty() {
        format!("openapi/v3/api__{version}.json")
    } else {
        format!("openapi/v3/apis__{name}__{version}.json")
    };
    let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = cache.get(&path) {
        return *known;
    }
    // Leaked once per captured document, so that cursors need no lifetime; paths that are not captured cost nothing.
    let loaded = captured::file(&path)
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .map(|document| &*Box::leak(Box::new(compile(document))));
    if loaded.is_some() {
        cache.insert(path, loaded);
    }
    loaded
}

fn compile(document: Value) -> Group {
    let mut group = Group { definitions: Definitions::default(), kinds: BTreeMap::new() };
    let schemas = document.pointer("/components/schemas").and_then(Value::as_object);
    for (name, node) in schemas.into_iter().flatten() {
        let kinds = node.get("x-kubernetes-group-version-kind").and_then(Value::as_array);
        for kind in kinds.into_iter().flatten() {
            let text = |key: &str| kind.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            group.kinds.insert((text("group"), text("version"), text("kind")), name.clone());
        }
        group.definitions.0.insert(name.clone(), Schema::parse_named(name, node));
    }
    group
}
