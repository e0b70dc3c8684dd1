//! Whether an applied configuration fits its type well enough to be merged.
//!
//! In: a shape and the configuration. Out: nothing, or the messages of the API server. Guaranteed: after it, every
//! item of a set or keyed list has an identity of its own. Deliberately not done: schema validation proper.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    fieldset::PathElement,
    shape::{Form, ListForm, Relation, Scalar, Shape},
    value::notation,
};

/// All that is wrong, as one message.
pub(super) fn validate(shape: Shape<'_>, applied: &Value) -> Result<(), String> {
    let mut errors = Vec::new();
    at(shape, applied, "", &mut errors);
    match errors.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        many => Err(format!("errors:\n  {}", many.join("\n  "))),
    }
}

fn at(shape: Shape<'_>, value: &Value, path: &str, errors: &mut Vec<String>) {
    let form = shape.forms().narrowed(Some(value)).chosen();
    match (form, value) {
        (Form::Scalar(kind), _) => errors.extend(scalar(kind, value).map(|problem| join(path, &problem))),
        (_, Value::Null) => {}
        (Form::Map(map), Value::Object(fields)) => {
            for (name, part) in fields {
                let below = format!("{path}.{name}");
                match map.child(name) {
                    (Shape::Undeclared, _) => errors.push(format!("{below}: field not declared in schema")),
                    (inner, _) => at(inner, part, &below, errors),
                }
            }
        }
        (Form::List(list), Value::Array(items)) => list_items(list, items, path, errors),
        (Form::Map(_), other) => errors.push(join(path, &format!("expected map, got &{{{}}}", plain(other)))),
        (Form::List(_), other) => errors.push(join(path, &format!("expected list, got &{{{}}}", plain(other)))),
    }
}

fn join(path: &str, problem: &str) -> String {
    if path.is_empty() { problem.to_owned() } else { format!("{path}: {problem}") }
}

fn list_items(list: ListForm<'_>, items: &[Value], path: &str, errors: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for (i, item) in items.iter().enumerate() {
        let element = match (list.relation, list.element_of(item)) {
            (Relation::Atomic, _) => PathElement::Index(i64::try_from(i).unwrap_or(i64::MAX)),
            (_, Some(element)) => element,
            (relation, None) => {
                errors.push(join(path, &format!("element {i}: {}", identity_problem(relation, item))));
                return;
            }
        };
        if seen.contains(&element) {
            errors.push(join(path, &format!("duplicate entries for key {element}")));
        }
        at(list.element, item, &format!("{path}{element}"), errors);
        seen.insert(element);
    }
}

fn identity_problem(relation: Relation<'_>, item: &Value) -> String {
    match (relation, item) {
        (Relation::Keys(_), Value::Null) => "associative list with keys may not have a null element".to_owned(),
        (Relation::Keys(keys), Value::Object(_)) => {
            let names: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
            format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
                names.join(" ")
            )
        }
        (Relation::Keys(_), _) => "associative list with keys may not have non-map elements".to_owned(),
        (_, Value::Object(_)) => "associative list without keys has an element that's a map type".to_owned(),
        (_, Value::Array(_)) => "not supported: associative list with lists as elements".to_owned(),
        _ => "associative list without keys has an element that's an explicit null".to_owned(),
    }
}

fn scalar(kind: Scalar, value: &Value) -> Option<String> {
    match (kind, value) {
        (_, Value::Null)
        | (Scalar::Numeric, Value::Number(_))
        | (Scalar::String, Value::String(_))
        | (Scalar::Boolean, Value::Bool(_))
        | (Scalar::Untyped, Value::Number(_) | Value::String(_) | Value::Bool(_)) => None,
        (Scalar::Numeric, other) => Some(format!("expected numeric (int or float), got {}", type_name(other))),
        (Scalar::String, other) => {
            Some(format!("expected string, got &value.valueUnstructured{{Value:{}}}", notation(other)))
        }
        (Scalar::Boolean, other) => Some(format!("expected boolean, got &{{{}}}", plain(other))),
        (Scalar::Untyped, other) => Some(format!("expected any scalar, got &{{{}}}", plain(other))),
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// A value as the API server prints it inside messages: `map[a:1]`, `[x y]`, bare strings.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(items) => format!("[{}]", items.iter().map(plain).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let inner: Vec<String> = fields.iter().map(|(k, v)| format!("{k}:{}", plain(v))).collect();
            format!("map[{}]", inner.join(" "))
        }
    }
}
