//! Checks of an object against its request, before any rule of its kind.

use serde_json::Value;

use crate::{
    discovery::ResourceType,
    resource::Gvk,
    status::{ApiError, Cause},
};

use super::{
    call::{Call, FieldValidation},
    meta, rules,
};

/// Checks `apiVersion`, `kind` and `namespace` against the URL, filling in what built-in kinds may leave out.
pub(crate) fn fit(call: &Call, object: &mut Value) -> Result<(), ApiError> {
    if !object.is_object() {
        return Err(ApiError::bad_request("the body of the request is not an object"));
    }
    let want = call.kind.kind.clone();
    if object.get("kind").and_then(Value::as_str).unwrap_or_default().is_empty() {
        if call.kind.custom.is_some() {
            return Err(ApiError::bad_request(format!("Object 'Kind' is missing in '{object}'")));
        }
        meta::as_map(object).insert("kind".into(), want.kind.as_str().into());
    }
    if object.get("apiVersion").and_then(Value::as_str).unwrap_or_default().is_empty() {
        if call.kind.custom.is_some() {
            return Err(ApiError::bad_request(format!("Object 'apiVersion' is missing in '{object}'")));
        }
        meta::as_map(object).insert("apiVersion".into(), want.api_version().into());
    }
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    fit_kind(&want, &Gvk::parse(text("apiVersion"), text("kind")))?;
    if !object.get("metadata").is_none_or(|m| m.is_object() || m.is_null()) {
        return Err(ApiError::bad_request("metadata must be an object"));
    }
    fit_namespace(call, object)
}

fn fit_kind(want: &Gvk, have: &Gvk) -> Result<(), ApiError> {
    if have.api_version() != want.api_version() {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({}) does not match the expected API version ({})",
            have.api_version(),
            want.api_version()
        )));
    }
    if have.kind != want.kind {
        return Err(ApiError::bad_request(format!(
            "{} in version \"{}\" cannot be handled as a {}: no conversion between these kinds",
            have.kind, have.version, want.kind
        )));
    }
    Ok(())
}

fn fit_namespace(call: &Call, object: &mut Value) -> Result<(), ApiError> {
    if !call.kind.namespaced {
        meta::remove(object, "namespace");
        return Ok(());
    }
    match meta::namespace(object) {
        "" => meta::set(object, "namespace", call.namespace.as_str()),
        same if same == call.namespace => {}
        _ => {
            let why = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(ApiError::bad_request(why));
        }
    }
    Ok(())
}

/// Where a strict violation was found, which decides how it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source<'a> {
    Body,
    Patch(&'a Value),
}

/// Drops unknown fields; depending on the request they, and duplicates, are warnings or an error.
pub(crate) fn field_validation(
    call: &mut Call,
    object: &mut Value,
    duplicates: &[String],
    source: Source<'_>,
) -> Result<(), ApiError> {
    let mut found: Vec<String> = duplicates.iter().map(|path| format!("duplicate field \"{path}\"")).collect();
    found.extend(rules::drop_unknown(&call.kind, object)?.into_iter().map(|path| format!("unknown field \"{path}\"")));
    match call.validation {
        _ if found.is_empty() => {}
        FieldValidation::Ignore => {}
        FieldValidation::Warn => call.warnings.extend(found),
        FieldValidation::Strict => {
            let text = format!("strict decoding error: {}", found.join(", "));
            let kind = &call.kind.kind;
            return Err(match source {
                Source::Body => ApiError::bad_request(format!(
                    "{} in version \"{}\" cannot be handled as a {}: {text}",
                    kind.kind, kind.version, kind.kind
                )),
                Source::Patch(patch) => {
                    let shown = Value::from(patch.to_string());
                    ApiError::invalid("", "", "", vec![Cause::invalid("patch", &shown, &text)])
                }
            });
        }
    }
    Ok(())
}

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                         and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
                         validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
                     start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for \
                     validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

/// What is wrong with the name of a new object.
pub(crate) fn name(kind: &ResourceType, object: &Value) -> Option<Cause> {
    let name = meta::name(object);
    let value = Value::from(name);
    if kind.gvr.group == "rbac.authorization.k8s.io" {
        let bad = matches!(name, "." | "..") || name.contains(['/', '%']);
        return bad.then(|| Cause::invalid("metadata.name", &value, "may not be '.' or '..', nor contain '/' or '%'"));
    }
    let labels = matches!(kind.table.as_str(), "namespaces" | "services");
    let limit = if labels { 63 } else { 253 };
    if name.len() > limit {
        return Some(Cause::invalid("metadata.name", &value, &format!("must be no more than {limit} bytes")));
    }
    let label = |part: &str| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        part.starts_with(inner) && part.ends_with(inner) && part.chars().all(|c| inner(c) || c == '-')
    };
    let (fine, text) = if labels { (label(name), LABEL) } else { (name.split('.').all(label), SUBDOMAIN) };
    (!fine).then(|| Cause::invalid("metadata.name", &value, text))
}

/// The 422 of these causes, or nothing.
pub(crate) fn refuse(kind: &ResourceType, object: &Value, causes: Vec<Cause>) -> Result<(), ApiError> {
    if causes.is_empty() {
        return Ok(());
    }
    if let Some(beyond) = causes.iter().find(|c| c.reason == crate::crd::UNSUPPORTED) {
        return Err(ApiError::unsupported(&format!("{}: {}", beyond.field, beyond.message)));
    }
    Err(ApiError::invalid(&kind.kind.group, &kind.kind.kind, meta::name(object), causes))
}

/// `pods "x" is forbidden: why`.
pub(crate) fn forbidden(call: &Call, name: &str, why: &str) -> ApiError {
    let gvr = call.gvr();
    let mut error = ApiError::new(403, "Forbidden", format!("{} \"{name}\" is forbidden: {why}", gvr.group_resource()));
    error.details.group.clone_from(&gvr.group);
    error.details.kind.clone_from(&gvr.resource);
    error.details.name = name.into();
    error
}
