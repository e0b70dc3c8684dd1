//! Create, get, update, patch, discovery, refusals.

use serde_json::{Value, json};

use super::{MAPS, Tester, WIDGETS, widget};

#[tokio::test]
async fn an_object_lives_through_its_verbs() {
    let t = Tester::new();
    let made = t.config_map("a", json!({})).await;
    assert_eq!(made["kind"], "ConfigMap");
    assert_eq!(made["metadata"]["namespace"], "default");
    assert_eq!(made["metadata"]["uid"].as_str().unwrap().len(), 36);
    assert!(made["metadata"].get("generation").is_none());
    let uri = format!("{MAPS}/a");
    assert_eq!(t.get(&uri).await.body, made);
    let patched = t.merge(&uri, &json!({"data": {"b": "2", "a": null}})).await;
    assert_eq!((patched.code, &patched.body["data"]), (200, &json!({"b": "2"})));
    let mut next = patched.body.clone();
    next["data"]["c"] = "3".into();
    let put = t.put(&uri, &next).await;
    assert_eq!(put.code, 200);
    // The same body again is stale now.
    next["data"]["c"] = "4".into();
    let stale = t.put(&uri, &next).await;
    assert_eq!((stale.code, &stale.body["reason"]), (409, &json!("Conflict")));
    let gone = t.delete(&uri, &json!({})).await;
    assert_eq!((gone.code, &gone.body["status"]), (200, &json!("Success")));
    assert_eq!(gone.body["details"]["kind"], "configmaps");
    let missing = t.get(&uri).await;
    assert_eq!(missing.code, 404);
    assert_eq!(missing.body["message"], "configmaps \"a\" not found");
}

#[tokio::test]
async fn a_write_without_a_change_keeps_the_revision() {
    let t = Tester::new();
    t.config_map("a", json!({})).await;
    let before = t.server.revision();
    let same = t.merge(&format!("{MAPS}/a"), &json!({"data": {"a": "1"}})).await;
    assert_eq!(same.code, 200);
    assert_eq!(t.server.revision(), before);
}

#[tokio::test]
async fn creates_are_checked_against_the_url() {
    let t = Tester::new();
    t.config_map("a", json!({})).await;
    let cases = [
        (json!({"metadata": {"name": "a"}}), 409, "AlreadyExists"),
        (json!({"metadata": {}}), 422, "Invalid"),
        (json!({"metadata": {"name": "A_b"}}), 422, "Invalid"),
        (json!({"metadata": {"name": "b", "namespace": "other"}}), 400, "BadRequest"),
        (json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "b"}}), 400, "BadRequest"),
        (json!({"kind": "ConfigMap", "apiVersion": "v2", "metadata": {"name": "b"}}), 400, "BadRequest"),
    ];
    for (body, code, reason) in cases {
        let got = t.post(MAPS, &body).await;
        assert_eq!((got.code, &got.body["reason"]), (code, &json!(reason)), "{body}");
    }
    let nowhere = t.post("/api/v1/namespaces/none/configmaps", &json!({"metadata": {"name": "a"}})).await;
    assert_eq!((nowhere.code, &nowhere.body["message"]), (404, &json!("namespaces \"none\" not found")));
    let typed = t.send("POST", MAPS, &[("content-type", "text/plain")], "{}").await;
    assert_eq!(typed.code, 415);
}

