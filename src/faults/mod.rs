//! Faults: what bends the operator's API traffic, and the proxy that carries it out.
//!
//! # Flow
//! A perturbation of the plan becomes a [`Rule`]; the proxy shows each parsed request to the installed rules in
//! order, and carries out the first decision that is not `Forward`.
//!
//! # Guarantees
//! Rules decide and never act. Triggers are logical (n-th, every, seeded probability), never wall-clock.
//! Installing gives a `#[must_use]` guard; healing is explicit.

pub mod selector;
pub mod trigger;
pub mod tally;
pub mod status;
pub mod conflict;
pub mod latency;
pub mod api_error;
pub mod lost_reply;
pub mod crash_point;
pub mod partition;
pub mod registry;
pub mod catalogue;
pub mod proxy;

#[cfg(test)]
mod fixture;

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use serde_json::Value;

use crate::event::{FaultRecord, Target};
pub use catalogue::FaultDoc;
pub use crash_point::{CrashPoint, Side};
pub use partition::PartitionRule;
pub use proxy::{Guard, Proxy, ProxyError, Upstream};
pub use registry::{population, rule_for};

/// A request as rules see it: parsed once by the proxy.
#[derive(Debug, Clone)]
pub struct Seen {
    pub target: Target,
    pub user_agent: String,
    pub content_type: String,
    /// resourceVersion in the body or preconditions; empty when there is none.
    pub precondition: String,
    /// A patch whose object does not exist yet (a server-side apply that creates).
    pub creates: bool,
    pub dry_run: bool,
    /// Ordinal among all requests of this operator in the run, from 1.
    pub ordinal: u64,
    pub at_ms: u64,
}

/// What the proxy shall do with a request.
#[derive(Debug, Clone)]
pub enum Decision {
    Forward,
    /// Forward after this long.
    Delay(Duration),
    /// Answer without forwarding.
    Respond {
        status: StatusCode,
        headers: HeaderMap,
        body: Value,
    },
    /// Reset the client's stream before anything reaches the server.
    DropBefore,
    /// Forward, let the server commit, then reset the client's stream instead of answering.
    CommitThenLose,
    /// Keep the request here until the gate is released or dropped; then reset it. With `after_commit` it is
    /// forwarded first and only the answer is kept.
    Hold {
        after_commit: bool,
        gate: Gate,
    },
}

/// Where a held request reports its arrival and waits.
#[derive(Debug, Clone, Default)]
pub struct Gate {
    /// Notified (one permit) when a request has arrived, after the commit where that was asked for.
    pub reached: std::sync::Arc<tokio::sync::Notify>,
    /// Cancelled when the held request shall be reset.
    pub released: tokio_util::sync::CancellationToken,
}

/// One fault: a pure decision plus its own counters.
pub trait Rule: Send + Sync + std::fmt::Debug {
    /// The perturbation's id.
    fn id(&self) -> &'static str;
    /// Decides about one request. Called once per request, in order of arrival.
    fn decide(&self, seen: &Seen) -> Decision;
    /// What came of it up to now.
    fn record(&self) -> FaultRecord;
}
