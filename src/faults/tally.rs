//! What every rule keeps count of: which requests matched, on which of them it fired, and in what words.

use std::sync::{Mutex, PoisonError};

use crate::{
    event::{FaultRecord, Hit},
    faults::{
        Seen,
        selector::{self, DefaultVerbs},
        trigger::{Counter, ResolvedTrigger},
    },
    scenario::format::Selector,
};

/// More hits than a reader looks at; `fired` still counts all of them.
const MAX_HITS: usize = 1_000;

/// Selector, trigger and account of one rule.
#[derive(Debug)]
pub struct Tally {
    selector: Selector,
    default_verbs: DefaultVerbs,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    counter: Counter,
    hits: Vec<Hit>,
}

impl Tally {
    #[must_use]
    pub fn new(selector: &Selector, default_verbs: DefaultVerbs, trigger: ResolvedTrigger) -> Self {
        let state = State { counter: Counter::new(trigger), hits: Vec::new() };
        Self { selector: selector.clone(), default_verbs, state: Mutex::new(state) }
    }

    /// Whether the fault may concern this request; counts nothing.
    #[must_use]
    pub fn concerns(&self, seen: &Seen) -> bool {
        selector::matches(&self.selector, self.default_verbs, &seen.target, &seen.user_agent)
    }

    /// Counts a request that concerns the fault; when it fires, `words` say what is done to it.
    pub fn fires(&self, seen: &Seen, words: impl FnOnce() -> String) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.counter.count() {
            return false;
        }
        if state.hits.len() < MAX_HITS {
            let what = format!("{} on {}", words(), seen.target);
            state.hits.push(Hit { at_ms: seen.at_ms, what });
        }
        true
    }

    #[must_use]
    pub fn record(&self, id: &str, legal_because: &str) -> FaultRecord {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        FaultRecord {
            id: id.to_owned(),
            matched: state.counter.matched(),
            fired: state.counter.fired(),
            legal_because: legal_because.to_owned(),
            hits: state.hits.clone(),
        }
    }
}
