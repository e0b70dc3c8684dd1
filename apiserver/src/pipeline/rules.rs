//! The places where the pipeline calls the stages that know kinds, schemas and patches.
//!
//! # Guarantees
//! Each function is one decision of the pipeline, so that the verbs read the same for built-in and custom kinds.

use jiff::Timestamp;
use serde_json::Value;

use crate::{
    builtin, crd,
    discovery::ResourceType,
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
pub(crate) fn track(_live: Option<&Value>, _new: &mut Value, _call: &Call, _now: Timestamp) {}

/// Server-side apply.
pub(crate) fn apply(_live: Option<&Value>, _applied: &Value, _call: &Call, _now: Timestamp) -> Result<Value, ApiError> {
    Err(ApiError::unsupported("server-side apply"))
}

pub(crate) fn json_patch(current: &Value, patch: &Value) -> Result<Value, ApiError> {
    let bad = |why: String| ApiError::bad_request(why);
    let patch: json_patch::Patch = serde_json::from_value(patch.clone()).map_err(|e| bad(e.to_string()))?;
    let mut out = current.clone();
    json_patch::patch(&mut out, &patch).map_err(|e| {
        ApiError::new(422, "Invalid", format!("the server rejected our request due to an error in our request: {e}"))
    })?;
    Ok(out)
}

pub(crate) fn merge_patch(current: &Value, patch: &Value) -> Value {
    let mut out = current.clone();
    json_patch::merge(&mut out, patch);
    out
}

pub(crate) fn strategic_merge(_current: &Value, _patch: &Value, _kind: &ResourceType) -> Result<Value, ApiError> {
    Err(ApiError::unsupported("strategic merge patches"))
}
