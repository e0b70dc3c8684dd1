//! Reports: a verdict as text for people and for other programs.
//!
//! # Flow
//! [`ScenarioVerdict`](crate::verdict::ScenarioVerdict)s go in; text comes out: [`terminal`], [`json`], [`junit`],
//! [`github`], [`prow`]. [`explain`] tells about oracles and rules by their ids.
//!
//! # Guarantees
//! Pure: nothing is written, and the same verdict gives the same bytes. Colour and time stamps are given by the
//! caller. Names of test cases hold neither seeds nor times, so that dashboards can follow them.
//!
//! # Not done
//! No file is written here; the command line decides what goes where.

pub mod explain;
pub mod github;
pub mod json;
pub mod junit;
pub mod prow;
pub mod terminal;
mod seeds;
mod words;

#[cfg(test)]
mod tests;
