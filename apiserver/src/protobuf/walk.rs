//! From the bytes of a body to the JSON object, along the field table.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Number, Value};

use super::reader::{Occurrence, Wire, WireError, fields, of, varint};
use super::special::{self, truncated};
use super::table::{Field, MessageId, Shape, TABLE, Type};
use crate::status::ApiError;

/// What a protobuf body of Kubernetes starts with.
const PREFIX: &[u8] = b"k8s\0";

/// The deepest nesting that is followed; JSON bodies have the same bound.
const MAX_DEPTH: usize = 128;

/// Reads a request body of content type `application/vnd.kubernetes.protobuf` into its JSON object.
///
/// # Errors
/// 400 when the bytes are malformed, when they name no kind, or a kind that has no protobuf form here.
pub fn decode(body: &[u8]) -> Result<Value, ApiError> {
    let unreadable = |error: WireError| ApiError::bad_request(format!("protobuf body cannot be read: {error}"));
    let envelope = Envelope::read(body).map_err(unreadable)?;
    if envelope.kind.is_empty() || envelope.api_version.is_empty() {
        return Err(ApiError::bad_request(
            "protobuf body cannot be read: its envelope lacks the kind or the apiVersion",
        ));
    }
    let message = TABLE.kind(envelope.api_version, envelope.kind).ok_or_else(|| {
        let Envelope { kind, api_version, .. } = envelope;
        ApiError::bad_request(format!("no kind \"{kind}\" with a protobuf form is known for version \"{api_version}\""))
    })?;
    let mut object = Map::new();
    walk(message, envelope.raw, 0, &mut object).map_err(unreadable)?;
    object.insert("apiVersion".into(), envelope.api_version.into());
    object.insert("kind".into(), envelope.kind.into());
    Ok(Value::Object(object))
}

/// A `runtime.Unknown`.
struct Envelope<'a> {
    api_version: &'a str,
    kind: &'a str,
    raw: &'a [u8],
}

impl<'a> Envelope<'a> {
    fn read(body: &'a [u8]) -> Result<Self, WireError> {
        let all = fields(body.strip_prefix(PREFIX).ok_or(WireError::Prefix)?)?;
        let (type_meta, raw) = (bytes_of(&all, 1, "typeMeta")?, bytes_of(&all, 2, "raw")?);
        if !special::text(&all, 3, "contentEncoding")?.is_empty() {
            return Err(WireError::Value { field: "contentEncoding", what: "encoding known to this server" });
        }
        let meta = fields(type_meta)?;
        let api_version = special::text(&meta, 1, "apiVersion")?;
        Ok(Self { api_version, kind: special::text(&meta, 2, "kind")?, raw })
    }
}

fn bytes_of<'a>(all: &[Occurrence<'a>], number: u32, name: &'static str) -> Result<&'a [u8], WireError> {
    of(all, number).last().map_or(Ok(&[]), |o| bytes(o.wire, name))
}

fn bytes<'a>(wire: Wire<'a>, name: &'static str) -> Result<&'a [u8], WireError> {
    match wire {
        Wire::Bytes(b) => Ok(b),
        _ => Err(WireError::Mismatch { field: name }),
    }
}

/// Adds the fields of a message to `out`.
fn walk(message: MessageId, bytes: &[u8], depth: usize, out: &mut Map<String, Value>) -> Result<(), WireError> {
    if depth > MAX_DEPTH {
        return Err(WireError::Depth);
    }
    let all = fields(bytes)?;
    for field in TABLE.fields(message) {
        let found = of(&all, field.number);
        if let (Shape::Inlined, Type::Message(inner)) = (field.shape, field.of) {
            walk(inner, &joined(found, field.name)?, depth + 1, out)?;
        } else if let Some(value) = field_value(field, found, depth)? {
            out.insert(field.name.into(), value);
        }
    }
    Ok(())
}

/// The JSON of a field, or nothing where Go leaves it out.
fn field_value(field: &Field, found: &[Occurrence<'_>], depth: usize) -> Result<Option<Value>, WireError> {
    match field.shape {
        Shape::Repeated | Shape::Map if found.is_empty() => return Ok((!field.omit_empty).then_some(Value::Null)),
        Shape::Repeated => return repeated(field, found, depth).map(Some),
        Shape::Map => return map(field, found, depth).map(Some),
        Shape::One | Shape::Inlined => {}
    }
    if field.pointer && found.is_empty() {
        return Ok((!field.omit_empty).then_some(Value::Null));
    }
    let value = one(field, found, depth)?;
    let left_out = !field.pointer
        && ((field.omit_zero && value.is_null()) || (field.omit_empty && may_be_empty(field) && is_empty(&value)));
    Ok((!left_out).then_some(value))
}

/// `omitempty` never leaves out a struct, which all messages and special types are in Go.
fn may_be_empty(field: &Field) -> bool {
    field.list || matches!(field.of, Type::Text | Type::Bool | Type::Int32 | Type::Int64 | Type::Double | Type::Bytes)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(n) => n.as_f64() == Some(0.0),
        Value::String(s) => s.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(_) | Value::Bool(true) => false,
    }
}

