//! What the passes share: the client, the bug, and what is remembered between passes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kube::{Client, runtime::utils};

use crate::bug::Bug;

/// How long events of one Widget are gathered.
pub const DEBOUNCE: Duration = Duration::from_millis(20);
const FIRST_RETRY: Duration = Duration::from_millis(50);
const LAST_RETRY: Duration = Duration::from_secs(2);

/// Shared by all passes.
pub struct Context {
    pub client: Client,
    bug: Option<Bug>,
    memory: Mutex<Memory>,
}

/// Lost when the process dies; nothing that matters may be kept here only.
#[derive(Default)]
pub struct Memory {
    /// Passes that failed since the last good one, by Widget.
    pub failures: BTreeMap<String, u32>,
    /// With the bugs `secret-rotated-at-start` and `deaf-after-restart`: Widgets that this process has seen.
    pub seen: BTreeSet<String>,
    /// With the bugs `deaf-after-error` and `deaf-after-restart`: Widgets that are not looked at any more.
    pub given_up: BTreeSet<String>,
}

impl Context {
    pub fn new(client: Client, bug: Option<Bug>) -> Self {
        Self { client, bug, memory: Mutex::default() }
    }

    pub fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    pub fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The n-th retry's delay, from 0: doubling, with a bound.
pub fn retry_after(failures: u32) -> Duration {
    FIRST_RETRY.saturating_mul(2_u32.saturating_pow(failures)).min(LAST_RETRY)
}

/// The same for watches that broke.
#[derive(Default)]
pub struct Backoff(u32);

impl Iterator for Backoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let delay = retry_after(self.0);
        self.0 = self.0.saturating_add(1);
        Some(delay)
    }
}

impl utils::Backoff for Backoff {
    fn reset(&mut self) {
        self.0 = 0;
    }
}
