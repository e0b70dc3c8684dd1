//! UIDs of owners.

use crate::normalise::{Context, Edit, Effect, Rule, Scope, Step, Subject, last_key};

pub(super) static RULE: Rule = Rule {
    id: "owner-uid",
    reason: "UIDs differ in each run; who owns the object is compared by the owner's name.",
    scope: Scope::AcrossRuns,
    effect: Effect::Values(apply),
};

fn apply(subject: &mut Subject<'_>, context: &Context<'_>) {
    subject.edit(|steps, value| {
        let in_owners = matches!(steps.get(1), Some(Step::Key(key)) if key == "ownerReferences");
        match value.as_str() {
            Some(uid) if in_owners && last_key(steps) == "uid" => Edit::Replace(context.names.uid(uid).to_owned()),
            _ => Edit::Keep,
        }
    });
}
