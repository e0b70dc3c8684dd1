//! What a round trip through Go's types makes of an object.
//!
//! Nulls count as absent; empty values of fields with `omitempty` go; structs that are no pointers appear even when empty. Quantities and times
//! take their stored spelling.

use serde_json::{Map, Value, json};

use super::{
    fields::{self, Field},
    quantity::Quantity,
};
use crate::{resource::Gvk, schema::TypeRef};

const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Time";
const MICRO_TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime";

/// Normalises a built-in object in place. Idempotent.
pub fn normalise_wire(gvk: &Gvk, object: &mut Value, ty: TypeRef) {
    normalise(object, ty);
    if let Some(map) = object.as_object_mut() {
        map.insert("apiVersion".into(), gvk.api_version().into());
        map.insert("kind".into(), gvk.kind.clone().into());
    }
}

fn normalise(value: &mut Value, ty: TypeRef) {
    match ty.schema.definition.as_str() {
        QUANTITY => return canonical(value),
        TIME => return time(value, 0),
        MICRO_TIME => return time(value, 6),
        _ => {}
    }
    let fields = fields::of(&ty.schema.definition);
    match value {
        Value::Object(map) if fields.is_some() => structure(map, ty),
        Value::Object(map) => {
            let Some(inner) = ty.additional() else { return };
            for item in map.values_mut() {
                element(item, inner);
                if inner.schema.definition == QUANTITY {
                    to_milli(item);
                }
            }
        }
        Value::Array(items) => {
            let Some(inner) = ty.items() else { return };
            items.iter_mut().for_each(|item| element(item, inner));
        }
        _ => {}
    }
}

/// An item or map value: Go has no null among strings and structs.
fn element(value: &mut Value, ty: TypeRef) {
    if value.is_null() {
        if ty.schema.kind == "string" && ty.schema.format.is_empty() && ty.schema.definition.is_empty() {
            *value = "".into();
        } else if fields::of(&ty.schema.definition).is_some() {
            *value = json!({});
        }
    }
    normalise(value, ty);
}

fn structure(map: &mut Map<String, Value>, ty: TypeRef) {
    let Some(table) = fields::of(&ty.schema.definition) else { return };
    for (name, field) in table {
        let mut found = map.remove(name).filter(|v| !v.is_null());
        if found.is_none() && field.kind == 'o' && !field.omit_zero {
            found = Some(json!({}));
        }
        // Most fields of most objects are absent, and looking up their types is what costs here.
        if let Some(value) = found.as_mut()
            && let Some(inner) = ty.field(name)
        {
            normalise(value, inner);
        }
        let kept = found.filter(|value| field.kept || !is_empty(value, field));
        if let Some(value) = kept.or_else(|| zero(field)) {
            map.insert(name.clone(), value);
        }
    }
}

/// Whether `omitempty` leaves this value out.
fn is_empty(value: &Value, field: &Field) -> bool {
    match (field.kind, value) {
        ('o', Value::Object(map)) => field.omit_zero && map.is_empty(),
        ('l', Value::Array(items)) => items.is_empty(),
        ('m', Value::Object(map)) => map.is_empty(),
        ('s' | 'y', Value::String(text)) => text.is_empty(),
        ('n', Value::Number(n)) => n.as_f64() == Some(0.0),
        ('b', Value::Bool(flag)) => !flag,
        _ => false,
    }
}

/// What Go writes for a field that was not given; `None` when it writes nothing.
fn zero(field: &Field) -> Option<Value> {
    match field.kind {
        // Structs cannot be empty for `omitempty`, whatever they stand for.
        'q' => Some("0".into()),
        'i' => Some(0.into()),
        't' | 'r' if field.kept || (field.kind == 't' && !field.omit_zero) => Some(Value::Null),
        's' if field.kept => Some("".into()),
        'n' if field.kept => Some(0.into()),
        'b' if field.kept => Some(false.into()),
        'p' | 'l' | 'm' | 'y' if field.kept => Some(Value::Null),
        _ => None,
    }
}

fn parsed(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::parse(text),
        Value::Number(number) => Quantity::parse(&number.to_string()),
        _ => None,
    }
}

fn canonical(value: &mut Value) {
    if let Some(quantity) = parsed(value) {
        *value = quantity.to_string().into();
    }
}

fn to_milli(value: &mut Value) {
    if let Some(quantity) = parsed(value) {
        *value = quantity.to_milli().to_string().into();
    }
}

/// Times are stored in UTC, in whole seconds or with six digits.
fn time(value: &mut Value, digits: usize) {
    let Some(instant) = value.as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok()) else { return };
    let shape = if digits == 0 { "%Y-%m-%dT%H:%M:%SZ" } else { "%Y-%m-%dT%H:%M:%S.%6fZ" };
    *value = instant.strftime(shape).to_string().into();
}
