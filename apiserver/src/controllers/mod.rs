//! Built-in controllers and the simulated kubelet, as step functions over a [`Client`].
//!
//! # Flow
//! A change of a watched object is mapped to keys; each key is one [`Controller::reconcile`] step, which reads and
//! writes through the API pipeline like any other client (revisions, conflicts, admission), never the store itself.
//!
//! # Guarantees
//! A step is synchronous, takes time and chance from the client only, and never sleeps: what has to happen later is
//! returned as `Outcome::requeue_after`. The driver decides about order and delay, so that a harness can, too.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::{entropy::Entropy, resource::Gvr, status::ApiError};

/// What a controller may do to the cluster. Implemented in-process by the pipeline, and over HTTP for other servers.
pub trait Client: Send + Sync {
    fn now(&self) -> Timestamp;
    fn entropy(&self) -> &Entropy;
    /// `namespace` is empty for cluster-scoped resources.
    fn get(&self, gvr: &Gvr, namespace: &str, name: &str) -> Result<Value, ApiError>;
    /// All objects (items with `apiVersion` and `kind`), of one namespace or, with `None`, of all.
    fn list(&self, gvr: &Gvr, namespace: Option<&str>) -> Result<Vec<Value>, ApiError>;
    fn create(&self, gvr: &Gvr, namespace: &str, object: &Value) -> Result<Value, ApiError>;
    /// PUT; `subresource` is empty or such as `status`. The object's resourceVersion is the precondition.
    fn update(&self, gvr: &Gvr, subresource: &str, object: &Value) -> Result<Value, ApiError>;
    /// JSON merge patch.
    fn patch(
        &self,
        gvr: &Gvr,
        subresource: &str,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<Value, ApiError>;
    /// DELETE with `DeleteOptions` (`{}` for the defaults).
    fn delete(&self, gvr: &Gvr, namespace: &str, name: &str, options: &Value) -> Result<(), ApiError>;
    /// Every resource that can be listed and deleted, built-in and custom, in its preferred version.
    fn resources(&self) -> Vec<ResourceInfo>;
}

/// One resource of discovery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceInfo {
    pub gvr: Gvr,
    pub kind: String,
    pub namespaced: bool,
}

/// The object that a step is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub namespace: String,
    pub name: String,
}

/// What a step asks of the driver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    pub requeue_after: Option<Duration>,
}

/// A change that a controller is told about.
#[derive(Debug, Clone)]
pub struct Change {
    pub gvr: Gvr,
    /// The object after the change, or its last state when `deleted`.
    pub object: Value,
    pub deleted: bool,
}

/// One controller: a level-triggered function of the cluster's state.
pub trait Controller: Send + Sync {
    /// Its name, as in `deployment-controller`; writes carry it as user and field manager.
    fn name(&self) -> &'static str;
    /// Whose permissions it uses: `system:serviceaccount:kube-system:<name>`, or a node's for the kubelet.
    fn user(&self) -> String {
        format!("system:serviceaccount:kube-system:{}", self.name())
    }
    /// Which keys a change concerns; empty when none. Called for every change of every resource.
    fn keys(&self, change: &Change, client: &dyn Client) -> Vec<Key>;
    /// Brings the cluster one step nearer to what `key` asks for.
    ///
    /// # Errors
    /// Any API error; the driver retries with a growing delay (a conflict at once).
    fn reconcile(&self, client: &dyn Client, key: &Key) -> Result<Outcome, ApiError>;
}
