//! The places where the pipeline calls the stages that know kinds, schemas and patches.
//!
//! # Guarantees
//! Each function is one decision of the pipeline, so that the verbs read the same for built-in and custom kinds.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::{
    apply::{self, FieldSet, Writer},
    builtin, crd,
    discovery::ResourceType,
    patch,
    schema::TypeRef,
    status::{ApiError, Cause},
};

use super::{call::Call, meta};

/// The type of a resource's objects, where one is known.
pub(crate) fn type_of(kind: &ResourceType) -> Option<TypeRef<'_>> {
    if kind.custom.is_some() { kind.custom_type() } else { builtin::definitions_for(&kind.kind) }
}

/// Decodes an object as its kind: drops fields that the type does not have and returns their paths.
///
/// # Errors
/// 400 for a value whose JSON type the field cannot hold.
pub(crate) fn drop_unknown(kind: &ResourceType, object: &mut Value) -> Result<Vec<String>, ApiError> {
    let Some(ty) = type_of(kind) else { return Ok(Vec::new()) };
    if kind.custom.is_some() {
        return Ok(crd::prune(object, ty));
    }
    if let Some(error) = builtin::decode_errors(object, ty) {
        return Err(error);
    }
    let unknown = builtin::unknown_fields(object, ty);
    if !unknown.is_empty() {
        builtin::prune_unknown(object, ty);
    }
    builtin::normalise_wire(&kind.kind, object, ty);
    Ok(unknown)
}

/// Fills in defaults.
pub(crate) fn default_values(kind: &ResourceType, object: &mut Value) {
    match kind.custom_type() {
        Some(ty) => crd::default_values(object, ty),
        None => builtin::default_object(&kind.kind, object),
    }
}

/// Checks an object; `old` is what it replaces.
pub(crate) fn validate(kind: &ResourceType, new: &Value, old: Option<&Value>) -> Vec<Cause> {
    match kind.custom_type() {
        Some(ty) => crd::validate(new, old, ty),
        None => builtin::validate_object(&kind.kind, new, old),
    }
}

/// Resets what a client may not set when it creates an object.
pub(crate) fn prepare_create(kind: &ResourceType, object: &mut Value) {
    match &kind.custom {
        Some(custom) if custom.status => {
            meta::as_map(object).remove("status");
        }
        Some(_) => {}
        None => builtin::prepare_create(&kind.kind, object),
    }
}

/// Puts back what this request may not change.
pub(crate) fn prepare_update(kind: &ResourceType, subresource: &str, new: &mut Value, old: &Value) {
    match &kind.custom {
        Some(custom) if custom.status => builtin::prepare_update_custom(subresource, new, old),
        Some(_) => {}
        None => builtin::prepare_update(&kind.kind, subresource, new, old),
    }
}

pub(crate) fn has_generation(kind: &ResourceType) -> bool {
    kind.custom.is_some() || builtin::has_generation(&kind.kind)
}

/// Whether an update raises the generation.
pub(crate) fn generation_changes(kind: &ResourceType, new: &Value, old: &Value) -> bool {
    if kind.custom.is_none() {
        return builtin::generation_changes(&kind.kind, new, old);
    }
    let outside = |object: &Value| -> Vec<(String, Value)> {
        let members = object.as_object().into_iter().flatten();
        let desired = members.filter(|(key, _)| !matches!(key.as_str(), "metadata" | "apiVersion" | "kind"));
        desired.map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    outside(new) != outside(old)
}

/// Records which manager set which field.
pub(crate) fn track(live: Option<&Value>, new: &mut Value, call: &Call, now: Timestamp) {
    let kind = Arc::clone(&call.kind);
    let version = kind.kind.api_version();
    apply::track_update_resetting(live, new, type_of(&kind), &writer(call, &version, now), &reset_fields(call));
}

/// Server-side apply.
///
/// # Errors
/// 409 with one cause per conflict, and what the real server says about configurations that do not fit.
pub(crate) fn apply(live: Option<&Value>, applied: &Value, call: &Call, now: Timestamp) -> Result<Value, ApiError> {
    let version = call.kind.kind.api_version();
    let writer = writer(call, &version, now);
    apply::apply_resetting(live, applied, type_of(&call.kind), &writer, call.force, &reset_fields(call))
}

fn writer<'a>(call: &'a Call, api_version: &'a str, now: Timestamp) -> Writer<'a> {
    Writer { manager: &call.manager, api_version, subresource: &call.subresource, now }
}

/// What the endpoint ignores, so that nobody owns it through it.
fn reset_fields(call: &Call) -> FieldSet {
    let has_status =
        call.kind.custom.as_ref().map_or_else(|| call.kind.subresources.contains_key("status"), |c| c.status);
    match (call.subresource.as_str(), call.kind.table.as_str()) {
        ("status", _) if call.kind.custom.is_some() => FieldSet::of_fields(&[
            &["spec"],
            &["metadata", "annotations"],
            &["metadata", "deletionTimestamp"],
            &["metadata", "generation"],
            &["metadata", "selfLink"],
            &["metadata", "labels"],
            &["metadata", "finalizers"],
            &["metadata", "ownerReferences"],
        ]),
        ("status", "pods") => {
            FieldSet::of_fields(&[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]])
        }
        ("status", "deployments.apps") => FieldSet::of_fields(&[&["spec"], &["metadata", "labels"]]),
        ("status", "customresourcedefinitions.apiextensions.k8s.io" | "networkpolicies.networking.k8s.io") => {
            FieldSet::of_fields(&[&["metadata"], &["spec"]])
        }
        ("status", _) => FieldSet::of_fields(&[&["spec"]]),
        // A node registers with its status.
        (_, "nodes") => FieldSet::default(),
        _ if has_status => FieldSet::of_fields(&[&["status"]]),
        _ => FieldSet::default(),
    }
}

/// The result of a patch that is not an apply.
///
/// # Errors
/// What the real server says about patches that do not fit.
pub(crate) fn strategic_merge(current: &Value, change: &Value, kind: &ResourceType) -> Result<Value, ApiError> {
    match type_of(kind) {
        Some(ty) => patch::strategic_merge(current, change, ty),
        None => Err(ApiError::unsupported(&format!("strategic merge patches of {}", kind.table))),
    }
}
