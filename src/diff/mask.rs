//! The learned mask: what differs between fault-free runs of the same plan.
//!
//! # The rule
//! A value that differs between references is *masked* if it varies by chance: times, hashes, ids, addresses, and
//! outside of `spec` also numbers. Words that differ (a phase, a reason, a boolean), a field that only some of them
//! have, and an object that only some of them have are choices of the operator: the reference is *unstable*, and
//! nothing can be said about that place. Whole objects are never masked.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::compare::compare;
use crate::normalise::{
    Canonical, CanonicalKey, leaves,
    random::{Nature, vary_by_chance},
};

/// One place that is not compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MaskEntry {
    /// The role; its ordinal says nothing.
    pub object: CanonicalKey,
    pub path: String,
    /// What the references have there.
    pub values: Vec<Value>,
}

/// Places that are not compared.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Mask {
    pub entries: Vec<MaskEntry>,
    /// Scalars in the reference state.
    pub leaves_total: usize,
    /// How many of them the entries hide.
    pub leaves_hidden: usize,
    /// Roles that are left out altogether, because their number differs between references.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<CanonicalKey>,
}

/// A place in which fault-free runs made different choices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unstable {
    pub object: CanonicalKey,
    /// Empty where the object itself is there only sometimes.
    pub path: String,
    pub values: Vec<Value>,
}

/// What several references teach.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Learned {
    pub mask: Mask,
    pub unstable: Vec<Unstable>,
}

impl Mask {
    /// Whether a difference at this path says nothing.
    #[must_use]
    pub fn hides(&self, role: &CanonicalKey, path: &str) -> bool {
        self.entries.iter().any(|entry| entry.path == path && entry.object == *role)
    }

    /// Whether all objects of a role are left out.
    #[must_use]
    pub fn hides_object(&self, role: &CanonicalKey) -> bool {
        self.objects.contains(role)
    }

    /// Whether it hides more than this share of the leaves.
    #[must_use]
    pub fn exceeds(&self, budget_percent: u32) -> bool {
        self.leaves_hidden * 100 > self.leaves_total * budget_percent as usize
    }
}

impl Learned {
    /// The mask with all unstable places added, for finding what differs elsewhere.
    #[must_use]
    pub fn cautious(&self) -> Mask {
        let mut mask = self.mask.clone();
        for place in &self.unstable {
            if place.path.is_empty() {
                mask.objects.push(place.object.clone());
            } else {
                let Unstable { object, path, values } = place.clone();
                mask.entries.push(MaskEntry { object, path, values });
            }
        }
        mask
    }
}

/// Compares references with each other. The first one is the state that runs are compared with later.
#[must_use]
pub fn learn(references: &[Canonical]) -> Learned {
    let Some((first, others)) = references.split_first() else { return Learned::default() };
    let mut lone = BTreeSet::new();
    let mut differing: BTreeMap<(CanonicalKey, String), Vec<Value>> = BTreeMap::new();
    for other in others {
        let delta = compare(first, other, &Mask::default());
        lone.extend(delta.missing.iter().chain(&delta.extra).map(|entry| entry.object.role()));
        for change in delta.changed {
            let values = differing.entry((change.object.role(), change.path)).or_default();
            for value in [change.before, change.after] {
                let value = value.unwrap_or(Value::Null);
                if !values.contains(&value) {
                    values.push(value);
                }
            }
        }
    }
    let unstable_objects =
        lone.iter().map(|object| Unstable { object: object.clone(), path: String::new(), values: Vec::new() });
    let mut learned = Learned { unstable: unstable_objects.collect(), ..Learned::default() };
    for ((object, path), values) in differing {
        if lone.contains(&object) {
            continue;
        }
        if varies_by_chance(&path, &values) {
            learned.mask.leaves_hidden += hidden_leaves(first, &object, &values);
            learned.mask.entries.push(MaskEntry { object, path, values });
        } else {
            learned.unstable.push(Unstable { object, path, values });
        }
    }
    learned.mask.leaves_total = first.leaves();
    learned
}

