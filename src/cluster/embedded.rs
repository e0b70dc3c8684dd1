//! The embedded lane: the in-process API server with its controllers and simulated kubelet.
//!
//! # Guarantees
//! The harness talks to it without a socket; the operator, through the proxy, over TLS on 127.0.0.1.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use futures::future::BoxFuture;
use reconverge_apiserver::{
    auth::Identity,
    controllers::driver::State,
    server::{ApiServer, Listening, Options, RunningControllers},
};

use super::{Capabilities, Cluster, ClusterError, Endpoint, Provider};
use crate::{clock::wall, scenario::format::Lane, seed::Seed};

/// A new cluster for every run: starting one costs less than emptying one.
pub struct Fresh;

impl Provider for Fresh {
    fn lane(&self) -> Lane {
        Lane::Embedded
    }

    fn provide(&self, seed: Seed) -> BoxFuture<'_, Result<Box<dyn Cluster>, ClusterError>> {
        Box::pin(async move { Ok(Box::new(Embedded::start(seed).await?) as Box<dyn Cluster>) })
    }
}

/// A cluster inside this process.
pub struct Embedded {
    server: ApiServer,
    listening: Listening,
    controllers: RunningControllers,
    endpoint: Endpoint,
}

impl Embedded {
    /// Starts the server on a free port, and its controllers.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start(seed: Seed) -> Result<Self, ClusterError> {
        Self::start_on(seed, 0).await
    }

    /// [`Embedded::start`] on a given port of 127.0.0.1.
    ///
    /// # Errors
    /// When the port is taken.
    pub async fn start_on(seed: Seed, port: u16) -> Result<Self, ClusterError> {
        let server = ApiServer::new(Options { seed: seed.derive("cluster").0, ..Options::default() });
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listening =
            server.serve(address).await.map_err(|error| ClusterError::Embedded(std::io::Error::other(error)))?;
        let controllers = server.run_controllers(listening.ca_pem());
        let endpoint = Endpoint { url: listening.url(), ca_pem: listening.ca_pem().to_owned() };
        Ok(Self { server, listening, controllers, endpoint })
    }
}

impl Cluster for Embedded {
    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn client(&self) -> kube::Client {
        kube::Client::new(self.server.service_as(Identity::admin()), "default")
    }

    fn admin_token(&self) -> String {
        self.server.admin_token()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            real_api: false,
            real_pods: false,
            garbage_collection: true,
            rbac: true,
            webhooks: false,
            exec: false,
        }
    }

    fn is_idle(&self, horizon: Duration) -> bool {
        // A write that the driver has not even been told of moves the revision, and then the observer's watches.
        // A step that keeps failing is tried again with a growing delay, and is not waited for.
        let state = State { retrying: 0, ..self.controllers.progress().state() };
        state.is_idle(wall(), horizon)
    }

    fn describe(&self) -> String {
        "embedded (subset of kube-apiserver 1.34.4)".into()
    }

    fn service_account_token<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<String, ClusterError>> {
        let token = self.server.issue_token(namespace, name);
        let missing = || ClusterError::NoServiceAccount { namespace: namespace.into(), name: name.into() };
        Box::pin(std::future::ready(token.map_err(|_| missing())))
    }

    fn shutdown(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            self.controllers.shutdown().await;
            self.listening.shutdown().await;
        })
    }
}
