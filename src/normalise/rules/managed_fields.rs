//! Field ownership with its times.

use crate::normalise::{Context, Effect, Rule, Scope, Subject};

pub(super) static RULE: Rule = Rule {
    id: "managed-fields",
    reason: "managedFields records who wrote and when, not what; a no-op apply by another manager changes it.",
    scope: Scope::Both,
    effect: Effect::Values(apply),
};

fn apply(subject: &mut Subject<'_>, _: &Context<'_>) {
    subject.remove(&["metadata", "managedFields"]);
}
