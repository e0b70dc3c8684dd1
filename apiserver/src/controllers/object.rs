//! Typed reads of JSON objects, and the few writes that every controller makes the same way.
//!
//! Reads never fail: what is absent or of another type reads as empty, zero or `None`, since the pipeline has
//! validated the object already. Writes go out only when they change something.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{Client, Key};
use crate::{resource::Gvr, status::ApiError};

/// The string at a JSON pointer, or the empty string.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}

pub(super) fn opt_int(object: &Value, pointer: &str) -> Option<i64> {
    object.pointer(pointer).and_then(Value::as_i64)
}

pub(super) fn int(object: &Value, pointer: &str) -> i64 {
    opt_int(object, pointer).unwrap_or(0)
}

pub(super) fn flag(object: &Value, pointer: &str) -> bool {
    object.pointer(pointer).and_then(Value::as_bool).unwrap_or(false)
}

pub(super) fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(super) fn map<'a>(object: &'a Value, pointer: &str) -> Option<&'a Map<String, Value>> {
    object.pointer(pointer).and_then(Value::as_object)
}

/// An RFC 3339 time.
pub(super) fn time(object: &Value, pointer: &str) -> Option<Timestamp> {
    text(object, pointer).parse().ok()
}

pub(super) fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

pub(super) fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

pub(super) fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

pub(super) fn generation(object: &Value) -> i64 {
    int(object, "/metadata/generation")
}

pub(super) fn label<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"]["labels"][key].as_str().unwrap_or("")
}

pub(super) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["annotations"][key].as_str()
}

pub(super) fn is_terminating(object: &Value) -> bool {
    !text(object, "/metadata/deletionTimestamp").is_empty()
}

pub(super) fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    list(object, "/metadata/finalizers").iter().any(|f| f.as_str() == Some(finalizer))
}

pub(super) fn key(object: &Value) -> Key {
    Key { namespace: namespace(object).into(), name: name(object).into() }
}

/// The owner reference with `controller: true`.
pub(super) fn controller_of(object: &Value) -> Option<&Value> {
    list(object, "/metadata/ownerReferences").iter().find(|r| flag(r, "/controller"))
}

/// The key of the controlling owner when that is of `kind` in `group`.
pub(super) fn controller_key(object: &Value, group: &str, kind: &str) -> Option<Key> {
    let owner = controller_of(object)?;
    let same = text(owner, "/kind") == kind && group_of(text(owner, "/apiVersion")) == group;
    same.then(|| Key { namespace: namespace(object).into(), name: text(owner, "/name").into() })
}

pub(super) fn is_controlled_by(object: &Value, owner_uid: &str) -> bool {
    controller_of(object).is_some_and(|r| text(r, "/uid") == owner_uid)
}

/// The group in an `apiVersion`.
pub(super) fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// The reference by which `owner` controls a child.
pub(super) fn controller_ref(owner: &Value, api_version: &str, kind: &str) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind, "name": name(owner), "uid": uid(owner),
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// A count or a percentage of `total`; percentages of surges round up, those of outages down.
pub(super) fn scaled(value: Option<&Value>, total: i64, round_up: bool, default: i64) -> i64 {
    match value {
        Some(Value::Number(n)) => n.as_i64().unwrap_or(default),
        Some(Value::String(s)) => match s.strip_suffix('%').and_then(|p| p.parse::<i64>().ok()) {
            Some(percent) if round_up => (total * percent + 99).div_euclid(100),
            Some(percent) => (total * percent).div_euclid(100),
            None => s.parse().unwrap_or(default),
        },
        _ => default,
    }
}

/// Turns 404 into `None`.
pub(super) fn found(result: Result<Value, ApiError>) -> Result<Option<Value>, ApiError> {
    match result {
        Ok(object) => Ok(Some(object)),
        Err(e) if e.code == 404 => Ok(None),
        Err(e) => Err(e),
    }
}

/// `GET`, with absence as `None`.
pub(super) fn get(client: &dyn Client, gvr: &Gvr, key: &Key) -> Result<Option<Value>, ApiError> {
    found(client.get(gvr, &key.namespace, &key.name))
}

/// Writes `status` unless the object has it already; tells whether it wrote.
pub(super) fn write_status(client: &dyn Client, gvr: &Gvr, object: &Value, status: Value) -> Result<bool, ApiError> {
    let same = match object.get("status") {
        Some(old) => *old == status,
        None => status.as_object().is_some_and(Map::is_empty),
    };
    if same {
        return Ok(false);
    }
    let mut next = object.clone();
    next["status"] = status;
    client.update(gvr, "status", &next)?;
    Ok(true)
}

/// Deletes exactly this object (by UID), in the background unless `propagation` says otherwise; absent is fine.
pub(super) fn delete(
    client: &dyn Client,
    gvr: &Gvr,
    object: &Value,
    propagation: Option<&str>,
) -> Result<(), ApiError> {
    let mut options = json!({"preconditions": {"uid": uid(object)}});
    if let Some(policy) = propagation {
        options["propagationPolicy"] = json!(policy);
    }
    match client.delete(gvr, namespace(object), name(object), &options) {
        Err(e) if e.code == 404 => Ok(()),
        other => other,
    }
}

/// Takes `finalizer` off, under the lock of the object's resourceVersion; an object that is gone is fine.
pub(super) fn remove_finalizer(
    client: &dyn Client,
    gvr: &Gvr,
    object: &Value,
    finalizer: &str,
) -> Result<(), ApiError> {
    let left: Vec<&Value> =
        list(object, "/metadata/finalizers").iter().filter(|f| f.as_str() != Some(finalizer)).collect();
    patch_metadata(client, gvr, object, "finalizers", json!(left))
}

/// Replaces one metadata field, under the lock of the object's resourceVersion; an object that is gone is fine.
pub(super) fn patch_metadata(
    client: &dyn Client,
    gvr: &Gvr,
    object: &Value,
    field: &str,
    value: Value,
) -> Result<(), ApiError> {
    let mut patch = json!({"metadata": {
        "uid": uid(object), "resourceVersion": text(object, "/metadata/resourceVersion"),
    }});
    // An emptied list is removed, as a Go server would leave it out.
    let empty = value.as_array().is_some_and(Vec::is_empty);
    patch["metadata"][field] = if empty { Value::Null } else { value };
    found(client.patch(gvr, "", namespace(object), name(object), &patch)).map(|_| ())
}

/// Leaves out zero counts, as Go's `omitempty` does; a real server never stores them.
pub(super) fn put_count(status: &mut Value, field: &str, count: i64) {
    if count == 0 {
        if let Some(fields) = status.as_object_mut() {
            fields.remove(field);
        }
    } else {
        status[field] = json!(count);
    }
}

/// The status as an object to start from.
pub(super) fn status_of(object: &Value) -> Value {
    object.get("status").filter(|s| s.is_object()).cloned().unwrap_or_else(|| json!({}))
}
