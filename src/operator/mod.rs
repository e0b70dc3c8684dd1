//! The operator under test: installed and supervised, never changed.
//!
//! # Flow
//! [`install`] applies its manifests; [`process`] starts its command with a kubeconfig that points at the proxy;
//! [`deployment`] applies its Deployment with the proxy in its environment ([`redirect`]) and follows its [`pods`].
//!
//! # Guarantees
//! A process that ends by itself is started again with a growing delay, as a kubelet would. Nothing that it started
//! outlives the run: the whole process group is ended.

pub mod install;
pub mod process;
pub mod leftovers;
pub mod redirect;
mod pods;
pub mod deployment;

#[cfg(test)]
mod tests;

use tokio::task::JoinHandle;

use crate::observe::record::OperatorExit;

/// The operator under test, however it runs.
pub enum Operator {
    Process(process::Supervised),
    Deployment(Box<deployment::Deployed>),
}

impl Operator {
    /// SIGTERM, its time to end, then SIGKILL. Returns when nothing of it runs.
    ///
    /// # Errors
    /// When the cluster refuses.
    pub async fn stop(&self) -> Result<(), OperatorError> {
        match self {
            Self::Process(process) => {
                process.stop().await;
                Ok(())
            }
            Self::Deployment(deployment) => deployment.stop().await,
        }
    }

    /// SIGKILL. Returns when it is dead; a pod is started again by its kubelet, a process by [`Operator::start_again`].
    ///
    /// # Errors
    /// When the node or the cluster refuses.
    pub async fn kill(&self) -> Result<(), OperatorError> {
        match self {
            Self::Process(process) => {
                process.kill().await;
                Ok(())
            }
            Self::Deployment(deployment) => deployment.kill().await,
        }
    }

    /// The end of its pod: by deletion for a Deployment, which makes a new one; a process is killed, or without haste
    /// stopped.
    ///
    /// # Errors
    /// When the cluster refuses, or the pod does not go.
    pub async fn delete_pod(&self, grace_seconds: u32) -> Result<(), OperatorError> {
        match self {
            Self::Process(_) if grace_seconds > 0 => self.stop().await,
            Self::Process(_) => self.kill().await,
            Self::Deployment(deployment) => deployment.delete_pods(grace_seconds).await,
        }
    }

    /// After one of the above.
    ///
    /// # Errors
    /// When the program cannot be started at all, or the cluster refuses.
    pub async fn start_again(&self) -> Result<(), OperatorError> {
        match self {
            Self::Process(process) => process.start_again().await,
            Self::Deployment(deployment) => deployment.start_again().await,
        }
    }

    /// How it ended up to now.
    #[must_use]
    pub fn exits(&self) -> Vec<OperatorExit> {
        match self {
            Self::Process(process) => process.exits(),
            Self::Deployment(deployment) => deployment.exits(),
        }
    }

    /// The last lines of its output.
    #[must_use]
    pub fn log_tail(&self) -> String {
        match self {
            Self::Process(process) => process.log_tail(),
            Self::Deployment(deployment) => deployment.log_tail(),
        }
    }
}

/// The task behind an operator; it ends with the last handle.
#[derive(Debug)]
pub struct Supervision(JoinHandle<()>);

impl Supervision {
    /// Waits for the task after every handle was dropped.
    pub async fn join(self) {
        let _ = self.0.await;
    }
}

/// Why the operator could not be installed or started.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    #[error("could not install the operator")]
    Install(#[from] crate::cluster::ClusterError),
    #[error("could not run `{command}` in {directory}")]
    Spawn {
        command: String,
        directory: String,
        #[source]
        source: std::io::Error,
    },
    #[error("the build command `{command}` failed ({how}); its last lines:\n{tail}")]
    Build { command: String, how: String, tail: String },
    #[error(
        "the operator ({command}) sent no request through the proxy within {within}; does it read KUBECONFIG or take \
         {{{{kubeconfig}}}}, or, in the cluster, KUBERNETES_SERVICE_HOST (else set `fixedAddress: true`)? Its last \
         lines:\n{tail}"
    )]
    Silent { command: String, within: String, tail: String },
    #[error("could not write {path}")]
    File {
        path: String,
        #[source]
        source: std::io::Error,
    },
}
