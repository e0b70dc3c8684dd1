//! Which old value a new value is compared with.
//!
//! Fields pair up by name and items of list maps by their keys. Items of sets and of atomic lists have no counterpart.

use serde_json::Value;

use crate::schema::{ListType, TypeRef};

/// The old value of a field.
pub(super) fn field<'a>(old: Option<&'a Value>, name: &str) -> Option<&'a Value> {
    old.and_then(|o| o.get(name))
}

/// The old item with the same keys, for list maps only.
pub(super) fn item<'a>(old: Option<&'a Value>, new: &Value, list: TypeRef) -> Option<&'a Value> {
    if list.schema.list_type != ListType::Map {
        return None;
    }
    let keys = &list.schema.list_map_keys;
    old?.as_array()?.iter().find(|candidate| keys.iter().all(|k| candidate.get(k) == new.get(k)))
}

/// Whether nothing changed; list maps may have changed their order.
pub(super) fn same(new: &Value, old: &Value, ty: TypeRef) -> bool {
    match (new, old) {
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(name, value)| match (b.get(name), ty.field(name)) {
                    (Some(before), Some(inner)) => same(value, before, inner),
                    (Some(before), None) => value == before,
                    (None, _) => false,
                })
        }
        (Value::Array(a), Value::Array(b)) if ty.schema.list_type == ListType::Map => {
            let Some(inner) = ty.items() else { return a == b };
            a.len() == b.len()
                && a.iter().all(|value| item(Some(old), value, ty).is_some_and(|before| same(value, before, inner)))
        }
        _ => new == old,
    }
}
