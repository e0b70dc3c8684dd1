//! Strategic merge patch: a merge patch that merges lists by the type's merge keys.
//!
//! In: a document, a patch with directives, and the type. Out: the patched document. Guaranteed: `$patch`,
//! `$deleteFromPrimitiveList`, `$setElementOrder` and `$retainKeys` work as on the real server, including what it
//! refuses (`$patch: merge`). Parts without schema merge as in a JSON merge patch. Deliberately not done: computing patches.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{json::unprocessable, order::interleave};
use crate::{schema::TypeRef, status::ApiError};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
const ELEMENT_ORDER: &str = "$setElementOrder";

type Fields = Map<String, Value>;

/// What a failure of the real server's merge turns into.
enum Refusal {
    BadRequest(&'static str),
    ListOfLists,
    /// The real server does not expect these and answers 500 with the message alone.
    Internal(String),
}

/// Applies a strategic merge patch.
///
/// # Errors
/// 400 for a patch that is no object or has malformed directives, 422 for lists of lists, 500 for patches that the real
/// server fails on, such as items without their merge key.
pub fn strategic_merge(current: &Value, patch: &Value, ty: TypeRef<'_>) -> Result<Value, ApiError> {
    let Value::Object(changes) = patch else { return Err(ApiError::bad_request("invalid JSON document")) };
    let fields = current.as_object().cloned().unwrap_or_default();
    match merge_maps(fields, changes.clone(), Some(ty)) {
        Ok(merged) => Ok(Value::Object(merged)),
        Err(Refusal::BadRequest(message)) => Err(ApiError::bad_request(message)),
        Err(Refusal::ListOfLists) => Err(unprocessable()),
        Err(Refusal::Internal(message)) => Err(ApiError::new(500, "", message)),
    }
}

/// How a list merges.
#[derive(Clone, Copy)]
struct ListRule<'a> {
    merged: bool,
    key: Option<&'a str>,
    item: Option<TypeRef<'a>>,
}

fn list_rule<'a>(ty: Option<TypeRef<'a>>, name: &str) -> ListRule<'a> {
    let node = ty.and_then(|t| t.field_node(name));
    ListRule {
        merged: node.is_some_and(|n| n.patch_strategy.split(',').any(|s| s == "merge")),
        key: node.and_then(|n| n.patch_merge_key.as_deref()),
        item: ty.and_then(|t| t.field(name)).and_then(TypeRef::items),
    }
}

fn merge_maps(mut original: Fields, mut patch: Fields, ty: Option<TypeRef<'_>>) -> Result<Fields, Refusal> {
    if let Some(directive) = patch.remove(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => Ok(patch),
            Some("delete") => Ok(Fields::new()),
            _ => Err(Refusal::Internal(format!("unknown patch type: {directive} in map"))),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    order_elements(&mut original, &mut patch, ty)?;
    for (name, change) in patch {
        match name.strip_prefix(DELETE_FROM) {
            Some(rest) => {
                let bad = "invalid patch format of primitive list";
                let list = rest.strip_prefix('/').ok_or(Refusal::BadRequest(bad))?;
                delete_items(&mut original, list, change)?;
            }
            None => merge_field(&mut original, name, change, ty)?,
        }
    }
    Ok(original)
}

fn merge_field(original: &mut Fields, name: String, change: Value, ty: Option<TypeRef<'_>>) -> Result<(), Refusal> {
    if change.is_null() {
        original.remove(&name);
        return Ok(());
    }
    let merged = match (original.remove(&name), change) {
        (Some(Value::Object(old)), Value::Object(new)) => {
            let replaced = ty.and_then(|t| t.field_node(&name)).is_some_and(|n| n.patch_strategy == "replace");
            let below = ty.and_then(|t| t.field(&name));
            Some(Value::Object(if replaced { new } else { merge_maps(old, new, below)? }))
        }
        (Some(Value::Array(old)), Value::Array(new)) => {
            let rule = list_rule(ty, &name);
            Some(Value::Array(if rule.merged { merge_lists(old, new, rule)? } else { new }))
        }
        (_, new) => without_directives(without_nulls(new)),
    };
    if let Some(value) = merged {
        original.insert(name, value);
    }
    Ok(())
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields.into_iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k, without_nulls(v))).collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

/// What a value adds where there was none: parts that only direct a merge vanish.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.contains_key(DIRECTIVE) => None,
        Value::Object(fields) => {
            let kept = fields.into_iter().filter_map(|(k, v)| Some((k, without_directives(v)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(without_directives).collect())),
        other => Some(other),
    }
}

