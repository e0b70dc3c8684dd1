//! The run's clock: milliseconds since the run began, and the only place that reads the machine's time.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// Counts from the start of one run. `Copy`: every part of a run carries its own.
#[derive(Debug, Clone, Copy)]
pub struct RunClock {
    start: Instant,
}

impl RunClock {
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the clock module is where time is read")]
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }

    /// Milliseconds since the run began.
    #[must_use]
    pub fn now_ms(self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The instant `after` from now, for deadlines.
    #[must_use]
    pub fn deadline(self, after: Duration) -> Deadline {
        Deadline { at_ms: self.now_ms().saturating_add(u64::try_from(after.as_millis()).unwrap_or(u64::MAX)) }
    }
}

/// An instant of a run by which something must have happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    pub at_ms: u64,
}

impl Deadline {
    #[must_use]
    pub fn passed(self, clock: RunClock) -> bool {
        clock.now_ms() >= self.at_ms
    }
}

/// The wall clock, for names of run directories and time stamps of reports.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the clock module is where time is read")]
pub fn wall() -> Timestamp {
    Timestamp::now()
}

/// Lets other tasks run for `interval`, between two looks at a condition that has a deadline.
#[expect(clippy::disallowed_methods, reason = "the one pause that every bounded wait of the crate goes through")]
pub async fn pause(interval: Duration) {
    tokio::time::sleep(interval).await;
}
