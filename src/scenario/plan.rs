//! The plan: a scenario and a seed, fully resolved, so that a run needs no file any more.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    duration::Span,
    format::{
        Expectation, Lane, Normalise, ObjectRef, PatchAction, Perturbation, Probe, ScaleAction, SkipOracle, WaitAction,
    },
};
use crate::seed::Seed;

/// Version of the plan's own wire format.
pub const PLAN_VERSION: u32 = 1;

/// Everything that one run does, written as `plan.json` before it begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    pub version: u32,
    pub scenario: String,
    /// The scenario file.
    pub file: PathBuf,
    pub description: String,
    pub lane: Lane,
    pub namespace: String,
    pub seed: Seed,
    pub operator: OperatorPlan,
    pub workload: Vec<PlannedStep>,
    pub expect: Vec<Expectation>,
    pub settle: Span,
    pub deadline: Span,
    pub recovery_within: Span,
    pub probe: Option<Probe>,
    /// `None` in a reference run.
    pub perturbation: Option<PlannedPerturbation>,
    pub normalise: Normalise,
    pub references: u32,
    pub skip_oracles: Vec<SkipOracle>,
}

/// How the operator is installed and started, with every placeholder but `{{kubeconfig}}` and `{{port}}` filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OperatorPlan {
    /// Objects to apply first, in order: namespaces and CRDs, then the rest.
    pub install: Vec<Value>,
    /// Namespace and name.
    pub service_account: Option<(String, String)>,
    pub command: Vec<String>,
    pub build: Vec<String>,
    pub env: std::collections::BTreeMap<String, String>,
    pub working_directory: PathBuf,
    pub start_timeout: Span,
    pub stop_timeout: Span,
    pub exclusive: bool,
    /// The operator runs in the cluster, and `command` is empty.
    #[serde(default)]
    pub deployment: Option<DeploymentPlan>,
}

impl OperatorPlan {
    /// For errors: the command, or the Deployment.
    #[must_use]
    pub fn words(&self) -> String {
        match &self.deployment {
            None => self.command.join(" "),
            Some(deployment) => format!("Deployment {}/{}", deployment.namespace, deployment.name),
        }
    }
}

/// The operator in the cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentPlan {
    pub namespace: String,
    pub name: String,
    /// As its authors wrote it.
    pub object: Value,
    pub images: Vec<String>,
    pub fixed_address: bool,
}

/// One step with its manifests read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedStep {
    pub name: String,
    pub action: PlannedAction,
}

/// A step's action with its manifests read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PlannedAction {
    Apply(Vec<Value>),
    Patch(PatchAction),
    Delete(ObjectRef),
    Scale(ScaleAction),
    Wait(WaitAction),
}

/// One entry of `perturbations`, with its place in the scenario (a crash sweep gives several of one entry).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedPerturbation {
    /// Index in the scenario's list, from 0.
    pub index: usize,
    /// Unique in the scenario and stable: `conflict`, `conflict-2`, `crash-after-write-3`.
    pub name: String,
    pub perturbation: Perturbation,
    /// Line of the entry in the scenario file, from 1.
    pub line: usize,
}
