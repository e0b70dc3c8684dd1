//! Pairs objects and list elements, and finds what differs in them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{
    delta::{Changed, Delta, Lone},
    mask::Mask,
};
use crate::{
    normalise::{
        Canonical, CanonicalKey,
        path::{Path, Step, scalar},
    },
    object::owner_references,
};

/// Keys by which list elements are paired, the first that fits: all elements have it, and no two share it.
const LIST_KEYS: &[&[&str]] = &[
    &["containerPort", "protocol"],
    &["port", "protocol"],
    &["mountPath"],
    &["name"],
    &["kind", "name"],
    &["type"],
    &["key"],
    &["ip"],
    &["uid"],
    &["id"],
];

/// Owners of owners are followed so far; Deployments of custom resources of custom resources have five.
const GENERATIONS: usize = 8;

/// What `actual` has otherwise than `reference`, apart from what the mask hides.
#[must_use]
pub fn compare(reference: &Canonical, actual: &Canonical, mask: &Mask) -> Delta {
    let mut delta = Delta::default();
    let (before, after) = (by_role(reference), by_role(actual));
    let roles: BTreeSet<&CanonicalKey> = before.keys().chain(after.keys()).collect();
    for role in roles {
        if mask.hides_object(role) {
            continue;
        }
        let none = Vec::new();
        pair(role, before.get(role).unwrap_or(&none), after.get(role).unwrap_or(&none), mask, &mut delta);
    }
    owners_first(&mut delta.missing);
    owners_first(&mut delta.extra);
    delta.changed.sort_by_cached_key(|change| {
        let status =
            change.path == "status" || change.path.starts_with("status.") || change.path.starts_with("status[");
        (status, change.object.clone(), change.path.clone())
    });
    delta
}

/// What is missing or extra together with its owner is only a consequence, and stands behind it.
fn owners_first(lone: &mut [Lone]) {
    let mut depths = vec![0_usize; lone.len()];
    // One round for each generation; in a cycle of owners the depths only have to stop growing.
    for _ in 0..lone.len().min(GENERATIONS) {
        for at in 0..lone.len() {
            let owners = owner_references(&lone[at].value);
            let above = (0..lone.len()).filter(|other| owners.iter().any(|owner| is_owner(&lone[*other], owner)));
            depths[at] = above.map(|other| depths[other] + 1).max().unwrap_or(0);
        }
    }
    let mut keyed: Vec<(usize, Lone)> = depths.into_iter().zip(lone.iter().cloned()).collect();
    keyed.sort_by_key(|(depth, _)| *depth);
    for (place, (_, object)) in lone.iter_mut().zip(keyed) {
        *place = object;
    }
}

fn is_owner(lone: &Lone, owner: &Value) -> bool {
    let says = |field: &str, value: &str| owner.get(field).and_then(Value::as_str) == Some(value);
    says("kind", &lone.object.kind) && says("name", &lone.object.name)
}

type Members<'a> = Vec<(&'a CanonicalKey, &'a Value)>;

fn by_role(state: &Canonical) -> BTreeMap<CanonicalKey, Members<'_>> {
    let mut roles: BTreeMap<CanonicalKey, Members<'_>> = BTreeMap::new();
    for (key, value) in &state.objects {
        roles.entry(key.role()).or_default().push((key, value));
    }
    roles
}

/// Pairs the objects of one role: equal ones first, the rest in order; what is left over is missing or extra.
fn pair(role: &CanonicalKey, before: &Members<'_>, after: &Members<'_>, mask: &Mask, delta: &mut Delta) {
    let mut unpaired = after.clone();
    let mut rest = Vec::new();
    for (key, value) in before {
        let equal = unpaired.iter().position(|(_, other)| changes(role, key, value, other, mask).is_empty());
        match equal {
            Some(position) => drop(unpaired.remove(position)),
            None => rest.push((*key, *value)),
        }
    }
    let mut others = unpaired.into_iter();
    for (key, value) in rest {
        match others.next() {
            Some((_, other)) => delta.changed.extend(changes(role, key, value, other, mask)),
            None => delta.missing.push(Lone { object: key.clone(), value: value.clone() }),
        }
    }
    delta.extra.extend(others.map(|(key, value)| Lone { object: key.clone(), value: value.clone() }));
}