/// `$retainKeys`: drops every field that the patch does not list.
fn retain_keys(original: &mut Fields, patch: &mut Fields) -> Result<(), Refusal> {
    let bad = Refusal::BadRequest("invalid patch format of retainKeys");
    let kept = match patch.remove(RETAIN_KEYS) {
        None => return Ok(()),
        Some(Value::Array(kept)) => kept,
        Some(_) => return Err(bad),
    };
    let keeps = |name: &str| kept.iter().any(|k| k.as_str() == Some(name));
    let directive = |name: &str| name.starts_with(DELETE_FROM) || name.starts_with(ELEMENT_ORDER);
    if patch.iter().any(|(name, v)| !v.is_null() && !directive(name) && !keeps(name)) {
        return Err(bad);
    }
    original.retain(|name, _| keeps(name));
    Ok(())
}

/// `$deleteFromPrimitiveList/list`: removes scalars from a list.
fn delete_items(original: &mut Fields, list: &str, gone: Value) -> Result<(), Refusal> {
    if gone.is_null() {
        original.remove(list);
        return Ok(());
    }
    let (Some(Value::Array(items)), Value::Array(gone)) = (original.get_mut(list), gone) else { return Ok(()) };
    if items.is_empty() && gone.is_empty() {
        return Ok(());
    }
    if element_kind(items.iter().chain(&gone))? == Kind::Map {
        return Err(Refusal::Internal("cannot merge lists without merge key".to_owned()));
    }
    items.retain(|item| !gone.contains(item));
    Ok(())
}

/// `$setElementOrder/list`: merges the lists it names, in that order.
fn order_elements(original: &mut Fields, patch: &mut Fields, ty: Option<TypeRef<'_>>) -> Result<(), Refusal> {
    let bad = || Refusal::BadRequest("invalid patch format of setElementOrder list");
    let directives: Vec<String> = patch.keys().filter(|k| k.starts_with(ELEMENT_ORDER)).cloned().collect();
    for directive in directives {
        let order = patch.remove(&directive);
        let name = directive.get(ELEMENT_ORDER.len()..).and_then(|s| s.strip_prefix('/')).ok_or_else(bad)?;
        let not_list = || Refusal::Internal("expected a []interface {}, but received another type".to_owned());
        let order = order.as_ref().and_then(Value::as_array).ok_or_else(not_list)?;
        let list = |fields: &Fields| match fields.get(name) {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items.clone())),
            Some(_) => Err(not_list()),
        };
        let rule = list_rule(ty, name);
        let (old, new) = (list(original)?, list(patch)?);
        check_order(new.as_deref().unwrap_or_default(), order, rule.key)?;
        let server_order = old.clone().unwrap_or_default();
        let kinds = element_kind(server_order.iter().chain(new.iter().flatten()));
        let merged = match (old, new) {
            (None, None) => continue,
            (Some(old), None) => old,
            (None, Some(new)) => match without_directives(Value::Array(new)) {
                Some(Value::Array(items)) => items,
                _ => continue,
            },
            (Some(old), Some(new)) if rule.merged => merge_lists(old, new, rule)?,
            (Some(_), Some(new)) => new,
        };
        let (named, others) = partition(merged, order, rule.key)?;
        if kinds? == Kind::Map && rule.key.is_none() {
            return Err(Refusal::Internal("cannot order lists without merge key".to_owned()));
        }
        all_identified(order, rule.key)?;
        all_identified(&server_order, rule.key)?;
        original.insert(name.to_owned(), interleave(named, others, order, &server_order, rule.key).into());
        patch.remove(name);
    }
    Ok(())
}

/// The patch must list its items in the order that it sets.
fn check_order(patch: &[Value], order: &[Value], key: Option<&str>) -> Result<(), Refusal> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let deletes = |item: &Value| key.is_some() && item.get(DIRECTIVE).is_some_and(|d| d == "delete");
    let mut items = patch.iter().filter(|item| !deletes(item)).peekable();
    let mut order = order.iter().peekable();
    while let (Some(item), Some(at)) = (items.peek(), order.peek()) {
        if item.get(DIRECTIVE).is_some() {
            items.next();
            continue;
        }
        if identity(item, key)? == identity(at, key)? {
            items.next();
        }
        order.next();
    }
    // Directives after the last ordered item are refused too, as on the real server.
    if items.peek().is_some() {
        return Err(Refusal::Internal(format!("The order in patch list doesn't match {ELEMENT_ORDER} list")));
    }
    Ok(())
}

/// Interleaving needs the identity of everything it places.
fn all_identified(items: &[Value], key: Option<&str>) -> Result<(), Refusal> {
    items.iter().try_for_each(|item| identity(item, key).map(|_| ()))
}

