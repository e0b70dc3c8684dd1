//! The oracles, one per file, listed once.

mod converges;
mod gone;
mod idempotent;
mod live;
mod no_errors;
mod no_orphans;
mod recovers;
mod same_state;

use super::Oracle;

/// Every oracle, in the order in which findings are worth reading.
pub static ORACLES: &[&dyn Oracle] = &[
    &no_errors::NoErrors,
    &converges::Converges,
    &same_state::SameState,
    &idempotent::Idempotent,
    &recovers::Recovers,
    &live::Live,
    &no_orphans::NoOrphans,
    &gone::Gone,
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_are_unique_and_explained() {
        let ids: BTreeSet<&str> = ORACLES.iter().map(|oracle| oracle.id()).collect();
        assert_eq!(ids.len(), ORACLES.len());
        for oracle in ORACLES {
            assert!(oracle.explain().len() > 80 && !oracle.title().is_empty(), "{}", oracle.id());
        }
    }
}
