//! JSON patch (RFC 6902).
//!
//! In: a document and a list of operations. Out: the patched document. Guaranteed: all or nothing. The dialect is that
//! of the real server, more lenient than the RFC: `replace` sets a missing member, `test` for null passes on a missing
//! member, negative indices count from the end. Deliberately not done: a limit on the size of copies.

use serde_json::{Map, Value};

use crate::status::ApiError;

/// The real server refuses longer patches as too large.
const OPERATIONS_MAX: usize = 10_000;

/// An operation that does not apply; the real server hides why.
#[derive(Debug)]
struct Inapplicable;

/// Applies a JSON patch.
///
/// # Errors
/// 400 if the patch is not a list of objects, 413 if it has too many operations, 422 if one does not apply, which
/// includes a failed `test`.
pub fn json_patch(current: &Value, patch: &Value) -> Result<Value, ApiError> {
    let malformed = || ApiError::bad_request("error decoding patch: a JSON patch is a list of operations");
    let operations = patch.as_array().ok_or_else(malformed)?;
    let operations: Vec<&Map<String, Value>> =
        operations.iter().map(Value::as_object).collect::<Option<_>>().ok_or_else(malformed)?;
    if operations.iter().any(|op| ["op", "path", "from"].iter().any(|k| op.get(*k).is_some_and(|v| !v.is_string()))) {
        return Err(malformed());
    }
    if operations.len() > OPERATIONS_MAX {
        let count = operations.len();
        let message = format!("The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {count}");
        return Err(ApiError::new(413, "RequestEntityTooLarge", message));
    }
    let mut document = current.clone();
    for operation in operations {
        step(&mut document, operation).map_err(|Inapplicable| unprocessable())?;
    }
    Ok(document)
}

pub(super) fn unprocessable() -> ApiError {
    ApiError::new(422, "Invalid", "the server rejected our request due to an error in our request")
}

fn step(document: &mut Value, operation: &Map<String, Value>) -> Result<(), Inapplicable> {
    let text = |key: &str| operation.get(key).and_then(Value::as_str).ok_or(Inapplicable);
    let value = || operation.get("value").cloned().unwrap_or_default();
    let path = text("path")?;
    match text("op")? {
        "add" => add(document, path, value()),
        "remove" => take(document, path).map(drop),
        "replace" => replace(document, path, value()),
        "move" => {
            let moved = take(document, text("from")?)?;
            add(document, path, moved)
        }
        "copy" => {
            let copied = get(document, text("from")?)?.cloned().unwrap_or_default();
            add(document, path, copied)
        }
        "test" => {
            let found = if path.is_empty() { Some(&*document) } else { get(document, path)? };
            let same = found.unwrap_or(&Value::Null) == operation.get("value").unwrap_or(&Value::Null);
            if same { Ok(()) } else { Err(Inapplicable) }
        }
        _ => Err(Inapplicable),
    }
}

/// The container that a path leads to, and the last step.
fn split(path: &str) -> Result<(Vec<String>, String), Inapplicable> {
    let mut steps: Vec<String> = path.split('/').skip(1).map(|s| s.replace("~1", "/").replace("~0", "~")).collect();
    let last = steps.pop().ok_or(Inapplicable)?;
    Ok((steps, last))
}

fn container<'a>(document: &'a mut Value, steps: &[String]) -> Result<&'a mut Value, Inapplicable> {
    let mut at = document;
    for step in steps {
        at = match at {
            Value::Object(fields) => fields.get_mut(step).ok_or(Inapplicable)?,
            Value::Array(items) => {
                let i = index(step, items.len())?;
                items.get_mut(i).ok_or(Inapplicable)?
            }
            _ => return Err(Inapplicable),
        };
    }
    Ok(at)
}

/// A position, where -1 is the last of `len`.
fn index(step: &str, len: usize) -> Result<usize, Inapplicable> {
    let i: i64 = step.parse().map_err(|_| Inapplicable)?;
    let len = i64::try_from(len).map_err(|_| Inapplicable)?;
    usize::try_from(if i < 0 { i + len } else { i }).map_err(|_| Inapplicable)
}

fn get<'a>(document: &'a mut Value, path: &str) -> Result<Option<&'a Value>, Inapplicable> {
    let (steps, last) = split(path)?;
    match container(document, &steps)? {
        Value::Object(fields) => Ok(fields.get(&last)),
        Value::Array(items) => items.get(index(&last, items.len())?).map(Some).ok_or(Inapplicable),
        _ => Err(Inapplicable),
    }
}

