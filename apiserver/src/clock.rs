//! The injected clock: nothing in this crate reads the machine's time by itself.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use jiff::Timestamp;

/// Where the server takes time from.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// The present instant, as written into `creationTimestamp` (whole seconds there) and conditions.
    fn now(&self) -> Timestamp;
    /// Completes after `duration` of this clock's time.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

/// The clock as it is shared between parts of one server.
pub type SharedClock = Arc<dyn Clock>;

/// Real time, by tokio's timer; `tokio::time::pause` therefore gives virtual sleeps.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

#[expect(clippy::disallowed_methods, reason = "the one place that reads the machine's time")]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// An instant in the form of `metav1.Time`: RFC 3339 with whole seconds.
#[must_use]
pub fn rfc3339_seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
