//! One request from its parts to its answer.
//!
//! # Flow
//! path and query -> target -> identity -> permission -> body -> defaults -> admission -> validation -> managed fields
//! -> store -> answer, or a watch.
//!
//! # Guarantees
//! A request holds the cluster's lock from its first look to its commit, so each one is atomic. In-process clients
//! take the same way as HTTP ones. What cannot be done exactly is refused with 501.
//!
//! # Not done here
//! Sockets and `http` types (see `server`), and the rules of single kinds (see `builtin` and `crd`).

mod access;
mod admission;
mod answer;
mod body;
mod call;
mod checks;
mod client;
mod cluster;
mod convert;
mod create;
mod customs;
mod delete;
mod dispatch;
mod list;
mod meta;
mod negotiate;
mod patch;
mod rules;
mod selectors;
mod subresource;
mod table;
mod target;
mod update;
mod watch;

pub use answer::{Answer, Payload};
pub use client::{ClientFactory, InProcessClient};
pub use cluster::Cluster;
pub use dispatch::Request;
pub use target::{Query, Target};
pub use watch::Watcher;
