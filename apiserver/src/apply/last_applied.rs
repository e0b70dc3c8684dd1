//! The way from client-side to server-side apply for `kubectl`.
//!
//! In: the live object's last-applied annotation. Out: the conflicts that `kubectl` may ignore, and the annotation kept
//! up to date. Guaranteed: only the manager `kubectl` gets this. Deliberately not done: other annotations.

use serde_json::Value;

use super::{
    collect::collect, compare::compare, conflict::Conflict, fieldset::FieldSet, shape::Shape, value::escaped_json,
};

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// All annotations of an object together may be this long, in bytes.
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// Only this manager has a client-side past.
pub(super) const MANAGER: &str = "kubectl";

/// The conflicts that remain when fields as `kubectl` last applied them count as its own.
pub(super) fn remaining(shape: Shape<'_>, live: &Value, api_version: &str, conflicts: Vec<Conflict>) -> Vec<Conflict> {
    let Some(own) = own_fields(shape, live, api_version) else { return conflicts };
    conflicts.into_iter().filter(|conflict| !own.contains(&conflict.path)).collect()
}

fn own_fields(shape: Shape<'_>, live: &Value, api_version: &str) -> Option<FieldSet> {
    let text = live["metadata"]["annotations"].get(ANNOTATION)?.as_str().filter(|t| !t.is_empty())?;
    let last: Value = serde_json::from_str(text).ok()?;
    if last["apiVersion"].as_str() != Some(api_version) {
        return None;
    }
    let changes = compare(shape, &last, live);
    let own = collect(shape, &last).difference(&changes.modified);
    Some(own.difference(&changes.added).difference(&changes.removed))
}

/// Brings the annotation of the result up to date, if it has one.
pub(super) fn refresh(result: &mut Value, applied: &Value) {
    let mut config = applied.clone();
    if let Some(annotations) = config.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(ANNOTATION);
    }
    let Some(annotations) = result.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) else { return };
    if annotations.get(ANNOTATION).and_then(Value::as_str).is_none_or(str::is_empty) {
        return;
    }
    annotations.insert(ANNOTATION.to_owned(), format!("{}\n", escaped_json(&config)).into());
    let size: usize = annotations.iter().map(|(k, v)| k.len() + v.as_str().map_or(0, str::len)).sum();
    if size > ANNOTATIONS_BYTES_MAX {
        annotations.remove(ANNOTATION);
    }
}
