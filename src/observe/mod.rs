//! The observer: its own watches and snapshots, never through the fault proxy.
//!
//! # Guarantees
//! The observer does not know what was done to the operator.

pub mod record;
