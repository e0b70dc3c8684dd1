//! Causes worded as the real server words them, values included.

use serde_json::Value;

use crate::status::Cause;

/// The reason of a cause that is no verdict: the rule needs what this server lacks.
pub const UNSUPPORTED: &str = "EmbeddedUnsupported";

/// A path below `base`: `spec` + `size` is `spec.size`.
pub(crate) fn child(base: &str, key: &str) -> String {
    if base.is_empty() { key.to_owned() } else { format!("{base}.{key}") }
}

/// A path of one item: `spec.list[0]`.
pub(crate) fn index(base: &str, at: usize) -> String {
    format!("{base}[{at}]")
}

/// A path of one map entry: `metadata.labels[a/b]`.
pub(crate) fn key(base: &str, name: &str) -> String {
    format!("{base}[{name}]")
}

/// A value as an error prints it: strings quoted, numbers plain, anything else as JSON.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Number(n) if !n.is_i64() && !n.is_u64() => float(n.as_f64().unwrap_or_default()),
        other => other.to_string(),
    }
}

/// A float in Go's default notation: an exponent from 1e+06 on, and below 1e-4.
pub(crate) fn float(value: f64) -> String {
    let size = value.abs();
    if value != 0.0 && !(1e-4..1e6).contains(&size) {
        let text = format!("{value:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
        return format!("{mantissa}e{sign}{digits:0>2}");
    }
    format!("{value}")
}

pub(crate) fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Cause {
    Cause::new("FieldValueInvalid", field, format!("Invalid value: {}: {detail}", shown(value)))
}

/// With a value that is printed otherwise than as sorted JSON.
pub(crate) fn invalid_as(field: impl Into<String>, shown: &str, detail: &str) -> Cause {
    Cause::new("FieldValueInvalid", field, format!("Invalid value: {shown}: {detail}"))
}

pub(crate) fn type_invalid(field: &str, found: &str, detail: &str) -> Cause {
    Cause::new("FieldValueTypeInvalid", field, format!("Invalid value: \"{found}\": {detail}"))
}

pub(crate) fn forbidden(field: impl Into<String>, detail: &str) -> Cause {
    Cause::new("FieldValueForbidden", field, format!("Forbidden: {detail}"))
}

pub(crate) fn duplicate(field: impl Into<String>, value: &Value) -> Cause {
    Cause::new("FieldValueDuplicate", field, format!("Duplicate value: {}", shown(value)))
}

pub(crate) fn not_supported(field: impl Into<String>, value: &Value, supported: &[String]) -> Cause {
    let quoted: Vec<String> = supported.iter().map(|s| format!("{s:?}")).collect();
    let message = format!("Unsupported value: {}: supported values: {}", shown(value), quoted.join(", "));
    Cause::new("FieldValueNotSupported", field, message)
}

pub(crate) fn too_long(field: impl Into<String>, max: u64) -> Cause {
    let unit = if max == 1 { "byte" } else { "bytes" };
    Cause::new("FieldValueTooLong", field, format!("Too long: may not be more than {max} {unit}"))
}

pub(crate) fn too_many(field: impl Into<String>, actual: usize, max: u64) -> Cause {
    let unit = if max == 1 { "item" } else { "items" };
    Cause::new("FieldValueTooMany", field, format!("Too many: {actual}: must have at most {max} {unit}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_go_prints_them() {
        for (value, text) in
            [(1.0, "1"), (0.5, "0.5"), (1e21, "1e+21"), (1.5e-7, "1.5e-07"), (1e6, "1e+06"), (1e5, "100000")]
        {
            assert_eq!(float(value), text);
        }
    }
}
