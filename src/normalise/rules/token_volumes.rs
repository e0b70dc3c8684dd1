//! Volumes with ServiceAccount tokens.

use crate::normalise::{Context, Edit, Effect, Rule, Scope, Subject};

pub(super) static RULE: Rule = Rule {
    id: "token-volumes",
    reason: "The server injects a token volume with a random name into each pod.",
    scope: Scope::AcrossRuns,
    effect: Effect::Values(apply),
};

const PREFIX: &str = "kube-api-access-";

fn apply(subject: &mut Subject<'_>, _: &Context<'_>) {
    if !subject.is("", "Pod") {
        return;
    }
    subject.edit(|_, value| match value.as_str() {
        Some(name) if name.len() == PREFIX.len() + 5 && name.starts_with(PREFIX) => {
            Edit::Replace(format!("{PREFIX}<random>"))
        }
        _ => Edit::Keep,
    });
}
