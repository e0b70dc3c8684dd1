//! The applied configuration laid over the live object.
//!
//! In: two values of one shape. Out: the live value with everything the configuration names. Guaranteed: atomic values
//! come whole from the configuration; items of sets and keyed lists keep the configuration's order among themselves
//! and the live order otherwise. Deliberately not done: removal, which [`super::prune`] does.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    fieldset::PathElement,
    shape::{Form, ListForm, MapForm, Relation, Shape},
};

/// `applied` over `live`; `None` if nothing is left.
pub(super) fn merge(shape: Shape<'_>, live: Option<&Value>, applied: Option<&Value>) -> Option<Value> {
    let of = applied.or(live);
    let forms = match applied {
        Some(_) => shape.forms().narrowed(applied),
        None => shape.forms().narrowed(live),
    };
    match forms.chosen() {
        Form::Map(map) => {
            let (l, a) = (live.and_then(Value::as_object), applied.and_then(Value::as_object));
            if map.atomic || (l.is_none_or(Map::is_empty) && a.is_none_or(Map::is_empty)) {
                return of.cloned();
            }
            members(map, l, a)
        }
        Form::List(list) => {
            let (l, a) = (live.and_then(Value::as_array), applied.and_then(Value::as_array));
            if list.relation == Relation::Atomic || (l.is_none_or(Vec::is_empty) && a.is_none_or(Vec::is_empty)) {
                return of.cloned();
            }
            items(list, l.map_or(&[], Vec::as_slice), a.map_or(&[], Vec::as_slice))
        }
        Form::Scalar(_) => of.cloned(),
    }
}

fn members(map: MapForm<'_>, live: Option<&Map<String, Value>>, applied: Option<&Map<String, Value>>) -> Option<Value> {
    let mut out = Map::new();
    let names = live.into_iter().chain(applied).flat_map(Map::keys);
    for name in names {
        if out.contains_key(name) {
            continue;
        }
        let part = merge(map.child(name).0, live.and_then(|m| m.get(name)), applied.and_then(|m| m.get(name)));
        if let Some(value) = part {
            out.insert(name.clone(), value);
        }
    }
    (!out.is_empty()).then_some(Value::Object(out))
}

/// The items of a list with their identities; a repeated identity stands for null, as nothing merges into it.
struct Indexed<'a> {
    order: Vec<(PathElement, &'a Value)>,
    by_element: BTreeMap<PathElement, Option<&'a Value>>,
}

impl<'a> Indexed<'a> {
    fn new(list: ListForm<'_>, items: &'a [Value]) -> Self {
        let order: Vec<_> = items.iter().filter_map(|item| Some((list.element_of(item)?, item))).collect();
        let mut by_element = BTreeMap::new();
        for (element, item) in &order {
            by_element.entry(element.clone()).and_modify(|known| *known = None).or_insert(Some(*item));
        }
        Self { order, by_element }
    }

    fn has(&self, element: &PathElement) -> bool {
        self.by_element.contains_key(element)
    }

    fn value(&self, element: &PathElement) -> Option<&'a Value> {
        // A repeated item has no one value; null merges with anything and is replaced by it.
        self.by_element.get(element).map(|v| v.unwrap_or(&Value::Null))
    }
}

/// Walks both lists at once: items of the live list alone stay where they are relative to shared ones.
fn items(list: ListForm<'_>, live: &[Value], applied: &[Value]) -> Option<Value> {
    let (live, applied) = (Indexed::new(list, live), Indexed::new(list, applied));
    let mut shared = applied.order.iter().map(|(e, _)| e).filter(|e| live.has(e));
    let mut next_shared = shared.next();
    let mut done: std::collections::BTreeSet<&PathElement> = std::collections::BTreeSet::new();
    let mut out: Vec<Value> = Vec::new();
    let (mut l, mut a) = (0, 0);
    while l < live.order.len() || a < applied.order.len() {
        if let (Some((at_live, _)), Some((at_applied, _))) = (live.order.get(l), applied.order.get(a)) {
            if at_live == at_applied {
                done.insert(at_live);
                out.extend(merge(list.element, live.value(at_live), applied.value(at_live)));
                (l, a) = (l + 1, a + 1);
                next_shared = shared.next();
                continue;
            }
            if applied.has(at_live) && next_shared.is_some_and(|next| next != at_live) {
                // The configuration has this item at another place.
                l += 1;
                continue;
            }
        }
        if let Some((element, item)) = live.order.get(l) {
            if !applied.has(element) {
                out.extend(merge(list.element, Some(item), None));
                l += 1;
                continue;
            }
            if done.contains(element) {
                l += 1;
            }
        }
        if let Some((element, _)) = applied.order.get(a) {
            done.insert(element);
            out.extend(merge(list.element, live.value(element), applied.value(element)));
            a += 1;
            if next_shared == Some(element) {
                next_shared = shared.next();
            }
        }
    }
    (!out.is_empty()).then_some(Value::Array(out))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::{Definitions, Schema, TypeRef};

    fn merged(schema: Value, live: Value, applied: Value) -> Value {
        let definitions = Definitions::default();
        let schema = Schema::parse(&schema);
        merge(Shape::root(Some(TypeRef::new(&definitions, &schema))), Some(&live), Some(&applied)).unwrap()
    }

    fn list(kind: &str) -> Value {
        json!({"type": "object", "properties": {"l": {"type": "array", "x-kubernetes-list-type": kind,
            "x-kubernetes-list-map-keys": ["n"],
            "items": if kind == "map" { json!({"type": "object", "properties": {"n": {"type": "string"}, "v": {"type": "integer"}}}) }
                else { json!({"type": "string"}) }}}})
    }

    #[test]
    fn set_order_follows_the_configuration_around_live_items() {
        let result = merged(list("set"), json!({"l": ["a", "x", "b"]}), json!({"l": ["b", "a", "c"]}));
        assert_eq!(result, json!({"l": ["x", "b", "a", "c"]}));
    }

    #[test]
    fn keyed_items_merge_and_atomic_lists_replace() {
        let live = json!({"l": [{"n": "a", "v": 1}, {"n": "b", "v": 2}]});
        let keyed = merged(list("map"), live.clone(), json!({"l": [{"n": "b", "v": 3}]}));
        assert_eq!(keyed, json!({"l": [{"n": "a", "v": 1}, {"n": "b", "v": 3}]}));
        assert_eq!(merged(json!({"type": "object"}), live, json!({"l": [1]})), json!({"l": [1]}));
    }

    #[test]
    fn repeated_live_items_give_way_to_an_applied_one() {
        let result = merged(list("set"), json!({"l": ["a", "b", "a"]}), json!({"l": ["a"]}));
        assert_eq!(result, json!({"l": ["a", "b"]}));
    }
}
