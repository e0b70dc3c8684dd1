use serde_json::{Value, json};

use super::*;
use crate::{
    schema::{Definitions, Schema, TypeRef},
    status::Cause,
};

/// A definition with one version around a `spec` schema.
fn crd(spec: Value) -> Value {
    let mut crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }],
        },
    });
    prepare_crd(&mut crd);
    crd
}

fn spec(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}

fn lines(causes: &[Cause]) -> Vec<String> {
    causes.iter().map(|c| format!("{}: {}", c.field, c.message)).collect()
}

fn judge(spec_schema: Value, new: Value, old: Option<Value>) -> Vec<String> {
    let version = compile_version(&crd(spec_schema), "v1").unwrap();
    let wrap = |spec: Value| json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec});
    let old = old.map(wrap);
    lines(&validate(&wrap(new), old.as_ref(), version.root()))
}

#[test]
fn pruning_reports_paths_and_spares_what_is_preserved() {
    let version = compile_version(
        &crd(spec(json!({
            "list": {"type": "array", "items": {"type": "object", "properties": {"foo": {"type": "string"}}}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "properties": {"known": {"type": "object", "properties": {"a": {"type": "string"}}}}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}}},
            "pod": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}},
        }))),
        "v1",
    )
    .unwrap();
    let mut object = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a", "labels": {"x": "y"}}, "top": 1,
        "spec": {
            "foo": 1, "list": [{"foo": "a", "bar": 2}], "free": {"any": 1, "known": {"a": "b", "b": 1}},
            "map": {"k": {"a": "x", "z": 1}},
            "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": "b"}}, "spec": {}, "status": {}},
        },
    });
    let removed = prune(&mut object, version.root());
    assert_eq!(
        removed,
        ["spec.foo", "spec.free.known.b", "spec.list[0].bar", "spec.map.k.z", "spec.pod.status", "top"]
    );
    assert_eq!(object["spec"]["free"], json!({"any": 1, "known": {"a": "b"}}));
    assert_eq!(object["spec"]["pod"]["metadata"]["labels"]["a"], "b");
    assert_eq!(object["metadata"]["labels"]["x"], "y");
}

#[test]
fn defaults_go_into_present_parents_only() {
    let version = compile_version(
        &crd(spec(json!({
            "size": {"type": "integer", "default": 3},
            "inner": {"type": "object", "properties": {"mode": {"type": "string", "default": "fast"}}},
            "made": {"type": "object", "default": {}, "properties": {"mode": {"type": "string", "default": "slow"}}},
            "maybe": {"type": "string", "nullable": true, "default": "x"},
            "gone": {"type": "string"},
            "list": {"type": "array", "items": {"type": "object", "properties": {"p": {"type": "string", "default": "TCP"}}}},
        }))),
        "v1",
    )
    .unwrap();
    let mut object = json!({"spec": {"size": null, "maybe": null, "gone": null, "list": [{}]}});
    default_values(&mut object, version.root());
    assert_eq!(object, json!({"spec": {"size": 3, "maybe": null, "made": {"mode": "slow"}, "list": [{"p": "TCP"}]}}));
    let mut absent = json!({});
    default_values(&mut absent, version.root());
    assert_eq!(absent, json!({}));
}

