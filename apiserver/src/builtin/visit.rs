//! Walks an object and calls back at each struct, parents first.

use serde_json::{Map, Value};

use crate::schema::TypeRef;

/// Calls `at` with the definition's short name, such as `core.v1.Container`, for each named object.
pub(super) fn structs(value: &mut Value, ty: TypeRef, at: &mut impl FnMut(&str, &mut Map<String, Value>, TypeRef)) {
    match value {
        Value::Object(map) => {
            if !ty.schema.definition.is_empty() {
                let name = &ty.schema.definition;
                at(name.strip_prefix("io.k8s.api.").unwrap_or(name), map, ty);
            }
            for (name, inner) in map.iter_mut() {
                if let Some(field) = ty.field(name) {
                    structs(inner, field, at);
                }
            }
        }
        Value::Array(items) => {
            let Some(inner) = ty.items() else { return };
            items.iter_mut().for_each(|item| structs(item, inner, at));
        }
        _ => {}
    }
}
