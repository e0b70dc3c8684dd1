//! Takes secrets out of what is recorded.
//!
//! # Flow
//! A JSON object, a request body or a line of log goes in; the same thing without secret values comes out.
//!
//! # Guarantees
//! Values of Secrets become `<redacted length=12 hash=ab12cd34>`: the same value gives the same text, in `data` as in
//! `stringData`, so that a rotated password is still seen as a change. Bearer tokens and JWTs never survive.
//! Redacting twice changes nothing.
//!
//! # Deliberately not done
//! Secrets that somebody keeps in a ConfigMap, an environment variable or a custom resource are not recognised, unless
//! they look like a bearer token.

use std::fmt::Write as _;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Redacts an object, or every object of a list.
pub fn redact(object: &mut Value) {
    match kind(object) {
        "Secret" if is_core(object) => redact_secret(object),
        "TokenRequest" => drop_field(object, "status"),
        "TokenReview" => drop_field(object, "spec"),
        kind if kind.ends_with("List") => {
            // Items of a typed list carry no kind of their own.
            let secrets = kind == "SecretList" && is_core(object);
            if let Some(items) = object.get_mut("items").and_then(Value::as_array_mut) {
                for item in items {
                    if secrets { redact_secret(item) } else { redact(item) }
                }
            }
        }
        _ => {}
    }
    redact_strings(object);
}

/// Redacts what is known to be a Secret, or a patch of one: merge, strategic or apply patches, which need not name
/// their kind, and JSON patches.
pub fn redact_secret(body: &mut Value) {
    if let Value::Array(operations) = body {
        operations.iter_mut().for_each(redact_operation);
        return;
    }
    redact_map(body.get_mut("data"), Encoding::Base64);
    redact_map(body.get_mut("stringData"), Encoding::Text);
    redact_last_applied(body.pointer_mut("/metadata/annotations"));
    redact_strings(body);
}

