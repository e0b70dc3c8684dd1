//! Bounds and ranges of numbers.

use serde_json::Value;

use super::cause::{float, invalid};
use crate::{schema::Schema, status::Cause};

/// Judges one number against the node's own keywords.
pub(super) fn check(value: &Value, schema: &Schema, raw: &Value, path: &str, out: &mut Vec<Cause>) {
    let Some(number) = value.as_f64() else { return };
    let kind = if schema.int_or_string { "integer" } else { schema.kind.as_str() };
    if matches!(kind, "integer" | "number") && !in_range(value, number, &schema.format, kind) {
        let with = if schema.format.is_empty() {
            "(default format)".to_owned()
        } else {
            format!("with format {}", schema.format)
        };
        // The real server's untyped errors stand at the root and carry an empty value.
        let detail = format!("Checked value must be of type {kind} {with} in {path}");
        out.push(invalid("<nil>", &Value::from(""), &detail));
    }
    let bound = |key: &str| raw.get(key).and_then(Value::as_f64);
    let exclusive = |key: &str| raw.get(key).and_then(Value::as_bool).unwrap_or(false);
    if let Some(factor) = bound("multipleOf").filter(|f| *f > 0.0) {
        let quotient = number / factor;
        if (quotient - quotient.round()).abs() > f64::EPSILON * quotient.abs().max(1.0) {
            out.push(invalid(path, value, &format!("{path} in body should be a multiple of {}", float(factor))));
        }
    }
    if let Some(max) = bound("maximum") {
        let strict = exclusive("exclusiveMaximum");
        if number > max || (strict && number >= max) {
            let word = if strict { "less than" } else { "less than or equal to" };
            out.push(invalid(path, value, &format!("{path} in body should be {word} {}", float(max))));
        }
    }
    if let Some(min) = bound("minimum") {
        let strict = exclusive("exclusiveMinimum");
        if number < min || (strict && number <= min) {
            let word = if strict { "greater than" } else { "greater than or equal to" };
            out.push(invalid(path, value, &format!("{path} in body should be {word} {}", float(min))));
        }
    }
}

fn in_range(value: &Value, number: f64, format: &str, kind: &str) -> bool {
    match (kind, format) {
        ("integer", "int32") => f64::from(i32::MIN) <= number && number <= f64::from(i32::MAX),
        ("integer", "uint32") => (0.0..=f64::from(u32::MAX)).contains(&number),
        ("integer", "uint64") => number >= 0.0,
        ("integer", _) => value.is_i64() || value.is_f64(),
        ("number", "float") => number.abs() <= f64::from(f32::MAX),
        _ => true,
    }
}
