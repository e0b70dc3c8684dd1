//! Labels by which Jobs find their pods.

use crate::normalise::{Context, Edit, Effect, Rule, Scope, Subject, last_key};

pub(super) static RULE: Rule = Rule {
    id: "job-labels",
    reason: "The controller-uid labels hold the Job's UID, which differs in each run.",
    scope: Scope::AcrossRuns,
    effect: Effect::Values(apply),
};

fn apply(subject: &mut Subject<'_>, context: &Context<'_>) {
    subject.edit(|steps, value| match (last_key(steps), value.as_str()) {
        ("controller-uid" | "batch.kubernetes.io/controller-uid", Some(uid)) if !uid.starts_with('<') => {
            Edit::Replace(context.names.uid(uid).to_owned())
        }
        _ => Edit::Keep,
    });
}
