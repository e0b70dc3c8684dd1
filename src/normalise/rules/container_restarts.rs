//! How often containers were started again.

use crate::normalise::{Context, Edit, Effect, Rule, Scope, Subject, last_key, under};

pub(super) static RULE: Rule = Rule {
    id: "container-restarts",
    reason: "A container restarts while what it needs is not there yet; how often is a matter of timing.",
    scope: Scope::AcrossRuns,
    effect: Effect::Values(apply),
};

fn apply(subject: &mut Subject<'_>, _: &Context<'_>) {
    if !subject.is("", "Pod") {
        return;
    }
    subject.edit(|steps, _| {
        let hit = under(steps, "status") && matches!(last_key(steps), "restartCount" | "lastState");
        if hit { Edit::Remove } else { Edit::Keep }
    });
}
