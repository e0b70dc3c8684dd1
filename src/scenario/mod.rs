//! Scenario files: from YAML and a seed to a fully resolved plan.
//!
//! # Flow
//! [`format`] is the file as users write it; [`plan`] is what a run carries out. Nothing here does I/O on a cluster.
//!
//! # Guarantees
//! Strict: an unknown field or a bad value is an error with file, line, column and a suggestion.

pub mod duration;
pub mod format;
pub mod plan;
