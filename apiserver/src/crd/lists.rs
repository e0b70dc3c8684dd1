//! Uniqueness in lists of type `set` and `map`.

use serde_json::{Map, Value};

use super::cause::{child, duplicate, index, invalid, key};
use crate::{
    schema::{ListType, TypeRef},
    status::Cause,
};

/// Reports the first repetition of each item or key.
pub(super) fn check(value: &Value, ty: TypeRef, path: &str, out: &mut Vec<Cause>) {
    match value {
        Value::Object(map) => {
            for (name, inner) in map {
                let Some(field) = ty.field(name) else { continue };
                let declared = ty.schema.properties.contains_key(name);
                let at = if declared { child(path, name) } else { key(path, name) };
                check(inner, field, &at, out);
            }
        }
        Value::Array(items) => {
            match ty.schema.list_type {
                ListType::Atomic => {}
                ListType::Set => repeated(items, path, out),
                ListType::Map => map_keys(items, ty, path, out),
            }
            let Some(inner) = ty.items() else { return };
            for (at, item) in items.iter().enumerate() {
                check(item, inner, &index(path, at), out);
            }
        }
        _ => {}
    }
}

fn map_keys(items: &[Value], ty: TypeRef, path: &str, out: &mut Vec<Cause>) {
    if let Some((at, bad)) = items.iter().enumerate().find(|(_, item)| !item.is_object() && !item.is_null()) {
        out.push(invalid(index(path, at), bad, "must be an object for an array of list-type map"));
        return;
    }
    let keys: Vec<Value> = items
        .iter()
        .map(|item| {
            let named = ty.schema.list_map_keys.iter();
            let pairs = named.filter_map(|k| item.get(k).map(|value| (k.clone(), value.clone())));
            Value::Object(pairs.collect::<Map<String, Value>>())
        })
        .collect();
    repeated(&keys, path, out);
}

fn repeated(items: &[Value], path: &str, out: &mut Vec<Cause>) {
    for (at, item) in items.iter().enumerate() {
        // A third appearance is not reported again.
        if items[..at].iter().filter(|before| *before == item).count() == 1 {
            out.push(duplicate(index(path, at), item));
        }
    }
}
