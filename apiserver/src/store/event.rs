//! One entry of a table's history.

use std::sync::Arc;

use serde_json::Value;

use super::Objects;

/// What a write did to its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    Added,
    Modified,
    Deleted,
}

/// A committed write.
#[derive(Debug, Clone)]
pub struct Event {
    pub revision: u64,
    pub kind: EventKind,
    /// The object after the write; the last state, with the deletion's revision, when it was deleted.
    pub object: Arc<Value>,
    /// The object before the write.
    pub previous: Option<Arc<Value>>,
    /// All objects of the table after the write.
    pub after: Objects,
}
