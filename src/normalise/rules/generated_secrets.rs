//! Redacted secret values.

use crate::normalise::{Context, Edit, Effect, Rule, Scope, Subject};

pub(super) static RULE: Rule = Rule {
    id: "generated-secrets",
    reason: "Passwords and keys are drawn anew in each run; their presence and length are compared, within a run also their hash.",
    scope: Scope::AcrossRuns,
    effect: Effect::Values(apply),
};

/// Keys and certificates vary by some bytes from one to the next; beyond this length only the presence is compared.
const EXACT_LENGTH: usize = 256;

fn apply(subject: &mut Subject<'_>, _: &Context<'_>) {
    subject.edit(|_, value| value.as_str().and_then(without_hash).map_or(Edit::Keep, Edit::Replace));
}

/// `<redacted length=12 hash=ab12cd34>` without its hash.
fn without_hash(text: &str) -> Option<String> {
    let (length, hash) = text.strip_prefix("<redacted length=")?.strip_suffix('>')?.split_once(" hash=")?;
    let length: usize = length.parse().ok()?;
    let hexadecimal = hash.chars().all(|c| c.is_ascii_hexdigit());
    hexadecimal
        .then(|| if length > EXACT_LENGTH { "<redacted long>".into() } else { format!("<redacted length={length}>") })
}
