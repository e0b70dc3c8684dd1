//! kubectl's copy of what was applied.

use crate::normalise::{Context, Effect, Rule, Scope, Subject};

pub(super) static RULE: Rule = Rule {
    id: "last-applied",
    reason: "The annotation repeats the whole object, which is compared itself.",
    scope: Scope::AcrossRuns,
    effect: Effect::Values(apply),
};

fn apply(subject: &mut Subject<'_>, _: &Context<'_>) {
    subject.remove(&["metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"]);
}