#[test]
fn each_keyword_has_the_words_of_the_real_server() {
    for (schema, value, expected) in [
        (
            json!({"type": "integer", "minimum": 0}),
            json!(-1),
            "spec.x: Invalid value: -1: spec.x in body should be greater than or equal to 0",
        ),
        (
            json!({"type": "integer", "maximum": 5, "exclusiveMaximum": true}),
            json!(5),
            "spec.x: Invalid value: 5: spec.x in body should be less than 5",
        ),
        (
            json!({"type": "integer", "multipleOf": 3}),
            json!(4),
            "spec.x: Invalid value: 4: spec.x in body should be a multiple of 3",
        ),
        (
            json!({"type": "integer"}),
            json!("a"),
            "spec.x: Invalid value: \"string\": spec.x in body must be of type integer: \"string\"",
        ),
        (
            json!({"type": "string"}),
            Value::Null,
            "spec.x: Invalid value: \"null\": spec.x in body must be of type string: \"null\"",
        ),
        (
            json!({"type": "string", "enum": ["a", "b"]}),
            json!("q"),
            "spec.x: Unsupported value: \"q\": supported values: \"a\", \"b\"",
        ),
        (
            json!({"type": "string", "pattern": "^a$"}),
            json!("b"),
            "spec.x: Invalid value: \"b\": spec.x in body should match '^a$'",
        ),
        (
            json!({"type": "string", "minLength": 1}),
            json!(""),
            "spec.x: Invalid value: \"\": spec.x in body should be at least 1 chars long",
        ),
        (json!({"type": "string", "maxLength": 1}), json!("ab"), "spec.x: Too long: may not be more than 1 byte"),
        (
            json!({"type": "string", "format": "ipv4"}),
            json!("x"),
            "spec.x: Invalid value: \"x\": spec.x in body must be of type ipv4: \"x\"",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "maxItems": 1}),
            json!(["a", "b"]),
            "spec.x: Too many: 2: must have at most 1 item",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "minItems": 1}),
            json!([]),
            "spec.x: Invalid value: 0: spec.x in body should have at least 1 items",
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 1}),
            json!({"a": "b", "c": "d"}),
            "spec.x: Too many: 2: must have at most 1 item",
        ),
        (
            json!({"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}),
            json!({}),
            "spec.x.size: Required value",
        ),
        (
            json!({"x-kubernetes-int-or-string": true}),
            json!(true),
            "spec.x: Invalid value: \"boolean\": spec.x in body must be of type integer,string: \"boolean\"",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
            json!(["a", "a"]),
            "spec.x[1]: Duplicate value: \"a\"",
        ),
        (
            json!({"type": "integer", "not": {"enum": [1]}}),
            json!(1),
            "<nil>: Invalid value: \"\": \"spec.x\" must not validate the schema (not)",
        ),
    ] {
        let found = judge(spec(json!({"x": schema})), json!({"x": value}), None);
        assert_eq!(found.first().map(String::as_str), Some(expected));
    }
}

#[test]
fn good_values_pass() {
    for (schema, value) in [
        (json!({"type": "number"}), json!(1)),
        (json!({"type": "integer"}), json!(1.0)),
        (json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}), json!("25%")),
        (json!({"type": "string", "nullable": true, "enum": ["a"]}), Value::Null),
        (json!({"type": "integer", "oneOf": [{"minimum": 5}, {"maximum": 3}]}), json!(7)),
    ] {
        assert_eq!(judge(spec(json!({"x": schema})), json!({"x": value}), None), [""; 0]);
    }
}

#[test]
fn list_maps_are_keyed_and_embedded_resources_typed() {
    let list = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"],
        "items": {"type": "object", "required": ["n"], "properties": {"n": {"type": "string"}}}});
    let found = judge(spec(json!({"x": list})), json!({"x": [{"n": "a"}, {"n": "a"}]}), None);
    assert_eq!(found, ["spec.x[1]: Duplicate value: {\"n\":\"a\"}"]);
    let pod =
        json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true});
    let found = judge(spec(json!({"x": pod})), json!({"x": {"kind": ""}}), None);
    assert_eq!(
        found[..2],
        ["spec.x.apiVersion: Required value", "spec.x.kind: Invalid value: \"\": must not be empty"]
    );
}

#[test]
fn what_did_not_change_may_stay_invalid() {
    let schema = spec(json!({"x": {"type": "integer", "minimum": 5}, "y": {"type": "integer"}}));
    let old = json!({"x": 1, "y": 1});
    assert_eq!(judge(schema.clone(), json!({"x": 1, "y": 2}), Some(old.clone())), [""; 0]);
    assert_eq!(judge(schema, json!({"x": 2, "y": 2}), Some(old)).len(), 1);
}

