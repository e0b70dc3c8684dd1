//! Roll-out counters.

use crate::normalise::{Context, Effect, Rule, Scope, Subject};

pub(super) static RULE: Rule = Rule {
    id: "deployment-revision",
    reason: "How many roll-outs it took is history; the roll-out's result is compared.",
    scope: Scope::AcrossRuns,
    effect: Effect::Values(apply),
};

fn apply(subject: &mut Subject<'_>, _: &Context<'_>) {
    for annotation in [
        "deployment.kubernetes.io/revision",
        "deployment.kubernetes.io/revision-history",
        "deprecated.daemonset.template.generation",
    ] {
        subject.remove(&["metadata", "annotations", annotation]);
    }
}