/// The value of a field that occurs once; without an occurrence, its zero value.
fn one(field: &Field, found: &[Occurrence<'_>], depth: usize) -> Result<Value, WireError> {
    let name = field.name;
    if field.list {
        // A list that is absent is nil in Go; one that is present may be empty.
        return if found.is_empty() { Ok(Value::Null) } else { list(&joined(found, name)?, name) };
    }
    match field.of {
        Type::Message(inner) => {
            let mut object = Map::new();
            walk(inner, &joined(found, name)?, depth + 1, &mut object)?;
            Ok(Value::Object(object))
        }
        Type::SchemaOrBool | Type::SchemaOrArray | Type::SchemaOrStrings => {
            schema_union(field, &joined(found, name)?, depth + 1)
        }
        Type::Text | Type::Bool | Type::Int32 | Type::Int64 | Type::Double | Type::Bytes => {
            scalar(field, found.last().map(|o| o.wire))
        }
        other => special::value(other, &joined(found, name)?, name),
    }
}

/// Protobuf merges a message that occurs more than once, which reading the parts as one message does.
fn joined<'a>(found: &[Occurrence<'a>], name: &'static str) -> Result<Cow<'a, [u8]>, WireError> {
    match found {
        [] => Ok(Cow::Borrowed(&[])),
        [only] => bytes(only.wire, name).map(Cow::Borrowed),
        many => {
            let parts: Vec<&[u8]> = many.iter().map(|o| bytes(o.wire, name)).collect::<Result<_, _>>()?;
            Ok(Cow::Owned(parts.concat()))
        }
    }
}

fn scalar(field: &Field, wire: Option<Wire<'_>>) -> Result<Value, WireError> {
    let name = field.name;
    Ok(match (field.of, wire) {
        (Type::Text, None) => Value::String(String::new()),
        (Type::Text, Some(Wire::Bytes(b))) => {
            std::str::from_utf8(b).map_err(|_| WireError::Text { field: name })?.into()
        }
        (Type::Bool, None) => Value::Bool(false),
        (Type::Bool, Some(Wire::Varint(n))) => Value::Bool(n != 0),
        (Type::Int32 | Type::Int64, None) => 0.into(),
        (Type::Int32, Some(Wire::Varint(n))) => truncated(n).into(),
        (Type::Int64, Some(Wire::Varint(n))) => n.cast_signed().into(),
        (Type::Double, None) => 0.into(),
        (Type::Double, Some(Wire::Fixed64(bits))) => double(f64::from_bits(bits), name)?,
        (Type::Bytes, None) => Value::Null,
        (Type::Bytes, Some(Wire::Bytes(b))) => STANDARD.encode(b).into(),
        _ => return Err(WireError::Mismatch { field: name }),
    })
}

/// Go spells whole numbers below 1e21 in digits alone, so that they read back as integers.
fn double(number: f64, name: &'static str) -> Result<Value, WireError> {
    let found = if number.fract() == 0.0 && number.abs() < 1e21 {
        number.to_string().parse().ok()
    } else {
        Number::from_f64(number)
    };
    found.map(Value::Number).ok_or(WireError::Value { field: name, what: "number" })
}

fn repeated(field: &Field, found: &[Occurrence<'_>], depth: usize) -> Result<Value, WireError> {
    let mut items = Vec::with_capacity(found.len());
    for occurrence in found {
        match (field.of, occurrence.wire) {
            // Numbers may come packed, many in one value.
            (Type::Bool | Type::Int32 | Type::Int64, Wire::Bytes(mut packed)) => {
                while !packed.is_empty() {
                    items.push(scalar(field, Some(Wire::Varint(varint(&mut packed)?)))?);
                }
            }
            _ => items.push(one(field, std::slice::from_ref(occurrence), depth)?),
        }
    }
    Ok(Value::Array(items))
}

/// Entries are messages of key (1) and value (2); the last entry of a key wins.
fn map(field: &Field, found: &[Occurrence<'_>], depth: usize) -> Result<Value, WireError> {
    let mut entries = Map::new();
    for occurrence in found {
        let entry = fields(bytes(occurrence.wire, field.name)?)?;
        let value = match (field.of, of(&entry, 2)) {
            // Unlike a field, an entry without a value is an empty slice in Go, not a nil one.
            (_, []) if field.list => Value::Array(Vec::new()),
            (Type::Bytes, []) => Value::String(String::new()),
            (_, value) => one(field, value, depth)?,
        };
        entries.insert(special::text(&entry, 1, field.name)?.into(), value);
    }
    Ok(Value::Object(entries))
}

/// A list type of its own (`ExtraValue`, `Verbs`): strings in field 1.
fn list(bytes: &[u8], name: &'static str) -> Result<Value, WireError> {
    let all = fields(bytes)?;
    let items = of(&all, 1);
    let one = |i: usize| special::text(&items[i..=i], 1, name).map(Value::from);
    (0..items.len()).map(one).collect::<Result<_, _>>().map(Value::Array)
}

/// The unions of apiextensions: a schema, or a bool (1), schemas (2) or names (2).
fn schema_union(field: &Field, bytes: &[u8], depth: usize) -> Result<Value, WireError> {
    let all = fields(bytes)?;
    let name = field.name;
    let schema = |found: &[Occurrence<'_>]| {
        let mut object = Map::new();
        walk(TABLE.schema(), &joined(found, name)?, depth, &mut object)?;
        Ok(Value::Object(object))
    };
    let (first, second) = (of(&all, 1), of(&all, 2));
    match field.of {
        Type::SchemaOrBool if second.is_empty() => match first.last().map(|o| o.wire) {
            None => Ok(false.into()),
            Some(Wire::Varint(allows)) => Ok((allows != 0).into()),
            Some(_) => Err(WireError::Mismatch { field: name }),
        },
        Type::SchemaOrBool => schema(second),
        Type::SchemaOrArray if !second.is_empty() => {
            second.chunks(1).map(schema).collect::<Result<_, _>>().map(Value::Array)
        }
        Type::SchemaOrStrings if !second.is_empty() => {
            let one = |o: &Occurrence<'_>| special::text(std::slice::from_ref(o), 2, name).map(Value::from);
            second.iter().map(one).collect::<Result<_, _>>().map(Value::Array)
        }
        _ if first.is_empty() => Ok(Value::Null),
        _ => schema(first),
    }
}
