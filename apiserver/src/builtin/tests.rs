use serde_json::{Value, json};

use super::*;
use crate::{resource::Gvk, status::Cause};

/// Recorded with the real server's own decoding, defaulting and validation.
static CASES: &str = include_str!("../../data/builtin_cases.jsonl");

fn gvk(object: &Value) -> Gvk {
    Gvk::parse(object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap())
}

fn cases() -> Vec<Value> {
    CASES.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn lines(causes: &[Cause]) -> Vec<String> {
    causes.iter().map(|c| format!("{}: {}", c.field, c.message)).collect()
}

#[test]
fn defaulting_gives_what_the_real_server_stores() {
    let mut wrong = Vec::new();
    for case in cases().iter().filter(|c| c.get("object").is_some()) {
        let mut object = case["given"].clone();
        let gvk = gvk(&object);
        assert_eq!(decode_errors(&object, definitions_for(&gvk).unwrap()), None, "{object}");
        default_object(&gvk, &mut object);
        if object != case["object"] {
            wrong.push(format!("given {}\n  ours {object}\n  real {}", case["given"], case["object"]));
        }
        let once = object.clone();
        default_object(&gvk, &mut object);
        assert_eq!(object, once, "defaulting twice must change nothing");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn values_of_the_wrong_type_read_as_in_go() {
    let mut seen = 0;
    for case in cases().iter().filter(|c| c.get("error").is_some()) {
        let given = &case["given"];
        let error = decode_errors(given, definitions_for(&gvk(given)).unwrap()).unwrap();
        let kind = given["kind"].as_str().unwrap();
        let expected =
            format!("{kind} in version \"v1\" cannot be handled as a {kind}: {}", case["error"].as_str().unwrap());
        assert_eq!((error.code, error.message), (400, expected));
        seen += 1;
    }
    assert!(seen >= 10);
}

#[test]
fn validation_finds_what_the_real_server_finds() {
    const RECORDED: [&str; 10] = [
        "Pod",
        "Service",
        "Secret",
        "ConfigMap",
        "PersistentVolumeClaim",
        "Deployment",
        "StatefulSet",
        "DaemonSet",
        "Job",
        "CronJob",
    ];
    let mut wrong = Vec::new();
    for case in cases().iter().filter(|c| c.get("object").is_some()) {
        let object = &case["object"];
        if !RECORDED.contains(&object["kind"].as_str().unwrap()) {
            continue;
        }
        let text = |c: &Value| format!("{}: {}", c["field"].as_str().unwrap(), c["message"].as_str().unwrap());
        let mut real: Vec<String> = case["causes"].as_array().unwrap().iter().map(text).collect();
        let mut ours = lines(&validate_object(&gvk(object), object, None));
        real.sort();
        ours.sort();
        if ours != real {
            wrong.push(format!("{object}\n  ours {ours:#?}\n  real {real:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn stored(mut object: Value) -> (Gvk, Value) {
    let gvk = gvk(&object);
    default_object(&gvk, &mut object);
    prepare_create(&gvk, &mut object);
    (gvk, object)
}

fn deployment() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": "d"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
}

#[test]
fn unknown_fields_are_named_and_dropped() {
    let mut object = deployment();
    object["spec"]["foo"] = 1.into();
    object["spec"]["template"]["spec"]["containers"][0]["bar"] = json!({"x": 1});
    object["metadata"]["labels"] = json!({"any": "key"});
    let ty = definitions_for(&gvk(&object)).unwrap();
    assert_eq!(unknown_fields(&object, ty), ["spec.foo", "spec.template.spec.containers[0].bar"]);
    prune_unknown(&mut object, ty);
    assert_eq!(unknown_fields(&object, ty), [""; 0]);
    assert_eq!(object["metadata"]["labels"]["any"], "key");
}

#[test]
fn free_form_values_stay_whole() {
    let mut object = json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "a"}, "revision": 1,
        "data": {"spec": {"anything": {"goes": ""}}}});
    let gvk = gvk(&object);
    assert_eq!(unknown_fields(&object, definitions_for(&gvk).unwrap()), [""; 0]);
    default_object(&gvk, &mut object);
    assert_eq!(object["data"], json!({"spec": {"anything": {"goes": ""}}}));
}

#[test]
fn creation_resets_the_status() {
    let mut given = deployment();
    given["status"] = json!({"replicas": 3});
    assert_eq!(stored(given).1["status"], json!({}));
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "status": {"phase": "Running"},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]}});
    let (_, pod) = stored(pod);
    assert_eq!(pod["status"], json!({"phase": "Pending", "qosClass": "Guaranteed"}));
    let (_, space) = stored(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}));
    assert_eq!(space["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(space["metadata"]["labels"]["kubernetes.io/metadata.name"], "a");
}

#[test]
fn a_job_selects_its_own_pods() {
    let (gvk, job) = stored(json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a", "uid": "u"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}));
    assert_eq!(job["spec"]["selector"], json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}));
    assert_eq!(job["spec"]["template"]["metadata"]["labels"]["job-name"], "a");
    assert_eq!(lines(&validate_object(&gvk, &job, None)), [""; 0]);
}

#[test]
fn a_daemon_set_counts_its_templates() {
    let mut given = deployment();
    given["kind"] = "DaemonSet".into();
    let (gvk, old) = stored(given);
    let count = |object: &Value| object["metadata"]["annotations"]["deprecated.daemonset.template.generation"].clone();
    assert_eq!(count(&old), "1");
    let mut new = old.clone();
    new["metadata"]["annotations"] = json!({});
    prepare_update(&gvk, "", &mut new, &old);
    assert_eq!(count(&new), "1");
    new["spec"]["template"]["spec"]["containers"][0]["image"] = "j".into();
    prepare_update(&gvk, "", &mut new, &old);
    assert_eq!(count(&new), "2");
}

