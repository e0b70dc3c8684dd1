//! Certificates of webhooks.

use crate::normalise::{Context, Edit, Effect, Rule, Scope, Subject, last_key};

pub(super) static RULE: Rule = Rule {
    id: "ca-bundle",
    reason: "The CA that signs webhook certificates is made anew in each run.",
    scope: Scope::AcrossRuns,
    effect: Effect::Values(apply),
};

fn apply(subject: &mut Subject<'_>, _: &Context<'_>) {
    subject.edit(|steps, value| {
        let hit = last_key(steps) == "caBundle" && value.is_string();
        if hit { Edit::Replace("<ca bundle>".into()) } else { Edit::Keep }
    });
}
