//! Drops what a structural schema does not name.
//!
//! A node with `x-kubernetes-preserve-unknown-fields` keeps its unknown fields, yet what it does name is pruned below. The type meta and
//! `metadata` of the root and of embedded resources are never touched.

use serde_json::Value;

use super::cause::{child, index};
use crate::schema::TypeRef;

/// Removes unknown fields and returns their paths, sorted.
pub fn prune(object: &mut Value, ty: TypeRef) -> Vec<String> {
    let mut removed = Vec::new();
    walk(object, Some(ty), Place { path: "", root: true, kept_whole: false }, &mut removed);
    removed.sort();
    removed
}

#[derive(Clone, Copy)]
struct Place<'a> {
    path: &'a str,
    root: bool,
    /// Below a node that preserves unknown fields, lists inherit that.
    kept_whole: bool,
}

fn walk(value: &mut Value, ty: Option<TypeRef>, place: Place, removed: &mut Vec<String>) {
    let preserving = place.kept_whole || ty.is_some_and(|t| t.schema.preserve_unknown);
    match value {
        Value::Object(map) => {
            let names: Vec<String> = map.keys().cloned().collect();
            for name in names {
                let embedded = place.root || ty.is_some_and(|t| t.schema.embedded_resource);
                if embedded && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                    continue;
                }
                let path = child(place.path, &name);
                match ty.and_then(|t| t.field(&name)) {
                    Some(known) => {
                        // `additionalProperties: true` says nothing about the values, so they lose everything.
                        if let Some(inner) = map.get_mut(&name) {
                            walk(inner, Some(known), Place { path: &path, root: false, kept_whole: false }, removed);
                        }
                    }
                    None if preserving => {}
                    None => {
                        map.remove(&name);
                        removed.push(path);
                    }
                }
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter_mut().enumerate() {
                let path = index(place.path, at);
                let inner = ty.and_then(TypeRef::items);
                if inner.is_none() && preserving {
                    continue;
                }
                walk(item, inner, Place { path: &path, root: false, kept_whole: preserving }, removed);
            }
        }
        _ => {}
    }
}
