//! Fills in a structural schema's defaults.
//!
//! A default applies where its parent object is present. A null that is not nullable counts as absent: it takes the default, and
//! without one it goes.

use serde_json::Value;

use crate::schema::{Schema, TypeRef};

/// Defaults an object in place.
pub fn default_values(object: &mut Value, ty: TypeRef) {
    drop_nulls(object, Some(ty));
    fill(object, ty);
}

fn drop_nulls(value: &mut Value, ty: Option<TypeRef>) {
    match value {
        Value::Object(map) => {
            map.retain(|name, inner| {
                let field = ty.and_then(|t| t.field(name));
                !(inner.is_null() && field.is_some_and(|f| !f.schema.nullable && f.schema.default.is_none()))
            });
            for (name, inner) in map.iter_mut() {
                drop_nulls(inner, ty.and_then(|t| t.field(name)));
            }
        }
        Value::Array(items) => {
            let inner = ty.and_then(TypeRef::items);
            items.iter_mut().for_each(|item| drop_nulls(item, inner));
        }
        _ => {}
    }
}

fn fill(value: &mut Value, ty: TypeRef) {
    match value {
        Value::Object(map) => {
            for (name, property) in &ty.schema.properties {
                let Some(default) = &property.default else { continue };
                if map.get(name).is_none_or(|found| found.is_null() && !property.nullable) {
                    map.insert(name.clone(), default.clone());
                }
            }
            for (name, inner) in map.iter_mut() {
                let Some(field) = ty.field(name) else { continue };
                if !ty.schema.properties.contains_key(name) {
                    replace_null(inner, field.schema);
                }
                fill(inner, field);
            }
        }
        Value::Array(items) => {
            let Some(inner) = ty.items() else { return };
            for item in items {
                replace_null(item, inner.schema);
                fill(item, inner);
            }
        }
        _ => {}
    }
}

fn replace_null(value: &mut Value, schema: &Schema) {
    if value.is_null()
        && !schema.nullable
        && let Some(default) = &schema.default
    {
        value.clone_from(default);
    }
}