#[tokio::test]
async fn names_are_generated() {
    let t = Tester::new();
    let got = t.post(MAPS, &json!({"metadata": {"generateName": "a-"}})).await;
    let name = got.body["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("a-") && name.len() == 7, "{name}");
}

#[tokio::test]
async fn a_dry_run_leaves_nothing_behind() {
    let t = Tester::new();
    let before = t.server.revision();
    let got = t.post(&format!("{MAPS}?dryRun=All"), &json!({"metadata": {"name": "a"}})).await;
    assert_eq!(got.code, 201);
    assert_eq!(t.get(&format!("{MAPS}/a")).await.code, 404);
    assert_eq!(t.server.revision(), before);
    assert_eq!(t.post(&format!("{MAPS}?dryRun=Some"), &json!({})).await.code, 422);
}

#[tokio::test]
async fn duplicate_fields_warn_or_fail() {
    let t = Tester::new();
    let json_type = [("content-type", "application/json")];
    let strict = format!("{MAPS}?fieldValidation=Strict");
    let body = r#"{"metadata":{"name":"a"},"data":{"x":"1","x":"2"}}"#;
    let got = t.send("POST", &strict, &json_type, body).await;
    assert_eq!(got.code, 400);
    assert!(got.body["message"].as_str().unwrap().contains("strict decoding error: duplicate field \"data.x\""));
    let got = t.send("POST", MAPS, &json_type, body).await;
    assert_eq!(got.code, 201);
    assert_eq!(got.headers["warning"], r#"299 - "duplicate field \"data.x\"""#);
}

#[tokio::test]
async fn custom_resources_are_served_as_soon_as_they_are_defined() {
    let t = Tester::new();
    assert_eq!(t.get(WIDGETS).await.code, 404);
    t.widgets().await;
    let made = t.post(WIDGETS, &widget("w")).await;
    assert_eq!((made.code, &made.body["metadata"]["generation"]), (201, &json!(1)));
    assert!(made.body.get("status").is_none(), "a create must not set the status");
    let uri = format!("{WIDGETS}/w");
    let status = t.merge(&format!("{uri}/status"), &json!({"status": {"replicas": 2}, "spec": {"text": "no"}})).await;
    assert_eq!((&status.body["status"]["replicas"], &status.body["spec"]["text"]), (&json!(2), &json!("x")));
    assert_eq!(status.body["metadata"]["generation"], 1);
    let spec = t.merge(&uri, &json!({"spec": {"text": "y"}, "status": {"replicas": 7}})).await;
    assert_eq!((&spec.body["status"]["replicas"], &spec.body["metadata"]["generation"]), (&json!(2), &json!(2)));
    let mut unconditional = spec.body.clone();
    unconditional["metadata"]["resourceVersion"] = "".into();
    assert_eq!(t.put(&uri, &unconditional).await.code, 422);
    let strategic = [("content-type", "application/strategic-merge-patch+json")];
    assert_eq!(t.send("PATCH", &uri, &strategic, "{}").await.code, 415);
}

#[tokio::test]
async fn scale_reads_and_writes_replicas() {
    let t = Tester::new();
    t.widgets().await;
    t.post(WIDGETS, &widget("w")).await;
    let uri = format!("{WIDGETS}/w/scale");
    let got = t.get(&uri).await;
    assert_eq!((&got.body["kind"], &got.body["spec"]["replicas"]), (&json!("Scale"), &json!(1)));
    let scaled = t.merge(&uri, &json!({"spec": {"replicas": 4}})).await;
    assert_eq!((scaled.code, &scaled.body["spec"]["replicas"]), (200, &json!(4)));
    assert_eq!(t.get(&format!("{WIDGETS}/w")).await.body["spec"]["replicas"], 4);
    assert_eq!(t.merge(&uri, &json!({"spec": {"replicas": -1}})).await.code, 422);
}

#[tokio::test]
async fn discovery_lists_built_in_and_custom_resources() {
    let t = Tester::new();
    t.widgets().await;
    let groups = t.get("/apis").await.body;
    let names: Vec<&str> = groups["groups"].as_array().unwrap().iter().map(|g| g["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"apps") && names.contains(&"example.com"));
    let list = t.get("/apis/example.com/v1").await.body;
    let resources: Vec<&str> =
        list["resources"].as_array().unwrap().iter().map(|r| r["name"].as_str().unwrap()).collect();
    assert_eq!(resources, ["widgets", "widgets/scale", "widgets/status"]);
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let aggregated = t.send("GET", "/apis", &[("accept", accept)], "").await;
    assert_eq!(aggregated.body["kind"], "APIGroupDiscoveryList");
    assert!(aggregated.text.contains("\"widgets\""));
    let v3 = t.get("/openapi/v3").await.body;
    assert!(v3["paths"].get("apis/example.com/v1").is_some());
    let schemas = t.get("/openapi/v3/apis/example.com/v1").await.body;
    assert!(schemas["components"]["schemas"].get("com.example.v1.Widget").is_some());
}

#[tokio::test]
async fn public_paths_need_nobody_and_the_rest_somebody() {
    use tower::ServiceExt as _;
    let t = Tester::new();
    let ask = |uri: &str, token: Option<String>| {
        let mut request = http::Request::get(uri);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        t.server.clone().oneshot(request.body(http_body_util::Full::<bytes::Bytes>::default()).unwrap())
    };
    for uri in ["/healthz", "/livez", "/readyz", "/version", "/readyz/ping"] {
        assert_eq!(ask(uri, None).await.unwrap().status(), 200, "{uri}");
    }
    assert_eq!(ask("/api/v1/nodes", None).await.unwrap().status(), 401);
    assert_eq!(ask("/api/v1/nodes", Some("wrong".into())).await.unwrap().status(), 401);
    assert_eq!(ask("/api/v1/nodes", Some(t.server.admin_token())).await.unwrap().status(), 200);
}

#[tokio::test]
async fn what_is_not_done_is_refused_loudly() {
    let t = Tester::new();
    t.account().await;
    let made = t.post("/api/v1/namespaces/default/pods", &super::pod("p")).await;
    assert_eq!(made.code, 201, "{made:?}");
    for uri in ["exec", "attach", "portforward", "proxy"] {
        let got = t.get(&format!("/api/v1/namespaces/default/pods/p/{uri}")).await;
        assert_eq!((got.code, &got.body["reason"]), (501, &json!("EmbeddedUnsupported")), "{uri}");
    }
    assert_eq!(t.get("/metrics").await.code, 501);
    assert_eq!(t.get("/api/v1/nonsense").await.text, "404 page not found\n");
    assert_eq!(t.get("/apis/none.io/v1/things").await.code, 404);
    assert_eq!(t.send("DELETE", "/api/v1/namespaces", &[], "").await.code, 405);
}

#[tokio::test]
async fn a_matching_webhook_refuses_the_request() {
    let t = Tester::new();
    let hook = json!({
        "metadata": {"name": "h"},
        "webhooks": [{
            "name": "h.example.com", "clientConfig": {"url": "https://127.0.0.1:1/"}, "failurePolicy": "Ignore",
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
            "objectSelector": {"matchLabels": {"hook": "yes"}},
        }],
    });
    let made = t.post("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", &hook).await;
    assert_eq!(made.code, 201, "{made:?}");
    t.config_map("free", json!({})).await;
    let got = t.post(MAPS, &json!({"metadata": {"name": "b", "labels": {"hook": "yes"}}})).await;
    assert_eq!(got.code, 501);
    assert!(got.body["message"].as_str().unwrap().contains("h.example.com"));
}

#[tokio::test]
async fn bootstrap_objects_are_there() {
    let t = Tester::new();
    for uri in [
        "/api/v1/namespaces/kube-node-lease",
        "/api/v1/nodes/node-1",
        "/apis/storage.k8s.io/v1/storageclasses/standard",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin",
        "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical",
    ] {
        assert_eq!(t.get(uri).await.code, 200, "{uri}");
    }
    let service = t.get("/api/v1/namespaces/default/services/kubernetes").await.body;
    assert_eq!(service["spec"]["clusterIP"], "10.96.0.1");
    assert_ne!(service["metadata"]["uid"], "1a7e99ab-5287-441a-8583-2632a8aa63c1");
}

#[tokio::test]
async fn a_fork_goes_its_own_way() {
    let t = Tester::new();
    t.config_map("a", json!({})).await;
    let fork = Tester { server: t.server.fork() };
    let here = t.config_map("b", json!({})).await;
    assert_eq!(fork.get(&format!("{MAPS}/b")).await.code, 404);
    let there = fork.config_map("b", json!({})).await;
    // Same state, same chance: the same uid.
    assert_eq!(here["metadata"]["uid"], there["metadata"]["uid"]);
    let token = t.server.admin_token();
    assert_eq!(token, fork.server.admin_token());
}

#[tokio::test]
async fn events_are_one_table_under_two_names() {
    let t = Tester::new();
    let event = json!({
        "metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "R", "message": "m", "type": "Normal",
    });
    assert_eq!(t.post("/api/v1/namespaces/default/events", &event).await.code, 201);
    let got = t.get("/apis/events.k8s.io/v1/namespaces/default/events/e").await.body;
    assert_eq!((&got["note"], &got["regarding"]["name"]), (&json!("m"), &json!("p")));
    assert_eq!(got["apiVersion"], "events.k8s.io/v1");
    let list = t.get("/apis/events.k8s.io/v1/events?fieldSelector=regarding.name%3Dp").await.body;
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1), "{list}");
    assert_eq!(list["items"][0].get("involvedObject"), None::<&Value>);
}
