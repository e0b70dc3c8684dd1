//! The k3s lane: a whole Kubernetes node in one container, with real pods.
//!
//! # Flow
//! a container engine -> [`image`] picks an image -> [`start`] starts it -> [`ready`] waits -> [`node`] is the cluster.
//!
//! # Guarantees
//! - One node for each invocation, used by one run at a time and emptied through its API before the next. A run that
//!   is judged finds nothing of an earlier one; what the last run left stays until then, for who keeps the cluster.
//! - Containers and volumes carry labels of their owner, so that [`clean`] finds what a killed process has left.
//! - A kept node is used again by the next process that wants the same image, and by one at a time.
//!
//! # Deliberately not done
//! More than one node. Loading images that a workload names: the node pulls them, or [`super::Cluster::load_image`]
//! is called; only `pause:3.10` is there under that name, as the node's own sandbox image.

pub mod image;
mod engine;
mod audit;
mod pods;
mod restart;
mod start;
mod ready;
mod kept;
mod node;
mod clean;
mod diagnose;

use std::{path::PathBuf, sync::Arc};

use futures::future::BoxFuture;
use tokio::sync::{Mutex, Semaphore};

use super::{Cluster, ClusterError, Provider};
use crate::{scenario::format::Lane, seed::Seed};
use engine::Engine;
use image::Choice;
use kept::Slot;
use node::{Lease, Node};

