//! The waits of a run: each has a condition, a deadline, and on time-out the last value seen.

use std::{sync::atomic::Ordering, time::Duration};

use super::{RunError, Stage};
use crate::{
    clock::pause,
    event::MarkName,
    object::{ObjectKey, metadata},
    operator::OperatorError,
    scenario::{
        format::ObjectRef,
        predicate::{Held, Predicate},
    },
};

/// How often a wait looks again; conditions are in memory, so that a look costs microseconds, but for expectations.
const LOOK: Duration = Duration::from_millis(10);

/// Which look at a condition it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// The first one, or something was recorded since the last one.
    News,
    /// Only time has passed.
    Idle,
    /// The deadline has passed, too: what is found wrong now is reported.
    Last,
}

/// How a wait ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reached {
    Yes,
    /// The deadline passed; the last value seen, in words.
    No(String),
}

impl Stage<'_> {
    /// Something was done to the system: no settle window may begin before.
    pub(super) fn acted(&self) {
        self.acted_ms.store(self.recorder.pulse.now_ms(), Ordering::Relaxed);
    }

    /// Every expectation holds and nobody writes for the settle window.
    pub(super) async fn converge(&self, within: Duration) -> Result<Reached, RunError> {
        self.wait(within, |look| {
            let quiet = self.is_quiet();
            if quiet.is_err() && look != Look::Last {
                // Not before the end of the settle window does it matter whether the expectations hold.
                return quiet;
            }
            self.unmet(&self.expect).map_or(quiet, Err)
        })
        .await
    }

    /// Nobody writes for the settle window.
    pub(super) async fn quiet(&self, within: Duration) -> Result<Reached, RunError> {
        self.wait(within, |_| self.is_quiet()).await
    }

    /// Every one of `predicates` holds.
    pub(super) async fn holds(&self, predicates: &[Predicate], within: Duration) -> Result<Reached, RunError> {
        self.wait(within, |look| match look {
            Look::Idle => Err(String::new()),
            Look::News | Look::Last => self.unmet(predicates).map_or(Ok(()), Err),
        })
        .await
    }

    /// The operator has sent more than `before` requests.
    pub(super) async fn await_operator(&self, before: u64) -> Result<(), RunError> {
        let within = self.plan().operator.start_timeout;
        let seen = |_| {
            let now = self.recorder.activity().requests;
            if now > before { Ok(()) } else { Err(format!("{now} requests")) }
        };
        match self.wait(within.0, seen).await? {
            Reached::Yes => {
                self.acted();
                Ok(())
            }
            Reached::No(_) => Err(OperatorError::Silent {
                command: self.plan().operator.words(),
                within: within.to_string(),
                tail: self.operator.log_tail(),
            }
            .into()),
        }
    }

    /// The same after a restart, where silence says something about the operator and not about the set-up.
    pub(super) async fn await_return(&self, before: u64) -> Result<(), RunError> {
        match self.await_operator(before).await {
            Err(RunError::Operator(OperatorError::Silent { within, .. })) => {
                let why = format!("the operator was started again and sent no request within {within}");
                self.recorder.mark(MarkName::NotConverged, why);
                Ok(())
            }
            other => other,
        }
    }

    /// Records how the wait for convergence ended.
    pub(super) fn mark_convergence(&self, reached: &Reached) -> bool {
        match reached {
            Reached::Yes => self.recorder.mark(MarkName::Converged, ""),
            Reached::No(why) => self.recorder.mark(MarkName::NotConverged, why.clone()),
        }
        *reached == Reached::Yes
    }

    /// The objects of a reference's kind and namespace, as the observer last saw them; the predicate picks among them.
    pub(super) fn look_up(&self, target: &ObjectRef) -> Vec<serde_json::Value> {
        let group = target.api_version.split_once('/').map_or("", |(group, _)| group);
        let namespace = target.namespace.as_deref().unwrap_or(&self.plan().namespace);
        self.observer.select(|key: &ObjectKey, object| {
            key.kind == target.kind
                && key.group == group
                && (key.namespace.is_empty() || key.namespace == namespace)
                && target.name.as_ref().is_none_or(|name| *name == metadata(object, "name"))
        })
    }

    pub(super) async fn wait(
        &self,
        within: Duration,
        condition: impl Fn(Look) -> Result<(), String>,
    ) -> Result<Reached, RunError> {
        let deadline = self.recorder.clock.deadline(within);
        let mut news = self.recorder.subscribe();
        news.mark_changed();
        loop {
            let look = match (deadline.passed(self.recorder.clock), news.has_changed()) {
                (true, _) => Look::Last,
                (false, Ok(false)) => Look::Idle,
                (false, _) => Look::News,
            };
            if look != Look::Idle {
                // Before the look: what is recorded during it is news to the next one.
                news.mark_unchanged();
            }
            let last = match condition(look) {
                Ok(()) => return Ok(Reached::Yes),
                Err(last) => last,
            };
            if self.setup.cancel.is_cancelled() {
                return Err(RunError::Interrupted);
            }
            if look == Look::Last {
                return Ok(Reached::No(last));
            }
            pause(LOOK).await;
        }
    }

    fn unmet(&self, predicates: &[Predicate]) -> Option<String> {
        predicates.iter().find_map(|predicate| match predicate.evaluate(|target| self.look_up(target)) {
            Held::Yes => None,
            Held::No(why) => Some(why),
        })
    }

    /// Nobody has written for the settle window, and nothing was done to the system either. A window that has passed
    /// since then does for whoever waits next.
    fn is_quiet(&self) -> Result<(), String> {
        let activity = self.recorder.activity();
        let settle = u64::try_from(self.settle().as_millis()).unwrap_or(u64::MAX);
        let quiet_until = self.recorder.pulse.now_ms().saturating_sub(settle);
        if activity.last_write_ms > quiet_until {
            let last = self.recorder.read(|history| history.writes().last().map(|write| write.target.to_string()));
            return Err(format!("the operator keeps writing; last: {}", last.unwrap_or_default()));
        }
        if activity.last_change_ms > quiet_until {
            return Err("objects keep changing".into());
        }
        if !self.cluster.is_idle(self.settle()) {
            return Err("the cluster's controllers are at work".into());
        }
        if self.acted_ms.load(Ordering::Relaxed) > quiet_until {
            return Err("the settle window is not over".into());
        }
        let collects = self.cluster.capabilities().garbage_collection;
        match self.observer.uncollected().filter(|_| collects) {
            Some(key) => Err(format!("the garbage collector has not taken {key} yet")),
            None => Ok(()),
        }
    }
}
