//! The envtest lane: a real kube-apiserver with etcd, from a folder of programs, without containers.
//!
//! # Flow
//! [`Envtest`] keeps a pool of control planes ([`plane`]). Each is started on first need, handed out with controllers
//! that play the node ([`transport`]), and wiped ([`wipe`]) before it is handed out again.
//!
//! # Guarantees
//! A run gets a control plane that holds its baseline and nothing else; one that cannot be shown to is replaced.
//! Programs are killed when their plane is dropped, and by the kernel when the harness dies ([`process`]); what is left
//! nevertheless is found by [`clean`].
//!
//! # Not done
//! No container runs: pods are simulated as in the embedded lane. A control plane cannot be kept for a look afterwards.

mod arguments;
mod baseline;
mod binaries;
mod certificates;
mod etcd;
mod leftovers;
mod plane;
mod process;
mod settings;
mod transport;
mod wipe;

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::future::BoxFuture;
use reconverge_apiserver::controllers::{
    driver::State,
    remote::{RemoteControllers, RemoteError},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use self::{binaries::Binaries, leftovers::clean, process::kill_everything};
use self::{plane::Plane, settings::Settings};
use super::{Capabilities, Cluster, ClusterError, Endpoint, Provider, access};
use crate::{clock::wall, scenario::format::Lane, seed::Seed};

/// Each control plane takes half a gigabyte and most of a processor while it starts.
const MOST: usize = 2;

/// Why there is no control plane.
#[derive(Debug, thiserror::Error)]
pub enum EnvtestError {
    #[error(
        "no kube-apiserver and etcd are at hand ({looked} was looked at): set KUBEBUILDER_ASSETS to a folder that has \
         both, as `setup-envtest use -p path` prints it, or build them with `k3s/build.sh binaries`"
    )]
    NoBinaries { looked: String },
    #[error("KUBEBUILDER_ASSETS is {folder}, which has no {missing}: set it to a folder with kube-apiserver and etcd")]
    Incomplete { folder: String, missing: &'static str },
    #[error("{name} is `{value}`, which is no duration: write 90s or 2m")]
    BadDuration { name: &'static str, value: String },
    #[error("could not {doing}")]
    Io {
        doing: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("could not make certificates")]
    Certificates(#[source] rcgen::Error),
    #[error("could not start {program}")]
    Spawn {
        program: String,
        #[source]
        source: io::Error,
    },
    #[error("{program} ended with {how}; its last lines:\n{tail}")]
    Ended { program: &'static str, how: String, tail: String },
    #[error(
        "the control plane did not come to {what} within {within_s} s (KUBEBUILDER_CONTROLPLANE_START_TIMEOUT); last \
         seen: {last}\n{logs}"
    )]
    NotReady { what: String, within_s: u64, last: String, logs: String },
    #[error("could not {doing}")]
    Request {
        doing: &'static str,
        #[source]
        source: Box<kube::Error>,
    },
    #[error("could not use the control plane's kubeconfig")]
    Kubeconfig(#[source] Box<kube::config::KubeconfigError>),
    #[error("etcd did not carry out {operation}: {why}")]
    Etcd { operation: String, why: String },
    #[error("the control plane was not clean within {within_s} s after a run; left: {last}")]
    NotClean { within_s: u64, last: String },
    #[error("could not run the simulated node")]
    Controllers(#[from] RemoteError),
}

impl EnvtestError {
    fn io(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }

    fn request(doing: &'static str) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self::Request { doing, source: Box::new(source) }
    }

    fn http(error: http::Error) -> Self {
        Self::request("make a request")(kube::Error::HttpError(error))
    }

    fn kubeconfig(error: kube::config::KubeconfigError) -> Self {
        Self::Kubeconfig(Box::new(error))
    }
}

/// The pool of control planes of one invocation.
pub struct Envtest(Arc<Pool>);

struct Pool {
    binaries: Binaries,
    settings: Settings,
    idle: Mutex<Vec<Plane>>,
    slots: Arc<Semaphore>,
}

impl Envtest {
    /// A pool that has started nothing yet.
    ///
    /// # Errors
    /// When no programs are at hand, or a variable cannot be read.
    pub fn at_hand() -> Result<Self, EnvtestError> {
        let pool = Pool {
            binaries: Binaries::at_hand()?,
            settings: Settings::of_environment()?,
            idle: Mutex::default(),
            slots: Arc::new(Semaphore::new(MOST)),
        };
        Ok(Self(Arc::new(pool)))
    }
}

impl Pool {
    fn take(&self) -> Option<Plane> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn give_back(&self, plane: Plane) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(plane);
    }

    async fn plane(&self, seed: Seed) -> Result<(Plane, RemoteControllers), EnvtestError> {
        if let Some(mut plane) = self.take() {
            match again(&mut plane, seed).await {
                Ok(controllers) => return Ok((plane, controllers)),
                Err(error) => tracing::warn!(%error, "a control plane cannot be used again; starting another one"),
            }
            plane.stop(self.settings).await;
        }
        Plane::start(&self.binaries, self.settings, seed).await
    }
}

/// Makes a used control plane fit for the next run.
async fn again(plane: &mut Plane, seed: Seed) -> Result<RemoteControllers, EnvtestError> {
    wipe::wipe(plane).await?;
    plane.run_controllers(seed).await
}

impl Provider for Envtest {
    fn lane(&self) -> Lane {
        Lane::Envtest
    }

    fn most(&self) -> Option<usize> {
        Some(MOST)
    }

    fn provide(&self, seed: Seed) -> BoxFuture<'_, Result<Box<dyn Cluster>, ClusterError>> {
        let pool = Arc::clone(&self.0);
        Box::pin(async move {
            let slot = Arc::clone(&pool.slots).acquire_owned().await.ok();
            let (plane, controllers) = pool.plane(seed).await?;
            Ok(Box::new(Lent { plane, controllers, pool, slot }) as Box<dyn Cluster>)
        })
    }

    fn close(&self, keep: bool) -> BoxFuture<'_, Vec<String>> {
        Box::pin(async move {
            let mut any = false;
            while let Some(plane) = self.0.take() {
                any = true;
                plane.stop(self.0.settings).await;
            }
            let lines = (keep && any)
                .then(|| "control planes of envtest end with this program; use `--cluster k3s` to keep one".to_owned());
            lines.into_iter().collect()
        })
    }
}