#[test]
fn rules_see_self_and_the_old_value() {
    let with =
        |rule: Value, inner: Value| json!({"type": "object", "properties": inner, "x-kubernetes-validations": [rule]});
    let ints = json!({"min_size": {"type": "integer"}, "max": {"type": "integer"}});
    let rule = with(
        json!({"rule": "self.min_size <= self.max", "messageExpression": "'max must be at least ' + string(self.min_size)"}),
        ints.clone(),
    );
    assert_eq!(
        judge(rule.clone(), json!({"min_size": 3, "max": 2}), None),
        ["spec: Invalid value: \"object\": max must be at least 3"]
    );
    assert_eq!(judge(rule.clone(), json!({"min_size": 1, "max": 2}), None), [""; 0]);
    // Unchanged, so the rule that fails ratchets.
    assert_eq!(judge(rule, json!({"min_size": 3, "max": 2}), Some(json!({"min_size": 3, "max": 2}))), [""; 0]);

    let fixed = with(
        json!({"rule": "self.max == oldSelf.max", "message": "is fixed", "reason": "FieldValueForbidden", "fieldPath": ".max"}),
        ints.clone(),
    );
    assert_eq!(judge(fixed.clone(), json!({"max": 2}), None), [""; 0]);
    assert_eq!(judge(fixed, json!({"max": 2}), Some(json!({"max": 1}))), ["spec.max: Forbidden: is fixed"]);

    let optional = with(json!({"rule": "oldSelf.hasValue() || self.max == 0", "optionalOldSelf": true}), ints);
    assert_eq!(
        judge(optional.clone(), json!({"max": 2}), None),
        ["spec: Invalid value: \"object\": failed rule: oldSelf.hasValue() || self.max == 0"]
    );
    assert_eq!(judge(optional, json!({"max": 2}), Some(json!({"max": 1}))), [""; 0]);
}

#[test]
fn rules_read_formats_reserved_names_and_map_keys() {
    for (schema, rule, value) in [
        (json!({"type": "string", "format": "duration"}), "self < duration('2m')", json!("1m30s")),
        (
            json!({"type": "string", "format": "date-time"}),
            "self > timestamp('2020-01-01T00:00:00Z')",
            json!("2024-01-01T00:00:00Z"),
        ),
        (
            json!({"type": "object", "properties": {"namespace": {"type": "string"}, "a-b": {"type": "string"}}}),
            "self.__namespace__ == 'x' && self.a__dash__b == 'y'",
            json!({"namespace": "x", "a-b": "y"}),
        ),
        (json!({"type": "object", "additionalProperties": {"type": "string"}}), "'a/b' in self", json!({"a/b": "c"})),
        (json!({"type": "string"}), "quantity(self).isGreaterThan(quantity('1'))", json!("2Gi")),
    ] {
        let mut schema = schema;
        schema["x-kubernetes-validations"] = json!([{"rule": rule}]);
        assert_eq!(judge(spec(json!({"x": schema})), json!({"x": value}), None), [""; 0], "{rule}");
    }
}

#[test]
fn a_rule_beyond_the_engine_is_refused_not_judged() {
    let schema = json!({"type": "object", "properties": {"x": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "cel.bind(v, self.x, v > 0)"}]});
    let version = compile_version(&crd(schema), "v1").unwrap();
    let causes = validate(&json!({"spec": {"x": 1}}), None, version.root());
    assert_eq!(causes[0].reason, UNSUPPORTED);
}

#[test]
fn a_definition_is_completed_accepted_and_compiled() {
    let mut crd = crd(spec(json!({"x": {"type": "string"}})));
    assert_eq!(crd["spec"]["names"]["singular"], "widget");
    assert_eq!(crd["spec"]["names"]["listKind"], "WidgetList");
    assert_eq!(crd["spec"]["conversion"]["strategy"], "None");
    assert_eq!(lines(&validate_crd(&crd, None)), [""; 0]);
    let at = |second| jiff::Timestamp::from_second(second).unwrap();
    accept_crd_status(&mut crd, at(0));
    let first = crd["status"].clone();
    assert_eq!(first["conditions"][1]["type"], "Established");
    assert_eq!(first["conditions"][1]["lastTransitionTime"], "1970-01-01T00:00:00Z");
    assert_eq!(first["storedVersions"], json!(["v1"]));
    accept_crd_status(&mut crd, at(60));
    assert_eq!(crd["status"], first, "an unchanged condition keeps its time");
    let version = compile_version(&crd, "v1").unwrap();
    assert!(version.status && version.scale.is_none());
    assert_eq!(version.schema.properties["metadata"].kind, "object");
    assert!(compile_version(&crd, "v2").is_err());
}

