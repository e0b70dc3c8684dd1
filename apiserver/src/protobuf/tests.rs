//! Golden pairs that Go's own encoders made, and bodies that are no such thing.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::decode;

fn golden() -> impl Iterator<Item = (String, Vec<u8>, Value)> {
    include_str!("../../data/protobuf.golden.txt").lines().map(|line| {
        let parts: Vec<&str> = line.split('\t').collect();
        let [api_version, kind, shape, wire, text] = parts[..] else { panic!("five parts: {line}") };
        let name = format!("{api_version} {kind} {shape}");
        (name, STANDARD.decode(wire).unwrap(), serde_json::from_str(text).unwrap())
    })
}

/// Full objects have every field set; empty ones show which zero values Go writes.
#[test]
fn golden_bodies_give_the_json_of_go() {
    let mut seen = 0;
    for (name, wire, expected) in golden() {
        let found = decode(&wire).unwrap_or_else(|e| panic!("{name}: {e}"));
        if found != expected {
            let (found, expected) = (lines(&found), lines(&expected));
            let only = |a: &[String], b: &[String]| a.iter().filter(|l| !b.contains(l)).cloned().collect::<Vec<_>>();
            panic!("{name}\nfound: {:#?}\nexpected: {:#?}", only(&found, &expected), only(&expected, &found));
        }
        seen += 1;
    }
    assert!(seen >= 120, "only {seen} golden bodies");
}

fn lines(value: &Value) -> Vec<String> {
    serde_json::to_string_pretty(value).unwrap().lines().map(str::to_owned).collect()
}

/// A prefix of a message is seldom a message; none of them may panic.
#[test]
fn cut_and_damaged_bodies_never_panic() {
    for (name, wire, _) in golden().filter(|(name, ..)| name.starts_with("v1 Service ") || name.contains("Lease")) {
        for end in 0..wire.len() {
            drop(decode(&wire[..end]));
            let mut damaged = wire.clone();
            damaged[end] ^= 0x15;
            drop(decode(&damaged));
        }
        let error = decode(&wire[..wire.len() - 1]).unwrap_err();
        assert_eq!((error.code, error.reason), (400, "BadRequest"), "{name}");
    }
}

fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let field = |number: u8, bytes: &[u8]| {
        assert!(bytes.len() < 16384);
        let length = [(bytes.len() % 128) as u8 | 0x80, (bytes.len() / 128) as u8];
        [&[number << 3 | 2], &length[..], bytes].concat()
    };
    let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), field(1, &type_meta), field(2, raw)].concat()
}

#[test]
fn unknown_field_numbers_are_skipped() {
    // Field 99 of a ConfigMap, then immutable (4) = true.
    let body = envelope("v1", "ConfigMap", &[0x9a, 0x06, 1, b'x', 0x20, 1]);
    let expected = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "immutable": true});
    assert_eq!(decode(&body).unwrap(), expected);
}

#[test]
fn option_kinds_keep_the_group_version_of_the_sender() {
    let body = envelope("apps/v1", "DeleteOptions", &[0x08, 0]);
    let expected = json!({"apiVersion": "apps/v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
    assert_eq!(decode(&body).unwrap(), expected);
}

#[test]
fn a_message_in_two_parts_is_merged() {
    let body = envelope("v1", "ConfigMap", &[0x0a, 3, 0x0a, 1, b'n', 0x0a, 3, 0x1a, 1, b's']);
    assert_eq!(decode(&body).unwrap()["metadata"], json!({"name": "n", "namespace": "s"}));
}

/// Go tells an absent list (null) from an empty one, and takes an absent map entry for empty.
#[test]
fn lists_with_a_message_of_their_own_may_be_empty() {
    // user (2) with extra (4): key (1) "k", once without and once with an empty value (2).
    for entry in [&[0x0a, 1, b'k'][..], &[0x0a, 1, b'k', 0x12, 0]] {
        let entry = [&[0x22, entry.len() as u8], entry].concat();
        let user = [&[0x12, entry.len() as u8], &entry[..]].concat();
        let status = [&[0x1a, user.len() as u8], &user[..]].concat();
        let review = decode(&envelope("authentication.k8s.io/v1", "TokenReview", &status)).unwrap();
        assert_eq!(review["status"]["user"]["extra"], json!({"k": []}));
    }
    let verbs = |resource: &[u8]| {
        let raw = [&[0x12, resource.len() as u8], resource].concat();
        decode(&envelope("v1", "APIResourceList", &raw)).unwrap()["resources"][0]["verbs"].clone()
    };
    assert_eq!(verbs(&[]), Value::Null);
    assert_eq!(verbs(&[0x22, 0]), json!([]));
    assert_eq!(verbs(&[0x22, 3, 0x0a, 1, b'x']), json!(["x"]));
}

#[test]
fn other_bodies_are_refused_with_the_reason() {
    let message = |body: &[u8]| decode(body).unwrap_err().message;
    assert!(message(b"{}").contains("prefix"));
    assert!(message(b"k8s\0").contains("lacks the kind"));
    assert!(message(&envelope("example.com/v1", "Widget", &[])).contains("no kind \"Widget\""));
    assert!(message(&envelope("v1", "ConfigMap", &[0x20])).contains("cut off"));
    assert!(message(&envelope("v1", "ConfigMap", &[0x22, 0])).contains("immutable"));
    assert!(message(&envelope("v1", "ConfigMap", &[0x0a, 3, 0x0a, 1, 0xff])).contains("not UTF-8"));
}

/// Without the bound a small body of nested schemas would overflow the stack.
#[test]
fn nesting_is_bounded() {
    let mut schema = Vec::new();
    for _ in 0..400 {
        // `not` is field 28 of JSONSchemaProps.
        let length = schema.len();
        let mut outer = vec![0xe2, 0x01, (length % 128) as u8 | 0x80, (length / 128) as u8];
        outer.append(&mut schema);
        schema = outer;
    }
    let wrap = |number: u8, inner: Vec<u8>| {
        let mut outer = vec![number << 3 | 2, (inner.len() % 128) as u8 | 0x80, (inner.len() / 128) as u8];
        outer.extend(inner);
        outer
    };
    // spec (2), versions (7), schema (4), openAPIV3Schema (1).
    let raw = wrap(2, wrap(7, wrap(4, wrap(1, schema))));
    let error = decode(&envelope("apiextensions.k8s.io/v1", "CustomResourceDefinition", &raw)).unwrap_err();
    assert!(error.message.contains("too deeply"), "{error}");
}
