//! Fields that a built-in type does not have.

use serde_json::Value;

use super::fields;
use crate::schema::TypeRef;

/// Paths of unknown fields, such as `spec.containers[0].foo`, sorted.
#[must_use]
pub fn unknown_fields(object: &Value, ty: TypeRef) -> Vec<String> {
    let mut found = Vec::new();
    let mut copy = object.clone();
    prune(&mut copy, ty, "", &mut found);
    found.sort();
    found
}

/// Drops unknown fields, as decoding does.
pub fn prune_unknown(object: &mut Value, ty: TypeRef) {
    prune(object, ty, "", &mut Vec::new());
}

fn prune(value: &mut Value, ty: TypeRef, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            let closed = fields::of(&ty.schema.definition).is_some() || !ty.schema.properties.is_empty();
            map.retain(|name, inner| {
                let at = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                match ty.field(name) {
                    Some(field) => {
                        prune(inner, field, &at, found);
                        true
                    }
                    None if closed => {
                        found.push(at);
                        false
                    }
                    None => true,
                }
            });
        }
        Value::Array(items) => {
            let Some(inner) = ty.items() else { return };
            for (at, item) in items.iter_mut().enumerate() {
                prune(item, inner, &format!("{path}[{at}]"), found);
            }
        }
        _ => {}
    }
}
