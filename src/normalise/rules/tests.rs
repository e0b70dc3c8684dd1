//! One table for all rules: two states that a rule makes equal, and a third that must stay different.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::{
    normalise::{Canonical, Comparison, Ruleset, Scope, canonicalise},
    scenario::format::{IgnoreRule, Normalise},
};

struct Row {
    rule: &'static str,
    state: Value,
    /// Equal to `state` because of the rule alone.
    same: Value,
    /// Different in something next to what the rule hides.
    other: Value,
}

fn row(rule: &'static str, state: Value, same: Value, other: Value) -> Row {
    Row { rule, state, same, other }
}

/// An object `n/x` of a kind with more fields merged in.
fn object(api_version: &str, kind: &str, more: Value) -> Value {
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", "namespace": "n"}});
    json_patch::merge(&mut object, &more);
    object
}

fn config_map(metadata: Value) -> Value {
    object("v1", "ConfigMap", json!({"metadata": metadata}))
}

fn demo(status: Value) -> Value {
    object("example.com/v1", "Demo", json!({"status": status}))
}

fn extra(object: Value) -> Value {
    json!([config_map(json!({})), object])
}

fn states(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_else(|| vec![value.clone()])
}

fn canonical(state: &Value, comparison: Comparison, rules: &Ruleset) -> Canonical {
    canonicalise(&states(state), comparison, rules)
}

fn metadata_rows() -> Vec<Row> {
    vec![
        row(
            "managed-fields",
            config_map(json!({"managedFields": [{"manager": "a"}]})),
            config_map(json!({"managedFields": [{"manager": "b"}]})),
            config_map(json!({"labels": {"manager": "b"}})),
        ),
        row(
            "resource-version",
            config_map(json!({"resourceVersion": "1"})),
            config_map(json!({"resourceVersion": "2"})),
            config_map(json!({"annotations": {"resourceVersion": "2"}})),
        ),
        row(
            "server-metadata",
            config_map(json!({"uid": "a", "generation": 1, "deletionTimestamp": "2026-01-02T03:04:05Z"})),
            config_map(json!({"uid": "b", "generation": 2, "deletionTimestamp": "2026-01-02T03:04:09Z"})),
            // The presence of a deletion is compared.
            config_map(json!({"uid": "b", "generation": 2})),
        ),
        row(
            "last-applied",
            config_map(json!({"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}})),
            config_map(json!({"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{ }"}})),
            config_map(json!({"annotations": {"kubectl.kubernetes.io/restartedAt": "soon"}})),
        ),
        row(
            "deployment-revision",
            object(
                "apps/v1",
                "Deployment",
                json!({"metadata": {"annotations": {"deployment.kubernetes.io/revision": "1"}}}),
            ),
            object(
                "apps/v1",
                "Deployment",
                json!({"metadata": {"annotations": {"deployment.kubernetes.io/revision": "3"}}}),
            ),
            object("apps/v1", "Deployment", json!({"metadata": {"annotations": {"revision": "3"}}})),
        ),
        row(
            "framework-bookkeeping",
            config_map(json!({"annotations": {"kopf.zalando.org/last-handled-configuration": "a"}})),
            config_map(json!({"annotations": {"kopf.zalando.org/last-handled-configuration": "b"}})),
            config_map(json!({"annotations": {"zalando.org/last-handled-configuration": "b"}})),
        ),
        row(
            "harness-marks",
            config_map(json!({"annotations": {"reconverge.dev/nonce": "1"}})),
            config_map(json!({})),
            config_map(json!({"annotations": {"example.com/nonce": "1"}})),
        ),
    ]
}

fn identity_rows() -> Vec<Row> {
    vec![
        row(
            "owner-uid",
            config_map(json!({"ownerReferences": [{"kind": "Demo", "name": "d", "uid": "1"}]})),
            config_map(json!({"ownerReferences": [{"kind": "Demo", "name": "d", "uid": "2"}]})),
            config_map(json!({"ownerReferences": [{"kind": "Demo", "name": "e", "uid": "1"}]})),
        ),
        row(
            "template-hash",
            config_map(json!({"labels": {"pod-template-hash": "6c7d8f9b5"}})),
            config_map(json!({"labels": {"pod-template-hash": "5b4c6d7f8"}})),
            config_map(json!({"labels": {"template-hash": "5b4c6d7f8"}})),
        ),
        row(
            "job-labels",
            config_map(json!({"labels": {"controller-uid": "1"}})),
            config_map(json!({"labels": {"controller-uid": "2"}})),
            config_map(json!({"labels": {"controller-id": "2"}})),
        ),
        row(
            "generated-names",
            config_map(json!({"name": "x-bq7wz", "generateName": "x-"})),
            config_map(json!({"name": "x-kk4td", "generateName": "x-"})),
            config_map(json!({"name": "y-kk4td", "generateName": "y-"})),
        ),
    ]
}

fn value_rows() -> Vec<Row> {
    let pod = |more: Value| object("v1", "Pod", more);
    let service = |more: Value| object("v1", "Service", more);
    let secret = |text: &str| object("v1", "Secret", json!({"data": {"password": text}}));
    let limits =
        |cpu: Value| pod(json!({"spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": cpu}}}]}}));
    vec![
        row(
            "observed-generation",
            demo(json!({"observedGeneration": 1, "phase": "Ready"})),
            demo(json!({"observedGeneration": 2, "phase": "Ready"})),
            demo(json!({"phase": "Ready"})),
        ),
        row(
            "status-times",
            demo(json!({"since": "2026-01-02T03:04:05Z"})),
            demo(json!({"since": "2026-01-02T03:04:06.123456Z"})),
            demo(json!({"since": "never"})),
        ),
        row(
            "allocated-addresses",
            service(json!({"spec": {"clusterIP": "10.0.0.1", "ports": [{"port": 80, "nodePort": 30001}]}})),
            service(json!({"spec": {"clusterIP": "10.0.0.2", "ports": [{"port": 80, "nodePort": 30002}]}})),
            // A headless Service is a choice.
            service(json!({"spec": {"clusterIP": "None", "ports": [{"port": 80, "nodePort": 30002}]}})),
        ),
        row(
            "token-volumes",
            pod(json!({"spec": {"volumes": [{"name": "kube-api-access-abcde"}]}})),
            pod(json!({"spec": {"volumes": [{"name": "kube-api-access-bcdfg"}]}})),
            pod(json!({"spec": {"volumes": [{"name": "kube-api-accessories"}]}})),
        ),
        row(
            "generated-secrets",
            secret("<redacted length=12 hash=ab12cd34>"),
            secret("<redacted length=12 hash=00000000>"),
            secret("<redacted length=13 hash=ab12cd34>"),
        ),
        row(
            "ca-bundle",
            demo(json!({"webhook": {"caBundle": "YQ=="}})),
            demo(json!({"webhook": {"caBundle": "Yg=="}})),
            demo(json!({"webhook": {"ca": "Yg=="}})),
        ),
        row(
            "container-restarts",
            pod(json!({"status": {"containerStatuses": [{"name": "a", "restartCount": 0}]}})),
            pod(json!({"status": {"containerStatuses": [{"name": "a", "restartCount": 2}]}})),
            pod(json!({"status": {"containerStatuses": [{"name": "a", "ready": false}]}})),
        ),
        row("quantities", limits(json!("1000m")), limits(json!(1)), limits(json!("1001m"))),
        row(
            "empty-values",
            demo(json!({"list": [], "nothing": {"at": {"all": {}}}})),
            demo(json!({})),
            demo(json!({"podSelector": {}})),
        ),
        row(
            "set-order",
            demo(json!({"conditions": [{"type": "A"}, {"type": "B"}]})),
            demo(json!({"conditions": [{"type": "B"}, {"type": "A"}]})),
            demo(json!({"args": [{"type": "B"}, {"type": "A"}]})),
        ),
    ]
}

