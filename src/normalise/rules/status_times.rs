//! Times in status.

use crate::normalise::{Context, Edit, Effect, Rule, Scope, Subject, random::is_time, under};

pub(super) static RULE: Rule = Rule {
    id: "status-times",
    reason: "When something happened differs in each run; that a time is there is compared.",
    scope: Scope::AcrossRuns,
    effect: Effect::Values(apply),
};

fn apply(subject: &mut Subject<'_>, _: &Context<'_>) {
    subject.edit(|steps, value| match value.as_str() {
        Some(text) if under(steps, "status") && is_time(text) => Edit::Replace("<time>".into()),
        _ => Edit::Keep,
    });
}
