//! The common validation rules of built-in kinds, with the words of the real server.
//!
//! # Deliberately not done
//! Rules of rarer fields (affinity, probes' handlers, security contexts, volume sources) are absent. Where the real server appends a Go diff or
//! an internal struct to a message, only the sentence before it is given.

mod meta;
mod pods;
mod workloads;
mod services;
mod configs;

use serde_json::Value;

use super::openapi::definitions_for;
use crate::{
    crd::cause::{invalid, invalid_as},
    resource::Gvk,
    status::Cause,
};

/// Judges a built-in object after defaulting; `old` is the stored one on update.
#[must_use]
pub fn validate_object(gvk: &Gvk, new: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut out = Vec::new();
    if definitions_for(gvk).is_none() {
        return out;
    }
    meta::check(gvk, new, old, &mut out);
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("", "Pod") => pods::check(new, old, &mut out),
        ("", "Service") => services::check(new, old, &mut out),
        ("apps" | "batch" | "autoscaling" | "policy", _) => workloads::check(&gvk.kind, new, old, &mut out),
        _ => configs::check(&gvk.kind, new, old, &mut out),
    }
    out
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// A number that must not be negative.
fn non_negative(value: &Value, pointer: &str, out: &mut Vec<Cause>) {
    let Some(found) = value.pointer(pointer) else { return };
    if found.as_i64().is_some_and(|n| n < 0) {
        let at = pointer.trim_start_matches('/').replace('/', ".");
        out.push(invalid(at, found, "must be greater than or equal to 0"));
    }
}

/// An object as Go prints it: the named fields in this order, absent ones left out.
fn in_order(value: &Value, fields: &[&str]) -> String {
    let known = fields.iter().filter_map(|name| value.get(name).map(|found| format!("{}:{found}", Value::from(*name))));
    format!("{{{}}}", known.collect::<Vec<_>>().join(","))
}

/// A label selector as Go prints it.
fn shown_selector(selector: &Value) -> String {
    if selector.is_null() { "null".to_owned() } else { in_order(selector, &["matchLabels", "matchExpressions"]) }
}

/// A field that must keep its value.
fn immutable(new: &Value, old: &Value, pointer: &str, out: &mut Vec<Cause>) {
    let (now, before) = (new.pointer(pointer), old.pointer(pointer));
    if now.filter(|v| !v.is_null()) != before.filter(|v| !v.is_null()) {
        let at = pointer.trim_start_matches('/').replace('/', ".");
        let found = now.unwrap_or(&Value::Null);
        let shown = if pointer.ends_with("/selector") { shown_selector(found) } else { found.to_string() };
        out.push(invalid_as(at, &shown, "field is immutable"));
    }
}
