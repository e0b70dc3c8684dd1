//! Request bodies: JSON, YAML or protobuf into a [`Value`], with the duplicate fields that were found on the way.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::{protobuf, status::ApiError};

/// A decoded body.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    pub value: Value,
    /// Dotted paths of fields that the text has twice.
    pub duplicates: Vec<String>,
}

/// The media type of a `Content-Type` header, without its parameters.
pub fn media_type(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

/// Decodes the body of a create, update or delete.
///
/// # Errors
/// 415 for an unknown media type, 400 for a body that cannot be read.
pub fn decode(content_type: &str, body: &[u8]) -> Result<Decoded, ApiError> {
    match media_type(content_type) {
        "" | "application/json" => json(body),
        "application/yaml" => yaml(body),
        "application/vnd.kubernetes.protobuf" => Ok(Decoded { value: protobuf::decode(body)?, duplicates: Vec::new() }),
        other => Err(ApiError::unsupported_media_type(format!(
            "the body of the request was in an unknown format - accepted media types include: application/json, \
             application/yaml, application/vnd.kubernetes.protobuf (got {other})"
        ))),
    }
}

/// Decodes JSON.
///
/// # Errors
/// 400 with the place of the mistake.
pub fn json(body: &[u8]) -> Result<Decoded, ApiError> {
    let mut duplicates = Vec::new();
    let mut reader = serde_json::Deserializer::from_slice(body);
    let seed = Node { path: String::new(), duplicates: &mut duplicates };
    let value = seed.deserialize(&mut reader).and_then(|v| reader.end().map(|()| v));
    match value {
        Ok(value) => Ok(Decoded { value, duplicates }),
        Err(error) => Err(ApiError::bad_request(format!("error decoding the request body: {error}"))),
    }
}

/// Decodes YAML, of which JSON is a part.
///
/// # Errors
/// 400 with the place of the mistake.
pub fn yaml(body: &[u8]) -> Result<Decoded, ApiError> {
    if let Ok(decoded) = json(body) {
        return Ok(decoded);
    }
    let text = std::str::from_utf8(body).map_err(|e| ApiError::bad_request(format!("error decoding YAML: {e}")))?;
    let value: Value =
        serde_saphyr::from_str(text).map_err(|e| ApiError::bad_request(format!("error decoding YAML: {e}")))?;
    Ok(Decoded { value, duplicates: Vec::new() })
}

/// Builds a value and notes each key that an object has twice; the last one counts, as everywhere.
struct Node<'a> {
    path: String,
    duplicates: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_f64<E: serde::de::Error>(self, v: f64) -> Result<Value, E> {
        serde_json::Number::from_f64(v).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_string<E>(self, v: String) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut out = Vec::new();
        loop {
            let path = format!("{}[{}]", self.path, out.len());
            match seq.next_element_seed(Node { path, duplicates: self.duplicates })? {
                Some(value) => out.push(value),
                None => return Ok(Value::Array(out)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut out = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if self.path.len() > 16_384 {
                return Err(A::Error::custom("nested too deeply"));
            }
            let path = if self.path.is_empty() { key.clone() } else { format!("{}.{key}", self.path) };
            if out.contains_key(&key) {
                self.duplicates.push(path.clone());
            }
            let value = map.next_value_seed(Node { path, duplicates: self.duplicates })?;
            out.insert(key, value);
        }
        Ok(Value::Object(out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_are_found_with_their_path() {
        let body = br#"{"a":{"b":1,"b":2},"c":[{"d":1,"d":1}]}"#;
        let decoded = json(body).unwrap();
        assert_eq!(decoded.duplicates, ["a.b", "c[0].d"]);
        assert_eq!(decoded.value["a"]["b"], 2);
    }

    #[test]
    fn media_types_are_checked() {
        assert_eq!(decode("text/plain", b"{}").unwrap_err().code, 415);
        assert_eq!(decode("application/json; charset=utf-8", b"{}").unwrap().value, Value::Object(Map::new()));
        assert_eq!(decode("application/json", b"{").unwrap_err().code, 400);
        assert_eq!(decode("application/yaml", b"a:\n- 1\n").unwrap().value, serde_json::json!({"a": [1]}));
    }
}
