//! Reconverge proves that a Kubernetes operator converges.
//!
//! # Flow
//! scenario -> plan -> cluster -> operator -> faults -> observe -> normalise -> diff -> verdict -> report;
//! each stage is a folder, and imports only stages to its left. [`run`] is the one place that sees them all.

pub mod object;
pub mod seed;
pub mod clock;
pub mod event;
pub mod history;
pub mod redact;
pub mod scenario;
pub mod cluster;
pub mod operator;
pub mod faults;
pub mod observe;
pub mod normalise;
pub mod diff;
pub mod verdict;
pub mod report;
pub mod run;
pub mod campaign;
pub mod cli;
