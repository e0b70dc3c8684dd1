//! The defaulting functions of Kubernetes 1.34, one per type, applied wherever the type occurs.
//!
//! Defaults are not in OpenAPI, except for a few that are declared there; those are applied from the schema.

mod pods;
mod workloads;
mod network;
mod others;

use serde_json::{Map, Value, json};

use super::{fields, openapi::definitions_for, visit, wire::normalise_wire};
use crate::{resource::Gvk, schema::TypeRef};

/// Defaults a built-in object in place, and leaves it as Go would write it. Custom kinds stay as they are.
pub fn default_object(gvk: &Gvk, object: &mut Value) {
    let Some(ty) = definitions_for(gvk) else { return };
    normalise_wire(gvk, object, ty);
    visit::structs(object, ty, &mut |name, map, at| {
        pods::apply(name, map);
        workloads::apply(name, map);
        network::apply(name, map);
        others::apply(name, map);
        declared(map, at);
    });
    normalise_wire(gvk, object, ty);
}

/// Defaults that the schema declares; empty ones only repeat Go's zero values, unless the field is a pointer.
fn declared(map: &mut Map<String, Value>, ty: TypeRef) {
    let Some(table) = fields::of(&ty.schema.definition) else { return };
    for (name, property) in &ty.schema.properties {
        let (Some(default), Some(field)) = (&property.default, table.get(name)) else { continue };
        let trivial =
            *default == json!({}) || *default == json!("") || *default == json!(0) || *default == json!(false);
        if !trivial || (field.kind == 'p' && !default.is_object()) {
            put(map, name, default.clone());
        }
    }
}

/// Whether a field is absent for a Go defaulting function that compares with nil or the empty string.
fn unset(map: &Map<String, Value>, name: &str) -> bool {
    map.get(name).is_none_or(|v| v.is_null() || v == "")
}

/// Sets a field that is absent.
fn put(map: &mut Map<String, Value>, name: &str, value: impl Into<Value>) {
    if unset(map, name) {
        map.insert(name.to_owned(), value.into());
    }
}

/// The object under a name, made when absent.
fn sub<'a>(map: &'a mut Map<String, Value>, name: &str) -> Option<&'a mut Map<String, Value>> {
    put(map, name, json!({}));
    map.get_mut(name).and_then(Value::as_object_mut)
}

fn text<'a>(map: &'a Map<String, Value>, name: &str) -> &'a str {
    map.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn objects<'a>(map: &'a mut Map<String, Value>, name: &str) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    map.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}