fn changes(role: &CanonicalKey, key: &CanonicalKey, before: &Value, after: &Value, mask: &Mask) -> Vec<Changed> {
    if before == after {
        return Vec::new();
    }
    let mut found = Vec::new();
    values(&Path::default(), Some(before), Some(after), &mut found);
    found
        .into_iter()
        .map(|(path, before, after)| (path.to_string(), before, after))
        .filter(|(path, ..)| !mask.hides(role, path))
        .map(|(path, before, after)| Changed { object: key.clone(), path, before, after })
        .collect()
}

type Found = Vec<(Path, Option<Value>, Option<Value>)>;

fn values(path: &Path, before: Option<&Value>, after: Option<&Value>, found: &mut Found) {
    match (before, after) {
        (a, b) if a == b => {}
        (Some(Value::Object(a)), Some(Value::Object(b))) => maps(path, a, b, found),
        (Some(Value::Array(a)), Some(Value::Array(b))) => lists(path, a, b, found),
        // One more or one less map is shown key by key, so that masks and readers see the same paths.
        (Some(Value::Object(a)), None) if is_section(path) => maps(path, a, &Map::new(), found),
        (None, Some(Value::Object(b))) if is_section(path) => maps(path, &Map::new(), b, found),
        _ => found.push((path.clone(), before.cloned(), after.cloned())),
    }
}

/// `status`, `metadata.annotations` and the like: holders, whose presence itself says nothing.
fn is_section(path: &Path) -> bool {
    let keys: Vec<&str> =
        path.0.iter().filter_map(|step| if let Step::Key(key) = step { Some(key.as_str()) } else { None }).collect();
    matches!(keys.as_slice(), ["status" | "data" | "spec"] | ["metadata", "annotations" | "labels"])
}

fn maps(path: &Path, before: &Map<String, Value>, after: &Map<String, Value>, found: &mut Found) {
    let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for key in keys {
        values(&path.join(Step::Key(key.clone())), before.get(key), after.get(key), found);
    }
}

fn lists(path: &Path, before: &[Value], after: &[Value], found: &mut Found) {
    let Some(keys) = list_keys(before, after) else {
        if before.len() != after.len() || before.iter().chain(after).all(|v| !v.is_object() && !v.is_array()) {
            // Without keys, positions mean nothing once the length differs: the list is shown as a whole.
            found.push((path.clone(), Some(before.into()), Some(after.into())));
        } else {
            for (index, (a, b)) in before.iter().zip(after).enumerate() {
                values(&path.join(Step::Index(index)), Some(a), Some(b), found);
            }
        }
        return;
    };
    let name = |element: &Value| -> Vec<(String, String)> {
        keys.iter().map(|key| ((*key).to_owned(), element.get(*key).map(scalar).unwrap_or_default())).collect()
    };
    let (left, right): (Vec<_>, Vec<_>) = (before.iter().map(name).collect(), after.iter().map(name).collect());
    let order_before: Vec<&Vec<_>> = left.iter().filter(|name| right.contains(name)).collect();
    let order_after: Vec<&Vec<_>> = right.iter().filter(|name| left.contains(name)).collect();
    if order_before != order_after {
        let shown =
            |names: &[&Vec<(String, String)>]| Value::from(names.iter().map(|name| text(name)).collect::<Vec<_>>());
        found.push((path.join(Step::Key("order".into())), Some(shown(&order_before)), Some(shown(&order_after))));
    }
    for (name, a) in left.iter().zip(before) {
        let b = right.iter().position(|other| other == name).map(|position| &after[position]);
        values(&path.join(Step::Where(name.clone())), Some(a), b, found);
    }
    for (name, b) in right.iter().zip(after).filter(|(name, _)| !left.contains(name)) {
        values(&path.join(Step::Where(name.clone())), None, Some(b), found);
    }
}

fn text(name: &[(String, String)]) -> String {
    name.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join("/")
}

