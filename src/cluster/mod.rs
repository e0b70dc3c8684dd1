//! Clusters: one trait, one file per lane.
//!
//! # Flow
//! [`provider`] gives the source of one invocation's clusters; each run takes one from it and hands it back with
//! [`Cluster::shutdown`]. The proxy goes in front of [`Cluster::endpoint`], the harness's own traffic goes through
//! [`Cluster::client`] and never through the proxy.
//!
//! # Guarantees
//! A lane states its [`Capabilities`]; what it lacks makes a run inconclusive, never a silent pass.

pub mod embedded;
pub mod envtest;
pub mod tester;
pub mod access;
pub mod client;
pub mod owner;
pub mod wipe;
pub mod busy;
pub mod k3s;
pub mod kubeconfig;

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::Duration,
};

use futures::future::BoxFuture;

use crate::{scenario::format::Lane, seed::Seed};

/// Where an API server listens, and how to trust it.
#[derive(Debug, Clone)]
pub struct Endpoint {
    pub url: String,
    pub ca_pem: String,
}

/// A certificate authority whose key is at hand, so that the proxy can be what the cluster's pods trust.
#[derive(Debug, Clone)]
pub struct Signer {
    pub certificate_pem: String,
    pub key_pem: String,
}

/// The processes inside the pods of a cluster's nodes.
pub trait Containers: Send + Sync {
    /// SIGKILL to every process of a pod, at its node; returns when they are dead.
    fn kill<'a>(&'a self, namespace: &'a str, pod: &'a str) -> BoxFuture<'a, Result<(), ClusterError>>;
}

/// What a lane can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// The API server is Kubernetes' own, and not a model of it.
    pub real_api: bool,
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
    #[error("this lane has no {0}")]
    Unsupported(&'static str),
    #[error("could not start the embedded API server")]
    Embedded(#[source] std::io::Error),
    #[error(transparent)]
    Envtest(#[from] envtest::EnvtestError),
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
    #[error(
        "context `{context}` ({server}) is not a throw-away cluster as far as is known: runs disturb it, and what they \
         and everybody else make meanwhile is removed. If it may be used so, say `--i-own-this-cluster`"
    )]
    NotOwned { context: String, server: String },
    #[error("the kubeconfig has no usable context `{wanted}`; it has: {known}. Name one with `--context`")]
    NoContext { wanted: String, known: String },
    #[error(transparent)]
    K3s(#[from] k3s::K3sError),
    #[error(transparent)]
    Access(#[from] access::AccessError),
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
    /// The address of this machine at which the operator reaches the proxy.
    fn proxy_address(&self) -> IpAddr {
        Ipv4Addr::LOCALHOST.into()
    }
    /// What signs the proxy's certificate where pods trust only the cluster's own authority.
    fn signer(&self) -> Option<Signer> {
        None
    }
    /// The processes inside its pods, where they can be reached.
    fn containers(&self) -> Option<Arc<dyn Containers>> {
        None
    }
    /// Kills the API server, and waits until it is back.
    fn restart_api_server(&self) -> BoxFuture<'_, Result<(), ClusterError>> {
        Box::pin(std::future::ready(Err(ClusterError::Unsupported("API server that can be restarted"))))
    }
    /// What these users wrote past the fault proxy, in words, as the API server's own audit log has it; nothing where
    /// the lane keeps none.
    fn direct_writes<'a>(&'a self, users: &'a [String]) -> BoxFuture<'a, Result<Vec<String>, ClusterError>> {
        let _ = users;
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
    /// Makes an image of the local container engine known to the cluster's nodes.
    fn load_image<'a>(&'a self, image: &'a str) -> BoxFuture<'a, Result<(), ClusterError>> {
        let _ = image;
        Box::pin(std::future::ready(Err(ClusterError::Unsupported("images"))))
    }
    /// The bearer token of a ServiceAccount.
    fn service_account_token<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<String, ClusterError>>;
    /// Ends everything that belongs to the run, or hands the cluster back to its provider; no port or task of the run
    /// is left afterwards.
    fn shutdown(self: Box<Self>) -> BoxFuture<'static, ()>;
}

/// Where the runs of one invocation get their clusters from.
pub trait Provider: Send + Sync {
    fn lane(&self) -> Lane;
    /// Most clusters at a time; `None`: as many as there are runs.
    fn most(&self) -> Option<usize> {
        None
    }
    /// Whether operators can run inside, as pods.
    fn in_cluster(&self) -> bool {
        false
    }
    /// A cluster that holds nothing of an earlier run; waits while all are in use.
    fn provide(&self, seed: Seed) -> BoxFuture<'_, Result<Box<dyn Cluster>, ClusterError>>;
    /// Ends what it keeps between runs. What `keep` leaves alive is told, one line for each.
    fn close(&self, keep: bool) -> BoxFuture<'_, Vec<String>> {
        let _ = keep;
        Box::pin(std::future::ready(Vec::new()))
    }
}

/// How the lanes that need something of the machine are to be had.
#[derive(Debug, Clone, Default)]
pub struct LaneOptions {
    /// The node image of `k3s`; default: the first that is at hand.
    pub image: Option<String>,
    /// The context of `kubeconfig`; default: the current one.
    pub context: Option<String>,
    /// The user says that the cluster of `kubeconfig` may be disturbed and emptied.
    pub owned: bool,
}

/// The source of clusters of that lane. Nothing is started before the first run needs it.
///
/// # Errors
/// When the lane cannot be had here; the error says what is missing.
pub fn provider(lane: Lane, options: &LaneOptions) -> Result<Arc<dyn Provider>, ClusterError> {
    match lane {
        Lane::Embedded => Ok(Arc::new(embedded::Fresh)),
        Lane::Envtest => Ok(Arc::new(envtest::Envtest::at_hand()?)),
        Lane::K3s => Ok(Arc::new(k3s::Nodes::new(options.image.clone()))),
        Lane::Kubeconfig => Ok(Arc::new(kubeconfig::Existing::new(options)?)),
    }
}

/// An error with its causes, on one line.
#[must_use]
pub fn in_a_line(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source()).map(ToString::to_string);
    std::iter::once(error.to_string()).chain(causes).collect::<Vec<_>>().join(": ")
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
