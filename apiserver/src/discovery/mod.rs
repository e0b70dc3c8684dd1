//! Which resources there are, and the documents that say so.
//!
//! # Flow
//! Captured discovery gives the built-in [`ResourceType`]s; each served version of a CRD gives one more. The same
//! types answer `/api`, `/apis`, the aggregated form and OpenAPI.
//!
//! # Guarantees
//! Answers for built-in groups are the recorded ones, byte for byte where no CRD shares the group.
//!
//! # Not done here
//! Aggregated API servers: `APIService` objects are stored, never proxied to.

mod documents;
mod openapi;
mod registry;

pub use documents::{Discovery, discover};
pub use openapi::openapi;
pub use registry::{CustomType, ResourceType, ScalePaths, Subresource, builtin, builtins, type_of_kind};