fn object_rows() -> Vec<Row> {
    let none = || json!([config_map(json!({}))]);
    let owned = |kind: &str| json!({"ownerReferences": [{"kind": kind, "name": "o", "uid": "1"}]});
    let replica_set = |replicas: u32| {
        object("apps/v1", "ReplicaSet", json!({"metadata": owned("Deployment"), "spec": {"replicas": replicas}}))
    };
    let job_pod = |phase: &str| object("v1", "Pod", json!({"metadata": owned("Job"), "status": {"phase": phase}}));
    let slice = |manager: &str| {
        let labels = json!({"endpointslice.kubernetes.io/managed-by": manager});
        object("discovery.k8s.io/v1", "EndpointSlice", json!({"metadata": {"labels": labels}}))
    };
    vec![
        row(
            "events",
            none(),
            extra(object("v1", "Event", json!({}))),
            extra(object("example.com/v1", "Event", json!({}))),
        ),
        row(
            "leases",
            none(),
            extra(object("coordination.k8s.io/v1", "Lease", json!({}))),
            extra(object("v1", "Endpoints", json!({}))),
        ),
        row(
            "namespace-defaults",
            none(),
            extra(object("v1", "ServiceAccount", json!({"metadata": {"name": "default"}}))),
            extra(object("v1", "ServiceAccount", json!({"metadata": {"name": "other"}}))),
        ),
        row(
            "cluster-builtins",
            none(),
            extra(object("rbac.authorization.k8s.io/v1", "ClusterRole", json!({"metadata": {"name": "system:node"}}))),
            extra(object("rbac.authorization.k8s.io/v1", "ClusterRole", json!({"metadata": {"name": "demo"}}))),
        ),
        row("endpoints", none(), extra(slice("endpointslice-controller.k8s.io")), extra(slice("demo-operator"))),
        row("revision-history", none(), extra(replica_set(0)), extra(replica_set(1))),
        row("finished-job-pods", none(), extra(job_pod("Succeeded")), extra(job_pod("Running"))),
    ]
}

