//! The rules that make a schema structural: every node typed, and quantors that only add value conditions.

mod lists;
mod validations;
mod quantors;

use serde_json::{Map, Value, json};

use super::{
    cause::{child, forbidden, invalid, key, not_supported},
    keywords,
    validate::structure,
};
use crate::{
    schema::{Schema, TypeRef},
    status::Cause,
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Field,
    Item,
}

/// Judges a version's whole schema.
pub(super) fn check(root: &Value, path: &str, out: &mut Vec<Cause>) {
    let start = out.len();
    if root.get("nullable") == Some(&Value::Bool(true)) {
        out.push(forbidden(child(path, "nullable"), "nullable cannot be true at the root"));
    }
    node(root, Level::Root, path, out);
    out[start..].sort_by(|a, b| (&a.field, &a.message).cmp(&(&b.field, &b.message)));
}

fn flag(node: &Value, name: &str) -> bool {
    node.get(name).and_then(Value::as_bool).unwrap_or(false)
}

fn kind(node: &Value) -> &str {
    node.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn object<'a>(node: &'a Value, name: &str) -> Option<&'a Map<String, Value>> {
    node.get(name).and_then(Value::as_object)
}

fn node(schema: &Value, level: Level, path: &str, out: &mut Vec<Cause>) {
    let embedded = flag(schema, "x-kubernetes-embedded-resource");
    unsupported_keywords(schema, path, out);
    types(schema, level, embedded, path, out);
    extensions(schema, path, out);
    lists::list_type(schema, path, out);
    validations::validations(schema, path, out);
    if let Some(default) = schema.get("default") {
        check_default(schema, default, level, path, out);
    }
    let properties = object(schema, "properties");
    for (name, inner) in properties.into_iter().flatten() {
        let at = key(&child(path, "properties"), name);
        if name == "metadata" && (level == Level::Root || embedded) {
            metadata(inner, level, &at, out);
        } else {
            if matches!(name.as_str(), "kind" | "apiVersion")
                && (level == Level::Root || embedded)
                && kind(inner) != "string"
            {
                out.push(invalid(child(&at, "type"), &Value::from(kind(inner)), "must be string"));
            }
            node(inner, Level::Field, &at, out);
        }
    }
    if let Some(items) = schema.get("items").filter(|i| i.is_object()) {
        node(items, Level::Item, &child(path, "items"), out);
    }
    if let Some(additional) = schema.get("additionalProperties") {
        let at = child(path, "additionalProperties");
        if level == Level::Root {
            out.push(forbidden(&at, "must not be used at the root"));
        }
        if properties.is_some_and(|p| !p.is_empty()) {
            out.push(forbidden(&at, "additionalProperties and properties are mutual exclusive"));
        }
        if additional == &Value::Bool(false) {
            out.push(forbidden(&at, "additionalProperties cannot be set to false"));
        } else if additional.is_object() {
            node(additional, Level::Field, &at, out);
        }
    }
    quantors::quantors(schema, path, out);
    quantors::complete(schema, schema, path, path, out);
}

fn unsupported_keywords(schema: &Value, path: &str, out: &mut Vec<Cause>) {
    for name in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
        if schema.get(name).is_some() {
            out.push(forbidden(child(path, name), &format!("{name} is not supported")));
        }
    }
    if flag(schema, "uniqueItems") {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        out.push(forbidden(child(path, "uniqueItems"), why));
    }
    if schema.get("items").is_some_and(Value::is_array) {
        out.push(forbidden(child(path, "items"), "items must be a schema object and not an array"));
    }
    let pattern = schema.get("pattern").and_then(Value::as_str);
    if let Some(pattern) = pattern.filter(|p| keywords::regex(p).is_none()) {
        let why = "must be a valid regular expression, but isn't";
        out.push(invalid(child(path, "pattern"), &Value::from(pattern), why));
    }
}

