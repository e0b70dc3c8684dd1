//! The Kubernetes-aware proxy between the operator and its API server.
//!
//! # Flow
//! TLS socket -> request, parsed once into a [`crate::faults::Seen`] -> the installed rules -> their decision, carried
//! out -> the answer -> one entry in the recorder.
//!
//! # Guarantees
//! - HTTP/1.1 and HTTP/2 in front and towards the server, by ALPN. Bodies, the bearer token and the other headers pass
//!   through unchanged; the server is asked for identity encoding. Watches are passed on frame by frame.
//! - Every request is recorded once, before its answer reaches the client; a write that reached the server is recorded
//!   even when the client has gone.
//! - After [`Proxy::shutdown`] no task and no port is left.
//!
//! # Caveats
//! Request bodies (up to 32 MiB) are read whole before the rules are asked, and so are the answers to writes and to
//! reads of one object. Before a write without resourceVersion precondition (patches, mostly) the proxy reads the
//! object's metadata with the operator's own token, to tell afterwards whether the write changed anything; these reads
//! are not recorded. A client certificate does not pass through.
//!
//! # Deliberately not done
//! WebSockets over HTTP/2; upgrades use HTTP/1.1, as every Kubernetes client does.

mod board;
mod body;
mod certificate;
mod commit;
mod exchange;
mod front;
mod protobuf;
mod socket;
mod target;
mod task;
mod tunnel;
mod upstream;

#[cfg(test)]
mod tests;

pub use board::Guard;
pub use front::{Listen, Proxy, ProxyError, Upstream};
pub use target::{Query, parse};
