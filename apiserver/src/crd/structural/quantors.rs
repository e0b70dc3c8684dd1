//! What may stand under `anyOf`, `allOf`, `oneOf` and `not`.

use serde_json::{Value, json};

use super::object;
use crate::{
    crd::cause::{child, forbidden, key},
    status::Cause,
};

/// The two spellings of int-or-string may name types inside quantors; nothing else may.
pub(super) fn quantors(schema: &Value, path: &str, out: &mut Vec<Cause>) {
    let int_or_string = json!([{"type": "integer"}, {"type": "string"}]);
    for name in ["anyOf", "allOf", "oneOf"] {
        let branches = schema.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if name == "anyOf" && schema.get(name) == Some(&int_or_string) {
            continue;
        }
        for (at, branch) in branches.iter().enumerate() {
            if name == "allOf" && at == 0 && branch == &json!({ "anyOf": int_or_string }) {
                continue;
            }
            nested(branch, &format!("{}[{at}]", child(path, name)), out);
        }
    }
    if let Some(branch) = schema.get("not") {
        nested(branch, &child(path, "not"), out);
    }
}

fn nested(schema: &Value, path: &str, out: &mut Vec<Cause>) {
    for (name, why) in [
        ("type", "must be empty to be structural"),
        ("additionalProperties", "must be undefined to be structural"),
        ("default", "must be undefined to be structural"),
        ("title", "must be empty to be structural"),
        ("description", "must be empty to be structural"),
        ("nullable", "must be false to be structural"),
        ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
        ("x-kubernetes-embedded-resource", "must be false to be structural"),
        ("x-kubernetes-int-or-string", "must be false to be structural"),
        ("x-kubernetes-list-map-keys", "must be empty to be structural"),
        ("x-kubernetes-list-type", "must be undefined to be structural"),
        ("x-kubernetes-map-type", "must be undefined to be structural"),
        ("x-kubernetes-validations", "must be empty to be structural"),
    ] {
        let empty = |v: &Value| matches!(v, Value::Bool(false)) || v.as_str() == Some("");
        if schema.get(name).is_some_and(|v| !empty(v)) {
            out.push(forbidden(child(path, name), why));
        }
    }
    for (name, inner) in object(schema, "properties").into_iter().flatten() {
        let at = key(&child(path, "properties"), name);
        if name == "metadata" {
            out.push(forbidden(&at, "must not be specified in a nested context"));
        }
        nested(inner, &at, out);
    }
    if let Some(items) = schema.get("items").filter(|i| i.is_object()) {
        nested(items, &child(path, "items"), out);
    }
    quantors(schema, path, out);
}

/// What a quantor names must also stand outside of quantors.
pub(super) fn complete(schema: &Value, place: &Value, at: &str, place_at: &str, out: &mut Vec<Cause>) {
    let branches = ["anyOf", "allOf", "oneOf"].into_iter().flat_map(|name| {
        let list = place.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        list.iter().enumerate().map(move |(i, branch)| (format!("{name}[{i}]"), branch))
    });
    let all = branches.chain(place.get("not").map(|branch| ("not".to_owned(), branch)));
    for (name, branch) in all {
        inside(schema, branch, at, &child(place_at, &name), out);
    }
}

fn inside(schema: &Value, branch: &Value, at: &str, branch_at: &str, out: &mut Vec<Cause>) {
    for (name, inner) in object(branch, "properties").into_iter().flatten() {
        let (here, there) = (key(&child(at, "properties"), name), key(&child(branch_at, "properties"), name));
        match schema.get("properties").and_then(|p| p.get(name)) {
            Some(declared) => inside(declared, inner, &here, &there, out),
            None => out.push(Cause::required(here, &format!("because it is defined in {there}"))),
        }
    }
    if let Some(inner) = branch.get("items").filter(|i| i.is_object()) {
        let (here, there) = (child(at, "items"), child(branch_at, "items"));
        match schema.get("items") {
            Some(declared) => inside(declared, inner, &here, &there, out),
            None => out.push(Cause::required(here, &format!("because it is defined in {there}"))),
        }
    }
    complete(schema, branch, at, branch_at, out);
}
