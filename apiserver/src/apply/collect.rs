//! The fields of one object.
//!
//! In: a shape and a value of it. Out: the set of the paths that writing the value owns. Guaranteed: atomic lists and
//! maps are one path; items and map members are paths beside their parts, declared fields only when they are leaves.
//! Deliberately not done: errors; items without identity are left out, since validation has refused them before.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    fieldset::{FieldSet, PathElement},
    shape::{Form, ListForm, MapForm, Relation, Shape},
};

/// The fields of `value`.
pub(super) fn collect(shape: Shape<'_>, value: &Value) -> FieldSet {
    at(shape, value).1
}

/// Whether the value itself is a leaf, and what lies below it.
fn at(shape: Shape<'_>, value: &Value) -> (bool, FieldSet) {
    match shape.forms().narrowed(Some(value)).chosen() {
        Form::Scalar(_) => (true, FieldSet::default()),
        Form::Map(map) if map.atomic => (true, FieldSet::default()),
        Form::Map(map) => (false, members(map, value)),
        Form::List(list) if list.relation == Relation::Atomic => (true, FieldSet::default()),
        Form::List(list) => (false, items(list, value)),
    }
}

fn members(map: MapForm<'_>, value: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    for (name, part) in value.as_object().into_iter().flatten() {
        let (shape, declared) = map.child(name);
        let (leaf, below) = at(shape, part);
        let empty = part.is_null() || part.as_object().is_some_and(serde_json::Map::is_empty);
        set.put(PathElement::field(name), leaf || empty || !declared, below);
    }
    set
}

fn items(list: ListForm<'_>, value: &Value) -> FieldSet {
    let known: Vec<(PathElement, &Value)> =
        value.as_array().into_iter().flatten().filter_map(|item| Some((list.element_of(item)?, item))).collect();
    let mut seen = BTreeSet::new();
    let repeated: BTreeSet<PathElement> = known.iter().map(|(e, _)| e).filter(|e| !seen.insert(*e)).cloned().collect();
    let mut set = FieldSet::default();
    for (element, item) in &known {
        // Repeated items cannot be told apart: they are owned together, as one leaf.
        let below = if repeated.contains(element) { FieldSet::default() } else { at(list.element, item).1 };
        set.put(element.clone(), true, below);
    }
    set
}
