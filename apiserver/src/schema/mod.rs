//! Types of objects, for built-in kinds (captured OpenAPI v3) and for CRDs (their structural schema) alike.
//!
//! # Guarantees
//! A [`TypeRef`] is a cheap cursor: `field`, `items` and `additional` walk down and resolve references on the way.
//! Patch, apply, prune, default and validate all use it, so that lists merge the same way everywhere.

mod node;

pub use node::{Definitions, ListType, Schema, TypeRef};
