//! Values of the wrong JSON type, worded as Go's decoder words them.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;

use super::{
    fields::{self, Field},
    quantity::Quantity,
};
use crate::{resource::Gvk, schema::TypeRef, status::ApiError};

const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";

/// The 400 that a value of the wrong type gives; the first one in field order.
#[must_use]
pub fn decode_errors(object: &Value, ty: TypeRef) -> Option<ApiError> {
    let why = node(object, ty, &Place { owner: "", path: String::new(), field: None })?;
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let gvk = Gvk::parse(text("apiVersion"), text("kind"));
    let (kind, version) = (&gvk.kind, &gvk.version);
    Some(ApiError::bad_request(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {why}")))
}

struct Place<'a> {
    /// The struct that has the field, as Go names it.
    owner: &'a str,
    /// Path from the root, without list indices.
    path: String,
    field: Option<&'a Field>,
}

fn node(value: &Value, ty: TypeRef, place: &Place) -> Option<String> {
    let schema = ty.schema;
    if value.is_null() {
        return None;
    }
    if schema.definition == QUANTITY {
        return quantity(value);
    }
    if schema.int_or_string {
        return match value {
            Value::String(_) => None,
            Value::Number(n) if n.is_i64() => None,
            other => Some(format!("json: cannot unmarshal {} into Go value of type int32", word(other))),
        };
    }
    if schema.definition.ends_with(".meta.v1.Time") || schema.definition.ends_with(".meta.v1.MicroTime") {
        return time(value);
    }
    match (schema.kind.as_str(), value) {
        ("object", Value::Object(map)) => {
            let owner = schema.definition.rsplit('.').next().unwrap_or_default();
            let table = fields::of(&schema.definition);
            map.iter().find_map(|(name, inner)| {
                let field = ty.field(name)?;
                let declared = schema.properties.contains_key(name);
                let path = match (declared, place.path.is_empty()) {
                    (false, _) => place.path.clone(),
                    (true, true) => name.clone(),
                    (true, false) => format!("{}.{name}", place.path),
                };
                let owner = if declared { owner } else { place.owner };
                node(inner, field, &Place { owner, path, field: table.and_then(|t| t.get(name)) })
            })
        }
        ("array", Value::Array(items)) => {
            let inner = ty.items()?;
            let path = place.path.clone();
            items
                .iter()
                .find_map(|item| node(item, inner, &Place { owner: place.owner, path: path.clone(), field: None }))
        }
        ("string", Value::String(text)) => (schema.format == "byte").then(|| bytes(text)).flatten(),
        ("boolean", Value::Bool(_)) | ("number", Value::Number(_)) | ("", _) => None,
        ("integer", Value::Number(n)) => {
            let small = schema.format == "int32";
            let fits = n.as_i64().is_some_and(|i| !small || i32::try_from(i).is_ok());
            (!fits).then(|| mismatch(&format!("number {n}"), ty, place))
        }
        _ => Some(mismatch(word(value), ty, place)),
    }
}

fn word(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn mismatch(found: &str, ty: TypeRef, place: &Place) -> String {
    let wanted = place.field.and_then(|f| f.go_type.clone()).unwrap_or_else(|| go_type(ty));
    format!("json: cannot unmarshal {found} into Go struct field {}.{} of type {wanted}", place.owner, place.path)
}

/// The Go spelling of a type without a name of its own.
fn go_type(ty: TypeRef) -> String {
    let schema = ty.schema;
    if !schema.definition.is_empty() {
        let mut parts = schema.definition.rsplit('.');
        let (name, package) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        return format!("{package}.{name}");
    }
    match (schema.kind.as_str(), schema.format.as_str()) {
        ("integer", "int32") => "int32".to_owned(),
        ("integer", _) => "int64".to_owned(),
        ("boolean", _) => "bool".to_owned(),
        ("number", _) => "float64".to_owned(),
        ("string", "byte") => "[]uint8".to_owned(),
        ("string", _) => "string".to_owned(),
        ("array", _) => format!("[]{}", ty.items().map(go_type).unwrap_or_default()),
        _ => format!("map[string]{}", ty.additional().map(go_type).unwrap_or_default()),
    }
}

fn quantity(value: &Value) -> Option<String> {
    let good = match value {
        Value::String(text) => Quantity::parse(text).is_some(),
        Value::Number(number) => Quantity::parse(&number.to_string()).is_some(),
        _ => false,
    };
    let shape = "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    (!good).then(|| format!("quantities must match the regular expression {shape}"))
}

fn time(value: &Value) -> Option<String> {
    let Some(text) = value.as_str() else {
        return Some(format!("json: cannot unmarshal {} into Go value of type string", word(value)));
    };
    let layout = "2006-01-02T15:04:05Z07:00";
    text.parse::<jiff::Timestamp>()
        .is_err()
        .then(|| format!("parsing time {text:?} as {layout:?}: cannot parse {text:?} as \"2006\""))
}

fn bytes(text: &str) -> Option<String> {
    use base64::DecodeError;
    let compact: String = text.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
    let at = match STANDARD.decode(&compact) {
        Ok(_) => return None,
        Err(DecodeError::InvalidByte(at, _)) => at,
        // Everything else is about the last group of four.
        Err(_) => compact.len().saturating_sub(1) / 4 * 4,
    };
    Some(format!("illegal base64 data at input byte {at}"))
}
