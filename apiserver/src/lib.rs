//! An in-process Kubernetes API server: an exact subset that refuses the rest loudly.
//!
//! # Flow
//! `http::Request` -> [`pipeline`] (parse, authenticate, authorise, decode, default, validate, admit)
//! -> [`store`] (one global revision) -> `http::Response`. [`controllers`] are step functions that use the same pipeline.
//!
//! # Guarantees
//! The core is a `tower::Service` with an injected clock and random source: the same object serves TLS
//! sockets and in-process clients. Everything it cannot do exactly it refuses with 501 and reason
//! `EmbeddedUnsupported`.

pub mod resource;
pub mod status;
pub mod clock;
pub mod entropy;
pub mod schema;
pub mod protobuf;
pub mod patch;
pub mod apply;
pub mod crd;
pub mod builtin;
pub mod auth;
pub mod captured;
pub mod discovery;
pub mod store;
pub mod pipeline;
pub mod controllers;
pub mod server;
pub mod ledger;

pub use server::{ApiServer, Options};
