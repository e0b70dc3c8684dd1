//! From a pod template to a pod, and from a template to its hash.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::object::{map, text};

/// Alphabet of hashes in names and labels: no vowels, no look-alikes, so that no word can appear.
const HASH_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// A new pod of `template` under `owner_ref`; the caller sets `name` or `generateName`.
pub(super) fn pod(template: &Value, namespace: &str, owner_ref: Value) -> Value {
    let mut metadata = json!({"namespace": namespace, "ownerReferences": [owner_ref]});
    for field in ["labels", "annotations", "finalizers"] {
        if let Some(value) = template.pointer(&format!("/metadata/{field}")) {
            metadata[field] = value.clone();
        }
    }
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": template.get("spec").cloned().unwrap_or_else(|| json!({})),
    })
}

/// A short hash of a template, the same for equal templates and another for each collision count.
///
/// It is not the hash of the upstream controllers: nothing may depend on its value, only on its being stable.
pub(super) fn hash(template: &Value, collisions: Option<i64>) -> String {
    let mut digest = Sha256::new();
    digest.update(template.to_string());
    if let Some(count) = collisions {
        digest.update(count.to_le_bytes());
    }
    let bytes = digest.finalize();
    let letters: String =
        bytes.iter().take(10).map(|b| char::from(HASH_ALPHABET[usize::from(*b) % HASH_ALPHABET.len()])).collect();
    letters
}

/// Equality of templates, leaving aside the hash label that a controller added.
pub(super) fn same_template(a: &Value, b: &Value) -> bool {
    strip(a) == strip(b)
}

fn strip(template: &Value) -> Value {
    let mut bare = template.clone();
    if let Some(labels) = bare.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove("pod-template-hash");
    }
    if let Some(metadata) = bare.pointer_mut("/metadata").and_then(Value::as_object_mut) {
        // Older servers write a null creationTimestamp into templates; it means nothing.
        metadata.retain(|k, v| !(v.is_null() || k == "labels" && v.as_object().is_some_and(serde_json::Map::is_empty)));
    }
    bare
}

/// `name-` for `generateName`, cut so that the suffix still fits into a label.
pub(super) fn prefix(owner: &Value) -> String {
    let name = text(owner, "/metadata/name");
    let cut: String = name.chars().take(57).collect();
    format!("{cut}-")
}

/// Adds labels to an object's metadata.
pub(super) fn add_labels(object: &mut Value, labels: &[(&str, &str)]) {
    if map(object, "/metadata/labels").is_none() {
        object["metadata"]["labels"] = json!({});
    }
    for (key, value) in labels {
        object["metadata"]["labels"][*key] = json!(value);
    }
}
