//! The operator, exactly as it stands in YAML; a part of [`super::format`].

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::duration::Span;

/// The operator under test, and how it gets into the cluster: `process`, `deployment`, or both. With both, the
/// deployment is used on a lane that runs pods for real (`k3s`), and the process on the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(transform = process_or_deployment)]
pub struct OperatorSpec {
    /// Manifests to apply before the operator starts: files or directories (`.yaml`, `.yml`, `.json`), relative to
    /// the scenario file. CRDs, RBAC, ServiceAccounts, namespaces. Deployments in them are left out for `process`.
    /// A directory with a `kustomization.yaml` is built with `kustomize` or `kubectl`, one with a `Chart.yaml` with
    /// `helm`. A path with a placeholder such as `{{cache}}` is read only after the build command, which makes it.
    #[serde(default)]
    pub install: Vec<String>,
    /// `namespace/name` of the ServiceAccount whose token and RBAC a `process` uses. Without it: cluster admin.
    #[serde(default)]
    pub service_account: Option<String>,
    #[serde(default)]
    pub process: Option<ProcessSpec>,
    #[serde(default)]
    pub deployment: Option<DeploymentSpec>,
}

/// Says in the JSON Schema what the optional fields of an operator cannot.
fn process_or_deployment(schema: &mut schemars::Schema) {
    let kinds = ["process", "deployment"].map(|kind| serde_json::json!({ "required": [kind] }));
    schema.insert("anyOf".into(), kinds.to_vec().into());
}

/// The operator in the cluster, from its own image and manifests, as it is shipped.
///
/// Its image is not changed. The Deployment gets `KUBERNETES_SERVICE_HOST` and `KUBERNETES_SERVICE_PORT` of the fault
/// proxy, whose certificate the cluster's own authority signs. In `build` and `env` the placeholders of `process` are
/// filled in, but for `{{kubeconfig}}` and `{{port}}`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DeploymentSpec {
    /// More manifests, as in `install`, which a process has no use for; the Deployment itself.
    pub manifests: Vec<String>,
    /// `namespace/name` of the Deployment that is the operator. Default: the only one in the manifests.
    pub name: Option<String>,
    /// Run once before the first start, such as the build of the image. Its failure is a set-up error.
    pub build: Vec<String>,
    /// Relative to the scenario file; default: the scenario's directory.
    pub working_directory: Option<String>,
    /// Images of the local container engine that are loaded into the cluster. Those that the Deployment names are
    /// anyway, where the engine has them.
    pub images: Vec<String>,
    /// Added to the environment of the Deployment's containers.
    pub env: BTreeMap<String, String>,
    /// The operator calls `https://kubernetes.default.svc`, whatever its environment says: these names get the
    /// proxy's address, and the proxy listens on port 443, too.
    pub fixed_address: bool,
    /// The operator counts as started once its first API request was seen; it has this long. Default: 2m.
    pub start_timeout: Option<Span>,
    /// How long its pods may take to end before they are removed by force. Default: 40s.
    pub stop_timeout: Option<Span>,
}

/// A local command, supervised by the harness.
///
/// In `command`, `build` and `env`, `{{kubeconfig}}` is the path of the operator's kubeconfig, `{{scenario}}` the
/// scenario's directory, `{{target}}` the directory of the `reconverge` program, `{{namespace}}` the workload's
/// namespace, `{{profile}}` the cargo profile that the program was built with (`dev` or `release`), `{{cache}}` a
/// folder that outlives the run (`RECONVERGE_CACHE`, else the user's cache), `{{port}}` a free TCP port, and
/// `{{env.NAME}}` an environment variable of the harness.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProcessSpec {
    /// Program and arguments; no shell.
    pub command: Vec<String>,
    /// Run once before the first start, such as a compiler. Its failure is a set-up error.
    #[serde(default)]
    pub build: Vec<String>,
    /// Added to the environment. `KUBECONFIG` is set anyway.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Relative to the scenario file; default: the scenario's directory.
    #[serde(default)]
    pub working_directory: Option<String>,
    /// The operator counts as started once its first API request was seen; it has this long.
    #[serde(default = "default_start")]
    pub start_timeout: Span,
    /// How long it may take to stop after SIGTERM before it is killed.
    #[serde(default = "default_stop")]
    pub stop_timeout: Span,
    /// Only one such operator may run at a time on this machine (fixed ports, fixed files).
    #[serde(default)]
    pub exclusive: bool,
}

fn default_start() -> Span {
    Span::from_secs(30)
}
fn default_stop() -> Span {
    Span::from_secs(5)
}