/// What tells an item apart: its merge key, or itself.
fn identity<'v>(item: &'v Value, key: Option<&str>) -> Result<&'v Value, Refusal> {
    let Some(key) = key else { return Ok(item) };
    let fields = item.as_object().ok_or_else(|| Refusal::Internal("expected a map in a merging list".to_owned()))?;
    let missing = || Refusal::Internal(format!("map: {item} does not contain declared merge key: {key}"));
    fields.get(key).ok_or_else(missing)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Map,
    Scalar(u8),
}

/// The one kind of all items.
fn element_kind<'v>(items: impl Iterator<Item = &'v Value>) -> Result<Kind, Refusal> {
    let mut all: Option<Kind> = None;
    for item in items {
        let kind = match item {
            Value::Array(_) if all.is_none() => return Err(Refusal::ListOfLists),
            Value::Array(_) => Kind::Scalar(5),
            Value::Object(_) => Kind::Map,
            Value::String(_) => Kind::Scalar(0),
            Value::Bool(_) => Kind::Scalar(1),
            Value::Number(n) => Kind::Scalar(if n.is_f64() { 2 } else { 3 }),
            Value::Null => Kind::Scalar(4),
        };
        if *all.get_or_insert(kind) != kind {
            return Err(Refusal::Internal("list element types are not identical".to_owned()));
        }
    }
    all.ok_or_else(|| Refusal::Internal("no elements in any of the given slices".to_owned()))
}

fn merge_lists(original: Vec<Value>, patch: Vec<Value>, rule: ListRule<'_>) -> Result<Vec<Value>, Refusal> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    if element_kind(original.iter().chain(&patch))? != Kind::Map {
        let mut merged: Vec<Value> = Vec::new();
        for item in original.iter().chain(&patch) {
            if !merged.contains(item) {
                merged.push(item.clone());
            }
        }
        let (named, others) = partition(merged, &patch, None)?;
        return Ok(interleave(named, others, &patch, &original, None));
    }
    let Some(key) = rule.key else { return Err(Refusal::Internal("cannot merge lists without merge key".to_owned())) };
    let (original, patch) = obey_directives(original, patch, key)?;
    let merged = merge_items(original.clone(), &patch, key, rule.item)?;
    let (named, others) = partition(merged, &patch, Some(key))?;
    all_identified(&original, Some(key))?;
    Ok(interleave(named, others, &patch, &original, Some(key)))
}

/// Carries out the items of a patch that only direct the merge, and gives the others.
fn obey_directives(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), Refusal> {
    let mut plain = Vec::new();
    let mut replace = false;
    for item in patch {
        match item.get(DIRECTIVE).map(|d| d.as_str().unwrap_or_default()) {
            None => plain.push(item),
            Some("delete") => {
                let gone = identity(&item, Some(key))?;
                original.retain(|old| old.get(key) != Some(gone));
            }
            Some("replace") => replace = true,
            Some("merge") => {
                return Err(Refusal::Internal("merging lists cannot yet be specified in the patch".to_owned()));
            }
            Some(other) => return Err(Refusal::Internal(format!("unknown patch type: {other} in map"))),
        }
    }
    Ok(if replace { (plain, Vec::new()) } else { (original, plain) })
}

fn merge_items(
    mut original: Vec<Value>,
    patch: &[Value],
    key: &str,
    item_type: Option<TypeRef<'_>>,
) -> Result<Vec<Value>, Refusal> {
    for item in patch {
        let wanted = identity(item, Some(key))?;
        match (original.iter_mut().find(|old| old.get(key) == Some(wanted)), item) {
            (Some(found), Value::Object(changes)) => {
                let old = found.as_object().cloned().unwrap_or_default();
                *found = Value::Object(merge_maps(old, changes.clone(), item_type)?);
            }
            _ => original.push(item.clone()),
        }
    }
    Ok(original)
}

