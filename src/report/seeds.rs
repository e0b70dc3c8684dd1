//! Runs of one perturbation under several seeds, as one entry of a report.
//!
//! # Guarantees
//! Names in reports hold no seed, so that a test case keeps its name from one campaign to the next.

use crate::verdict::{CaseVerdict, Outcome};

/// All runs of one name.
#[derive(Debug)]
pub(super) struct Group<'a> {
    /// The worst of them; of several, the first.
    pub shown: &'a CaseVerdict,
    pub runs: usize,
    pub passed: usize,
    /// Of those runs whose recovery was measured, the slowest.
    pub slowest_ms: Option<u64>,
}

impl Group<'_> {
    /// `17 of 20 seeds passed`; empty for a single run.
    pub fn in_words(&self) -> String {
        if self.runs == 1 { String::new() } else { format!("{} of {} seeds passed", self.passed, self.runs) }
    }

    /// What is wrong with the run that is shown, and how many seeds did better.
    pub fn headline(&self) -> String {
        let sentence = self.shown.headline();
        if self.runs == 1 { sentence.to_owned() } else { format!("{sentence} ({})", self.in_words()) }
    }
}

/// Groups runs by name, in the order in which names first appear.
pub(super) fn groups<'a>(cases: impl IntoIterator<Item = &'a CaseVerdict>) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for case in cases {
        let passed = usize::from(case.outcome == Outcome::Pass);
        match groups.iter_mut().find(|group| group.shown.name == case.name) {
            Some(group) => {
                group.runs += 1;
                group.passed += passed;
                group.slowest_ms = group.slowest_ms.max(case.metrics.recovery_ms);
                if case.outcome > group.shown.outcome {
                    group.shown = case;
                }
            }
            None => {
                groups.push(Group { shown: case, runs: 1, passed, slowest_ms: case.metrics.recovery_ms });
            }
        }
    }
    groups
}
