//! The file format `reconverge.dev/v1alpha1`, kind `Scenario`, exactly as it stands in YAML.
//!
//! The doc comments of this file are the descriptions in the published JSON Schema.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::duration::Span;

pub use super::{operator_spec::*, perturbation::*};

/// The one `apiVersion` that this build reads.
pub const API_VERSION: &str = "reconverge.dev/v1alpha1";

/// A scenario: an operator, a workload, what disturbs it, and what must hold afterwards.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// Always `reconverge.dev/v1alpha1`.
    pub api_version: String,
    /// Always `Scenario`.
    pub kind: String,
    pub metadata: Metadata,
    pub spec: Spec,
}

/// Name and labels of a scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Metadata {
    /// Lower-case letters, digits and `-`; the name in every report.
    pub name: String,
    /// For selection with `--selector key=value`.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// What a scenario does and demands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    /// One or two sentences for readers of the report.
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub cluster: ClusterSpec,
    /// The namespace of the workload; created if it does not exist.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    pub operator: OperatorSpec,
    /// Steps in order; each is awaited until the operator is quiet before the next.
    pub workload: Vec<Step>,
    /// What must hold at rest. All of them.
    pub expect: Vec<Expectation>,
    /// Converged means: no mutating request of the operator for this long; with real pods at least 1.5 s.
    #[serde(default = "default_settle")]
    pub settle: Span,
    /// A fault-free run has this long to converge after each step; with real pods at least a minute.
    #[serde(default = "default_deadline")]
    pub deadline: Span,
    #[serde(default)]
    pub recovery: Recovery,
    /// A harmless edit after recovery that the operator must still act upon (oracle `live`).
    #[serde(default)]
    pub probe: Option<Probe>,
    /// Each entry is carried out in a run of its own.
    pub perturbations: Vec<Perturbation>,
    #[serde(default)]
    pub normalise: Normalise,
    /// Fault-free runs that make up the reference.
    #[serde(default = "default_references")]
    pub references: u32,
    /// Oracles that do not apply to this operator, each with the reason.
    #[serde(default)]
    pub skip_oracles: Vec<SkipOracle>,
}

fn default_namespace() -> String {
    "default".into()
}
fn default_settle() -> Span {
    Span::from_secs(1)
}
fn default_deadline() -> Span {
    Span::from_secs(60)
}
fn default_references() -> u32 {
    3
}

/// Where the scenario runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterSpec {
    #[serde(default)]
    pub lane: Lane,
}

/// A kind of cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Lane {
    /// The in-process API server: no set-up, milliseconds.
    #[default]
    Embedded,
    /// A real kube-apiserver and etcd, without containers.
    Envtest,
    /// k3s in a container.
    K3s,
    /// A cluster that exists already.
    Kubeconfig,
}

impl Lane {
    /// The name as it stands in files and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Envtest => "envtest",
            Self::K3s => "k3s",
            Self::Kubeconfig => "kubeconfig",
        }
    }
}

/// One step of the workload; exactly one action.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(transform = exactly_one_action)]
pub struct Step {
    /// For reports; default: the action in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Server-side apply of a manifest file, a directory, or an object written in place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apply: Option<Manifest>,
    /// A JSON merge patch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<PatchAction>,
    /// Delete an object, by name, or with a selector all that match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete: Option<ObjectRef>,
    /// Set `spec.replicas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<ScaleAction>,
    /// Wait until a predicate holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<WaitAction>,
}

/// The keys of [`Step`] that are actions.
pub const ACTIONS: [&str; 5] = ["apply", "patch", "delete", "scale", "wait"];

/// What a step does.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    Apply(Manifest),
    Patch(PatchAction),
    Delete(ObjectRef),
    Scale(ScaleAction),
    Wait(WaitAction),
}

impl Step {
    /// The actions that are written; a valid step has exactly one.
    #[must_use]
    pub fn actions(&self) -> Vec<Action> {
        [
            self.apply.clone().map(Action::Apply),
            self.patch.clone().map(Action::Patch),
            self.delete.clone().map(Action::Delete),
            self.scale.clone().map(Action::Scale),
            self.wait.clone().map(Action::Wait),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// Says in the JSON Schema what the optional fields of a step cannot.
fn exactly_one_action(schema: &mut schemars::Schema) {
    let one_of: Vec<Value> = ACTIONS.iter().map(|action| serde_json::json!({ "required": [action] })).collect();
    schema.insert("oneOf".into(), one_of.into());
}

/// A path relative to the scenario file, or an object.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Manifest {
    File(String),
    Object(serde_json::Map<String, Value>),
}

impl<'de> Deserialize<'de> for Manifest {
    // By hand, since a derived untagged enum forgets where in the file a mistake is.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(path) => Ok(Self::File(path)),
            Value::Object(object) => Ok(Self::Object(object)),
            _ => Err(serde::de::Error::custom("expected the path of a manifest, or an object")),
        }
    }
}

/// One object, or with a selector all that match.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObjectRef {
    pub api_version: String,
    pub kind: String,
    #[serde(default)]
    pub name: Option<String>,
    /// Default: the scenario's namespace (nothing for cluster-scoped kinds).
    #[serde(default)]
    pub namespace: Option<String>,
    /// Label selector such as `app=demo`; only where several objects make sense.
    #[serde(default)]
    pub selector: Option<String>,
}

/// A merge patch of one object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PatchAction {
    pub target: ObjectRef,
    pub merge: serde_json::Map<String, Value>,
}

/// Sets the number of replicas of one object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScaleAction {
    pub target: ObjectRef,
    pub replicas: u32,
}

/// Waits for a predicate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WaitAction {
    #[serde(rename = "for")]
    pub condition: Expectation,
    #[serde(default)]
    pub timeout: Option<Span>,
}

/// A predicate over one object or a set of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Expectation {
    pub object: ObjectRef,
    /// CEL. With `object.name`: the variable `object`; without: the list `objects`. Default: it exists.
    #[serde(default)]
    pub that: Option<String>,
    /// The object (or every one of the set) must be absent.
    #[serde(default)]
    pub absent: bool,
}

/// How quickly the operator must be back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Recovery {
    /// From the moment when all faults are healed to the last change.
    #[serde(default = "default_recovery")]
    pub within: Span,
}

fn default_recovery() -> Span {
    Span::from_secs(120)
}

impl Default for Recovery {
    fn default() -> Self {
        Self { within: default_recovery() }
    }
}

/// A harmless edit and what must follow from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Probe {
    pub patch: PatchAction,
    /// Must become true within the recovery bound.
    pub expect: Vec<Expectation>,
}

/// Additions to the built-in normalisation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Normalise {
    /// Leaves that say nothing about convergence.
    pub ignore: Vec<IgnoreRule>,
    /// Ids of built-in rules that shall not be applied.
    pub disable: Vec<String>,
    /// The learned mask may hide at most this share of the leaves, in percent.
    pub mask_budget_percent: Option<u32>,
}

/// One place to leave out of comparisons.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IgnoreRule {
    /// Default: every kind.
    #[serde(default)]
    pub kind: Option<String>,
    /// Dotted, `*` for any key or index: `status.lastSyncTime`, `metadata.annotations["a.b/c"]`,
    /// `status.conditions[type=Ready].message`.
    pub path: String,
    /// Shown in the report.
    pub reason: String,
}

/// An oracle that does not apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SkipOracle {
    pub id: String,
    pub reason: String,
}
