//! How objects are named throughout the harness, and small readings of their JSON.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An object's identity across versions: group, kind, namespace (empty when cluster-scoped) and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectKey {
    pub group: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

impl ObjectKey {
    /// The key of an object that carries `apiVersion`, `kind` and `metadata.name`.
    #[must_use]
    pub fn of(object: &Value) -> Option<Self> {
        let api_version = object.get("apiVersion")?.as_str()?;
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        Some(Self {
            group: group.to_owned(),
            kind: object.get("kind")?.as_str()?.to_owned(),
            namespace: metadata(object, "namespace").to_owned(),
            name: object.pointer("/metadata/name")?.as_str()?.to_owned(),
        })
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// A text field of `metadata`, or the empty string.
#[must_use]
pub fn metadata<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get("metadata").and_then(|m| m.get(field)).and_then(Value::as_str).unwrap_or_default()
}

/// The `ownerReferences`, or nothing.
#[must_use]
pub fn owner_references(object: &Value) -> &[Value] {
    object.pointer("/metadata/ownerReferences").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}
