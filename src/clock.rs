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

/// Time as the tasks of this process are really given it: it advances by one beat whenever a sleeping task was woken.
///
/// On a starved machine it runs slower than the clock, and so do the operator and the cluster: a settle window in
/// beats does not mistake a program that was not scheduled for one that is at rest.
#[derive(Debug, Clone, Default)]
pub struct Pulse(std::sync::Arc<std::sync::atomic::AtomicU64>);

/// The length of one beat.
const BEAT: Duration = Duration::from_millis(10);

impl Pulse {
    /// Milliseconds of beats since it began to beat.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.0.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Beats for ever.
    pub async fn beat(&self) {
        loop {
            pause(BEAT).await;
            self.advance(BEAT);
        }
    }

    /// Moves it on by hand.
    pub(crate) fn advance(&self, by: Duration) {
        let millis = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.0.fetch_add(millis, std::sync::atomic::Ordering::Relaxed);
    }
}

/// Lets other tasks run for `interval`, between two looks at a condition that has a deadline.
#[expect(clippy::disallowed_methods, reason = "the one pause that every bounded wait of the crate goes through")]
pub async fn pause(interval: Duration) {
    tokio::time::sleep(interval).await;
}
