//! Removal of what a manager applied before and does not apply any more.
//!
//! In: the merged object, the manager's previous set, and every set that now owns something. Out: the object without
//! the fields that only the previous set owned. Guaranteed: what another manager owns stays, and so does what the
//! previous set never held. Deliberately not done: conversion between versions; all sets are read in one shape.

use serde_json::{Map, Value};

use super::{
    collect::collect,
    fieldset::{FieldSet, PathElement},
    shape::{Form, MapForm, Relation, Shape},
};

/// `merged` without what only `last` owned; `owned` is the union of all present sets, the new one included.
pub(super) fn prune(shape: Shape<'_>, merged: Value, last: &FieldSet, owned: &FieldSet) -> Value {
    if last.is_empty() {
        return merged;
    }
    let last = with_named(shape, last);
    let all = with_named(shape, &collect(shape, &merged));
    let stripped = remove(shape, &merged, &last);
    let kept = with_named(shape, &collect(shape, &stripped)).union(&with_named(shape, owned));
    let with_owned = remove(shape, &merged, &all.difference(&kept));
    // A removed field takes its parts with it; parts that the manager never applied have to come back.
    let left = with_named(shape, &collect(shape, &with_owned));
    remove(shape, &merged, &all.difference(&left).intersection(&last))
}

/// The set with the declared fields that lead to its paths, which are members only for removal.
fn with_named(shape: Shape<'_>, set: &FieldSet) -> FieldSet {
    let forms = shape.forms();
    let (map, list) = (forms.map(), forms.list());
    let mut members = set.members.clone();
    let children = set.children.iter().map(|(element, below)| {
        let inner = match (element, map, list) {
            (PathElement::Field(name), Some(map), _) => {
                let (inner, declared) = map.child(name);
                if declared {
                    members.insert(element.clone());
                }
                inner
            }
            (PathElement::Key(_), _, Some(list)) => list.element,
            _ => Shape::Scalar,
        };
        (element.clone(), with_named(inner, below))
    });
    let children = children.collect();
    FieldSet { members, children }
}

/// `value` without the paths of `gone`; a value that loses all its parts becomes null.
fn remove(shape: Shape<'_>, value: &Value, gone: &FieldSet) -> Value {
    match (shape.forms().narrowed(Some(value)).chosen(), value) {
        (Form::Scalar(_), _) => value.clone(),
        (Form::Map(map), Value::Object(fields)) if !map.atomic => remove_members(map, fields, gone),
        (Form::List(list), Value::Array(items)) if list.relation != Relation::Atomic => {
            let kept = items.iter().filter_map(|item| {
                let Some(element) = list.element_of(item) else { return Some(item.clone()) };
                if gone.members.contains(&element) {
                    return None;
                }
                Some(
                    gone.children.get(&element).map_or_else(|| item.clone(), |below| remove(list.element, item, below)),
                )
            });
            let kept: Vec<Value> = kept.collect();
            if kept.is_empty() { Value::Null } else { Value::Array(kept) }
        }
        _ => Value::Null,
    }
}

fn remove_members(map: MapForm<'_>, fields: &Map<String, Value>, gone: &FieldSet) -> Value {
    let kept = fields.iter().filter_map(|(name, part)| {
        let element = PathElement::field(name.as_str());
        if gone.members.contains(&element) {
            return None;
        }
        let below = gone.children.get(&element).filter(|set| !set.is_empty());
        let value = below.map_or_else(|| part.clone(), |set| remove(map.child(name).0, part, set));
        Some((name.clone(), value))
    });
    let kept: Map<String, Value> = kept.collect();
    if kept.is_empty() { Value::Null } else { Value::Object(kept) }
}
