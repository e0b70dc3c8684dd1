//! The rules that make a schema structural: every node typed, and quantors that only add value conditions.

use serde_json::{Map, Value, json};

use super::{
    cause::{child, forbidden, invalid, key, not_supported},
    keywords, rules,
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
    list_type(schema, path, out);
    validations(schema, path, out);
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
    quantors(schema, path, out);
    complete(schema, schema, path, path, out);
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
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str) {
        if keywords::regex(pattern).is_none() {
            let why = "must be a valid regular expression, but isn't";
            out.push(invalid(child(path, "pattern"), &Value::from(pattern), why));
        }
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

fn list_type(schema: &Value, path: &str, out: &mut Vec<Cause>) {
    let (type_at, keys_at) = (child(path, "x-kubernetes-list-type"), child(path, "x-kubernetes-list-map-keys"));
    let list_type = schema.get("x-kubernetes-list-type");
    let name = list_type.and_then(Value::as_str).unwrap_or_default();
    let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array).cloned().unwrap_or_default();
    let items = schema.get("items").unwrap_or(&Value::Null);
    if let Some(found) = list_type {
        if kind(schema) != "array" {
            let why = "must be array if x-kubernetes-list-type is specified";
            out.push(invalid(child(path, "type"), &Value::from(kind(schema)), why));
        }
        if !["atomic", "set", "map"].contains(&name) {
            out.push(not_supported(&type_at, found, &["atomic", "set", "map"].map(str::to_owned)));
        }
    }
    if name == "set" {
        let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let item = child(path, "items");
        if kind(items) == "array" && items.get("x-kubernetes-list-type").is_some_and(|t| t != "atomic") {
            out.push(invalid(child(&item, "x-kubernetes-list-type"), &items["x-kubernetes-list-type"], why));
        }
        if kind(items) == "object" && items.get("x-kubernetes-map-type").is_none_or(|t| t != "atomic") {
            out.push(invalid(child(&item, "x-kubernetes-map-type"), &Value::Null, why));
        }
    }
    if matches!(name, "set" | "map") && flag(items, "nullable") {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {name}");
        out.push(forbidden(child(&child(path, "items"), "nullable"), &why));
    }
    if !keys.is_empty() && name != "map" {
        out.push(Cause::required(&type_at, "must be map if x-kubernetes-list-map-keys is non-empty"));
    }
    if name == "map" {
        if keys.is_empty() {
            out.push(Cause::required(&keys_at, "must not be empty if x-kubernetes-list-type is map"));
        }
        map_keys(&keys, items, path, &keys_at, out);
    }
}

fn map_keys(keys: &[Value], items: &Value, path: &str, keys_at: &str, out: &mut Vec<Cause>) {
    let item = child(path, "items");
    if items.is_null() {
        out.push(Cause::required(&item, "must have a schema if x-kubernetes-list-type is map"));
        return;
    }
    if kind(items) != "object" {
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        out.push(invalid(child(&item, "type"), &Value::from(kind(items)), why));
    }
    let shown = Value::from(keys.to_vec());
    let required = items.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for (at, name) in keys.iter().enumerate() {
        let text = name.as_str().unwrap_or_default();
        let property_at = key(&child(&item, "properties"), text);
        match items.get("properties").and_then(|p| p.get(text)) {
            None => out.push(invalid(keys_at, &shown, "entries must all be names of item properties")),
            Some(property) => {
                if matches!(kind(property), "array" | "object") {
                    let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    out.push(invalid(child(&property_at, "type"), &Value::from(kind(property)), why));
                }
                if property.get("default").is_none() && !required.contains(name) {
                    let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
                    out.push(Cause::required(child(&property_at, "default"), why));
                }
                if flag(property, "nullable") {
                    let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
                    out.push(forbidden(child(&property_at, "nullable"), why));
                }
            }
        }
        if keys[..at].contains(name) {
            out.push(invalid(keys_at, &shown, "must not contain duplicate entries"));
        }
    }
}

fn validations(schema: &Value, path: &str, out: &mut Vec<Cause>) {
    let list = schema.get("x-kubernetes-validations").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for (at, rule) in list.iter().enumerate() {
        let base = format!("{}[{at}]", child(path, "x-kubernetes-validations"));
        let text = rule.get("rule").and_then(Value::as_str).unwrap_or_default();
        let message = rule.get("message").and_then(Value::as_str);
        if text.trim().is_empty() {
            out.push(Cause::required(child(&base, "rule"), "rule is not specified"));
            continue;
        }
        if let Some(blank) = message.filter(|m| m.trim().is_empty()) {
            out.push(invalid(child(&base, "message"), &Value::from(blank), "must be non-empty if specified"));
        } else if let Some(long) = message.filter(|m| m.trim().contains('\n')) {
            out.push(invalid(child(&base, "message"), &Value::from(long), "must not contain line breaks"));
        } else if text.trim().contains('\n') && message.is_none() {
            let why = "message must be specified if rule contains line breaks";
            out.push(Cause::required(child(&base, "message"), why));
        }
        match rules::compile(text) {
            Err(why) => out.push(invalid(child(&base, "rule"), rule, &format!("compilation failed: {why}"))),
            Ok(program) => {
                if rule.get("optionalOldSelf").is_some() && !program.references().has_variable("oldSelf") {
                    let why = "may not be set if oldSelf is not used in rule";
                    out.push(invalid(child(&base, "optionalOldSelf"), &rule["optionalOldSelf"], why));
                }
            }
        }
        if let Some(source) = rule.get("messageExpression").and_then(Value::as_str) {
            if let Err(why) = rules::compile(source) {
                out.push(invalid(
                    child(&base, "messageExpression"),
                    rule,
                    &format!("messageExpression compilation failed: {why}"),
                ));
            }
        }
        let reasons = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
        if let Some(other) = rule.get("reason").filter(|r| !r.as_str().is_some_and(|r| reasons.contains(&r))) {
            out.push(not_supported(child(&base, "reason"), other, &reasons.map(str::to_owned)));
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

/// The two spellings of int-or-string may name types inside quantors; nothing else may.
fn quantors(schema: &Value, path: &str, out: &mut Vec<Cause>) {
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
fn complete(schema: &Value, place: &Value, at: &str, place_at: &str, out: &mut Vec<Cause>) {
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