#[test]
fn each_rule_hides_its_own_and_no_more() {
    let rows: Vec<Row> =
        metadata_rows().into_iter().chain(identity_rows()).chain(value_rows()).chain(object_rows()).collect();
    let all = Ruleset::default();
    for Row { rule, state, same, other } in &rows {
        let equal = |left: &Value, right: &Value, comparison, rules: &Ruleset| {
            canonical(left, comparison, rules).objects == canonical(right, comparison, rules).objects
        };
        assert!(equal(state, same, Comparison::AcrossRuns, &all), "{rule} does not hide\n{state}\n{same}");
        assert!(!equal(state, other, Comparison::AcrossRuns, &all), "{rule} hides too much");
        let disable = vec![(*rule).to_owned()];
        let without = Ruleset::new(&Normalise { disable, ..Normalise::default() }).unwrap();
        assert!(!equal(state, same, Comparison::AcrossRuns, &without), "{rule} can be left out, but still hides");
        let scope = RULES.iter().find(|known| known.id == *rule).unwrap().scope;
        assert_eq!(equal(state, same, Comparison::WithinRun, &all), scope == Scope::Both, "{rule} within a run");
    }
    let tested: BTreeSet<&str> = rows.iter().map(|row| row.rule).collect();
    let registered: BTreeSet<&str> = RULES.iter().map(|rule| rule.id).collect();
    assert_eq!(tested, registered, "every rule has a row, and ids are unique");
    assert_eq!(registered.len(), RULES.len());
}

#[test]
fn hidden_things_are_accounted_for() {
    let state = config_map(json!({"uid": "a", "managedFields": []}));
    let hidden = canonical(&state, Comparison::AcrossRuns, &Ruleset::default()).hidden;
    let found: Vec<(&str, &str)> = hidden.iter().map(|entry| (entry.rule.as_str(), entry.path.as_str())).collect();
    assert_eq!(found, [("managed-fields", "metadata.managedFields"), ("server-metadata", "metadata.uid")]);
}

#[test]
fn scenarios_can_ignore_more() {
    let ignore = |kind: Option<&str>, path: &str| Normalise {
        ignore: vec![IgnoreRule { kind: kind.map(Into::into), path: path.into(), reason: "varies".into() }],
        ..Normalise::default()
    };
    let (state, other) = (demo(json!({"a": 1, "b": 1})), demo(json!({"a": 2, "b": 1})));
    for (settings, equal) in [
        (ignore(None, "status.a"), true),
        (ignore(Some("Demo"), "status.*"), true),
        (ignore(Some("Pod"), "status.a"), false),
        (ignore(None, "status.b"), false),
    ] {
        let rules = Ruleset::new(&settings).unwrap();
        for comparison in [Comparison::AcrossRuns, Comparison::WithinRun] {
            let same = canonical(&state, comparison, &rules).objects == canonical(&other, comparison, &rules).objects;
            assert_eq!(same, equal, "{settings:?}");
        }
    }
    assert!(Ruleset::new(&ignore(None, "a..b")).is_err());
    assert!(Ruleset::new(&Normalise { disable: vec!["nonsense".into()], ..Normalise::default() }).is_err());
}

#[test]
fn objects_of_one_role_are_numbered() {
    let pod = |name: &str, image: &str| {
        object("v1", "Pod", json!({"metadata": {"name": name, "generateName": "w-"}, "spec": {"image": image}}))
    };
    let first = json!([pod("w-aaaaa", "one"), pod("w-bbbbb", "two")]);
    let second = json!([pod("w-ccccc", "two"), pod("w-ddddd", "one")]);
    let all = Ruleset::default();
    let (first, second) =
        (canonical(&first, Comparison::AcrossRuns, &all), canonical(&second, Comparison::AcrossRuns, &all));
    assert_eq!(first.objects, second.objects, "paired by content, whatever the names");
    let shown: Vec<String> = first.objects.keys().map(ToString::to_string).collect();
    assert_eq!(shown, ["Pod n/w-<random>", "Pod n/w-<random> (no. 2)"]);
    let names: Vec<&str> = second.names.values().map(|key| key.name.as_str()).collect();
    assert_eq!(names, ["w-ddddd", "w-ccccc"], "the names of this run are kept");
}
