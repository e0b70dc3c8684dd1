//! Tables: the rows that terminals show.
//!
//! # Guarantees
//! Custom resources get the columns of their definition, evaluated. Built-in kinds get a table only where the recorded
//! columns are derivable from metadata alone.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::{captured, discovery::ResourceType};

use super::{answer::partial, meta};

/// Whether tables of this resource are made.
pub(crate) fn has(kind: &ResourceType) -> bool {
    kind.custom.is_some() || recorded(kind).is_some()
}

/// The recorded columns, when there are none but name and age.
fn recorded(kind: &ResourceType) -> Option<Value> {
    let file = format!("tables/{}__{}.json", kind.gvr.api_version().replace('/', "_"), kind.gvr.resource);
    let columns = captured::json(&file)?;
    let simple = columns.as_array()?.iter().all(|c| matches!(c["name"].as_str(), Some("Name" | "Age" | "Created At")));
    simple.then(|| (*columns).clone())
}

const NAME: &str = "Name must be unique within a namespace. Is required when creating resources, although some \
                    resources may allow a client to request the generation of an appropriate name automatically. Name \
                    is primarily intended for creation idempotence and configuration definition. Cannot be updated. \
                    More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";

/// Name, then the declared columns, or the age when there are none.
fn custom_columns(declared: &[Value]) -> Vec<Value> {
    let mut out = vec![json!({"name": "Name", "type": "string", "format": "name", "description": NAME, "priority": 0})];
    for column in declared {
        let path = column["jsonPath"].as_str().unwrap_or_default();
        let default = format!("Custom resource definition column (in JSONPath format): {path}");
        let text = |key: &str, other: &str| Value::from(column[key].as_str().unwrap_or(other));
        out.push(json!({
            "name": column["name"], "type": column["type"], "format": text("format", ""),
            "description": text("description", &default), "priority": column["priority"].as_i64().unwrap_or(0),
        }));
    }
    if declared.is_empty() {
        out.push(json!({"name": "Age", "type": "date", "format": "", "priority": 0, "description": AGE}));
    }
    out
}

const AGE: &str = "CreationTimestamp is a timestamp representing the server time when this object was created.";

/// The table of some stored objects.
pub(crate) fn of(kind: &ResourceType, objects: &[&Value], metadata: Value, now: Timestamp) -> Value {
    let declared = kind.custom.as_ref().map(|c| c.columns.as_slice()).unwrap_or_default();
    let columns = recorded(kind).unwrap_or_else(|| custom_columns(declared).into());
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let mut cells = vec![Value::from(meta::name(object))];
            if kind.custom.is_some() && !declared.is_empty() {
                cells.extend(declared.iter().map(|c| cell(c, object, now)));
            } else {
                cells.extend(
                    columns.as_array().iter().flat_map(|c| c.iter().skip(1)).map(|c| builtin_cell(c, object, now)),
                );
            }
            json!({"cells": cells, "object": partial(object)})
        })
        .collect();
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": columns, "rows": rows,
    })
}

fn builtin_cell(column: &Value, object: &Value, now: Timestamp) -> Value {
    let created = meta::text(object, "creationTimestamp");
    match column["name"].as_str() {
        Some("Age") => age(created, now).into(),
        _ => created.into(),
    }
}

fn cell(column: &Value, object: &Value, now: Timestamp) -> Value {
    let found = lookup(object, column["jsonPath"].as_str().unwrap_or_default());
    let Some(found) = found.filter(|v| !v.is_null()) else { return Value::Null };
    match (column["type"].as_str().unwrap_or_default(), found) {
        ("date", Value::String(s)) => age(s, now).into(),
        ("integer" | "number", v @ Value::Number(_)) | ("boolean", v @ Value::Bool(_)) => v.clone(),
        ("string", Value::String(s)) => s.as_str().into(),
        ("string", v) => v.to_string().into(),
        _ => Value::Null,
    }
}

/// The part of JSONPath that printer columns use: members, indexes, and filters of one equality.
fn lookup<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let mut at = object;
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(tail) = rest.strip_prefix('.') {
            let end = member_end(tail);
            let (name, after) = tail.split_at(end);
            at = at.get(name.replace("\\.", "."))?;
            rest = after;
        } else {
            let (inside, after) = rest.strip_prefix('[')?.split_once(']')?;
            at = bracket(at, inside)?;
            rest = after;
        }
    }
    Some(at)
}

fn member_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '.' | '[' => return at,
            _ => {}
        }
    }
    text.len()
}

fn bracket<'a>(at: &'a Value, inside: &str) -> Option<&'a Value> {
    let unquote = |s: &str| s.trim().trim_matches(['\'', '"']).to_owned();
    if let Some(filter) = inside.strip_prefix("?(@.").and_then(|f| f.strip_suffix(')')) {
        let (key, wanted) = filter.split_once("==")?;
        let wanted = unquote(wanted);
        return at.as_array()?.iter().find(|item| item.get(key.trim()).and_then(Value::as_str) == Some(&wanted));
    }
    match inside.parse::<usize>() {
        Ok(index) => at.get(index),
        Err(_) => at.get(unquote(inside)),
    }
}

/// The age as `kubectl` prints it: two units at most, coarser as it grows.
fn age(since: &str, now: Timestamp) -> String {
    let Ok(then) = since.parse::<Timestamp>() else { return "<unknown>".into() };
    let seconds = now.as_second() - then.as_second();
    let pair = |big: i64, big_unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{big}{big_unit}"),
        _ => format!("{big}{big_unit}{small}{small_unit}"),
    };
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        ..-1 => "<invalid>".into(),
        -1..0 => "0s".into(),
        0..120 => format!("{seconds}s"),
        120..600 => pair(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => pair(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => pair(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => pair(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

/// The columns are sent with the first row of a watch only.
pub(crate) fn without_columns(table: &mut Value) {
    let map: &mut Map<String, Value> = meta::as_map(table);
    map.insert("columnDefinitions".into(), Value::Null);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_columns_are_followed() {
        let object = json!({
            "status": {"conditions": [{"type": "Ready", "status": "True"}], "n": 3},
            "metadata": {"annotations": {"a.b/c": "x"}},
        });
        assert_eq!(lookup(&object, r#".status.conditions[?(@.type=="Ready")].status"#).unwrap(), "True");
        assert_eq!(lookup(&object, ".status.conditions[0].type").unwrap(), "Ready");
        assert_eq!(lookup(&object, r".metadata.annotations.a\.b/c").unwrap(), "x");
        assert_eq!(lookup(&object, ".metadata.annotations['a.b/c']").unwrap(), "x");
        assert!(lookup(&object, ".spec.none").is_none());
    }

    #[test]
    fn ages_are_short() {
        let now: Timestamp = "2026-01-01T10:00:00Z".parse().unwrap();
        assert_eq!(age("2026-01-01T09:59:01Z", now), "59s");
        assert_eq!(age("2026-01-01T09:55:30Z", now), "4m30s");
        assert_eq!(age("2026-01-01T06:30:00Z", now), "3h30m");
        assert_eq!(age("2025-12-29T10:00:00Z", now), "3d");
        assert_eq!(age("", now), "<unknown>");
    }
}
