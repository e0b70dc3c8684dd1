//! What one object changed against another.
//!
//! In: two values of one shape. Out: the paths added, modified and removed. Guaranteed: an atomic value is one path;
//! an added or removed item, member or struct is a path besides its parts. Deliberately not done: the order of lists.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    fieldset::{FieldSet, PathElement},
    shape::{Form, ListForm, MapForm, Relation, Shape},
    value::equal,
};

/// The differences from an old to a new object.
#[derive(Debug, Clone, Default)]
pub(super) struct Comparison {
    pub(super) removed: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) added: FieldSet,
}

/// How the compared value itself, as opposed to its parts, changed.
#[derive(Debug, Clone, Copy, Default)]
struct Mark {
    removed: bool,
    modified: bool,
    added: bool,
}

impl Comparison {
    fn absorb(&mut self, element: &PathElement, mark: Mark, below: Self) {
        self.removed.put(element.clone(), mark.removed, below.removed);
        self.modified.put(element.clone(), mark.modified, below.modified);
        self.added.put(element.clone(), mark.added, below.added);
    }

    /// Without the fields that the written endpoint resets.
    pub(super) fn excluding(self, reset: &FieldSet) -> Self {
        Self {
            removed: self.removed.recursive_difference(reset),
            modified: self.modified.recursive_difference(reset),
            added: self.added.recursive_difference(reset),
        }
    }
}

/// The differences from `old` to `new`.
pub(super) fn compare(shape: Shape<'_>, old: &Value, new: &Value) -> Comparison {
    at(shape, Some(old), Some(new)).1
}

fn at(shape: Shape<'_>, old: Option<&Value>, new: Option<&Value>) -> (Mark, Comparison) {
    let (of_old, of_new) = (shape.forms().narrowed(old), shape.forms().narrowed(new));
    let mut out = Comparison::default();
    let mut mark = Mark::default();
    if new.is_none() {
        follow(of_old.chosen(), old, new, &mut mark, &mut out);
    } else {
        // A value that changed its form loses the fields of the old form and gains those of the new one.
        if old.is_some() && !of_old.same(&of_new) {
            follow(of_old.chosen(), old, new, &mut mark, &mut out);
        }
        follow(of_new.chosen(), old, new, &mut mark, &mut out);
    }
    mark.added |= old.is_none();
    mark.removed |= new.is_none();
    (mark, out)
}

fn follow(form: Form<'_>, old: Option<&Value>, new: Option<&Value>, mark: &mut Mark, out: &mut Comparison) {
    let leaf = match form {
        Form::Scalar(_) => true,
        Form::Map(map) => {
            let empty = |v: Option<&Value>| v.and_then(Value::as_object).is_none_or(serde_json::Map::is_empty);
            map.atomic || (empty(old) && empty(new))
        }
        Form::List(list) => {
            let empty = |v: Option<&Value>| v.and_then(Value::as_array).is_none_or(Vec::is_empty);
            list.relation == Relation::Atomic || (empty(old) && empty(new))
        }
    };
    match (form, old, new) {
        (_, Some(a), Some(b)) if leaf => mark.modified |= !equal(a, b),
        (_, _, _) if leaf => {}
        (Form::Map(map), _, _) => members(map, old, new, out),
        (Form::List(list), _, _) => items(list, old, new, out),
        (Form::Scalar(_), _, _) => {}
    }
}

fn members(map: MapForm<'_>, old: Option<&Value>, new: Option<&Value>, out: &mut Comparison) {
    let old = old.and_then(Value::as_object);
    let new = new.and_then(Value::as_object);
    let mut visit = |name: &String, a: Option<&Value>, b: Option<&Value>| {
        let (mark, below) = at(map.child(name).0, a, b);
        out.absorb(&PathElement::field(name), mark, below);
    };
    for (name, value) in old.into_iter().flatten() {
        visit(name, Some(value), new.and_then(|m| m.get(name)));
    }
    for (name, value) in new.into_iter().flatten() {
        if old.is_none_or(|m| !m.contains_key(name)) {
            visit(name, None, Some(value));
        }
    }
}

fn items(list: ListForm<'_>, old: Option<&Value>, new: Option<&Value>, out: &mut Comparison) {
    let mut groups: BTreeMap<PathElement, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
    for item in old.and_then(Value::as_array).into_iter().flatten() {
        if let Some(element) = list.element_of(item) {
            groups.entry(element).or_default().0.push(item);
        }
    }
    for item in new.and_then(Value::as_array).into_iter().flatten() {
        if let Some(element) = list.element_of(item) {
            groups.entry(element).or_default().1.push(item);
        }
    }
    for (element, (before, after)) in &groups {
        match (before.as_slice(), after.as_slice()) {
            (a @ ([] | [_]), b @ ([] | [_])) => {
                let (mark, below) = at(list.element, a.first().copied(), b.first().copied());
                out.absorb(element, mark, below);
            }
            // Repeated items are compared as one atomic value; leaving or entering that state replaces all of them.
            ([_, _, ..], [_, _, ..]) => {
                let same = before.len() == after.len() && before.iter().zip(after).all(|(a, b)| equal(a, b));
                out.absorb(element, Mark { modified: !same, ..Mark::default() }, Comparison::default());
            }
            ([_, _, ..], rest) => {
                if let Some(one) = rest.first() {
                    let (mark, below) = at(list.element, None, Some(one));
                    out.absorb(element, mark, below);
                }
                out.absorb(element, Mark { removed: true, ..Mark::default() }, Comparison::default());
            }
            (rest, _) => {
                if let Some(one) = rest.first() {
                    let (mark, below) = at(list.element, Some(one), None);
                    out.absorb(element, mark, below);
                }
                out.absorb(element, Mark { added: true, ..Mark::default() }, Comparison::default());
            }
        }
    }
}
