//! Scenario files: from YAML and a seed to a fully resolved plan.
//!
//! # Flow
//! [`parse`] reads the file into its [`format`]; [`check`] says whether it makes sense; [`resolve`] finds scenarios and
//! turns one with a seed into the [`plan`] that a run carries out. Nothing here does I/O on a cluster.
//!
//! # Guarantees
//! Strict: an unknown field or a bad value is an error with file, line, column and a suggestion.

pub mod duration;
mod perturbation;
mod operator_spec;
pub mod format;
pub mod plan;

pub mod error;
mod places;
pub mod parse;
pub mod selector;
pub mod predicate;
mod rendered;
pub mod manifest;
mod placeholder;
mod names;
pub mod check;
mod fill;
mod operator;
pub mod resolve;
pub mod schema;

pub use error::{Problem, ScenarioError};

#[cfg(test)]
mod tests;
