//! The waits of a run: each has a condition, a deadline, and on time-out the last value seen.

use std::time::Duration;

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

/// How often a wait looks again; conditions are in memory, so that a look costs microseconds.
const LOOK: Duration = Duration::from_millis(10);

/// How a wait ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reached {
    Yes,
    /// The deadline passed; the last value seen, in words.
    No(String),
}

impl Stage<'_> {
    /// Every expectation holds and nobody writes for the settle window.
    pub(super) async fn converge(&self, within: Duration) -> Result<Reached, RunError> {
        let since = self.recorder.clock.now_ms();
        self.wait(within, || match self.unmet(&self.expect) {
            Some(why) => Err(why),
            None => self.is_quiet(since),
        })
        .await
    }

    /// Nobody writes for the settle window.
    pub(super) async fn quiet(&self, within: Duration) -> Result<Reached, RunError> {
        let since = self.recorder.clock.now_ms();
        self.wait(within, || self.is_quiet(since)).await
    }

    /// Every one of `predicates` holds.
    pub(super) async fn holds(&self, predicates: &[Predicate], within: Duration) -> Result<Reached, RunError> {
        self.wait(within, || self.unmet(predicates).map_or(Ok(()), Err)).await
    }

    /// The operator has sent more than `before` requests.
    pub(super) async fn await_operator(&self, before: u64) -> Result<(), RunError> {
        let within = self.plan().operator.start_timeout;
        let seen = || {
            let now = self.recorder.activity().requests;
            if now > before { Ok(()) } else { Err(format!("{now} requests")) }
        };
        match self.wait(within.0, seen).await? {
            Reached::Yes => Ok(()),
            Reached::No(_) => Err(OperatorError::Silent {
                command: self.plan().operator.command.join(" "),
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
        condition: impl Fn() -> Result<(), String>,
    ) -> Result<Reached, RunError> {
        let deadline = self.recorder.clock.deadline(within);
        loop {
            let last = match condition() {
                Ok(()) => return Ok(Reached::Yes),
                Err(last) => last,
            };
            if self.setup.cancel.is_cancelled() {
                return Err(RunError::Interrupted);
            }
            if deadline.passed(self.recorder.clock) {
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

    /// Nobody has written for the settle window, counted from `since` at the earliest.
    fn is_quiet(&self, since: u64) -> Result<(), String> {
        let activity = self.recorder.activity();
        let settle = u64::try_from(self.settle().as_millis()).unwrap_or(u64::MAX);
        let quiet_until = self.recorder.clock.now_ms().saturating_sub(settle);
        if activity.last_write_ms > quiet_until {
            let last = self.recorder.read(|history| history.writes().last().map(|write| write.target.to_string()));
            return Err(format!("the operator keeps writing; last: {}", last.unwrap_or_default()));
        }
        if activity.last_change_ms > quiet_until {
            return Err("objects keep changing".into());
        }
        if since > quiet_until { Err("the settle window is not over".into()) } else { Ok(()) }
    }
}
