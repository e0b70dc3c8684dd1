//! PATCH in its four forms.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    patch,
    status::{ApiError, Cause},
};

use super::{
    access, body,
    call::Call,
    checks::{self, Source},
    cluster::Tx,
    convert, create, meta, rules,
    update::{self, Updated},
};

/// The form of a patch, by its media type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchKind {
    Json,
    Merge,
    Strategic,
    Apply,
}

/// A decoded patch.
#[derive(Debug, Clone)]
pub(crate) struct Patch {
    pub kind: PatchKind,
    pub value: Value,
    pub duplicates: Vec<String>,
}

impl Patch {
    /// Reads the body of a PATCH.
    pub fn decode(call: &Call, content_type: &str, bytes: &[u8]) -> Result<Self, ApiError> {
        let custom = call.kind.custom.is_some();
        let kind = match body::media_type(content_type) {
            "application/json-patch+json" => PatchKind::Json,
            "application/merge-patch+json" => PatchKind::Merge,
            "application/strategic-merge-patch+json" if !custom => PatchKind::Strategic,
            "application/apply-patch+yaml" => PatchKind::Apply,
            _ => return Err(unsupported(custom)),
        };
        let decoded = if kind == PatchKind::Apply { body::yaml(bytes)? } else { body::json(bytes)? };
        let fits = if kind == PatchKind::Json { decoded.value.is_array() } else { decoded.value.is_object() };
        if !fits {
            return Err(ApiError::bad_request("the body of the request is not a patch of the declared type"));
        }
        Ok(Self { kind, value: decoded.value, duplicates: decoded.duplicates })
    }
}

fn unsupported(custom: bool) -> ApiError {
    let strategic = if custom { "" } else { ", application/strategic-merge-patch+json" };
    ApiError::unsupported_media_type(format!(
        "the body of the request was in an unknown format - accepted media types include: \
         application/json-patch+json, application/merge-patch+json{strategic}, application/apply-patch+yaml"
    ))
}

/// Patches an object; an apply patch also creates it.
pub(crate) fn patch(tx: &mut Tx<'_>, call: &mut Call, patch: &Patch) -> Result<Updated, ApiError> {
    convert::check(&call.kind)?;
    if patch.kind == PatchKind::Apply {
        return apply(tx, call, patch);
    }
    let stored =
        tx.get(&call.kind, &call.namespace, &call.name).ok_or_else(|| ApiError::not_found(call.gvr(), &call.name))?;
    let current = convert::from_storage(&call.kind, &stored);
    let mut new = patched(&call.kind, &current, patch)?;
    checks::fit(call, &mut new)?;
    same_name(call, &new)?;
    checks::field_validation(call, &mut new, &patch.duplicates, Source::Patch(&patch.value))?;
    let object = update::replace(tx, call, &stored, new, None)?;
    Ok(Updated { object, created: false })
}

/// The result of a patch that is not an apply.
pub(crate) fn patched(
    kind: &crate::discovery::ResourceType,
    current: &Value,
    patch: &Patch,
) -> Result<Value, ApiError> {
    match patch.kind {
        PatchKind::Json => patch::json_patch(current, &patch.value),
        PatchKind::Merge => Ok(patch::merge_patch(current, &patch.value)),
        PatchKind::Strategic | PatchKind::Apply => rules::strategic_merge(current, &patch.value, kind),
    }
}

fn same_name(call: &Call, object: &Value) -> Result<(), ApiError> {
    let name = meta::name(object);
    if name == call.name {
        return Ok(());
    }
    Err(ApiError::bad_request(format!(
        "the name of the object ({name}) does not match the name on the URL ({})",
        call.name
    )))
}

fn apply(tx: &mut Tx<'_>, call: &mut Call, patch: &Patch) -> Result<Updated, ApiError> {
    if !call.named_manager {
        let cause = Cause::required("fieldManager", "is required for apply patch");
        return Err(ApiError::invalid("meta.k8s.io", "PatchOptions", "", vec![cause]));
    }
    let mut applied = patch.value.clone();
    if meta::field(&applied, "managedFields").and_then(Value::as_array).is_some_and(|m| !m.is_empty()) {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    checks::fit(call, &mut applied)?;
    if meta::name(&applied).is_empty() {
        meta::set(&mut applied, "name", call.name.as_str());
    }
    same_name(call, &applied)?;
    let stored = tx.get(&call.kind, &call.namespace, &call.name);
    let Some(stored) = stored else {
        if !call.subresource.is_empty() {
            return Err(ApiError::not_found(call.gvr(), &call.name));
        }
        if !meta::text(&applied, "uid").is_empty() {
            return Err(ApiError::conflict(call.gvr(), &call.name, "uid mismatch: the object does not exist"));
        }
        access::authorise(tx.state, call, "create")?;
        let merged = rules::apply(None, &applied, call, tx.now)?;
        let managed = meta::field(&merged, "managedFields").cloned();
        let object = create::insert(tx, call, merged, managed)?;
        return Ok(Updated { object, created: true });
    };
    let live = convert::from_storage(&call.kind, &stored);
    let merged = rules::apply(Some(&live), &applied, call, tx.now)?;
    let managed = meta::field(&merged, "managedFields").cloned();
    let object = update::replace(tx, call, &stored, merged, managed)?;
    Ok(Updated { object: Arc::clone(&object), created: false })
}
