//! Rules, the set of them that a plan asks for, and their application.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    canonical::{Canonical, CanonicalKey, Hidden},
    names::Names,
    path::{PathError, Pattern},
    rules::RULES,
    subject::Subject,
};
use crate::{object::ObjectKey, scenario::format::Normalise};

/// What is compared with what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// Two runs: whatever is random differs.
    AcrossRuns,
    /// Two instants of one run between which nothing may have changed.
    WithinRun,
}

/// Where a rule applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    AcrossRuns,
    Both,
}

/// What rules may look at beside their object.
#[derive(Debug)]
pub struct Context<'a> {
    pub names: &'a Names,
    pub objects: &'a BTreeMap<ObjectKey, &'a Value>,
}

/// What a rule does.
#[derive(Debug, Clone, Copy)]
pub enum Effect {
    /// Leaves out the objects for which this is true.
    Objects(fn(&ObjectKey, &Value, &Context<'_>) -> bool),
    /// Hides or rewrites values.
    Values(fn(&mut Subject<'_>, &Context<'_>)),
}

/// One thing that says nothing about convergence.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Stable; for `normalise.disable`, reports and `explain`.
    pub id: &'static str,
    /// One sentence: why it may be hidden.
    pub reason: &'static str,
    pub scope: Scope,
    pub effect: Effect,
}

/// Why a plan's normalisation cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NormaliseError {
    #[error("there is no normalisation rule `{0}`")]
    UnknownRule(String),
    #[error("cannot read a path of `normalise.ignore`")]
    Path(#[from] PathError),
}

#[derive(Debug, Clone)]
struct Ignore {
    kind: Option<String>,
    pattern: Pattern,
}

/// The rules of one plan.
#[derive(Debug, Clone)]
pub struct Ruleset {
    rules: Vec<&'static Rule>,
    ignores: Vec<Ignore>,
}

impl Default for Ruleset {
    fn default() -> Self {
        Self { rules: RULES.to_vec(), ignores: Vec::new() }
    }
}

impl Ruleset {
    /// All built-in rules but the disabled ones, and the scenario's own.
    ///
    /// # Errors
    /// When a disabled rule does not exist or a path cannot be read.
    pub fn new(settings: &Normalise) -> Result<Self, NormaliseError> {
        if let Some(unknown) = settings.disable.iter().find(|id| RULES.iter().all(|rule| rule.id != **id)) {
            return Err(NormaliseError::UnknownRule(unknown.clone()));
        }
        let rules = RULES.iter().copied().filter(|rule| !settings.disable.iter().any(|id| id == rule.id)).collect();
        let ignores = settings
            .ignore
            .iter()
            .map(|rule| Ok(Ignore { kind: rule.kind.clone(), pattern: Pattern::parse(&rule.path)? }))
            .collect::<Result<_, PathError>>()?;
        Ok(Self { rules, ignores })
    }

    fn applied(&self, comparison: Comparison) -> impl Iterator<Item = &'static Rule> {
        self.rules.iter().copied().filter(move |rule| comparison == Comparison::AcrossRuns || rule.scope == Scope::Both)
    }
}

/// Normalises the objects of a snapshot. Objects without a kind or a name are left out: no server returns any.
#[must_use]
pub fn canonicalise(objects: &[Value], comparison: Comparison, rules: &Ruleset) -> Canonical {
    let by_key: BTreeMap<ObjectKey, &Value> =
        objects.iter().filter_map(|object| Some((ObjectKey::of(object)?, object))).collect();
    let renames = rules.applied(comparison).any(|rule| rule.id == super::rules::GENERATED_NAMES);
    let names = if renames { Names::by_role(&by_key) } else { Names::default() };
    let context = Context { names: &names, objects: &by_key };
    let mut result = Canonical::default();
    let mut roles: BTreeMap<CanonicalKey, Vec<(Value, ObjectKey)>> = BTreeMap::new();
    for (key, object) in &by_key {
        let role = CanonicalKey { name: names.of(key).to_owned(), ..CanonicalKey::from(key.clone()) };
        if let Some(rule) = left_out_by(rules, comparison, key, object, &context) {
            result.hidden.push(Hidden { rule: rule.id.to_owned(), object: role, path: String::new() });
            continue;
        }
        let mut object = (*object).clone();
        rewrite(rules, comparison, &role, &mut object, &context, &mut result.hidden);
        roles.entry(role).or_default().push((object, key.clone()));
    }
    for (role, mut members) in roles {
        // Content first: generated names come in no meaningful order.
        members.sort_by_cached_key(|(object, key)| (object.to_string(), key.clone()));
        for (ordinal, (object, key)) in members.into_iter().enumerate() {
            let canonical = CanonicalKey { ordinal, ..role.clone() };
            result.names.insert(canonical.clone(), key);
            result.objects.insert(canonical, object);
        }
    }
    result.hidden.sort();
    result.hidden.dedup();
    result
}

fn left_out_by(
    rules: &Ruleset,
    comparison: Comparison,
    key: &ObjectKey,
    object: &Value,
    context: &Context<'_>,
) -> Option<&'static Rule> {
    rules.applied(comparison).find(|rule| match rule.effect {
        Effect::Objects(hides) => hides(key, object, context),
        Effect::Values(_) => false,
    })
}

fn rewrite(
    rules: &Ruleset,
    comparison: Comparison,
    role: &CanonicalKey,
    object: &mut Value,
    context: &Context<'_>,
    hidden: &mut Vec<Hidden>,
) {
    // The scenario's own paths are written against objects as users see them, so they come first.
    for ignore in &rules.ignores {
        if ignore.kind.as_ref().is_none_or(|kind| *kind == role.kind) {
            for path in ignore.pattern.remove_from(object) {
                hidden.push(Hidden { rule: "ignore".into(), object: role.clone(), path: path.to_string() });
            }
        }
    }
    for rule in rules.applied(comparison) {
        if let Effect::Values(apply) = rule.effect {
            apply(&mut Subject { object, key: role, rule: rule.id, hidden }, context);
        }
    }
}
