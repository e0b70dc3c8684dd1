//! The total order and the notation of JSON values as field paths use them.
//!
//! In: two values. Out: their order, or the text a conflict message shows. Guaranteed: `1` equals `1.0`, and equal
//! values are interchangeable as set members and list keys. Deliberately not done: exact order of integers beyond 64 bits.

use std::cmp::Ordering;

use serde_json::{Number, Value};

/// Numbers, strings, booleans, lists, maps, null: in this order; numbers by magnitude.
pub(super) fn compare(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            let unequal = a.iter().zip(b).map(|(x, y)| compare(x, y)).find(|order| order.is_ne());
            unequal.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => {
            let pairs = a.iter().zip(b);
            let unequal = pairs.map(|((k, x), (l, y))| k.cmp(l).then_with(|| compare(x, y))).find(|o| o.is_ne());
            unequal.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        _ => rank(left).cmp(&rank(right)),
    }
}

/// Equality under [`compare`].
pub(super) fn equal(left: &Value, right: &Value) -> bool {
    compare(left, right).is_eq()
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

fn compare_numbers(a: &Number, b: &Number) -> Ordering {
    if let (Some(x), Some(y)) = (a.as_i64(), b.as_i64()) {
        return x.cmp(&y);
    }
    a.as_f64().unwrap_or_default().total_cmp(&b.as_f64().unwrap_or_default())
}

/// The value as a path element of a message shows it: `"http"`, `80`, `[1,2]`, `{a=1}`.
pub(super) fn notation(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => format!("{text:?}"),
        Value::Array(items) => format!("[{}]", items.iter().map(notation).collect::<Vec<_>>().join(",")),
        Value::Object(fields) => {
            let inner: Vec<String> = fields.iter().map(|(k, v)| format!("{k}={}", notation(v))).collect();
            format!("{{{}}}", inner.join(";"))
        }
    }
}

/// Compact JSON with `<`, `>` and `&` escaped, which is how the API server spells values inside field paths.
pub(super) fn escaped_json(value: &Value) -> String {
    let mut out = String::new();
    for c in value.to_string().chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whole_floats_equal_integers_at_any_depth() {
        assert!(equal(&json!({"a": [1, 2.0]}), &json!({"a": [1.0, 2]})));
        assert!(!equal(&json!(1), &json!("1")));
        assert!(!equal(&json!([1]), &json!([1, 2])));
    }

    #[test]
    fn kinds_sort_numbers_first_and_null_last() {
        let mut values = vec![json!(null), json!({}), json!([]), json!(true), json!("a"), json!(7)];
        values.sort_by(compare);
        assert_eq!(values, vec![json!(7), json!("a"), json!(true), json!([]), json!({}), json!(null)]);
    }

    #[test]
    fn markup_is_escaped_inside_paths() {
        assert_eq!(escaped_json(&json!("a<b>&c")), r#""a\u003cb\u003e\u0026c""#);
    }
}