#[test]
fn broken_definitions_are_refused() {
    let at = "spec.versions[0].schema.openAPIV3Schema.properties[spec]";
    for (schema, expected) in [
        (
            json!({"properties": {}}),
            format!("{at}.type: Required value: must not be empty for specified object fields"),
        ),
        (json!({"type": "object", "$ref": "#/x"}), format!("{at}.$ref: Forbidden: $ref is not supported")),
        (json!({"type": "array"}), format!("{at}.items: Required value: must be specified")),
        (
            json!({"type": "array", "uniqueItems": true, "items": {"type": "string"}}),
            format!(
                "{at}.uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
            ),
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}}),
            format!("{at}.additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"),
        ),
        (
            json!({"type": "string", "default": 5}),
            format!(
                "{at}.default: Invalid value: \"integer\": {at}.default in body must be of type string: \"integer\""
            ),
        ),
        (
            json!({"type": "object", "default": {"b": 1}, "properties": {"a": {"type": "string"}}}),
            format!("{at}.default: Invalid value: {{\"b\":1}}: must not have unknown fields"),
        ),
        (
            json!({"type": "string", "x-kubernetes-validations": [{"rule": "self ++"}]}),
            format!(
                "{at}.x-kubernetes-validations[0].rule: Invalid value: {{\"rule\":\"self ++\"}}: compilation failed: "
            ),
        ),
        (
            json!({"type": "string", "anyOf": [{"type": "string"}]}),
            format!("{at}.anyOf[0].type: Forbidden: must be empty to be structural"),
        ),
        (
            json!({"type": "object", "anyOf": [{"properties": {"a": {}}}]}),
            format!("{at}.properties[a]: Required value: because it is defined in {at}.anyOf[0].properties[a]"),
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"], "items": {"type": "object", "properties": {"n": {"type": "string"}}}}),
            format!(
                "{at}.items.properties[n].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            ),
        ),
    ] {
        let found = lines(&validate_crd(&crd(schema), None));
        assert!(found.iter().any(|line| line.starts_with(&expected)), "{expected} not in {found:#?}");
    }
}

#[test]
fn names_versions_and_scope_of_a_definition() {
    let good = crd(spec(json!({})));
    let mut other = good.clone();
    other["metadata"]["name"] = "wrong".into();
    other["spec"]["scope"] = "Galaxy".into();
    let mut second = other["spec"]["versions"][0].clone();
    second["name"] = "v2".into();
    other["spec"]["versions"].as_array_mut().unwrap().push(second);
    let found = lines(&validate_crd(&other, None));
    assert!(
        found[0].starts_with("metadata.name: Invalid value: \"wrong\": must be spec.names.plural+\".\"+spec.group")
    );
    assert!(found.iter().any(|l| l.starts_with("spec.scope: Unsupported value: \"Galaxy\"")));
    assert!(found.iter().any(|l| l.ends_with("must have exactly one version marked as storage version")));
    let mut moved = good.clone();
    moved["spec"]["group"] = "other.com".into();
    assert_eq!(
        lines(&validate_crd(&moved, Some(&good))),
        ["spec.group: Invalid value: \"other.com\": field is immutable"]
    );
}

#[test]
fn a_schema_without_references_needs_no_definitions() {
    let definitions = Definitions::default();
    let schema = Schema::parse(&json!({"type": "string"}));
    assert!(validate(&json!("a"), None, TypeRef::new(&definitions, &schema)).is_empty());
}
