//! The controllers as clients of an API server in another process.
//!
//! # Flow
//! [`start`] asks the server for its resources, lists and watches each of them ([`feed`]) into a [`mirror`], and runs
//! the driver on a thread of its own, because steps are synchronous. Single objects are read from the server, lists
//! from the mirror; every write goes into the mirror with its answer ([`client`]).
//!
//! # Guarantees
//! A controller always sees its own writes. What others wrote it sees at the latest with the change that tells it so.
//! Controllers that decide upon absence (of owners, of what a namespace holds) read everything from the server.
//!
//! # Not done
//! No impersonation: every controller is the user of the transport. Events are neither mirrored nor followed.

mod client;
mod discovery;
mod feed;
mod mirror;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use tokio::{
    runtime::Handle,
    sync::mpsc,
    task::{JoinHandle, spawn_blocking},
};
use tokio_util::sync::CancellationToken;

use self::{client::RemoteClient, mirror::Mirror};
use super::{
    Controller,
    driver::{ClientFactory, Driver, Progress},
};
use crate::{clock::SharedClock, entropy::Entropy};

/// Whatever went wrong on the way to the server.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
/// The body of an answer; that of a watch has no end.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

/// The way to a server: paths are relative to it, and credentials are the transport's.
pub trait Transport: Send + Sync + 'static {
    fn send(&self, request: Request<Vec<u8>>) -> BoxFuture<'static, Result<Response<Body>, BoxError>>;
}

/// How long the first lists may take together, on a starved machine.
const FIRST_LISTS: Duration = Duration::from_secs(60);

/// Why the controllers could not be started.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    #[error("cannot read what the API server serves at {path}: {why}")]
    Discovery { path: &'static str, why: String },
    #[error("cannot list {resources} within {within_s} s")]
    NotListed { resources: String, within_s: u64 },
}

/// Controllers that run beside a server in another process. Dropping it ends them without waiting.
#[derive(Debug)]
pub struct RemoteControllers {
    stop: CancellationToken,
    progress: Progress,
    tasks: Vec<JoinHandle<()>>,
}

impl RemoteControllers {
    /// For callers that wait until the controllers have nothing to do.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// Ends the controllers after their present step, and every watch.
    pub async fn shutdown(mut self) {
        self.stop.cancel();
        for task in self.tasks.drain(..) {
            // A panic of a controller was already printed by the runtime.
            let _ = task.await;
        }
    }
}

impl Drop for RemoteControllers {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Runs `controllers` against the server behind `transport`; returns once they know everything that is there.
///
/// # Errors
/// When the server does not say what it serves, or does not list it.
pub async fn start(
    transport: Arc<dyn Transport>,
    controllers: Vec<Box<dyn Controller>>,
    clock: SharedClock,
    seed: u64,
) -> Result<RemoteControllers, RemoteError> {
    let mirror = Arc::new(Mirror::new(discovery::resources(transport.as_ref()).await?));
    let stop = CancellationToken::new();
    let dropped = stop.clone().drop_guard();
    let (sender, changes) = mpsc::unbounded_channel();
    let feed = feed::Feed::new(Arc::clone(&transport), Arc::clone(&mirror), Arc::clone(&clock), sender, stop.clone());
    let feeding = tokio::spawn(feed.run());
    if tokio::time::timeout(FIRST_LISTS, mirror.all_listed()).await.is_err() {
        return Err(RemoteError::NotListed {
            resources: mirror.unlisted().join(", "),
            within_s: FIRST_LISTS.as_secs(),
        });
    }
    let runtime = Handle::current();
    let entropy = Entropy::seeded(seed);
    let clients: ClientFactory = {
        let clock = Arc::clone(&clock);
        let runtime = runtime.clone();
        Box::new(move |user, manager| {
            Arc::new(RemoteClient {
                transport: Arc::clone(&transport),
                mirror: Arc::clone(&mirror),
                runtime: runtime.clone(),
                clock: Arc::clone(&clock),
                entropy: entropy.clone(),
                manager: manager.into(),
                reads: client::Reads::of(user),
            })
        })
    };
    let driver = Driver::new(&clients, controllers, clock);
    let progress = driver.progress();
    let stopped = stop.clone();
    // A step blocks its thread while it waits for the server, whose answers other threads must be free to take in.
    let driving = spawn_blocking(move || runtime.block_on(driver.run(changes, stopped)));
    dropped.disarm();
    Ok(RemoteControllers { stop, progress, tasks: vec![driving, feeding] })
}
