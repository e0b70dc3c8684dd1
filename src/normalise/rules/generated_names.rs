//! Names with random parts, wherever they stand.

use crate::normalise::{Context, Edit, Effect, Rule, Scope, Subject};

pub(super) static RULE: Rule = Rule {
    id: "generated-names",
    reason: "Generated names differ in each run; objects are paired by owner and role, and mentions of a name follow.",
    scope: Scope::AcrossRuns,
    effect: Effect::Values(apply),
};

fn apply(subject: &mut Subject<'_>, context: &Context<'_>) {
    let role = subject.key.name.clone();
    if subject.object.pointer("/metadata/name").is_some_and(|name| *name != role) {
        subject.mask(&["metadata", "name"], &role);
    }
    subject.edit(|_, value| {
        value.as_str().and_then(|text| context.names.replace_names(text)).map_or(Edit::Keep, Edit::Replace)
    });
}
