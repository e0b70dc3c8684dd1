//! Notes that operator frameworks keep on objects.

use crate::normalise::{Context, Edit, Effect, Rule, Scope, Step, Subject};

pub(super) static RULE: Rule = Rule {
    id: "framework-bookkeeping",
    reason: "kopf and Crossplane keep progress and copies of the spec in annotations; they hold nothing that users asked for.",
    scope: Scope::Both,
    effect: Effect::Values(apply),
};

/// Whether an annotation is a framework's own.
#[must_use]
pub fn is_bookkeeping(annotation: &str) -> bool {
    ["kopf.zalando.org/", "kopf.dev/", "crossplane.io/external-create-"].iter().any(|own| annotation.starts_with(own))
}

fn apply(subject: &mut Subject<'_>, _: &Context<'_>) {
    subject.edit(|steps, _| match steps {
        [Step::Key(metadata), Step::Key(annotations), Step::Key(name)]
            if metadata == "metadata" && annotations == "annotations" && is_bookkeeping(name) =>
        {
            Edit::Remove
        }
        [Step::Key(status), Step::Key(own)] if status == "status" && own == "kopf" => Edit::Remove,
        _ => Edit::Keep,
    });
}
