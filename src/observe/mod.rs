//! The observer: its own watches and snapshots, never through the fault proxy.
//!
//! # Flow
//! [`Observer::start`] looks up every resource that can be listed and watched, and follows each; changes go to the
//! history and to a cache that predicates read. [`Observer::snapshot`] lists everything at an instant.
//!
//! # Guarantees
//! The observer does not know what was done to the operator. Objects that were there before the scenario and have
//! not changed since are left out of snapshots and history.

pub mod observer;
mod own;
pub mod record;

pub use observer::{ObserveError, Observer};
pub use own::Own;
