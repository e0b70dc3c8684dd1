//! The operator under test: installed and supervised, never changed.
//!
//! # Flow
//! [`install`] applies its manifests; [`process`] starts its command with a kubeconfig that points at the proxy.
//!
//! # Guarantees
//! A process that ends by itself is started again with a growing delay, as a kubelet would. Nothing that it started
//! outlives the run: the whole process group is ended.

pub mod install;
pub mod process;

#[cfg(test)]
mod tests;

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
        "the operator sent no request through the proxy within {within}; does `{command}` read KUBECONFIG or take \
         {{{{kubeconfig}}}}? Its last lines:\n{tail}"
    )]
    Silent { command: String, within: String, tail: String },
    #[error("could not write {path}")]
    File {
        path: String,
        #[source]
        source: std::io::Error,
    },
}