fn add(document: &mut Value, path: &str, value: Value) -> Result<(), Inapplicable> {
    let (steps, last) = split(path)?;
    match container(document, &steps)? {
        Value::Object(fields) => {
            fields.insert(last, value);
        }
        Value::Array(items) if last == "-" => items.push(value),
        Value::Array(items) => {
            // Counted in the longer list, so that -1 appends.
            let i = index(&last, items.len() + 1)?;
            if i > items.len() {
                return Err(Inapplicable);
            }
            items.insert(i, value);
        }
        _ => return Err(Inapplicable),
    }
    Ok(())
}

fn take(document: &mut Value, path: &str) -> Result<Value, Inapplicable> {
    let (steps, last) = split(path)?;
    match container(document, &steps)? {
        Value::Object(fields) => fields.remove(&last).ok_or(Inapplicable),
        Value::Array(items) => {
            let i = index(&last, items.len())?;
            if i < items.len() { Ok(items.remove(i)) } else { Err(Inapplicable) }
        }
        _ => Err(Inapplicable),
    }
}

fn replace(document: &mut Value, path: &str, value: Value) -> Result<(), Inapplicable> {
    if path.is_empty() {
        if value.is_object() || value.is_array() {
            *document = value;
        }
        return Ok(());
    }
    let (steps, last) = split(path)?;
    match container(document, &steps)? {
        Value::Object(fields) => {
            fields.insert(last, value);
        }
        Value::Array(items) => {
            let i = index(&last, items.len())?;
            *items.get_mut(i).ok_or(Inapplicable)? = value;
        }
        _ => return Err(Inapplicable),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(document: Value, patch: Value) -> Result<Value, u16> {
        json_patch(&document, &patch).map_err(|error| error.code)
    }

    #[test]
    fn each_operation_does_what_the_rfc_says() {
        let document = json!({"a": {"b/c": 1, "l": [1, 2, 3]}, "d~e": true});
        let patch = json!([
            {"op": "test", "path": "/a/b~1c", "value": 1},
            {"op": "add", "path": "/a/l/1", "value": 9},
            {"op": "add", "path": "/a/l/-", "value": 4},
            {"op": "remove", "path": "/a/l/0"},
            {"op": "replace", "path": "/d~0e", "value": false},
            {"op": "move", "from": "/a/b~1c", "path": "/moved"},
            {"op": "copy", "from": "/a/l", "path": "/copied"},
        ]);
        let expected = json!({"a": {"l": [9, 2, 3, 4]}, "d~e": false, "moved": 1, "copied": [9, 2, 3, 4]});
        assert_eq!(patched(document, patch), Ok(expected));
    }

    #[test]
    fn the_dialect_of_the_real_server() {
        let document = json!({"l": [1, 2]});
        assert_eq!(
            patched(document.clone(), json!([{"op": "replace", "path": "/x", "value": 1}])),
            Ok(json!({"l": [1, 2], "x": 1}))
        );
        assert_eq!(
            patched(document.clone(), json!([{"op": "test", "path": "/x", "value": null}])),
            Ok(document.clone())
        );
        assert_eq!(patched(document.clone(), json!([{"op": "remove", "path": "/l/-1"}])), Ok(json!({"l": [1]})));
        assert_eq!(patched(document, json!([{"op": "add", "path": "/l/-1", "value": 3}])), Ok(json!({"l": [1, 2, 3]})));
    }

    #[test]
    fn what_does_not_apply_is_unprocessable() {
        let document = json!({"a": [1], "s": "x"});
        for operation in [
            json!({"op": "test", "path": "/a/0", "value": 2}),
            json!({"op": "test", "path": "/x/y", "value": 2}),
            json!({"op": "remove", "path": "/x"}),
            json!({"op": "remove", "path": "/a/1"}),
            json!({"op": "add", "path": "/a/2", "value": 1}),
            json!({"op": "add", "path": "/x/y", "value": 1}),
            json!({"op": "add", "path": "/s/y", "value": 1}),
            json!({"op": "add", "path": "", "value": {}}),
            json!({"op": "replace", "path": "/a/1", "value": 1}),
            json!({"op": "replace", "path": "/a/-2", "value": 1}),
            json!({"op": "move", "from": "/x", "path": "/y"}),
            json!({"op": "unheard", "path": "/a"}),
            json!({"path": "/a"}),
        ] {
            assert_eq!(patched(document.clone(), json!([operation])), Err(422), "{operation}");
        }
    }

    #[test]
    fn malformed_and_oversized_patches_are_refused() {
        for patch in [json!({}), json!([1]), json!([{"op": 1, "path": "/a"}])] {
            assert_eq!(patched(json!({}), patch), Err(400));
        }
        let long = vec![json!({"op": "test", "path": "/a", "value": null}); OPERATIONS_MAX + 1];
        assert_eq!(patched(json!({}), Value::Array(long)), Err(413));
    }
}