fn list_keys(before: &[Value], after: &[Value]) -> Option<&'static [&'static str]> {
    if before.is_empty() && after.is_empty() {
        return None;
    }
    LIST_KEYS.iter().copied().find(|keys| names_all(before, keys) && names_all(after, keys))
}

fn names_all(list: &[Value], keys: &[&str]) -> bool {
    let mut seen = BTreeSet::new();
    list.iter().all(|element| {
        let name: Option<Vec<String>> = keys
            .iter()
            .map(|key| element.get(*key).filter(|value| !value.is_object() && !value.is_array()).map(scalar))
            .collect();
        name.is_some_and(|name| seen.insert(name))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::normalise::{Comparison, Ruleset, canonicalise};

    fn delta(before: &[Value], after: &[Value]) -> Delta {
        let canonical = |objects| canonicalise(objects, Comparison::WithinRun, &Ruleset::default());
        compare(&canonical(before), &canonical(after), &Mask::default())
    }

    fn demo(more: Value) -> Value {
        let mut object = json!({"apiVersion": "v1", "kind": "Demo", "metadata": {"name": "d"}});
        json_patch::merge(&mut object, &more);
        object
    }

    #[test]
    fn paths_name_list_elements_by_key() {
        for (before, after, paths) in [
            (json!({"spec": {"n": 1}}), json!({"spec": {"n": 2}}), vec!["spec.n"]),
            (
                json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b"}]}}),
                json!({"spec": {"containers": [{"name": "c"}, {"name": "a", "image": "2"}, {"name": "b"}]}}),
                vec!["spec.containers[name=a].image", "spec.containers[name=c]"],
            ),
            (
                json!({"spec": {"env": [{"name": "A"}, {"name": "B"}]}}),
                json!({"spec": {"env": [{"name": "B"}, {"name": "A"}]}}),
                vec!["spec.env.order"],
            ),
            (
                json!({"spec": {"ports": [{"containerPort": 80, "protocol": "TCP"}]}}),
                json!({"spec": {"ports": [{"containerPort": 80, "protocol": "TCP", "name": "web"}]}}),
                vec!["spec.ports[containerPort=80,protocol=TCP].name"],
            ),
            (json!({"spec": {"args": ["a"]}}), json!({"spec": {"args": ["a", "b"]}}), vec!["spec.args"]),
            (json!({}), json!({"metadata": {"annotations": {"a.b/c": "1"}}}), vec![r#"metadata.annotations["a.b/c"]"#]),
            (
                json!({"status": {"a": 1}, "spec": {"z": 1}}),
                json!({"status": {"a": 2}, "spec": {"z": 2}}),
                vec!["spec.z", "status.a"],
            ),
            (json!({"status": {"a": 1}}), json!({"status": {"a": 1}}), vec![]),
        ] {
            let delta = delta(&[demo(before)], &[demo(after)]);
            let found: Vec<&str> = delta.changed.iter().map(|change| change.path.as_str()).collect();
            assert_eq!(found, paths);
        }
    }

    #[test]
    fn sets_of_objects_are_compared() {
        let other = json!({"apiVersion": "v1", "kind": "Demo", "metadata": {"name": "e"}});
        let difference = delta(&[demo(json!({}))], &[other]);
        assert_eq!(difference.missing[0].object.to_string(), "Demo d");
        assert_eq!(difference.extra[0].object.to_string(), "Demo e");
        assert_eq!(difference.len(), 2);
    }

    #[test]
    fn owners_stand_before_what_they_own() {
        let owned = |kind: &str, owner: &str| {
            json!({"apiVersion": "v1", "kind": kind, "metadata": {
                "name": "d", "ownerReferences": [{"kind": owner, "name": "d", "uid": owner}],
            }})
        };
        // By kind the order would be Group, Pod, Set.
        let group = owned("Group", "Elsewhere");
        let difference = delta(&[owned("Pod", "Set"), owned("Set", "Group"), group], &[]);
        let kinds: Vec<&str> = difference.missing.iter().map(|lone| lone.object.kind.as_str()).collect();
        assert_eq!(kinds, ["Group", "Set", "Pod"]);
        let circle = delta(&[owned("Pod", "Set"), owned("Set", "Pod")], &[]);
        assert_eq!(circle.missing.len(), 2);
    }
}