/// Redacts bearer tokens and JWTs in free text, such as a line of an operator's log.
#[must_use]
pub fn redact_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((start, end)) = next_token(rest) {
        out.push_str(&rest[..start]);
        out.push_str(&marker(&rest.as_bytes()[start..end]));
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

#[derive(Clone, Copy)]
enum Encoding {
    Base64,
    Text,
}

fn kind(object: &Value) -> &str {
    object.get("kind").and_then(Value::as_str).unwrap_or_default()
}

fn is_core(object: &Value) -> bool {
    // Without an apiVersion the safe reading is the core group.
    object.get("apiVersion").is_none_or(|version| version == "v1")
}

fn drop_field(object: &mut Value, field: &str) {
    if let Some(map) = object.as_object_mut() {
        map.remove(field);
    }
}

fn redact_map(map: Option<&mut Value>, encoding: Encoding) {
    match map {
        Some(Value::Object(map)) => map.values_mut().for_each(|value| redact_value(value, encoding)),
        Some(other) => redact_value(other, encoding),
        None => {}
    }
}

fn redact_value(value: &mut Value, encoding: Encoding) {
    let redacted = match (&*value, encoding) {
        // A null in a merge patch removes a key and gives nothing away.
        (Value::Null, _) => return,
        (Value::String(text), _) if is_marker(text) => return,
        (Value::String(text), Encoding::Text) => marker(text.as_bytes()),
        (Value::String(text), Encoding::Base64) => {
            marker(&STANDARD.decode(text).unwrap_or_else(|_| text.clone().into_bytes()))
        }
        (other, _) => marker(other.to_string().as_bytes()),
    };
    *value = Value::String(redacted);
}

fn redact_last_applied(annotations: Option<&mut Value>) {
    let Some(Value::String(text)) = annotations.and_then(|map| map.get_mut(LAST_APPLIED)) else { return };
    *text = last_applied(text);
}

fn last_applied(text: &str) -> String {
    match serde_json::from_str::<Value>(text) {
        Ok(mut applied @ Value::Object(_)) => {
            redact_secret(&mut applied);
            applied.to_string()
        }
        _ if is_marker(text) => text.to_owned(),
        _ => marker(text.as_bytes()),
    }
}

fn redact_operation(operation: &mut Value) {
    let path = operation.get("path").and_then(Value::as_str).unwrap_or_default().to_owned();
    let Some(value) = operation.get_mut("value") else { return };
    let mut steps = path.split('/').skip(1);
    match (steps.next(), steps.next(), steps.next()) {
        (None, ..) => redact_secret(value),
        (Some("data"), ..) => redact_map(Some(value), Encoding::Base64),
        (Some("stringData"), ..) => redact_map(Some(value), Encoding::Text),
        (Some("metadata"), None, _) => redact_last_applied(value.get_mut("annotations")),
        (Some("metadata"), Some("annotations"), None) => redact_last_applied(Some(value)),
        (Some("metadata"), Some("annotations"), Some(key)) if key.replace("~1", "/") == LAST_APPLIED => {
            if let Value::String(text) = value {
                *text = last_applied(text);
            }
        }
        _ => {}
    }
    redact_strings(value);
}

/// Every text within `value`, however deep.
fn redact_strings(value: &mut Value) {
    match value {
        Value::String(text) if next_token(text).is_some() => *text = redact_text(text),
        Value::Array(items) => items.iter_mut().for_each(redact_strings),
        Value::Object(map) => map.values_mut().for_each(redact_strings),
        _ => {}
    }
}

/// Where the first token of `text` lies.
fn next_token(text: &str) -> Option<(usize, usize)> {
    [find_jwt(text), find_bearer(text)].into_iter().flatten().min()
}

/// Three base64url parts of which the first begins like `{"`.
fn find_jwt(text: &str) -> Option<(usize, usize)> {
    let mut from = 0;
    while let Some(found) = text[from..].find("eyJ") {
        let start = from + found;
        let end = start + token_length(&text[start..]);
        let token = text[start..end].trim_end_matches('.');
        if token.len() > 20 && token.matches('.').count() >= 2 {
            return Some((start, start + token.len()));
        }
        from = start + 3;
    }
    None
}

/// The word after `Bearer`, when it is long enough not to be prose.
fn find_bearer(text: &str) -> Option<(usize, usize)> {
    let mut from = 0;
    while let Some(found) = text[from..].find("earer ") {
        let word = from + found + "earer ".len();
        let start = word + (text[word..].len() - text[word..].trim_start_matches([' ', '"', '\'']).len());
        let length = token_length(&text[start..]);
        if length >= 8 && text[..from + found].ends_with(['B', 'b']) {
            return Some((start, start + length));
        }
        from = word;
    }
    None
}

fn token_length(text: &str) -> usize {
    text.find(|c: char| !(c.is_ascii_alphanumeric() || "-_.~+/=".contains(c))).unwrap_or(text.len())
}

fn is_marker(text: &str) -> bool {
    text.starts_with("<redacted length=") && text.ends_with('>')
}

fn marker(value: &[u8]) -> String {
    let mut hash = Sha256::new();
    hash.update(b"reconverge");
    hash.update(value);
    let mut text = format!("<redacted length={} hash=", value.len());
    for byte in hash.finalize().iter().take(4) {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text.push('>');
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const JWT: &str = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl";

    fn redacted(mut value: Value) -> Value {
        redact(&mut value);
        value
    }

    #[test]
    fn secret_values_keep_length_and_identity() {
        let a = redacted(json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "data": {"p": STANDARD.encode("hunter22"), "q": STANDARD.encode("other")}}));
        let b = redacted(json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"p": "hunter22"}}));
        assert_eq!(a["data"]["p"], b["stringData"]["p"]);
        assert_ne!(a["data"]["p"], a["data"]["q"]);
        assert!(a["data"]["p"].as_str().unwrap().starts_with("<redacted length=8 hash="));
        assert_eq!(a["type"], "Opaque");
        assert_eq!(redacted(a.clone()), a, "redacting twice");
    }

    #[test]
    fn lists_and_last_applied_are_covered() {
        let applied = json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"p": "hunter22"}}).to_string();
        let secret =
            json!({"metadata": {"name": "s", "annotations": {LAST_APPLIED: applied}}, "data": {"p": "aHVudGVyMjI="}});
        let mut whole = secret.clone();
        whole["kind"] = "Secret".into();
        whole["apiVersion"] = "v1".into();
        for list in [
            json!({"apiVersion": "v1", "kind": "SecretList", "items": [secret]}),
            json!({"apiVersion": "v1", "kind": "List", "items": [whole]}),
        ] {
            let text = redacted(list).to_string();
            assert!(!text.contains("hunter22") && !text.contains("aHVudGVyMjI"), "{text}");
        }
    }

    #[test]
    fn other_kinds_are_left_alone() {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"p": "plain"}});
        assert_eq!(redacted(map.clone()), map);
        let foreign = json!({"apiVersion": "example.com/v1", "kind": "Secret", "data": {"p": "plain"}});
        assert_eq!(redacted(foreign.clone()), foreign);
    }

    #[test]
    fn patches_of_secrets_are_covered() {
        for mut patch in [
            json!({"data": {"p": "aHVudGVyMjI="}}),
            json!([{"op": "add", "path": "/data/p", "value": "aHVudGVyMjI="}]),
            json!([{"op": "replace", "path": "/data", "value": {"p": "aHVudGVyMjI="}}]),
            json!([{"op": "replace", "path": "", "value": {"data": {"p": "aHVudGVyMjI="}}}]),
            json!([{"op": "add", "path": "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration",
                "value": "{\"data\":{\"p\":\"aHVudGVyMjI=\"}}"}]),
        ] {
            redact_secret(&mut patch);
            let text = patch.to_string();
            assert!(!text.contains("aHVudGVyMjI") && text.contains("<redacted"), "{text}");
        }
        let mut removal = json!({"data": {"p": null}});
        redact_secret(&mut removal);
        assert_eq!(removal, json!({"data": {"p": null}}));
    }

    #[test]
    fn tokens_vanish_from_text_and_objects() {
        let text = redact_text(&format!("Authorization: Bearer abcdef0123456789 and {JWT}."));
        assert!(!text.contains("abcdef0123456789") && !text.contains("eyJ") && text.ends_with('.'), "{text}");
        assert_eq!(redact_text(&text), text);
        for prose in ["a bearer of news", "eyJust a word", "nothing", "Überbearer ünïcödé"] {
            assert_eq!(redact_text(prose), prose);
        }
        let map = redacted(json!({"kind": "ConfigMap", "data": {"kubeconfig": format!("token: {JWT}")}}));
        assert!(!map.to_string().contains(JWT));
        let request = redacted(json!({"kind": "TokenRequest", "status": {"token": "opaque"}}));
        assert_eq!(request, json!({"kind": "TokenRequest"}));
    }
}
