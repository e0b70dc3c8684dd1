//! Field ownership: `metadata.managedFields` on every write, and server-side apply.
//!
//! In: the live object, the new object or an applied configuration, its type, and who writes. Out: the object to store.
//!
//! # Guarantees
//! Pure functions: time comes with the [`Writer`]. Outcomes equal those of the real server's field managers: who owns
//! what, which applies conflict, and what an apply removes. Without a type, maps are granular and lists atomic.
//!
//! # Caveats
//! Entries of other versions are read in the shape of the written version, as if conversion only changed the
//! `apiVersion`; entries of versions that are not served any more are kept. Defaulting is the caller's part.

mod value;
mod fieldset;
mod shape;
mod collect;
mod compare;
mod merge;
mod prune;
mod reconcile;
mod validate;
mod managers;
mod conflict;
mod ownership;
mod last_applied;
mod track;
mod server_side;
#[cfg(test)]
mod tests;

use jiff::Timestamp;

pub use fieldset::{FieldSet, FieldSetError, PathElement};
pub use server_side::{apply, apply_resetting};
pub use track::{settle_times, track_update, track_update_resetting};

/// Who writes, through which endpoint, and when.
#[derive(Debug, Clone, Copy)]
pub struct Writer<'a> {
    /// The `fieldManager` parameter, or what the server derives from the user agent.
    pub manager: &'a str,
    /// The version of the request's path, such as `apps/v1`.
    pub api_version: &'a str,
    /// `status`, `scale`, or empty for the object itself.
    pub subresource: &'a str,
    pub now: Timestamp,
}
