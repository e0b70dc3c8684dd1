//! Built-in controllers and the simulated kubelet, as step functions over a [`Client`].
//!
//! # Flow
//! A change of a watched object is mapped to keys; each key is one [`Controller::reconcile`] step, which reads and
//! writes through the API pipeline like any other client (revisions, conflicts, admission), never the store itself.
//!
//! # Guarantees
//! A step is synchronous, takes time and chance from the client only, and never sleeps: what has to happen later is
//! returned as `Outcome::requeue_after`. The driver decides about order and delay, so that a harness can, too.

mod object;
mod kinds;
mod selector;
mod condition;
mod pods;
mod claim;
mod template;
mod revision;
pub mod driver;
pub mod gc;
pub mod namespace;
pub mod serviceaccount;
pub mod rootca;
pub mod replicaset;
pub mod deployment;
pub mod statefulset;
pub mod daemonset;
pub mod job;
pub mod cronjob;
pub mod endpoints;
pub mod pvc;
pub mod pdb;
pub mod scheduler;
pub mod kubelet;
pub mod remote;
#[cfg(test)]
mod tests;

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
    /// POST to a subresource such as `pods/<name>/binding`.
    ///
    /// # Errors
    /// 501 unless the implementation overrides it; callers that can do without fall back.
    fn create_subresource(
        &self,
        gvr: &Gvr,
        subresource: &str,
        _namespace: &str,
        _name: &str,
        _object: &Value,
    ) -> Result<Value, ApiError> {
        Err(ApiError::unsupported(&format!("creating {}/{subresource}", gvr.group_resource())))
    }
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
    /// Its name, as in `deployment-controller`; writes carry it in the user.
    fn name(&self) -> &'static str;
    /// The manager its writes get in `managedFields`: the name of the binary that runs it in a real cluster.
    fn field_manager(&self) -> &'static str {
        "kube-controller-manager"
    }
    /// Whose permissions it uses: `system:serviceaccount:kube-system:<name>`, or a node's for the kubelet.
    fn user(&self) -> String {
        format!("system:serviceaccount:kube-system:{}", self.name())
    }
    /// Which keys a change concerns; empty when none. Called for every change of every resource.
    fn keys(&self, change: &Change, client: &dyn Client) -> Vec<Key>;
    /// Keys to work on at the start, whatever objects there are.
    fn first_keys(&self) -> Vec<Key> {
        Vec::new()
    }
    /// Brings the cluster one step nearer to what `key` asks for.
    ///
    /// # Errors
    /// Any API error; the driver retries with a growing delay (a conflict at once).
    fn reconcile(&self, client: &dyn Client, key: &Key) -> Result<Outcome, ApiError>;
}

/// Every built-in controller, the scheduler and the simulated kubelet, in the order in which they are stepped.
///
/// `ca_pem` is what `kube-root-ca.crt` carries; `timing` sets the pace of simulated pods.
#[must_use]
pub fn standard(ca_pem: &str, timing: kubelet::Timing) -> Vec<Box<dyn Controller>> {
    vec![
        Box::new(namespace::NamespaceController::default()),
        Box::new(serviceaccount::ServiceAccountController),
        Box::new(rootca::RootCaController::new(ca_pem)),
        Box::new(gc::GarbageCollector::default()),
        Box::new(deployment::DeploymentController),
        Box::new(replicaset::ReplicaSetController),
        Box::new(statefulset::StatefulSetController),
        Box::new(daemonset::DaemonSetController),
        Box::new(cronjob::CronJobController),
        Box::new(job::JobController),
        Box::new(pvc::VolumeController),
        Box::new(scheduler::Scheduler),
        Box::new(kubelet::Kubelet::new(timing)),
        Box::new(endpoints::EndpointsController),
        Box::new(pdb::DisruptionController),
    ]
}

/// What a real control plane cannot do without a real node: binding pods and volumes, the simulated kubelet; and the
/// garbage collector, which here learns of new resources at once.
#[must_use]
pub fn beside_a_controller_manager(timing: kubelet::Timing) -> Vec<Box<dyn Controller>> {
    vec![
        Box::new(gc::GarbageCollector::default()),
        Box::new(pvc::VolumeController),
        Box::new(scheduler::Scheduler),
        Box::new(kubelet::Kubelet::new(timing)),
    ]
}
