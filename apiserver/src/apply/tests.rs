//! Cases that the real field managers have answered, and the rules one by one.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::schema::{Definitions, Schema, TypeRef};

/// A schema document of either origin, by the name that cases use.
type Types = BTreeMap<String, (Definitions, String)>;

fn one_case(types: &Types, case: &Value) -> Result<(), String> {
    let text = |key: &str| case[key].as_str().unwrap_or_default();
    let (definitions, name) = &types[text("type")];
    let ty = (!name.is_empty()).then(|| TypeRef::new(definitions, &definitions.0[name]));
    let now = text("now").parse().unwrap();
    let writer =
        Writer { manager: text("manager"), api_version: text("version"), subresource: text("subresource"), now };
    let reset = case["reset"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let reset = reset.fold(FieldSet::default(), |all, name| all.union(&FieldSet::of_fields(&[&[name]])));
    let live = case.get("live");
    let outcome = if text("op") == "apply" {
        let force = case["force"] == true;
        apply_resetting(live, &case["object"], ty, &writer, force, &reset)
    } else {
        let mut new = case["object"].clone();
        track_update_resetting(live, &mut new, ty, &writer, &reset);
        Ok(new)
    };
    let causes = |error: &crate::status::ApiError| {
        let mut all: Vec<Value> =
            error.details.causes.iter().map(|c| json!(format!("{} {}", c.field, c.message))).collect();
        all.sort_by_key(|c| c.to_string());
        Value::Array(all)
    };
    let mut expected = case["causes"].clone();
    if let Some(list) = expected.as_array_mut() {
        list.sort_by_key(|c| c.to_string());
    }
    let (got, want) = match (&outcome, case.get("expect")) {
        (Ok(object), Some(expect)) => (object.clone(), expect.clone()),
        (Err(error), None) if error.code == 409 && error.details.causes.len() > 1 => {
            (json!([error.code, causes(error)]), json!([case["code"], expected]))
        }
        (Err(error), None) => (json!([error.code, error.message]), json!([case["code"], case["message"]])),
        (Ok(object), None) => (object.clone(), json!([case["code"], case["message"]])),
        (Err(error), Some(expect)) => (json!([error.code, error.message]), expect.clone()),
    };
    if got == want { Ok(()) } else { Err(format!("got  {got}\nwant {want}")) }
}

fn types_of(document: &Value, into: &mut Types, names: &[&str]) {
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let all: BTreeMap<String, Schema> = schemas.iter().map(|(k, v)| (k.clone(), Schema::parse(v))).collect();
    for name in names {
        into.insert((*name).to_owned(), (Definitions(all.clone()), (*name).to_owned()));
    }
}

fn crd_types(document: &Value, into: &mut Types) {
    for (name, schema) in document.as_object().unwrap() {
        let schema = schema.as_str().map_or_else(|| schema.clone(), |text| serde_json::from_str(text).unwrap());
        let definitions = Definitions([("root".to_owned(), Schema::parse(&schema))].into());
        into.insert(format!("crd.{name}"), (definitions, "root".to_owned()));
    }
}

/// Cases that the real server's field managers (v1.34) answered: random scenarios of applies and updates by several
/// managers, over custom types, a schemaless type and services.
#[test]
fn the_real_field_managers_agree() {
    let documents: Value = serde_json::from_str(include_str!("cases/types.json")).unwrap();
    let mut types = Types::new();
    crd_types(&documents["crds"], &mut types);
    types_of(&documents["core"], &mut types, &["io.k8s.api.core.v1.Service"]);
    let cases: Vec<Value> = serde_json::from_str(include_str!("cases/apply.json")).unwrap();
    assert!(cases.len() > 50);
    for (i, case) in cases.iter().enumerate() {
        if let Err(problem) = one_case(&types, case) {
            panic!("case {i}: {case}\n{problem}");
        }
    }
}

fn writer(manager: &str, minute: i64) -> Writer<'_> {
    let now = Timestamp::from_second(1_700_000_000 + minute * 60).unwrap();
    Writer { manager, api_version: "ex.io/v1", subresource: "", now }
}

