//! Clusters: one trait, one file per lane.
//!
//! # Flow
//! [`start`] gives a running cluster; the proxy goes in front of [`Cluster::endpoint`], the harness's own traffic
//! goes through [`Cluster::client`] and never through the proxy.
//!
//! # Guarantees
//! A lane states its [`Capabilities`]; what it lacks makes a run inconclusive, never a silent pass.

pub mod embedded;
pub mod tester;

use std::time::Duration;

use futures::future::BoxFuture;

use crate::{scenario::format::Lane, seed::Seed};

/// Where an API server listens, and how to trust it.
#[derive(Debug, Clone)]
pub struct Endpoint {
    pub url: String,
    pub ca_pem: String,
}

/// What a lane can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Pods run for real; otherwise a simulated kubelet only reports that they do.
    pub real_pods: bool,
    pub garbage_collection: bool,
    pub rbac: bool,
    pub webhooks: bool,
    pub exec: bool,
}

/// Why a cluster could not be had, or did not do what the harness itself asked of it.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error(
        "the lane `{0}` is not available in this version; the lanes that are: embedded. \
         Use `--cluster embedded`, or remove `spec.cluster.lane`"
    )]
    LaneUnavailable(&'static str),
    #[error("could not start the embedded API server")]
    Embedded(#[source] std::io::Error),
    #[error("could not {doing}")]
    Request {
        doing: String,
        #[source]
        source: Box<kube::Error>,
    },
    #[error("the API server knows no kind {kind} in {api_version}; is its CRD among `operator.install`?")]
    UnknownKind { api_version: String, kind: String },
    #[error("{doing} did not happen within {within_ms} ms; last seen: {last}")]
    Timeout { doing: String, within_ms: u64, last: String },
    #[error("ServiceAccount {namespace}/{name} does not exist; is its manifest among `operator.install`?")]
    NoServiceAccount { namespace: String, name: String },
    #[error("an object of the manifests has no apiVersion, kind or name: {0}")]
    NotAnObject(String),
}

/// A throw-away cluster.
pub trait Cluster: Send + Sync {
    fn endpoint(&self) -> &Endpoint;
    /// The harness's own client, with every permission.
    fn client(&self) -> kube::Client;
    /// The bearer token of an administrator.
    fn admin_token(&self) -> String;
    fn capabilities(&self) -> Capabilities;
    /// Whether the cluster's own controllers have nothing to do, now or within `horizon`. A lane that cannot tell
    /// says yes, and the settle window alone decides.
    fn is_idle(&self, horizon: Duration) -> bool {
        let _ = horizon;
        true
    }
    /// For reports: `embedded (subset of kube-apiserver 1.34.4)`.
    fn describe(&self) -> String;
    /// The bearer token of a ServiceAccount.
    fn service_account_token<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<String, ClusterError>>;
    /// Ends everything that belongs to the cluster; no port or task is left afterwards.
    fn shutdown(self: Box<Self>) -> BoxFuture<'static, ()>;
}

/// Starts a cluster of that lane.
///
/// # Errors
/// When the lane is not available, or does not start.
pub async fn start(lane: Lane, seed: Seed) -> Result<Box<dyn Cluster>, ClusterError> {
    match lane {
        Lane::Embedded => Ok(Box::new(embedded::Embedded::start(seed).await?)),
        Lane::Envtest | Lane::K3s | Lane::Kubeconfig => Err(ClusterError::LaneUnavailable(lane.as_str())),
    }
}

/// A kubeconfig for one user of an endpoint.
#[must_use]
pub fn kubeconfig(endpoint: &Endpoint, token: &str, namespace: &str) -> String {
    use base64::Engine as _;
    let ca = base64::engine::general_purpose::STANDARD.encode(&endpoint.ca_pem);
    // JSON is YAML; writing it through serde keeps quoting right.
    let config = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "reconverge",
            "cluster": {"server": endpoint.url, "certificate-authority-data": ca},
        }],
        "users": [{"name": "reconverge", "user": {"token": token}}],
        "contexts": [{
            "name": "reconverge",
            "context": {"cluster": "reconverge", "user": "reconverge", "namespace": namespace},
        }],
        "current-context": "reconverge",
    });
    format!("{config:#}\n")
}
