//! Keywords of one value, without its children: strings, counts and enumerations.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use regex::Regex;
use serde_json::Value;

use super::{
    cause::{invalid, not_supported, too_long, too_many},
    format,
};
use crate::{schema::Schema, status::Cause};

/// `minLength`, `maxLength`, `pattern` and `format`.
pub(super) fn string(value: &Value, schema: &Schema, raw: &Value, path: &str, out: &mut Vec<Cause>) {
    let Some(text) = value.as_str() else { return };
    let limit = |key: &str| raw.get(key).and_then(Value::as_u64);
    let length = text.chars().count() as u64;
    if let Some(max) = limit("maxLength").filter(|max| length > *max) {
        out.push(too_long(path, max));
    }
    if let Some(min) = limit("minLength").filter(|min| length < *min) {
        out.push(invalid(path, value, &format!("{path} in body should be at least {min} chars long")));
    }
    if let Some(pattern) = raw.get("pattern").and_then(Value::as_str) {
        let matched = regex(pattern).is_some_and(|r| r.is_match(text));
        if !matched {
            out.push(invalid(path, value, &format!("{path} in body should match '{pattern}'")));
        }
    }
    if !schema.format.is_empty() && !format::matches(&schema.format, text) {
        let detail = format!("{path} in body must be of type {}: {value}", schema.format);
        out.push(Cause::new("FieldValueTypeInvalid", path, format!("Invalid value: {value}: {detail}")));
    }
}

/// `minItems` and `maxItems`.
pub(super) fn items(count: usize, value: &Value, raw: &Value, path: &str, out: &mut Vec<Cause>) {
    let limit = |key: &str| raw.get(key).and_then(Value::as_u64);
    if let Some(min) = limit("minItems").filter(|min| (count as u64) < *min) {
        let detail = format!("{path} in body should have at least {min} items");
        out.push(invalid(path, &Value::from(count), &detail));
    }
    if let Some(max) = limit("maxItems").filter(|max| (count as u64) > *max) {
        out.push(too_many(path, count, max));
    }
    if raw.get("uniqueItems") == Some(&Value::Bool(true)) {
        let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
        if list.iter().enumerate().any(|(at, item)| list[..at].contains(item)) {
            out.push(invalid(path, &Value::from(""), &format!("{path} in body shouldn't contain duplicates")));
        }
    }
}

/// `minProperties` and `maxProperties`.
pub(super) fn properties(count: usize, raw: &Value, path: &str, out: &mut Vec<Cause>) {
    let limit = |key: &str| raw.get(key).and_then(Value::as_u64);
    if let Some(min) = limit("minProperties").filter(|min| (count as u64) < *min) {
        let detail = format!("{path} in body should have at least {min} properties");
        out.push(invalid(path, &Value::from(count), &detail));
    }
    if let Some(max) = limit("maxProperties").filter(|max| (count as u64) > *max) {
        out.push(too_many(path, count, max));
    }
}

/// `enum`; a null passes where null is allowed.
pub(super) fn enumeration(value: &Value, schema: &Schema, raw: &Value, path: &str, out: &mut Vec<Cause>) {
    let Some(allowed) = raw.get("enum").and_then(Value::as_array) else { return };
    let same = |a: &Value| a == value || (a.is_number() && a.as_f64() == value.as_f64());
    if allowed.iter().any(same) || (value.is_null() && schema.nullable) {
        return;
    }
    let names: Vec<String> = allowed.iter().map(|a| a.as_str().map_or_else(|| a.to_string(), str::to_owned)).collect();
    out.push(not_supported(path, value, &names));
}

/// A pattern, compiled once per process; `None` when it is no regular expression.
pub(super) fn regex(pattern: &str) -> Option<Arc<Regex>> {
    static CACHE: Mutex<BTreeMap<String, Option<Arc<Regex>>>> = Mutex::new(BTreeMap::new());
    let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    cache.entry(pattern.to_owned()).or_insert_with(|| Regex::new(pattern).ok().map(Arc::new)).clone()
}
