//! List types and their keys.

use serde_json::Value;

use super::{flag, kind};
use crate::{
    crd::cause::{child, forbidden, invalid, key, not_supported},
    status::Cause,
};

/// Judges `x-kubernetes-list-type` and the keys of list maps.
pub(super) fn list_type(schema: &Value, path: &str, out: &mut Vec<Cause>) {
    let (type_at, keys_at) = (child(path, "x-kubernetes-list-type"), child(path, "x-kubernetes-list-map-keys"));
    let list_type = schema.get("x-kubernetes-list-type");
    let name = list_type.and_then(Value::as_str).unwrap_or_default();
    let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array).cloned().unwrap_or_default();
    let items = schema.get("items").unwrap_or(&Value::Null);
    if let Some(found) = list_type {
        if kind(schema) != "array" {
            let why = "must be array if x-kubernetes-list-type is specified";
            out.push(invalid(child(path, "type"), &Value::from(kind(schema)), why));
        }
        if !["atomic", "set", "map"].contains(&name) {
            out.push(not_supported(&type_at, found, &["atomic", "set", "map"].map(str::to_owned)));
        }
    }
    if name == "set" {
        let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let item = child(path, "items");
        if kind(items) == "array" && items.get("x-kubernetes-list-type").is_some_and(|t| t != "atomic") {
            out.push(invalid(child(&item, "x-kubernetes-list-type"), &items["x-kubernetes-list-type"], why));
        }
        if kind(items) == "object" && items.get("x-kubernetes-map-type").is_none_or(|t| t != "atomic") {
            out.push(invalid(child(&item, "x-kubernetes-map-type"), &Value::Null, why));
        }
    }
    if matches!(name, "set" | "map") && flag(items, "nullable") {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {name}");
        out.push(forbidden(child(&child(path, "items"), "nullable"), &why));
    }
    if !keys.is_empty() && name != "map" {
        out.push(Cause::required(&type_at, "must be map if x-kubernetes-list-map-keys is non-empty"));
    }
    if name == "map" {
        if keys.is_empty() {
            out.push(Cause::required(&keys_at, "must not be empty if x-kubernetes-list-type is map"));
        }
        map_keys(&keys, items, path, &keys_at, out);
    }
}

fn map_keys(keys: &[Value], items: &Value, path: &str, keys_at: &str, out: &mut Vec<Cause>) {
    let item = child(path, "items");
    if items.is_null() {
        out.push(Cause::required(&item, "must have a schema if x-kubernetes-list-type is map"));
        return;
    }
    if kind(items) != "object" {
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        out.push(invalid(child(&item, "type"), &Value::from(kind(items)), why));
    }
    let shown = Value::from(keys.to_vec());
    let required = items.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for (at, name) in keys.iter().enumerate() {
        let text = name.as_str().unwrap_or_default();
        let property_at = key(&child(&item, "properties"), text);
        match items.get("properties").and_then(|p| p.get(text)) {
            None => out.push(invalid(keys_at, &shown, "entries must all be names of item properties")),
            Some(property) => {
                if matches!(kind(property), "array" | "object") {
                    let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    out.push(invalid(child(&property_at, "type"), &Value::from(kind(property)), why));
                }
                if property.get("default").is_none() && !required.contains(name) {
                    let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
                    out.push(Cause::required(child(&property_at, "default"), why));
                }
                if flag(property, "nullable") {
                    let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
                    out.push(forbidden(child(&property_at, "nullable"), why));
                }
            }
        }
        if keys[..at].contains(name) {
            out.push(invalid(keys_at, &shown, "must not contain duplicate entries"));
        }
    }
}
