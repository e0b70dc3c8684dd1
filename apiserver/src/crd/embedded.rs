//! The type meta of embedded resources.

use serde_json::Value;

use super::cause::{child, index, invalid, key};
use crate::{schema::TypeRef, status::Cause};

/// Asks every embedded resource below `value` for an `apiVersion` and a `kind`.
pub(super) fn check(value: &Value, ty: TypeRef, path: &str, out: &mut Vec<Cause>) {
    match value {
        Value::Object(map) => {
            // The root is a resource too, but the pipeline has judged its type meta before.
            if ty.schema.embedded_resource && !path.is_empty() {
                type_meta(value, path, out);
            }
            for (name, inner) in map {
                let Some(field) = ty.field(name) else { continue };
                let declared = ty.schema.properties.contains_key(name);
                let at = if declared { child(path, name) } else { key(path, name) };
                check(inner, field, &at, out);
            }
        }
        Value::Array(items) => {
            let Some(inner) = ty.items() else { return };
            for (at, item) in items.iter().enumerate() {
                check(item, inner, &index(path, at), out);
            }
        }
        _ => {}
    }
}

fn type_meta(value: &Value, path: &str, out: &mut Vec<Cause>) {
    for name in ["apiVersion", "kind"] {
        let at = child(path, name);
        match value.get(name) {
            None => out.push(Cause::required(at, "")),
            Some(Value::String(text)) if text.is_empty() => {
                out.push(invalid(at, &Value::from(""), "must not be empty"));
            }
            Some(found @ Value::String(text)) if name == "apiVersion" && text.matches('/').count() > 1 => {
                out.push(invalid(at, found, &format!("unexpected GroupVersion string: {text}")));
            }
            Some(Value::String(_)) => {}
            Some(found) => out.push(invalid(at, found, "must be a string")),
        }
    }
    if let Some(meta) = value.get("metadata").filter(|m| !m.is_object()) {
        out.push(invalid(child(path, "metadata"), meta, "must be an object"));
    }
}
