//! `partition`: nothing of the operator reaches its API server.
//!
//! # Guarantees
//! Every request is reset before the server sees it, those of the background too: a network does not know a lease from
//! a write. Watches that were open are cut by whoever installs the rule.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{
    event::FaultRecord,
    faults::{Decision, Rule, Seen},
};

/// The rule; see the module.
#[derive(Debug, Default)]
pub struct PartitionRule {
    reset: AtomicU64,
}

impl Rule for PartitionRule {
    fn id(&self) -> &'static str {
        "partition"
    }

    fn decide(&self, _: &Seen) -> Decision {
        self.reset.fetch_add(1, Ordering::Relaxed);
        Decision::DropBefore
    }

    fn record(&self) -> FaultRecord {
        let reset = self.reset.load(Ordering::Relaxed);
        FaultRecord {
            id: self.id().to_owned(),
            matched: reset,
            fired: reset,
            legal_because: "networks break, and API servers are out of reach while they are upgraded".to_owned(),
            hits: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{event::Verb, faults::fixture::seen};

    #[test]
    fn nothing_gets_through() {
        let rule = PartitionRule::default();
        for seen in [seen(Verb::Get, "pods", "a"), seen(Verb::Update, "leases", "l")] {
            assert!(matches!(rule.decide(&seen), Decision::DropBefore));
        }
        assert_eq!(rule.record().fired, 2);
    }
}