/// The items that `by` names, and the others.
fn partition(items: Vec<Value>, by: &[Value], key: Option<&str>) -> Result<(Vec<Value>, Vec<Value>), Refusal> {
    let mut named = BTreeMap::new();
    for item in by {
        let id = key.map_or(Some(item), |key| item.get(key));
        named.extend(id.map(|id| (id.to_string(), ())));
    }
    let mut out = (Vec::new(), Vec::new());
    for item in items {
        let is_named = named.contains_key(&identity(&item, key)?.to_string());
        if is_named { out.0.push(item) } else { out.1.push(item) }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::{Definitions, Schema};

    fn definitions() -> Definitions {
        let documents: Value = serde_json::from_str(include_str!("../apply/cases/types.json")).unwrap();
        let schemas = documents["core"]["components"]["schemas"].as_object().unwrap();
        Definitions(schemas.iter().map(|(name, node)| (name.clone(), Schema::parse(node))).collect())
    }

    /// Patches a service; an error gives its code.
    fn service(current: Value, patch: Value) -> Value {
        let definitions = definitions();
        let ty = TypeRef::new(&definitions, &definitions.0["io.k8s.api.core.v1.Service"]);
        strategic_merge(&current, &patch, ty).unwrap_or_else(|error| json!(error.code))
    }

    fn ports(current: Value, patch: Value) -> Value {
        service(json!({"spec": {"ports": current}}), json!({"spec": {"ports": patch}}))["spec"]["ports"].clone()
    }

    /// Random patches that the real library answered.
    #[test]
    fn the_real_library_agrees() {
        let cases: Vec<Value> = serde_json::from_str(include_str!("cases/strategic.json")).unwrap();
        assert!(cases.len() > 20);
        for case in cases {
            let got = service(case["current"].clone(), case["patch"].clone());
            assert_eq!(&got, case.get("expect").unwrap_or(&case["code"]), "{case}");
        }
    }

    #[test]
    fn keyed_lists_merge_delete_and_replace_items() {
        let two = json!([{"port": 1, "name": "a"}, {"port": 2, "name": "b"}]);
        let merged = ports(two.clone(), json!([{"port": 2, "name": null}, {"port": 3}]));
        assert_eq!(merged, json!([{"port": 1, "name": "a"}, {"port": 2}, {"port": 3}]));
        assert_eq!(ports(two.clone(), json!([{"port": 1, "$patch": "delete"}])), json!([{"port": 2, "name": "b"}]));
        assert_eq!(ports(two, json!([{"port": 3}, {"$patch": "replace"}])), json!([{"port": 3}]));
    }

    #[test]
    fn scalar_lists_merge_and_lose_what_is_named() {
        let current = json!({"metadata": {"finalizers": ["a", "b"]}});
        let merged = service(current.clone(), json!({"metadata": {"finalizers": ["c", "a"]}}));
        assert_eq!(merged, json!({"metadata": {"finalizers": ["c", "a", "b"]}}));
        let less = service(current, json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}));
        assert_eq!(less, json!({"metadata": {"finalizers": ["b"]}}));
    }

    #[test]
    fn element_order_places_items() {
        let current = json!({"spec": {"ports": [{"port": 1}, {"port": 2}, {"port": 3}]}});
        let order = json!([{"port": 4}, {"port": 2}, {"port": 1}]);
        let patch = json!({"spec": {"$setElementOrder/ports": order, "ports": [{"port": 4}]}});
        let expected = json!({"spec": {"ports": [{"port": 4}, {"port": 2}, {"port": 1}, {"port": 3}]}});
        assert_eq!(service(current.clone(), patch), expected);
        let wrong = json!({"spec": {"$setElementOrder/ports": [{"port": 1}], "ports": [{"port": 4}]}});
        assert_eq!(service(current, wrong), 500);
    }

    #[test]
    fn maps_retain_replace_and_delete() {
        let current = json!({"spec": {"type": "a", "clusterIP": "b", "selector": {"k": "v"}}});
        let retained = service(current.clone(), json!({"spec": {"$retainKeys": ["type"], "type": "c"}}));
        assert_eq!(retained, json!({"spec": {"type": "c"}}));
        assert_eq!(service(current.clone(), json!({"spec": {"$retainKeys": [], "type": "c"}})), 400);
        let replaced = service(current.clone(), json!({"spec": {"selector": {"$patch": "replace", "x": "y"}}}));
        assert_eq!(replaced["spec"]["selector"], json!({"x": "y"}));
        assert_eq!(service(current.clone(), json!({"spec": {"$patch": "delete"}})), json!({"spec": {}}));
        assert_eq!(service(current.clone(), json!({"spec": {"$patch": "merge"}})), 500);
        assert_eq!(service(current, json!({"spec": null})), json!({}));
    }

    #[test]
    fn parts_without_schema_merge_as_plain_json() {
        let merged =
            service(json!({"x": {"l": [1], "m": {"a": 1}}}), json!({"x": {"l": [2], "m": {"b": 2, "a": null}}}));
        assert_eq!(merged, json!({"x": {"l": [2], "m": {"b": 2}}}));
    }

    #[test]
    fn refusals_have_the_codes_of_the_real_server() {
        let lists = json!({"metadata": {"finalizers": ["a"]}});
        assert_eq!(service(lists.clone(), json!({"metadata": {"finalizers": [["b"]]}})), 500);
        assert_eq!(service(lists.clone(), json!({"metadata": {"finalizers": [1]}})), 500);
        let nested = json!({"metadata": {"finalizers": [["a"]]}});
        assert_eq!(service(nested, json!({"metadata": {"finalizers": ["b"]}})), 422);
        assert_eq!(service(lists, json!([])), 400);
        assert_eq!(ports(json!([{"port": 1}]), json!([{"name": "a"}])), Value::Null);
    }
}
