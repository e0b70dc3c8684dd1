//! The kind `Widget`, as `scenarios/specimens/deploy/crd.yaml` defines it.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// What a user asks for.
#[derive(CustomResource, Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "specimen.reconverge.dev",
    version = "v1",
    kind = "Widget",
    namespaced,
    status = "WidgetStatus",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct WidgetSpec {
    /// Replicas of the Deployment.
    pub replicas: i32,
    /// Goes into the ConfigMap.
    pub message: String,
}

/// What the operator says about it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WidgetStatus {
    pub phase: String,
    pub ready_replicas: i32,
    pub observed_generation: i64,
    pub conditions: Vec<Condition>,
    /// Only with the bug `random-name-on-create`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_name: Option<String>,
    /// Only with the bug `status-written-every-pass`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_sync: Option<String>,
}

/// One condition, keyed by its type.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    pub reason: String,
    pub message: String,
    pub last_transition_time: String,
}
