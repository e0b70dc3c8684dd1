//! The API server as one object: a `tower::Service`, and TLS listeners in front of it.
//!
//! # Flow
//! [`ApiServer::new`] makes a cluster with the objects that a real server creates for itself. The object is called
//! directly, or [`ApiServer::serve`] listens for HTTP/1.1 and HTTP/2 over TLS and calls it.
//!
//! # Guarantees
//! Clones are handles to one cluster; [`ApiServer::fork`] is an independent one. A listener owns its tasks and ends
//! them when it is shut down.
//!
//! # Not done here
//! No plain HTTP: clients drop their credentials on `http` URLs.

mod bootstrap;
mod controlled;
mod kubeconfig;
mod listener;
mod service;

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::{
    auth::Identity,
    clock::{SharedClock, SystemClock},
    controllers::{Change, Client},
    entropy::Entropy,
    pipeline::{ClientFactory, Cluster, InProcessClient},
    resource::Gvr,
    status::ApiError,
};

pub use bootstrap::local_objects;
pub use controlled::RunningControllers;
pub use listener::{Listening, ServeError};
pub use service::{Body, ServiceAs};

/// What a server is made from.
#[derive(Debug, Clone)]
pub struct Options {
    pub clock: SharedClock,
    /// Uids, generated names, addresses and tokens follow from it.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { clock: Arc::new(SystemClock), seed: 0 }
    }
}

/// A handle to one cluster.
#[derive(Debug, Clone)]
pub struct ApiServer {
    cluster: Arc<Cluster>,
}

impl ApiServer {
    /// A fresh cluster with its own bootstrap objects.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let cluster = Arc::new(Cluster::new(options.clock, Entropy::seeded(options.seed)));
        bootstrap::fill(&cluster);
        Self { cluster }
    }

    /// An independent cluster that starts where this one is, in constant time. Listeners and watches stay here.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self { cluster: Arc::new(self.cluster.fork()) }
    }

    /// The revision of the last write.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.cluster.revision()
    }

    /// The bearer token of the tester, who may do everything.
    #[must_use]
    pub fn admin_token(&self) -> String {
        self.cluster.admin_token()
    }

    /// A token of an existing ServiceAccount, valid for a day.
    ///
    /// # Errors
    /// When there is no such ServiceAccount.
    pub fn issue_token(&self, namespace: &str, account: &str) -> Result<String, ApiError> {
        self.cluster.account_token(namespace, account)
    }

    /// A client for in-process callers such as controllers.
    #[must_use]
    pub fn client_for(&self, user: &str, field_manager: &str) -> Arc<dyn Client> {
        self.cluster.client_for(user, field_manager)
    }

    /// [`ApiServer::client_for`] as a value.
    #[must_use]
    pub fn client_factory(&self) -> ClientFactory {
        let cluster = Arc::clone(&self.cluster);
        Box::new(move |user, manager| cluster.client_for(user, manager))
    }

    /// A client with the given identity.
    #[must_use]
    pub fn client_as(&self, identity: Identity, field_manager: &str) -> Arc<dyn Client> {
        Arc::new(InProcessClient::new(Arc::clone(&self.cluster), identity, field_manager))
    }

    /// Every change from now on, in commit order.
    #[must_use]
    pub fn changes(&self) -> mpsc::UnboundedReceiver<Change> {
        self.cluster.changes()
    }

    /// The served resource of that name, when there is one.
    #[must_use]
    pub fn serves(&self, gvr: &Gvr) -> bool {
        self.cluster.serves(gvr)
    }

    /// Forgets all history, so that watches and pages of the past are answered with 410.
    pub fn compact(&self) {
        self.cluster.compact();
    }

    /// This server for one identity: requests without credentials are its.
    #[must_use]
    pub fn service_as(&self, identity: Identity) -> ServiceAs {
        ServiceAs::new(self.clone(), identity)
    }

    pub(crate) fn clock(&self) -> SharedClock {
        self.cluster.clock.clone()
    }

    pub(crate) fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }
}

#[cfg(test)]
mod tests;
