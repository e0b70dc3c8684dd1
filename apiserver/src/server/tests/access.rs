//! Permissions, and who owns which field.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::{MAPS, Tester};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";

/// One request with a bearer token.
async fn ask(t: &Tester, token: &str, method: &str, uri: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = http::Request::builder()
        .method(method)
        .uri(uri)
        .header("authorization", format!("Bearer {token}"))
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    let response = t.server.clone().oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

#[tokio::test]
async fn an_account_may_do_what_its_role_says() {
    let t = Tester::new();
    t.account().await;
    t.config_map("a", json!({})).await;
    let token = t.server.issue_token("default", "default").unwrap();
    let (code, body) = ask(&t, &token, "GET", &format!("{MAPS}/a"), &Value::Null).await;
    assert_eq!((code, &body["reason"]), (403, &json!("Forbidden")));
    assert_eq!(
        body["message"],
        "configmaps \"a\" is forbidden: User \"system:serviceaccount:default:default\" cannot get resource \
         \"configmaps\" in API group \"\" in the namespace \"default\""
    );
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]);
    let role = json!({"metadata": {"name": "r"}, "rules": rules});
    assert_eq!(t.post(&format!("{RBAC}/roles"), &role).await.code, 201);
    let binding = json!({
        "metadata": {"name": "b"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
    });
    let made = t.post(&format!("{RBAC}/rolebindings"), &binding).await;
    assert_eq!(made.code, 201, "{made:?}");
    assert_eq!(ask(&t, &token, "GET", &format!("{MAPS}/a"), &Value::Null).await.0, 200);
    assert_eq!(ask(&t, &token, "DELETE", &format!("{MAPS}/a"), &Value::Null).await.0, 403);
    // Discovery is open to everybody who is known.
    assert_eq!(ask(&t, &token, "GET", "/apis", &Value::Null).await.0, 200);
    let review = json!({
        "kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "configmaps", "namespace": "default"}},
    });
    let (code, body) = ask(&t, &token, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review).await;
    assert_eq!((code, &body["status"]["allowed"]), (201, &json!(true)));
    // The token ends with the account.
    t.delete("/api/v1/namespaces/default/serviceaccounts/default", &json!({})).await;
    assert_eq!(ask(&t, &token, "GET", &format!("{MAPS}/a"), &Value::Null).await.0, 401);
}

#[tokio::test]
async fn nobody_grants_more_than_he_holds() {
    let t = Tester::new();
    t.account().await;
    let binding = json!({
        "metadata": {"name": "edit"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
    });
    assert_eq!(t.post(&format!("{RBAC}/rolebindings"), &binding).await.code, 201);
    let token = t.server.issue_token("default", "default").unwrap();
    let grant = json!({
        "metadata": {"name": "more"}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
    });
    let (code, body) = ask(&t, &token, "POST", &format!("{RBAC}/roles"), &grant).await;
    assert_eq!(code, 403, "{body}");
    let less = json!({
        "metadata": {"name": "less"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    });
    assert_eq!(ask(&t, &token, "POST", &format!("{RBAC}/roles"), &less).await.0, 201);
}

#[tokio::test]
async fn appliers_own_their_fields() {
    let t = Tester::new();
    let apply = |manager: &str, value: &str, force: bool| {
        let uri = format!("{MAPS}/a?fieldManager={manager}&force={force}");
        let body = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": value},
        });
        (uri, body.to_string())
    };
    let kind = [("content-type", "application/apply-patch+yaml")];
    let send = async |(uri, body): (String, String)| t.send("PATCH", &uri, &kind, &body).await;
    let made = send(apply("one", "1", false)).await;
    assert_eq!(made.code, 201, "{made:?}");
    assert_eq!(made.body["metadata"]["managedFields"][0]["operation"], "Apply");
    let revision = t.server.revision();
    assert_eq!(send(apply("one", "1", false)).await.code, 200);
    assert_eq!(t.server.revision(), revision, "applying the same again writes nothing");
    let conflict = send(apply("two", "2", false)).await;
    assert_eq!(conflict.code, 409);
    assert_eq!(conflict.body["details"]["causes"][0]["reason"], "FieldManagerConflict");
    let forced = send(apply("two", "2", true)).await;
    assert_eq!((forced.code, &forced.body["data"]["x"]), (200, &json!("2")));
    let managers: Vec<&str> = forced.body["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["manager"].as_str().unwrap())
        .collect();
    assert_eq!(managers, ["two"]);
    let without = t.send("PATCH", &format!("{MAPS}/a"), &kind, "{}").await;
    assert_eq!(without.code, 422, "a manager is required: {without:?}");
}

#[tokio::test]
async fn writers_are_recorded_by_their_agent() {
    let t = Tester::new();
    let headers = [("content-type", "application/json"), ("user-agent", "my-operator/v1 (linux)")];
    let made = t.send("POST", MAPS, &headers, r#"{"metadata":{"name":"a"},"data":{"x":"1"}}"#).await;
    let entry = &made.body["metadata"]["managedFields"][0];
    assert_eq!((&entry["manager"], &entry["operation"]), (&json!("my-operator"), &json!("Update")));
    assert_eq!(entry["fieldsV1"], json!({"f:data": {".": {}, "f:x": {}}}));
}

#[tokio::test]
async fn deployments_are_defaulted_and_merged_by_key() {
    let t = Tester::new();
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let object = json!({
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {
            "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}},
    });
    let made = t.post(deployments, &object).await;
    assert_eq!(made.code, 201, "{made:?}");
    assert_eq!(made.body["spec"]["replicas"], 1);
    let kind = [("content-type", "application/strategic-merge-patch+json")];
    let patch = r#"{"spec":{"template":{"spec":{"containers":[{"name":"d","image":"j"}]}}}}"#;
    let got = t.send("PATCH", &format!("{deployments}/d"), &kind, patch).await;
    let containers = got.body["spec"]["template"]["spec"]["containers"].as_array().map(Vec::len);
    assert_eq!((got.code, containers, &got.body["metadata"]["generation"]), (200, Some(2), &json!(2)));
    let bad = t.merge(&format!("{deployments}/d"), &json!({"spec": {"selector": {"matchLabels": {"x": "y"}}}})).await;
    assert_eq!((bad.code, &bad.body["reason"]), (422, &json!("Invalid")));
    let strict = format!("{deployments}?fieldValidation=Strict");
    let mut unknown = object.clone();
    unknown["metadata"]["name"] = "e".into();
    unknown["spec"]["replica"] = 1.into();
    let refused = t.post(&strict, &unknown).await;
    assert_eq!(refused.code, 400);
    assert_eq!(
        refused.body["message"],
        "Deployment in version \"v1\" cannot be handled as a Deployment: strict decoding error: unknown field \
         \"spec.replica\""
    );
}

#[tokio::test]
async fn impersonation_is_refused() {
    let t = Tester::new();
    let got = t.send("GET", MAPS, &[("impersonate-user", "x")], "").await;
    assert_eq!((got.code, &got.body["reason"]), (501, &json!("EmbeddedUnsupported")));
}
