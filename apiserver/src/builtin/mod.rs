//! Built-in kinds: their types, and what decoding, defaulting, validating and storing do to their objects.
//!
//! # Flow
//! [`decode_errors`] -> [`unknown_fields`] and [`prune_unknown`] -> [`normalise_wire`] -> [`default_object`] ->
//! [`prepare_create`] or [`prepare_update`] -> [`validate_object`].
//!
//! # Guarantees
//! Types come from the captured OpenAPI, and what Go writes or leaves out from a generated table, never from memory. Functions are pure.
//!
//! # Deliberately not done
//! Allocation (cluster IPs, node ports), admission plug-ins and rules that need other objects. Pods with resources at
//! pod level give a cause with reason `EmbeddedUnsupported`. Validation covers the common rules of workloads, services, configuration, storage and
//! access control; rarer ones are absent, so an invalid object may pass.

mod openapi;
mod fields;
mod quantity;
mod wire;
mod decode;
mod unknown;
mod visit;
mod defaults;
mod lifecycle;
mod validate;

#[cfg(test)]
mod tests;

pub use decode::decode_errors;
pub use defaults::default_object;
pub use lifecycle::{generation_changes, has_generation, prepare_create, prepare_update, prepare_update_custom};
pub use openapi::definitions_for;
pub use quantity::Quantity;
pub use unknown::{prune_unknown, unknown_fields};
pub use validate::validate_object;
pub use wire::normalise_wire;
