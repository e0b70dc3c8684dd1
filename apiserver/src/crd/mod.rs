//! Custom resources: what a CustomResourceDefinition may say, and what its schema then does to objects.
//!
//! # Flow
//! A definition is completed ([`prepare_crd`]), judged ([`validate_crd`]), accepted ([`accept_crd_status`]) and compiled per
//! version ([`compile_version`]). Objects are then pruned ([`prune`]), defaulted ([`default_values`]) and judged
//! ([`validate`]), in that order.
//!
//! # Guarantees
//! Pure functions over JSON; messages and reasons are those of kube-apiserver 1.34. On update, what did not change may stay invalid
//! (ratcheting).
//!
//! # Deliberately not done
//! CEL is not type-checked against the schema and has no cost budget; a rule that needs a function or macro that the CEL
//! engine lacks gives a cause with reason [`UNSUPPORTED`], which callers turn into a refusal. The formats `email`, `isbn*`,
//! `creditcard`, `ssn` and `bsonobjectid` are accepted unchecked.

pub(crate) mod cause;
mod prune;
mod defaults;
mod format;
mod number;
mod keywords;
mod lists;
mod correlate;
mod rules;
mod embedded;
mod validate;
mod compile;
mod structural;
pub(crate) mod names;
mod definition;
mod accept;

#[cfg(test)]
mod tests;

pub use accept::accept_crd_status;
pub use cause::UNSUPPORTED;
pub use compile::{CrdVersion, ScalePaths, compile_version};
pub use defaults::default_values;
pub use definition::{prepare_crd, validate_crd};
pub use prune::prune;
pub use validate::validate;
