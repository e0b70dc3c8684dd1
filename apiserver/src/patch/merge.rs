//! JSON merge patch (RFC 7396).
//!
//! In: a document and a patch. Out: the patched document. Guaranteed: null deletes, and nulls never enter the result
//! from objects that the patch adds. Lists are replaced; where the real server departs from the RFC (it drops nulls from
//! objects inside a list that is new or replaces a list) so does this. Deliberately not done: nothing known.

use serde_json::{Map, Value};

/// Applies a JSON merge patch.
#[must_use]
pub fn merge_patch(current: &Value, patch: &Value) -> Value {
    match (current, patch) {
        (Value::Object(fields), Value::Object(changes)) => Value::Object(merge_fields(fields, changes)),
        (Value::Object(_), other) => other.clone(),
        (_, other) => without_nulls(other),
    }
}

fn merge_fields(fields: &Map<String, Value>, changes: &Map<String, Value>) -> Map<String, Value> {
    let mut out = fields.clone();
    for (name, change) in changes {
        let value = match out.get(name) {
            _ if change.is_null() => {
                out.remove(name);
                continue;
            }
            None | Some(Value::Null) => without_nulls(change),
            Some(current) => merge_patch(current, change),
        };
        out.insert(name.clone(), value);
    }
    out
}

/// Without null members at any depth; null items of lists stay.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k.clone(), without_nulls(v)));
            Value::Object(kept.collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_examples_of_the_rfc() {
        for (current, patch, expected) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ] {
            assert_eq!(merge_patch(&current, &patch), expected);
        }
    }

    #[test]
    fn nulls_inside_new_lists_are_dropped_as_the_real_server_does() {
        let patch = json!({"l": [{"a": null, "b": 1}, null]});
        assert_eq!(merge_patch(&json!({"l": [1]}), &patch), json!({"l": [{"b": 1}, null]}));
        assert_eq!(merge_patch(&json!({}), &patch), json!({"l": [{"b": 1}, null]}));
        // Over an object the list is taken as it is.
        assert_eq!(merge_patch(&json!({"l": {}}), &patch), patch);
    }
}
