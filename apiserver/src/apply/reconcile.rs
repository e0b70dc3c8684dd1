//! Stored sets brought in line with a schema that changed since they were written.
//!
//! In: a stored set and the present shape. Out: the same set, where paths into a value that has become atomic are
//! replaced by the value's own path. Guaranteed: fields that the schema does not know are left alone. Deliberately
//! not done: the way from atomic to granular, since the parts that the owner meant are not known.

use super::{
    fieldset::{FieldSet, PathElement},
    shape::{Form, ListForm, MapForm, Relation, Shape},
};

/// `set`, read in `shape`.
pub(super) fn reconcile(shape: Shape<'_>, set: &FieldSet) -> FieldSet {
    match at(shape, Some(set), false) {
        Now::Leaf => set.clone(),
        Now::Below(set) => set,
    }
}

enum Now {
    /// The value has become one leaf.
    Leaf,
    Below(FieldSet),
}

/// `leaf` says that the set already holds the value itself and nothing below it.
fn at(shape: Shape<'_>, set: Option<&FieldSet>, leaf: bool) -> Now {
    let same = || Now::Below(set.cloned().unwrap_or_default());
    match shape.forms().chosen() {
        Form::Scalar(_) => same(),
        Form::Map(map) if map.is_deduced() => same(),
        Form::Map(map) if map.atomic && !leaf => {
            if set.is_some_and(|s| !s.is_empty()) {
                Now::Leaf
            } else {
                same()
            }
        }
        Form::List(list) if list.relation == Relation::Atomic && !leaf => Now::Leaf,
        Form::Map(map) => set.map_or_else(same, |s| parts(s, |element| field_shape(map, element))),
        Form::List(list) => set.map_or_else(same, |s| parts(s, |_| Some(item_shape(list)))),
    }
}

fn field_shape<'a>(map: MapForm<'a>, element: &PathElement) -> Option<Shape<'a>> {
    match element {
        PathElement::Field(name) => Some(map.child(name).0).filter(|shape| !matches!(shape, Shape::Undeclared)),
        _ => None,
    }
}

fn item_shape(list: ListForm<'_>) -> Shape<'_> {
    list.element
}

fn parts<'a>(set: &FieldSet, shape_of: impl Fn(&PathElement) -> Option<Shape<'a>>) -> Now {
    let mut out = set.clone();
    for element in set.members.union(&set.children.keys().cloned().collect()) {
        let Some(shape) = shape_of(element) else { continue };
        let below = set.children.get(element);
        let leaf = set.members.contains(element) && below.is_none();
        match at(shape, below, leaf) {
            Now::Leaf => {
                out.children.remove(element);
                out.members.insert(element.clone());
            }
            Now::Below(inner) if below.is_some() => {
                out.children.insert(element.clone(), inner);
            }
            Now::Below(_) => {}
        }
    }
    Now::Below(out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::{Definitions, Schema, TypeRef};

    #[test]
    fn paths_into_a_value_that_became_atomic_fold_into_it() {
        let definitions = Definitions::default();
        let schema = Schema::parse(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "m": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": {"type": "string"}}},
            "l": {"type": "array", "items": {"type": "string"}},
            "g": {"type": "object", "additionalProperties": {"type": "string"}}}}}}));
        let shape = Shape::root(Some(TypeRef::new(&definitions, &schema)));
        let stored = json!({"f:spec": {"f:m": {"f:a": {}}, "f:l": {"v:\"x\"": {}}, "f:g": {".": {}, "f:k": {}}, "f:gone": {"f:z": {}}}});
        let now = reconcile(shape, &FieldSet::from_json(&stored).unwrap());
        let expected = json!({"f:spec": {"f:m": {}, "f:l": {}, "f:g": {".": {}, "f:k": {}}, "f:gone": {"f:z": {}}}});
        assert_eq!(now.to_json(), expected);
    }
}
