//! The verdict: what recorded data says about an operator.
//!
//! # Flow
//! References and a run go in; each [`Oracle`] of [`ORACLES`] gives a [`Judgement`]; together they make a
//! [`CaseVerdict`], and all cases a [`ScenarioVerdict`].
//!
//! # Guarantees
//! Pure: a finished run can be judged again without a cluster, with the same result. `Fail` beats `Inconclusive`
//! beats `Pass`. An oracle that panics, a fault that never fired and an unstable reference are `Inconclusive`, never
//! `Pass`.
//!
//! # Not done
//! A write that the operator sends past its proxy is noticed only by the field manager that it leaves.

mod case;
pub mod confirm;
mod finding;
mod judge;
pub mod oracles;
#[cfg(test)]
pub(crate) mod sample;
mod wire;

pub use case::{Case, Reference};
pub use finding::{Classification, Finding};
pub use judge::{judge, judge_against, judge_references, judge_scenario, learn_reference, scenario_verdict};
pub use oracles::ORACLES;
pub use wire::{
    CaseVerdict, Confirmation, FaultSummary, JudgementKind, Metrics, OracleSummary, Outcome, ScenarioVerdict,
    VERDICT_VERSION,
};

/// What one oracle says about one run.
#[derive(Debug, Clone, PartialEq)]
pub enum Judgement {
    Holds,
    Violated(Vec<Finding>),
    /// It should apply, but the data does not tell; the run is inconclusive.
    Unknown(String),
    /// It says nothing about such a run.
    NotApplicable(String),
}

/// A judge of recorded data.
pub trait Oracle: Sync + std::fmt::Debug {
    /// Stable; for `skipOracles`, reports and `explain`.
    fn id(&self) -> &'static str;
    /// What holds when it holds, in a few words.
    fn title(&self) -> &'static str;
    /// What it looks at, why that matters, and what to do about a finding.
    fn explain(&self) -> &'static str;
    fn judge(&self, case: &Case<'_>) -> Judgement;
}