fn object(spec: Value) -> Value {
    json!({"apiVersion": "ex.io/v1", "kind": "Free", "metadata": {"name": "x"}, "spec": spec})
}

/// The fields of a manager, for an object without a type.
fn fields(object: &Value, manager: &str) -> Value {
    let list = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    list.into_iter().find(|e| e["manager"] == manager).map_or(Value::Null, |e| e["fieldsV1"].clone())
}

fn applied(live: Option<&Value>, spec: Value, by: &Writer<'_>) -> Value {
    apply(live, &object(spec), None, by, false).unwrap()
}

#[test]
fn a_field_nobody_applies_any_more_goes_and_a_shared_one_stays() {
    let first = applied(None, json!({"own": 1, "shared": 2}), &writer("a", 0));
    let second = applied(Some(&first), json!({"shared": 2}), &writer("b", 1));
    let third = applied(Some(&second), json!({}), &writer("a", 2));
    assert_eq!(third["spec"], json!({"shared": 2}));
    assert_eq!(fields(&third, "b"), json!({"f:spec": {".": {}, "f:shared": {}}}));
}

#[test]
fn a_conflict_names_manager_and_path_unless_forced() {
    let mut live = object(json!({"replicas": 1}));
    track_update(None, &mut live, None, &writer("kcm", 0));
    let wanted = object(json!({"replicas": 2}));
    let error = apply(Some(&live), &wanted, None, &writer("me", 1), false).unwrap_err();
    let text = "Apply failed with 1 conflict: conflict with \"kcm\" using ex.io/v1: .spec.replicas";
    assert_eq!((error.code, error.reason, error.message.as_str()), (409, "Conflict", text));
    let cause = &error.details.causes[0];
    assert_eq!((cause.reason, cause.field.as_str()), ("FieldManagerConflict", ".spec.replicas"));
    assert_eq!(cause.message, "conflict with \"kcm\" using ex.io/v1");
    let forced = apply(Some(&live), &wanted, None, &writer("me", 1), true).unwrap();
    assert_eq!(forced["spec"]["replicas"], 2);
    assert_eq!(fields(&forced, "kcm"), json!({"f:spec": {}}));
}

#[test]
fn several_conflicts_are_listed_by_manager() {
    let first = applied(None, json!({"a": 1, "b": 1}), &writer("one", 0));
    let mut status = first.clone();
    status["status"] = json!({"c": 1});
    track_update(Some(&first), &mut status, None, &Writer { subresource: "status", ..writer("two", 1) });
    let mut wanted = object(json!({"a": 2, "b": 2}));
    wanted["status"] = json!({"c": 2});
    let error = apply(Some(&status), &wanted, None, &writer("me", 2), false).unwrap_err();
    let text = "Apply failed with 3 conflicts: conflicts with \"one\":\n- .spec.a\n- .spec.b\nconflicts with \"two\" with \
        subresource \"status\" using ex.io/v1:\n- .status.c";
    assert_eq!(error.message, text);
}

#[test]
fn an_apply_that_changes_nothing_keeps_its_time() {
    let first = applied(None, json!({"a": 1}), &writer("me", 0));
    assert_eq!(applied(Some(&first), json!({"a": 1}), &writer("me", 9)), first);
    // Equal numbers are no change either.
    assert_eq!(applied(Some(&first), json!({"a": 1.0}), &writer("me", 9)), first);
}

#[test]
fn an_update_takes_what_it_changes_from_everybody() {
    let first = applied(None, json!({"a": 1, "b": 1}), &writer("me", 0));
    let mut new = first.clone();
    new["spec"] = json!({"a": 2});
    track_update(Some(&first), &mut new, None, &writer("other", 1));
    assert_eq!(fields(&new, "me"), json!({"f:spec": {}}));
    assert_eq!(fields(&new, "other"), json!({"f:spec": {"f:a": {}}}));
}