fn types(schema: &Value, level: Level, embedded: bool, path: &str, out: &mut Vec<Cause>) {
    const KNOWN: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
    let (at, found) = (child(path, "type"), kind(schema));
    let free = flag(schema, "x-kubernetes-int-or-string") || flag(schema, "x-kubernetes-preserve-unknown-fields");
    if found == "null" {
        out.push(forbidden(&at, "type cannot be set to null, use nullable as an alternative"));
    } else if !found.is_empty() && !KNOWN.contains(&found) {
        out.push(not_supported(&at, &Value::from(found), &KNOWN.map(str::to_owned)));
    }
    if embedded && found != "object" {
        let why = "must be object if x-kubernetes-embedded-resource is true";
        out.push(if found.is_empty() { Cause::required(&at, why) } else { invalid(&at, &Value::from(found), why) });
    } else if found.is_empty() && !free {
        out.push(Cause::required(
            &at,
            match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            },
        ));
    } else if level == Level::Root && !found.is_empty() && found != "object" {
        out.push(invalid(&at, &Value::from(found), "must be object at the root"));
    }
    if found == "array" && schema.get("items").is_none() {
        out.push(Cause::required(child(path, "items"), "must be specified"));
    }
    if embedded
        && !flag(schema, "x-kubernetes-preserve-unknown-fields")
        && object(schema, "properties").is_none_or(Map::is_empty)
    {
        let why =
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        out.push(Cause::required(child(path, "properties"), why));
    }
}

fn extensions(schema: &Value, path: &str, out: &mut Vec<Cause>) {
    let preserve = "x-kubernetes-preserve-unknown-fields";
    if schema.get(preserve) == Some(&Value::Bool(false)) {
        out.push(invalid(child(path, preserve), &json!(false), "must be true or undefined"));
    }
    if flag(schema, "x-kubernetes-int-or-string") {
        for name in [preserve, "x-kubernetes-embedded-resource"] {
            if flag(schema, name) {
                let why = "must be false if x-kubernetes-int-or-string is true";
                out.push(invalid(child(path, name), &json!(true), why));
            }
        }
    }
    if let Some(map_type) = schema.get("x-kubernetes-map-type") {
        if kind(schema) != "object" {
            let why = "must be object if x-kubernetes-map-type is specified";
            out.push(invalid(child(path, "type"), &Value::from(kind(schema)), why));
        }
        if !matches!(map_type.as_str(), Some("atomic" | "granular")) {
            let known = ["atomic", "granular"].map(str::to_owned);
            out.push(not_supported(child(path, "x-kubernetes-map-type"), map_type, &known));
        }
    }
}

fn check_default(schema: &Value, default: &Value, level: Level, path: &str, out: &mut Vec<Cause>) {
    let at = child(path, "default");
    if level == Level::Root {
        out.push(forbidden(&at, "must be undefined at the root"));
        return;
    }
    // The node's own default does not take part in judging itself.
    let parsed = Schema { default: None, ..Schema::parse(schema) };
    let definitions = crate::schema::Definitions::default();
    let ty = TypeRef::new(&definitions, &parsed);
    let mut whole = default.clone();
    let mut wrapper = json!({ "default": whole.take() });
    let holder = Schema {
        kind: "object".into(),
        properties: [("default".to_owned(), parsed.clone())].into(),
        ..Schema::default()
    };
    if !super::prune(&mut wrapper, TypeRef::new(&definitions, &holder)).is_empty() {
        out.push(invalid(&at, default, "must not have unknown fields"));
        return;
    }
    let mut filled = default.clone();
    super::default_values(&mut filled, ty);
    structure(&filled, None, ty, &at, out);
}

fn metadata(schema: &Value, level: Level, path: &str, out: &mut Vec<Cause>) {
    if kind(schema) != "object" {
        out.push(invalid(child(path, "type"), &Value::from(kind(schema)), "must be object"));
    }
    let limited = |name: &String| matches!(name.as_str(), "name" | "generateName");
    let only_names = object(schema, "properties").is_none_or(|p| p.keys().all(limited));
    let other = schema.as_object().into_iter().flatten().any(|(name, _)| {
        !matches!(name.as_str(), "type" | "properties" | "description" | "required" | "maxProperties" | "minProperties")
    });
    if level == Level::Root && (!only_names || other) {
        let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        out.push(forbidden(path, why));
    }
    for (name, inner) in object(schema, "properties").into_iter().flatten() {
        node(inner, Level::Field, &key(&child(path, "properties"), name), out);
    }
}
