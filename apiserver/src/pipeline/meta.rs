//! Reading and writing `metadata` of an untyped object.

use serde_json::{Map, Value};

/// A string of `metadata`, empty when absent.
pub fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object.get("metadata").and_then(|m| m.get(key)).and_then(Value::as_str).unwrap_or_default()
}

pub fn name(object: &Value) -> &str {
    text(object, "name")
}

pub fn namespace(object: &Value) -> &str {
    text(object, "namespace")
}

/// Anything of `metadata`.
pub fn field<'a>(object: &'a Value, key: &str) -> Option<&'a Value> {
    object.get("metadata")?.get(key)
}

/// `metadata`, created when it is absent or not an object.
pub fn metadata(object: &mut Value) -> &mut Map<String, Value> {
    map_at(object, "metadata")
}

/// A member that is an object, created when it is absent or something else.
pub fn map_at<'a>(object: &'a mut Value, key: &str) -> &'a mut Map<String, Value> {
    let slot = as_map(object).entry(key).or_insert(Value::Null);
    as_map(slot)
}

/// The value as an object, replaced by an empty one when it is something else.
pub fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("replaced by an object above"),
    }
}

pub fn set(object: &mut Value, key: &str, value: impl Into<Value>) {
    metadata(object).insert(key.into(), value.into());
}

pub fn remove(object: &mut Value, key: &str) {
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.remove(key);
    }
}

/// Takes a member of `metadata` over from another object, or removes it where that has none.
pub fn copy(from: &Value, into: &mut Value, key: &str) {
    match field(from, key).filter(|v| !v.is_null()) {
        Some(value) => set(into, key, value.clone()),
        None => remove(into, key),
    }
}

pub fn finalizers(object: &Value) -> Vec<&str> {
    let list = field(object, "finalizers").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(Value::as_str).collect()
}

pub fn is_terminating(object: &Value) -> bool {
    field(object, "deletionTimestamp").is_some_and(|t| !t.is_null())
}

/// Raises `metadata.generation` by one.
pub fn bump_generation(object: &mut Value) {
    let old = field(object, "generation").and_then(Value::as_i64).unwrap_or(0);
    set(object, "generation", old + 1);
}
