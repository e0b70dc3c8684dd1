//! The objects of one cluster and their recent history, in memory.
//!
//! # Flow
//! A write bumps the one global revision, becomes the object's `resourceVersion` and is appended to the ring of its
//! table, all in one step; lists and watches read maps and rings.
//!
//! # Guarantees
//! Revisions are comparable decimals over all resources, as in etcd. Keys are `namespace/name` (or `name`), so
//! iteration has etcd's order. Every map is persistent: a clone is a fork in constant time, and each event keeps the
//! table as it was after it, which makes lists at an old revision exact.
//!
//! # Not done here
//! No validation, no locking (the pipeline holds the lock), nothing on disk.

mod event;
mod table;

pub use event::{Event, EventKind};
pub use table::{Expired, Objects, Store};