fn varies_by_chance(path: &str, values: &[Value]) -> bool {
    let nature = if path.starts_with("spec") { Nature::Desired } else { Nature::Observed };
    let lists: Option<Vec<&Vec<Value>>> = values.iter().map(Value::as_array).collect();
    match lists {
        // Lists of drawn names, such as the members in a status: as many of them in each run.
        Some(lists) => {
            lists.iter().all(|list| list.len() == lists[0].len())
                && (0..lists[0].len())
                    .all(|index| vary_by_chance(nature, &lists.iter().map(|list| &list[index]).collect::<Vec<_>>()))
        }
        None => vary_by_chance(nature, &values.iter().collect::<Vec<_>>()),
    }
}

/// All objects of the role hide the place.
fn hidden_leaves(state: &Canonical, role: &CanonicalKey, values: &[Value]) -> usize {
    let objects = state.objects.keys().filter(|key| key.role() == *role).count();
    objects * values.first().map_or(1, leaves)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::normalise::{Comparison, Ruleset, canonicalise};

    fn state(more: &Value) -> Canonical {
        let mut object = json!({"apiVersion": "example.com/v1", "kind": "Demo", "metadata": {"name": "d"}});
        json_patch::merge(&mut object, more);
        canonicalise(&[object], Comparison::AcrossRuns, &Ruleset::default())
    }

    fn places(learned: &Learned) -> (Vec<&str>, Vec<&str>) {
        (
            learned.mask.entries.iter().map(|entry| entry.path.as_str()).collect(),
            learned.unstable.iter().map(|entry| entry.path.as_str()).collect(),
        )
    }

    #[test]
    fn chance_is_masked_and_choice_is_unstable() {
        for (one, two, masked, unstable) in [
            (
                json!({"status": {"id": "a1b2c3d4e5"}}),
                json!({"status": {"id": "f6a7b8c9d0"}}),
                vec!["status.id"],
                vec![],
            ),
            (json!({"status": {"tries": 1}}), json!({"status": {"tries": 2}}), vec!["status.tries"], vec![]),
            (json!({"spec": {"replicas": 1}}), json!({"spec": {"replicas": 2}}), vec![], vec!["spec.replicas"]),
            (
                json!({"status": {"phase": "Running"}}),
                json!({"status": {"phase": "Pending"}}),
                vec![],
                vec!["status.phase"],
            ),
            (json!({"status": {"phase": "Running"}}), json!({}), vec![], vec!["status.phase"]),
            (
                json!({"status": {"pods": ["w-a1b2c3d4"]}}),
                json!({"status": {"pods": ["w-e5f6a7b8"]}}),
                vec!["status.pods"],
                vec![],
            ),
            (json!({"status": {"pods": ["a"]}}), json!({"status": {"pods": ["a", "b"]}}), vec![], vec!["status.pods"]),
        ] {
            let learned = learn(&[state(&one), state(&two), state(&one)]);
            assert_eq!(places(&learned), (masked, unstable), "{one} and {two}");
        }
    }

    #[test]
    fn a_masked_place_is_not_compared_and_counts_against_the_budget() {
        let one = state(&json!({"status": {"id": "a1b2c3d4e5", "phase": "Ready"}}));
        let two = state(&json!({"status": {"id": "f6a7b8c9d0", "phase": "Ready"}}));
        let learned = learn(&[one.clone(), two]);
        let three = state(&json!({"status": {"id": "0a1b2c3d4e", "phase": "Failed"}}));
        let delta = compare(&one, &three, &learned.mask);
        assert_eq!(delta.changed.iter().map(|change| change.path.as_str()).collect::<Vec<_>>(), ["status.phase"]);
        assert_eq!((learned.mask.leaves_hidden, learned.mask.leaves_total), (1, 5));
        assert!(learned.mask.exceeds(10) && !learned.mask.exceeds(20));
    }

    #[test]
    fn objects_that_come_and_go_are_never_masked() {
        let none = canonicalise(&[], Comparison::AcrossRuns, &Ruleset::default());
        let learned = learn(&[state(&json!({})), none]);
        assert_eq!(places(&learned), (vec![], vec![""]));
        assert!(learned.mask.objects.is_empty() && learned.cautious().objects.len() == 1);
    }
}
