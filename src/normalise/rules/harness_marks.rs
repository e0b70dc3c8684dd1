//! Annotations of the harness itself.

use crate::normalise::{Context, Edit, Effect, Rule, Scope, Subject, last_key};

pub(super) static RULE: Rule = Rule {
    id: "harness-marks",
    reason: "Annotations under reconverge.dev/ are written by the harness to provoke a reconcile.",
    scope: Scope::Both,
    effect: Effect::Values(apply),
};

fn apply(subject: &mut Subject<'_>, _: &Context<'_>) {
    subject.edit(|steps, _| if last_key(steps).starts_with("reconverge.dev/") { Edit::Remove } else { Edit::Keep });
}
