//! Hashes of pod templates.

use crate::normalise::{Context, Edit, Effect, Rule, Scope, Subject, last_key};

pub(super) static RULE: Rule = Rule {
    id: "template-hash",
    reason: "The hash follows from the template, which is compared itself; with anything random in it, it differs.",
    scope: Scope::AcrossRuns,
    effect: Effect::Values(apply),
};

fn apply(subject: &mut Subject<'_>, _: &Context<'_>) {
    let stateful_set = subject.is("apps", "StatefulSet");
    subject.edit(|steps, value| match last_key(steps) {
        "pod-template-hash" | "controller-revision-hash" | "pod-template-generation" if value.is_string() => {
            Edit::Replace("<hash>".into())
        }
        "currentRevision" | "updateRevision" if stateful_set => Edit::Replace("<hash>".into()),
        "collisionCount" if value.is_number() => Edit::Remove,
        _ => Edit::Keep,
    });
}
