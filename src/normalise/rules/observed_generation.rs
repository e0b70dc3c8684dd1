//! How many edits a status has seen.

use crate::normalise::{Context, Edit, Effect, Rule, Scope, Subject, last_key, under};

pub(super) static RULE: Rule = Rule {
    id: "observed-generation",
    reason: "Its value counts edits, which differ between equal states; that it was reached is another matter.",
    scope: Scope::Both,
    effect: Effect::Values(apply),
};

fn apply(subject: &mut Subject<'_>, _: &Context<'_>) {
    subject.edit(|steps, value| {
        let hit = under(steps, "status") && last_key(steps) == "observedGeneration" && value.is_number();
        if hit { Edit::Replace("<generation>".into()) } else { Edit::Keep }
    });
}