#[test]
fn a_client_can_empty_the_list_and_tracking_resumes_with_an_apply() {
    let mut first = applied(None, json!({"a": 1}), &writer("me", 0));
    first["metadata"]["uid"] = "u".into();
    for reset in [json!([]), json!([{}])] {
        let mut new = first.clone();
        new["metadata"]["managedFields"] = reset;
        track_update(Some(&first), &mut new, None, &writer("me", 1));
        assert_eq!(new["metadata"].get("managedFields"), None);
        let after = applied(Some(&new), json!({"b": 1}), &writer("me", 2));
        assert_eq!(fields(&after, "before-first-apply"), json!({"f:spec": {".": {}, "f:a": {}}}));
        assert_eq!(fields(&after, "me"), json!({"f:spec": {".": {}, "f:b": {}}}));
    }
    // Without the field in the request the live entries stay.
    let mut silent = first.clone();
    silent["metadata"].as_object_mut().unwrap().remove("managedFields");
    track_update(Some(&first), &mut silent, None, &writer("me", 1));
    assert_eq!(silent, first);
}

#[test]
fn configurations_that_cannot_be_applied_are_refused() {
    let refused = |config: &Value, ty| apply(None, config, ty, &writer("me", 0), false).unwrap_err();
    let mut config = object(json!({}));
    config["metadata"]["managedFields"] = json!([]);
    assert_eq!(refused(&config, None).message, "metadata.managedFields must be nil");
    config = object(json!({}));
    config["apiVersion"] = "ex.io/v2".into();
    assert_eq!(
        (refused(&config, None).code, refused(&config, None).message.as_str()),
        (400, "invalid object type: ex.io/v2, Kind=Free")
    );
    let definitions = Definitions::default();
    let schema = Schema::parse(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "n": {"type": "integer"}, "s": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}}}}}));
    let ty = Some(TypeRef::new(&definitions, &schema));
    let prefix = "failed to create typed patch object (/x; ex.io/v1, Kind=Free): ";
    for (spec, problem) in [
        (json!({"what": 1}), ".spec.what: field not declared in schema"),
        (json!({"n": "1"}), ".spec.n: expected numeric (int or float), got string"),
        (json!({"s": ["a", "a"]}), ".spec.s: duplicate entries for key [=\"a\"]"),
    ] {
        let error = refused(&object(spec), ty);
        assert_eq!((error.code, error.message), (500, format!("{prefix}{problem}")));
    }
}

#[test]
fn object_metadata_has_its_own_types_even_without_a_schema() {
    let mut config = object(json!({"l": [1]}));
    config["metadata"]["finalizers"] = json!(["f"]);
    config["metadata"]["ownerReferences"] = json!([{"uid": "u", "name": "n"}]);
    let result = apply(None, &config, None, &writer("me", 0), false).unwrap();
    let expected = json!({"f:spec": {".": {}, "f:l": {}}, "f:metadata": {"f:finalizers": {"v:\"f\"": {}},
        "f:ownerReferences": {"k:{\"uid\":\"u\"}": {}}}});
    assert_eq!(fields(&result, "me"), expected);
}

#[test]
fn kubectl_takes_over_what_it_applied_on_the_client_side() {
    let mut live = object(json!({"a": 1}));
    let note = object(json!({"a": 1})).to_string();
    live["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": note});
    track_update(None, &mut live, None, &writer("kubectl-client-side-apply", 0));
    let wanted = object(json!({"a": 2}));
    assert_eq!(apply(Some(&live), &wanted, None, &writer("other", 1), false).unwrap_err().code, 409);
    let result = apply(Some(&live), &wanted, None, &writer("kubectl", 1), false).unwrap();
    let annotation = &result["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"];
    assert_eq!(annotation, &json!(format!("{wanted}\n")));
}

#[test]
fn a_write_that_differs_in_times_only_is_undone() {
    let live = applied(None, json!({"a": 1}), &writer("me", 0));
    let mut new = live.clone();
    new["metadata"]["managedFields"][0]["time"] = "2030-01-01T00:00:00Z".into();
    assert!(settle_times(&live, &mut new));
    assert_eq!(new, live);
    new["spec"]["a"] = 2.into();
    assert!(!settle_times(&live, &mut new));
}