/// A control plane in the hands of a run; dropped without [`Cluster::shutdown`] it is ended.
struct Lent {
    plane: Plane,
    controllers: RemoteControllers,
    pool: Arc<Pool>,
    slot: Option<OwnedSemaphorePermit>,
}

impl Cluster for Lent {
    fn endpoint(&self) -> &Endpoint {
        &self.plane.endpoint
    }

    fn client(&self) -> kube::Client {
        self.plane.client.clone()
    }

    fn admin_token(&self) -> String {
        self.plane.token.clone()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            real_api: true,
            real_pods: false,
            garbage_collection: true,
            rbac: true,
            webhooks: true,
            exec: false,
        }
    }

    fn is_idle(&self, horizon: Duration) -> bool {
        // What kube-controller-manager still has to do it does not tell; its writes are seen by the observer.
        let state = State { retrying: 0, ..self.controllers.progress().state() };
        state.is_idle(wall(), horizon)
    }

    fn describe(&self) -> String {
        format!("envtest (kube-apiserver {})", self.plane.version)
    }

    fn service_account_token<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<String, ClusterError>> {
        Box::pin(access::token(&self.plane.client, namespace, name))
    }

    fn shutdown(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let Self { plane, controllers, pool, slot } = *self;
            controllers.shutdown().await;
            pool.give_back(plane);
            // The next run may only have a slot when it finds the plane.
            drop(slot);
        })
    }
}