#[test]
fn updates_keep_what_belongs_elsewhere() {
    let (gvk, mut old) = stored(deployment());
    old["status"] = json!({"replicas": 2});
    let mut new = old.clone();
    new["status"] = json!({"replicas": 9});
    new["spec"]["replicas"] = 5.into();
    let asked = new.clone();
    prepare_update(&gvk, "", &mut new, &old);
    assert_eq!((&new["status"]["replicas"], &new["spec"]["replicas"]), (&json!(2), &json!(5)));
    let mut status = asked;
    prepare_update(&gvk, "status", &mut status, &old);
    assert_eq!((&status["status"]["replicas"], &status["spec"]["replicas"]), (&json!(9), &json!(1)));

    let old = json!({"metadata": {"name": "a"}, "spec": {"x": 1}, "status": {"y": 1}});
    let asked = json!({"metadata": {"name": "a", "labels": {"z": "z"}}, "spec": {"x": 2}, "status": {"y": 2}});
    let mut main = asked.clone();
    prepare_update_custom("", &mut main, &old);
    assert_eq!(main["status"]["y"], 1);
    let mut status = asked;
    prepare_update_custom("status", &mut status, &old);
    assert_eq!(status, json!({"metadata": {"name": "a"}, "spec": {"x": 1}, "status": {"y": 2}}));
}

#[test]
fn a_service_keeps_its_allocations() {
    let port = json!({"port": 80, "protocol": "TCP", "nodePort": 30000});
    let old = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
        "spec": {"type": "NodePort", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ports": [port]}});
    let (gvk, mut new) = stored(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
        "spec": {"type": "NodePort", "ports": [{"port": 80}]}}));
    prepare_update(&gvk, "", &mut new, &old);
    assert_eq!(new["spec"]["clusterIPs"], json!(["10.0.0.1"]));
    assert_eq!(new["spec"]["ports"][0]["nodePort"], 30000);
    new["spec"]["clusterIP"] = "10.0.0.2".into();
    assert_eq!(
        lines(&validate_object(&gvk, &new, Some(&old))),
        ["spec.clusterIPs[0]: Invalid value: [\"10.0.0.2\"]: may not change once set"]
    );
}

#[test]
fn generations_count_changes_of_what_is_desired() {
    let (gvk, old) = stored(deployment());
    let mut new = old.clone();
    new["metadata"]["labels"] = json!({"x": "y"});
    assert!(!generation_changes(&gvk, &new, &old));
    new["metadata"]["annotations"] = json!({"x": "y"});
    assert!(generation_changes(&gvk, &new, &old));
    let map = Gvk::new("", "v1", "ConfigMap");
    assert!(!has_generation(&map) && !generation_changes(&map, &json!({"data": {"a": "b"}}), &json!({})));
    let custom = Gvk::new("example.com", "v1", "Widget");
    assert!(has_generation(&custom));
    assert!(generation_changes(&custom, &json!({"spec": 2}), &json!({"spec": 1})));
    assert!(!generation_changes(&custom, &json!({"metadata": {"a": 2}}), &json!({"metadata": {"a": 1}})));
}

#[test]
fn what_must_not_change_is_refused() {
    let check = |given: Value, change: &dyn Fn(&mut Value)| {
        let (gvk, old) = stored(given);
        let mut new = old.clone();
        change(&mut new);
        lines(&validate_object(&gvk, &new, Some(&old)))
    };
    let selector = check(deployment(), &|d| {
        d["spec"]["selector"] = json!({"matchLabels": {"a": "c"}});
        d["spec"]["template"]["metadata"]["labels"] = json!({"a": "c"});
    });
    assert_eq!(selector, ["spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"c\"}}: field is immutable"]);
    let mut set = deployment();
    set["kind"] = "StatefulSet".into();
    set["spec"]["serviceName"] = "s".into();
    assert_eq!(check(set.clone(), &|s| s["spec"]["replicas"] = 3.into()), [""; 0]);
    assert!(
        check(set, &|s| s["spec"]["serviceName"] = "t".into())[0]
            .starts_with("spec: Forbidden: updates to statefulset spec for fields other than 'replicas'")
    );
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    assert_eq!(check(pod.clone(), &|p| p["spec"]["containers"][0]["image"] = "j".into()), [""; 0]);
    assert!(
        check(pod, &|p| p["spec"]["containers"][0]["command"] = json!(["x"]))[0]
            .starts_with("spec: Forbidden: pod updates may not change fields other than")
    );
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "immutable": true, "data": {"a": "eA=="}});
    assert_eq!(
        check(secret.clone(), &|s| s["data"]["a"] = "eQ==".into()),
        ["data: Forbidden: field is immutable when `immutable` is set"]
    );
    assert_eq!(check(secret, &|s| s["type"] = "other".into()), ["type: Invalid value: \"other\": field is immutable"]);
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "a"},
        "roleRef": {"kind": "Role", "name": "r"}});
    assert!(check(binding, &|b| b["roleRef"]["name"] = "s".into())[0].ends_with(": cannot change roleRef"));
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    assert!(
        check(claim.clone(), &|c| c["spec"]["resources"]["requests"]["storage"] = "2Gi".into())[0]
            .starts_with("spec: Forbidden: spec is immutable after creation")
    );
    assert_eq!(check(claim, &|c| c["spec"]["volumeName"] = "v".into()), [""; 0]);
}