pub use clean::{Cleaned, clean, may_be_left};
pub use diagnose::{Check, State, diagnose};
pub use node::abandon_everything;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why there is no node.
#[derive(Debug, thiserror::Error)]
pub enum K3sError {
    #[error(
        "no container engine answers; start one, point DOCKER_HOST at one, or use another lane. `reconverge doctor` \
         says what else this lane needs"
    )]
    NoEngine(#[source] Source),
    #[error("the container engine could not {doing}")]
    Engine {
        doing: String,
        #[source]
        source: Source,
    },
    #[error(
        "the node image {image} is not here and cannot be pulled; build one with `k3s/build.sh`, or name one that is \
         here with `--k3s-image`"
    )]
    NoImage {
        image: String,
        #[source]
        source: Box<K3sError>,
    },
    #[error(
        "the container engine refuses the rights that a node needs, as `privileged` ({privileged}) and one by one; \
         see `reconverge doctor`"
    )]
    Refused {
        privileged: String,
        #[source]
        listed: Box<testcontainers::TestcontainersError>,
    },
    #[error("the node has no {what} after {within_s} s; last seen: {last}. Its log ends:\n{log}")]
    NotReady { what: &'static str, within_s: u64, last: String, log: String },
    #[error("the node cannot be used: {0}")]
    Unreachable(&'static str),
    #[error("`{command}` in the node ended with {code}:\n{output}")]
    Command { command: String, code: i64, output: String },
    #[error("the image {0} is neither in the local engine nor on the node; build or pull it first")]
    UnknownImage(String),
    #[error("could not use {path}")]
    State {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

/// The node of one invocation.
pub struct Nodes {
    image: Option<String>,
    turns: Arc<Semaphore>,
    node: Mutex<Option<Arc<Node>>>,
}

impl Nodes {
    /// Nothing is started before the first run needs it.
    #[must_use]
    pub fn new(image: Option<String>) -> Self {
        Self { image, turns: Arc::new(Semaphore::new(1)), node: Mutex::new(None) }
    }

    /// The node as it was when it was new; a new one when the old one cannot be emptied.
    async fn fresh(&self) -> Result<Arc<Node>, ClusterError> {
        let mut held = self.node.lock().await;
        if let Some(node) = held.as_ref() {
            match node.wipe().await {
                Ok(_) => return Ok(Arc::clone(node)),
                Err(error) => tracing::warn!("the node is replaced, because it could not be emptied: {error}"),
            }
        }
        if let Some(node) = held.take().and_then(Arc::into_inner) {
            node.remove().await?;
        }
        let node = Arc::new(begin(self.image.as_deref()).await?);
        Ok(Arc::clone(held.insert(node)))
    }
}

impl Provider for Nodes {
    fn lane(&self) -> Lane {
        Lane::K3s
    }

    fn most(&self) -> Option<usize> {
        Some(1)
    }

    fn in_cluster(&self) -> bool {
        true
    }

    fn provide(&self, _: Seed) -> BoxFuture<'_, Result<Box<dyn Cluster>, ClusterError>> {
        Box::pin(async move {
            let turn = Arc::clone(&self.turns).acquire_owned().await;
            let turn = turn.map_err(|_| ClusterError::Unsupported("cluster any more: it is closed"))?;
            let node = self.fresh().await?;
            Ok(Box::new(Lease::new(node, turn).await?) as Box<dyn Cluster>)
        })
    }

    fn close(&self, keep: bool) -> BoxFuture<'_, Vec<String>> {
        Box::pin(async move {
            let Some(node) = self.node.lock().await.take() else { return Vec::new() };
            let name = node.name.clone();
            let Some(node) = Arc::into_inner(node) else {
                return vec![format!(
                    "the node {name} is still in use and was not removed; `reconverge clean` does it"
                )];
            };
            let done = if keep { node.keep() } else { node.remove().await.map(|()| Vec::new()) };
            done.unwrap_or_else(|error| {
                vec![format!("the node {name} is left: {error}; `reconverge clean --all` removes it")]
            })
        })
    }
}

/// Takes the node that was kept for this image, or starts one.
async fn begin(wanted: Option<&str>) -> Result<Node, ClusterError> {
    let engine = Engine::connect().await?;
    let host = start::Host::of_this_process(&engine).await;
    let image = at_hand(&engine, wanted).await?;
    let id = engine.image_id(&image).await?.unwrap_or_else(|| image.clone());
    let locks = kept::directory();
    let name = kept::name_for(&locks, &id, &start::arguments(&host));
    let slot = Slot::claim(&locks, &name)?;
    let Some(slot) = slot else {
        // The name is in use, by another process or by another provider of this one.
        let order = start::Order { name: kept::name_apart(&name), image, host };
        return Node::start(engine, order, None).await;
    };
    let order = start::Order { name, image, host };
    let there = engine.inspect(&order.name).await?;
    let Some(there) = there else { return Node::start(engine, order, Some(slot)).await };
    let slot = match (engine::running(Some(&there)), slot.record()) {
        (Ok(()), Some(record)) => {
            match Node::adopt(engine.clone(), &order, slot, record.baseline).await {
                Ok(node) => return Ok(node),
                Err(error) => tracing::warn!("the kept node {} cannot be used again: {error}", order.name),
            }
            Slot::claim(&locks, &order.name)?
        }
        _ => Some(slot),
    };
    // Of a process that was killed, or of no use any more.
    engine.remove(&order.name).await?;
    if let Some(slot) = &slot {
        slot.forget();
    }
    Node::start(engine, order, slot).await
}

/// Whether a node can be started here, without starting one.
///
/// # Errors
/// When there is no engine, or no image that is here or can be pulled.
pub async fn is_at_hand(wanted: Option<&str>) -> Result<String, K3sError> {
    at_hand(&Engine::connect().await?, wanted).await
}

/// An image that is here, pulled if need be.
async fn at_hand(engine: &Engine, wanted: Option<&str>) -> Result<String, K3sError> {
    match image::choose(wanted, &engine.images().await?) {
        Choice::Local(image) => Ok(image),
        Choice::Pull(image) => {
            // An id, or a name that the list spells in another way.
            if engine.image_id(&image).await?.is_none() {
                let pulled = engine.pull(&image).await;
                pulled.map_err(|source| K3sError::NoImage { image: image.clone(), source: Box::new(source) })?;
            }
            Ok(image)
        }
    }
}
