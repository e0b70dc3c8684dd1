//! What each scenario of this repository must find: the harness is tested by operators whose bugs are known.

use reconverge::verdict::Outcome;

/// The verdict that a scenario must have.
pub struct Expected {
    /// `metadata.name` of the scenario.
    pub scenario: &'static str,
    pub outcome: Outcome,
    /// The only oracles that may have findings; the bug is one, and each sees it from its side.
    pub oracles: &'static [&'static str],
}

const fn fails(scenario: &'static str, oracles: &'static [&'static str]) -> Expected {
    Expected { scenario, outcome: Outcome::Fail, oracles }
}

const fn passes(scenario: &'static str) -> Expected {
    Expected { scenario, outcome: Outcome::Pass, oracles: &[] }
}

/// Where a run does not end in the state of the reference, these say so together.
const ALL: &[Expected] = &[
    passes("quickstart"),
    fails("quickstart-broken", &["converges", "same-state"]),
    // Specimens, by the bug that they have.
    fails("child-unwatched", &["converges"]),
    fails("conflict-swallowed", &["converges", "same-state"]),
    fails("crash-leaves-half-state", &["converges", "same-state"]),
    // It is deaf to the deletion, too, so nothing is cleaned up.
    fails("deaf-after-error", &["converges", "same-state", "gone", "no-orphans"]),
    fails("deaf-after-restart", &["live", "same-state"]),
    fails("finalizer-never-removed", &["gone"]),
    fails("missing-grant", &["gone", "no-orphans"]),
    fails("orphan-left", &["no-orphans"]),
    fails("panic-on-conflict", &["no-errors"]),
    fails("random-name-on-create", &["same-state"]),
    fails("secret-rotated-at-start", &["idempotent"]),
    fails("slow-after-error", &["converges", "recovers", "same-state", "gone", "no-orphans"]),
    fails("stale-generation", &["converges"]),
    fails("status-written-every-pass", &["converges"]),
    fails("timestamp-in-child", &["idempotent"]),
    // Published operators.
    fails("dask-kubernetes", &["converges", "same-state", "recovers"]),
    passes("prometheus-operator"),
    passes("prometheus-operator-in-cluster"),
];

/// What is expected of a scenario, by its name.
pub fn of(scenario: &str) -> Option<&'static Expected> {
    ALL.iter().find(|expected| expected.scenario == scenario)
}
