//! A canonical state: objects under keys that mean the same in another run.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::object::ObjectKey;

/// Who an object is, without anything random.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CanonicalKey {
    pub group: String,
    pub kind: String,
    pub namespace: String,
    /// The name with its random parts replaced: `web-<hash>-<random>`.
    pub name: String,
    /// Tells apart objects of the same role, from 0.
    pub ordinal: usize,
}

impl CanonicalKey {
    /// The same for every object of a role.
    #[must_use]
    pub fn role(&self) -> Self {
        Self { ordinal: 0, ..self.clone() }
    }

    /// Names the object as users do; for a role, with the placeholder in the name.
    #[must_use]
    pub fn to_object_key(&self) -> ObjectKey {
        ObjectKey {
            group: self.group.clone(),
            kind: self.kind.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }
}

impl From<ObjectKey> for CanonicalKey {
    fn from(key: ObjectKey) -> Self {
        Self { group: key.group, kind: key.kind, namespace: key.namespace, name: key.name, ordinal: 0 }
    }
}

impl fmt::Display for CanonicalKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_object_key().fmt(f)?;
        if self.ordinal > 0 {
            write!(f, " (no. {})", self.ordinal + 1)?;
        }
        Ok(())
    }
}

/// Something that a rule left out of the comparison.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Hidden {
    /// Id of the rule; `ignore` for the scenario's own.
    pub rule: String,
    pub object: CanonicalKey,
    /// Empty for a whole object.
    pub path: String,
}

/// A normalised snapshot.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Canonical {
    pub objects: BTreeMap<CanonicalKey, Value>,
    /// What the objects are called in this run.
    pub names: BTreeMap<CanonicalKey, ObjectKey>,
    pub hidden: Vec<Hidden>,
}

impl Canonical {
    /// How many scalars there are to compare.
    #[must_use]
    pub fn leaves(&self) -> usize {
        self.objects.values().map(leaves).sum()
    }

    /// The object's name in this run, or else its role.
    #[must_use]
    pub fn name_of(&self, key: &CanonicalKey) -> ObjectKey {
        self.names.get(key).cloned().unwrap_or_else(|| key.to_object_key())
    }
}

/// Scalars in a value; an empty map or list counts as one.
#[must_use]
pub fn leaves(value: &Value) -> usize {
    match value {
        Value::Object(map) if !map.is_empty() => map.values().map(leaves).sum(),
        Value::Array(list) if !list.is_empty() => list.iter().map(leaves).sum(),
        _ => 1,
    }
}
