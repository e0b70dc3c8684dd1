//! The verdict as it is written to `verdict.json`; `reports/README.md` documents it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::finding::Finding;
use crate::{
    diff::{Mask, Unstable},
    scenario::plan::Plan,
};

/// Version of the format of `verdict.json`. A field that is added does not change it.
pub const VERDICT_VERSION: u32 = 1;

/// The three values of a verdict, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Pass,
    Inconclusive,
    Fail,
}

impl Outcome {
    /// As it stands in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Inconclusive => "inconclusive",
            Self::Fail => "fail",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What an oracle said, without its findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JudgementKind {
    Holds,
    Violated,
    Unknown,
    NotApplicable,
}

/// One oracle's word on one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OracleSummary {
    pub id: String,
    pub judgement: JudgementKind,
    /// Why it is unknown or does not apply; empty otherwise.
    pub reason: String,
}

/// Numbers of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metrics {
    /// Faults that were installed.
    pub faults_scheduled: u64,
    /// Requests that they matched.
    pub faults_matched: u64,
    /// Times that they were carried out.
    pub faults_fired: u64,
    /// Requests of the operator that the proxy saw.
    pub requests_seen: u64,
    /// Of these, writes.
    pub writes: u64,
    /// Of these, writes when nothing was left to do.
    pub writes_after_settle: u64,
    /// From the heal to the last change. `None` without a heal, or without convergence after it.
    pub recovery_ms: Option<u64>,
    pub recovery_bound_ms: u64,
    pub leaves_compared: u64,
    pub leaves_masked: u64,
}

/// One fault and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FaultSummary {
    pub id: String,
    pub matched: u64,
    pub fired: u64,
    /// The first firings, in words.
    pub hits: Vec<String>,
    pub legal_because: String,
}

/// The verdict on one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CaseVerdict {
    /// `reference-1`, or the perturbation's name; without the seed.
    pub name: String,
    pub seed: u64,
    /// Id of the perturbation; `None` for references.
    pub perturbation: Option<String>,
    /// Line of the perturbation in the scenario file, from 1.
    pub line: Option<usize>,
    pub outcome: Outcome,
    pub findings: Vec<Finding>,
    /// Why it is inconclusive (also given beside findings).
    pub reasons: Vec<String>,
    pub oracles: Vec<OracleSummary>,
    pub faults: Vec<FaultSummary>,
    pub metrics: Metrics,
    pub duration_ms: u64,
    /// The command line that repeats this run; filled in by whoever knows it.
    pub replay: Option<String>,
    /// What a real API server says of it, where one was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmation: Option<Confirmation>,
}

/// What a real API server says of a run on the embedded one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Confirmation {
    /// The same there.
    Confirmed { cluster: String },
    /// A failure that passes there: the embedded API server is to be doubted before the operator.
    ModelOnly { cluster: String },
    /// A pass that fails there; the findings are those of the real run.
    Contradicted { cluster: String },
    /// It was asked and gave no answer.
    Unknown { cluster: String, why: String },
    /// There is none at hand.
    NoCluster { why: String },
}

impl Confirmation {
    /// `confirmed on envtest (kube-apiserver 1.34.4)`, `model-only: ...`.
    #[must_use]
    pub fn in_words(&self) -> String {
        match self {
            Self::Confirmed { cluster } => format!("confirmed on {cluster}"),
            Self::ModelOnly { cluster } => {
                format!("model-only: it passes on {cluster}, so doubt the embedded API server before the operator")
            }
            Self::Contradicted { cluster } => format!("it passes on the embedded API server and fails on {cluster}"),
            Self::Unknown { cluster, why } => format!("not confirmed on {cluster}: {why}"),
            Self::NoCluster { why } => format!("not confirmed: {why}"),
        }
    }
}

/// The verdict on a scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScenarioVerdict {
    pub version: u32,
    pub scenario: String,
    /// The scenario file, as it was named on the command line.
    pub file: String,
    pub description: String,
    pub outcome: Outcome,
    /// Why nothing can be said about the scenario as a whole.
    pub reasons: Vec<String>,
    pub seed: u64,
    pub cluster: String,
    /// The fault-free runs, judged by the oracles that need no reference.
    pub references: Vec<CaseVerdict>,
    pub cases: Vec<CaseVerdict>,
    pub mask: Mask,
    pub mask_budget_percent: u32,
    pub unstable: Vec<Unstable>,
    pub duration_ms: u64,
}

/// The name of a run as reports show it: a campaign of several seeds appends `@` and the seed.
pub(super) fn without_seed(run: &str) -> &str {
    run.split('@').next().unwrap_or(run)
}

impl CaseVerdict {
    /// A run that could not be carried out, and why.
    #[must_use]
    pub fn not_run(name: &str, plan: &Plan, why: String) -> Self {
        Self {
            name: without_seed(name).to_owned(),
            seed: plan.seed.0,
            perturbation: plan.perturbation.as_ref().map(|planned| planned.perturbation.id().to_owned()),
            line: plan.perturbation.as_ref().map(|planned| planned.line),
            outcome: Outcome::Inconclusive,
            findings: Vec::new(),
            reasons: vec![why],
            oracles: Vec::new(),
            faults: Vec::new(),
            metrics: Metrics::default(),
            duration_ms: 0,
            replay: None,
            confirmation: None,
        }
    }

    /// The first thing that is wrong with it, in one sentence; empty for a pass.
    #[must_use]
    pub fn headline(&self) -> &str {
        let sentence = self.findings.first().map(|finding| finding.sentence.as_str());
        sentence.or(self.reasons.first().map(String::as_str)).unwrap_or_default()
    }
}

impl ScenarioVerdict {
    /// A scenario of which no run could be judged, and why.
    #[must_use]
    pub fn not_run(scenario: &str, file: String, why: String) -> Self {
        Self {
            version: VERDICT_VERSION,
            scenario: scenario.to_owned(),
            file,
            description: String::new(),
            outcome: Outcome::Inconclusive,
            reasons: vec![why],
            seed: 0,
            cluster: String::new(),
            references: Vec::new(),
            cases: Vec::new(),
            mask: Mask::default(),
            mask_budget_percent: 0,
            unstable: Vec::new(),
            duration_ms: 0,
        }
    }

    /// References and cases, in the order in which they were run.
    pub fn all(&self) -> impl Iterator<Item = &CaseVerdict> {
        self.references.iter().chain(&self.cases)
    }

    /// How many runs ended so.
    #[must_use]
    pub fn count(&self, outcome: Outcome) -> usize {
        self.all().filter(|case| case.outcome == outcome).count()
    }
}
