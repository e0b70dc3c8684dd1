//! `crash-after-write`: stops the operator's traffic at its k-th write, so that it can be killed exactly there.
//!
//! # Flow
//! The k-th write is held at the gate, after the server committed it (or before it reaches the server). Whoever drives
//! the run waits for `gate.reached`, kills the operator, and cancels `gate.released`.
//!
//! # Guarantees
//! Until the gate is released, later writes of the operator are held before they reach the server: nothing is written
//! between the k-th write and the kill. Reads go on. After the release everything is forwarded.
//!
//! # Deliberately not done
//! Writes are counted as they are sent ([`crate::event::Request::is_write`]). Whether one will change anything is not
//! known before it is carried out, so a no-op write counts as well.

use std::sync::{Mutex, PoisonError};

use crate::{
    event::{self, FaultRecord, Hit},
    faults::{Decision, Gate, Rule, Seen},
};

const LEGAL: &str = "a process may be killed at any instant, between any two of its requests";

/// The rule; see the module.
#[derive(Debug)]
pub struct CrashPoint {
    write: u64,
    after_commit: bool,
    gate: Gate,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    writes: u64,
    hit: Option<Hit>,
}

/// On which side of the commit the operator is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    BeforeCommit,
    AfterCommit,
}

impl CrashPoint {
    /// `write` is the ordinal among the writes, from 1.
    #[must_use]
    pub fn new(write: u64, side: Side, gate: Gate) -> Self {
        Self { write, after_commit: side == Side::AfterCommit, gate, state: Mutex::default() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rule for CrashPoint {
    fn id(&self) -> &'static str {
        "crash-after-write"
    }

    fn decide(&self, seen: &Seen) -> Decision {
        let write = seen.target.verb.is_mutating() && !seen.dry_run && !event::is_background(&seen.target);
        if !write || self.gate.released.is_cancelled() {
            return Decision::Forward;
        }
        let mut state = self.lock();
        state.writes += 1;
        match state.writes.cmp(&self.write) {
            std::cmp::Ordering::Less => Decision::Forward,
            std::cmp::Ordering::Equal => {
                let side = if self.after_commit { "after" } else { "before" };
                let what = format!("a kill right {side} write {} ({})", self.write, seen.target);
                state.hit = Some(Hit { at_ms: seen.at_ms, what });
                Decision::Hold { after_commit: self.after_commit, gate: self.gate.clone() }
            }
            // Its own `reached`, so that only the k-th write reports its arrival.
            std::cmp::Ordering::Greater => Decision::Hold {
                after_commit: false,
                gate: Gate { released: self.gate.released.clone(), ..Gate::default() },
            },
        }
    }

    fn record(&self) -> FaultRecord {
        let state = self.lock();
        FaultRecord {
            id: self.id().to_owned(),
            matched: state.writes,
            fired: u64::from(state.hit.is_some()),
            legal_because: LEGAL.to_owned(),
            hits: state.hit.iter().cloned().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{event::Verb, faults::fixture::seen};

    #[test]
    fn holds_the_kth_write_and_everything_written_after_it() {
        let gate = Gate::default();
        let rule = CrashPoint::new(2, Side::AfterCommit, gate.clone());
        let write = || rule.decide(&seen(Verb::Create, "pods", "a"));
        assert!(matches!(write(), Decision::Forward));
        assert!(matches!(rule.decide(&seen(Verb::Get, "pods", "a")), Decision::Forward));
        assert!(matches!(rule.decide(&seen(Verb::Create, "events", "e")), Decision::Forward));
        assert!(matches!(write(), Decision::Hold { after_commit: true, .. }));
        assert!(matches!(write(), Decision::Hold { after_commit: false, .. }));
        gate.released.cancel();
        assert!(matches!(write(), Decision::Forward));
        let record = rule.record();
        assert_eq!((record.matched, record.fired), (3, 1));
        assert_eq!(record.hits[0].what, "a kill right after write 2 (create pods demo/a)");
    }
}
