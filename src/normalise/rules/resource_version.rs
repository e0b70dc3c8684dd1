//! The server's version counters.

use crate::normalise::{Context, Effect, Rule, Scope, Subject};

pub(super) static RULE: Rule = Rule {
    id: "resource-version",
    reason: "resourceVersion moves with every write of anybody, and selfLink is obsolete; contents are compared instead.",
    scope: Scope::Both,
    effect: Effect::Values(apply),
};

fn apply(subject: &mut Subject<'_>, _: &Context<'_>) {
    subject.remove(&["metadata", "resourceVersion"]);
    subject.remove(&["metadata", "selfLink"]);
}
