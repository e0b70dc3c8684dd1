//! Judges an object against a schema, in the order of the real server: the schema's keywords first; then embedded resources and
//! list types; then, if all of that held, the CEL rules.
//!
//! On update a subtree that equals its old value may stay invalid.

use serde_json::Value;

use super::{
    cause::{child, index, invalid, type_invalid},
    correlate, embedded, keywords, lists, number, rules,
};
use crate::{
    schema::{Schema, TypeRef},
    status::Cause,
};

/// Judges `new`; `old` is the stored object on update.
#[must_use]
pub fn validate(new: &Value, old: Option<&Value>, ty: TypeRef) -> Vec<Cause> {
    let mut causes = Vec::new();
    structure(new, old, ty, "", &mut causes);
    embedded::check(new, ty, "", &mut causes);
    // List types ratchet as a whole: an object that already broke them may go on doing so.
    let mut list_causes = Vec::new();
    lists::check(new, ty, "", &mut list_causes);
    if !list_causes.is_empty() {
        let mut before = Vec::new();
        if let Some(old) = old {
            lists::check(old, ty, "", &mut before);
        }
        if before.is_empty() {
            causes.append(&mut list_causes);
        }
    }
    // A value of the wrong shape makes rules fail in ways that would only confuse.
    if causes.iter().any(|c| {
        matches!(
            c.reason,
            "FieldValueTypeInvalid"
                | "FieldValueRequired"
                | "FieldValueTooLong"
                | "FieldValueTooMany"
                | "FieldValueNotSupported"
        )
    }) {
        let note = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
        causes.push(Cause::new("FieldValueInvalid", "<nil>", format!("Invalid value: null: {note}")));
        return causes;
    }
    rules::check(new, old, ty, "", &mut causes);
    causes
}

/// The schema's own keywords, children included.
pub(super) fn structure(new: &Value, old: Option<&Value>, ty: TypeRef, path: &str, out: &mut Vec<Cause>) {
    let start = out.len();
    node(new, old, ty, path, out);
    if out.len() > start && old.is_some_and(|before| correlate::same(new, before, ty)) {
        out.truncate(start);
    }
}

fn node(new: &Value, old: Option<&Value>, ty: TypeRef, path: &str, out: &mut Vec<Cause>) {
    let (schema, raw) = (ty.schema, &*ty.schema.raw);
    if !check_type(new, schema, path, out) || new.is_null() {
        keywords::enumeration(new, schema, raw, path, out);
        return;
    }
    combine(new, schema, raw, ty, path, out);
    keywords::string(new, schema, raw, path, out);
    number::check(new, schema, raw, path, out);
    if let Value::Array(items) = new {
        if let Some(inner) = ty.items() {
            for (at, item) in items.iter().enumerate() {
                structure(item, correlate::item(old, item, ty), inner, &index(path, at), out);
            }
        }
        keywords::items(items.len(), new, raw, path, out);
    }
    keywords::enumeration(new, schema, raw, path, out);
    if let Value::Object(map) = new {
        keywords::properties(map.len(), raw, path, out);
        for (name, value) in map {
            if let Some(inner) = ty.field(name) {
                structure(value, correlate::field(old, name), inner, &child(path, name), out);
            }
        }
        for name in schema.required.iter().filter(|name| !map.contains_key(*name)) {
            out.push(Cause::required(child(path, name), ""));
        }
    }
}

/// Whether the type fits; a misfit is reported.
fn check_type(value: &Value, schema: &Schema, path: &str, out: &mut Vec<Cause>) -> bool {
    let expected = if schema.int_or_string { "integer,string" } else { schema.kind.as_str() };
    if expected.is_empty() || (value.is_null() && schema.nullable) {
        return true;
    }
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let whole = found == "number" && value.as_f64().is_some_and(|n| n.fract() == 0.0);
    let fits =
        expected.split(',').any(|e| e == found || (e == "integer" && whole) || (e == "number" && found == "integer"));
    if !fits {
        out.push(type_invalid(path, found, &format!("{path} in body must be of type {expected}: \"{found}\"")));
    }
    fits
}

/// `allOf`, `anyOf`, `oneOf` and `not`, which may only add value conditions in a structural schema.
fn combine(value: &Value, schema: &Schema, raw: &Value, ty: TypeRef, path: &str, out: &mut Vec<Cause>) {
    let judge = |branch: &Value| {
        let parsed = Schema::parse(branch);
        let mut causes = Vec::new();
        structure(value, None, TypeRef::new(ty.definitions, &parsed), path, &mut causes);
        causes
    };
    let branches = |key: &str| raw.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let fail = |out: &mut Vec<Cause>, what: String| out.push(invalid("<nil>", &Value::from(""), &what));

    // The `anyOf` that spells out an int-or-string only repeats its type.
    let any = branches("anyOf");
    if !any.is_empty() && !schema.int_or_string {
        let results: Vec<Vec<Cause>> = any.iter().map(judge).collect();
        if !results.iter().any(Vec::is_empty) {
            fail(out, format!("{path:?} must validate at least one schema (anyOf)"));
            out.extend(results.into_iter().min_by_key(Vec::len).unwrap_or_default());
        }
    }
    let one = branches("oneOf");
    if !one.is_empty() {
        let results: Vec<Vec<Cause>> = one.iter().map(judge).collect();
        match results.iter().filter(|r| r.is_empty()).count() {
            1 => {}
            0 => {
                fail(out, format!("{path:?} must validate one and only one schema (oneOf). Found none valid"));
                out.extend(results.into_iter().min_by_key(Vec::len).unwrap_or_default());
            }
            n => fail(
                out,
                format!("{path:?} must validate one and only one schema (oneOf). Found {n} valid alternatives"),
            ),
        }
    }
    let all = branches("allOf");
    let results: Vec<Vec<Cause>> = all.iter().map(judge).collect();
    let failed = results.iter().filter(|r| !r.is_empty()).count();
    out.extend(results.into_iter().flatten());
    if failed > 0 {
        let tail = if failed == all.len() { ". None validated" } else { "" };
        fail(out, format!("{path:?} must validate all the schemas (allOf){tail}"));
    }
    if raw.get("not").is_some_and(|branch| judge(branch).is_empty()) {
        fail(out, format!("{path:?} must not validate the schema (not)"));
    }
}
