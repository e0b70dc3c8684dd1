//! The installed rules, in order.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use tokio_util::sync::CancellationToken;

use crate::{
    event::FaultRecord,
    faults::{Decision, Rule, Seen},
};

/// What shall happen to one request.
#[derive(Debug)]
pub struct Ruling {
    pub decision: Decision,
    /// Id of the rule that decided; `None` when no rule did.
    pub fault: Option<&'static str>,
    /// Cancelled when that rule is healed.
    pub healed: CancellationToken,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Board {
    installed: Mutex<Vec<Installed>>,
    next: AtomicU64,
    requests: AtomicU64,
}

#[derive(Debug)]
struct Installed {
    id: u64,
    rule: Arc<dyn Rule>,
    healed: CancellationToken,
}

impl Board {
    pub fn install(self: &Arc<Self>, rule: Arc<dyn Rule>) -> Guard {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let healed = CancellationToken::new();
        self.lock().push(Installed { id, rule: rule.clone(), healed: healed.clone() });
        Guard { board: self.clone(), id, rule, healed }
    }

    pub fn installed(&self) -> usize {
        self.lock().len()
    }

    /// Numbers the request and asks the rules in the order of their installation; the first that does not forward wins,
    /// and the later ones do not see the request. One request at a time, so that the order is the same for all rules.
    pub fn rule(&self, seen: &mut Seen) -> Ruling {
        let installed = self.lock();
        seen.ordinal = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        for one in installed.iter() {
            let decision = one.rule.decide(seen);
            if !matches!(decision, Decision::Forward) {
                return Ruling { decision, fault: Some(one.rule.id()), healed: one.healed.clone() };
            }
        }
        Ruling { decision: Decision::Forward, fault: None, healed: CancellationToken::new() }
    }

    fn remove(&self, id: u64) {
        self.lock().retain(|one| one.id != id);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Installed>> {
        self.installed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a rule installed.
#[must_use = "dropping the guard uninstalls the rule"]
#[derive(Debug)]
pub struct Guard {
    board: Arc<Board>,
    id: u64,
    rule: Arc<dyn Rule>,
    healed: CancellationToken,
}

impl Guard {
    /// Uninstalls the rule and gives its account. Delayed requests go on at once; held ones are reset.
    pub fn heal(self) -> FaultRecord {
        self.board.remove(self.id);
        self.rule.record()
    }

    /// The account up to now, with the rule still in force.
    #[must_use]
    pub fn record(&self) -> FaultRecord {
        self.rule.record()
    }
}

/// Only a safety net: a run heals explicitly.
impl Drop for Guard {
    fn drop(&mut self) {
        self.board.remove(self.id);
        self.healed.cancel();
    }
}
