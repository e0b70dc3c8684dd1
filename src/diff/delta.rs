//! What differs between two states.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::normalise::CanonicalKey;

/// An object that only one of two states has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lone {
    pub object: CanonicalKey,
    pub value: Value,
}

/// A value that differs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Changed {
    pub object: CanonicalKey,
    /// Such as `spec.containers[name=app].image`.
    pub path: String,
    /// `None` where the reference has nothing.
    pub before: Option<Value>,
    /// `None` where this state has nothing.
    pub after: Option<Value>,
}

/// The difference of two states, in the order in which it is worth reading.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Delta {
    /// Objects of the reference that are not there.
    pub missing: Vec<Lone>,
    /// Objects that the reference does not have.
    pub extra: Vec<Lone>,
    pub changed: Vec<Changed>,
}

impl Delta {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.extra.is_empty() && self.changed.is_empty()
    }

    /// How many differences there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.missing.len() + self.extra.len() + self.changed.len()
    }
}
