//! What the server puts into metadata.

use crate::normalise::{Context, Effect, Rule, Scope, Subject};

pub(super) static RULE: Rule = Rule {
    id: "server-metadata",
    reason: "The server chooses uid, generation and creation time anew in each run; of deletionTimestamp only the presence says something.",
    scope: Scope::AcrossRuns,
    effect: Effect::Values(apply),
};

fn apply(subject: &mut Subject<'_>, _: &Context<'_>) {
    for field in ["uid", "generation", "creationTimestamp", "deletionGracePeriodSeconds"] {
        subject.remove(&["metadata", field]);
    }
    subject.mask(&["metadata", "deletionTimestamp"], "<time>");
}
