//! Deletion, finalizers, namespaces, pods, services, tokens.

use serde_json::{Value, json};

use super::{MAPS, Tester, WIDGETS, pod, widget, widget_crd};

const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";

#[tokio::test]
async fn finalizers_hold_an_object() {
    let t = Tester::new();
    t.widgets().await;
    let mut object = widget("w");
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    t.post(WIDGETS, &object).await;
    let uri = format!("{WIDGETS}/w");
    let marked = t.delete(&uri, &json!({})).await;
    assert_eq!(marked.code, 200);
    assert!(marked.body["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(marked.body["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(marked.body["metadata"]["generation"], 2);
    let revision = t.server.revision();
    assert_eq!(t.delete(&uri, &json!({})).await.code, 200);
    assert_eq!(t.server.revision(), revision, "a second delete writes nothing");
    let added = t.merge(&uri, &json!({"metadata": {"finalizers": ["example.com/hold", "b/c"]}})).await;
    assert_eq!(added.code, 422);
    let freed = t.merge(&uri, &json!({"metadata": {"finalizers": []}})).await;
    assert_eq!(freed.code, 200);
    assert_eq!(t.get(&uri).await.code, 404);
}

#[tokio::test]
async fn preconditions_and_policies_are_honoured() {
    let t = Tester::new();
    t.config_map("a", json!({})).await;
    let uri = format!("{MAPS}/a");
    let wrong = t.delete(&uri, &json!({"preconditions": {"uid": "other"}})).await;
    assert_eq!((wrong.code, &wrong.body["reason"]), (409, &json!("Conflict")));
    assert_eq!(t.delete(&uri, &json!({"preconditions": {"resourceVersion": "1"}})).await.code, 409);
    assert_eq!(t.delete(&uri, &json!({"propagationPolicy": "Maybe"})).await.code, 422);
    let both = json!({"propagationPolicy": "Orphan", "orphanDependents": true});
    assert_eq!(t.delete(&uri, &both).await.code, 422);
    let held = t.send("DELETE", &format!("{uri}?propagationPolicy=Foreground"), &[], "").await;
    assert_eq!(held.body["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    t.config_map("b", json!({})).await;
    let orphaned = t.delete(&format!("{MAPS}/b"), &json!({"propagationPolicy": "Orphan"})).await;
    assert_eq!(orphaned.body["metadata"]["finalizers"], json!(["orphan"]));
}

#[tokio::test]
async fn collections_are_deleted_by_selector() {
    let t = Tester::new();
    t.config_map("a", json!({"app": "x"})).await;
    t.config_map("b", json!({})).await;
    let got = t.delete(&format!("{MAPS}?labelSelector=app%3Dx"), &json!({})).await;
    assert_eq!((got.code, &got.body["kind"]), (200, &json!("ConfigMapList")));
    assert_eq!(t.get(&format!("{MAPS}/a")).await.code, 404);
    assert_eq!(t.get(&format!("{MAPS}/b")).await.code, 200);
}

#[tokio::test]
async fn namespaces_end_through_finalize() {
    let t = Tester::new();
    let made = t.post("/api/v1/namespaces", &json!({"metadata": {"name": "a"}})).await.body;
    assert_eq!(made["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(made["status"]["phase"], "Active");
    assert_eq!(made["metadata"]["labels"]["kubernetes.io/metadata.name"], "a");
    let gone = t.delete("/api/v1/namespaces/a", &json!({})).await;
    assert_eq!(gone.body["status"]["phase"], "Terminating");
    let refused = t.post("/api/v1/namespaces/a/configmaps", &json!({"metadata": {"name": "m"}})).await;
    assert_eq!(refused.code, 403);
    assert_eq!(refused.body["details"]["causes"][0]["reason"], "NamespaceTerminating");
    let mut last = gone.body.clone();
    last["spec"]["finalizers"] = json!([]);
    assert_eq!(t.put("/api/v1/namespaces/a/finalize", &last).await.code, 200);
    assert_eq!(t.get("/api/v1/namespaces/a").await.code, 404);
    assert_eq!(t.delete("/api/v1/namespaces/default", &json!({})).await.code, 403);
}

#[tokio::test]
async fn pods_get_an_account_and_a_token_volume() {
    let t = Tester::new();
    let refused = t.post(PODS, &pod("p")).await;
    assert_eq!(refused.code, 403, "no service account yet: {refused:?}");
    t.account().await;
    let made = t.post(PODS, &pod("p")).await.body;
    assert_eq!(made["spec"]["serviceAccountName"], "default");
    let volume = made["spec"]["volumes"][0]["name"].as_str().unwrap();
    assert!(volume.starts_with("kube-api-access-"));
    assert_eq!(made["spec"]["containers"][0]["volumeMounts"][0]["name"], volume);
    assert_eq!(made["spec"]["priority"], 0);
    assert_eq!(made["spec"]["tolerations"].as_array().map(Vec::len), Some(2));
    let mut without = pod("q");
    without["spec"]["automountServiceAccountToken"] = false.into();
    let made = t.post(PODS, &without).await.body;
    assert!(made["spec"].get("volumes").is_none_or(|v| v == &json!([])));
}

#[tokio::test]
async fn a_scheduled_pod_dies_gracefully() {
    let t = Tester::new();
    t.account().await;
    t.post(PODS, &pod("p")).await;
    let uri = format!("{PODS}/p");
    let binding = json!({"target": {"kind": "Node", "name": "node-1"}});
    assert_eq!(t.post(&format!("{uri}/binding"), &binding).await.code, 201);
    assert_eq!(t.post(&format!("{uri}/binding"), &binding).await.code, 409);
    let dying = t.delete(&uri, &json!({})).await;
    assert_eq!(dying.body["metadata"]["deletionGracePeriodSeconds"], 30);
    let sooner = t.delete(&uri, &json!({"gracePeriodSeconds": 5})).await;
    assert_eq!(sooner.body["metadata"]["deletionGracePeriodSeconds"], 5);
    assert_eq!(t.delete(&uri, &json!({"gracePeriodSeconds": 0})).await.code, 200);
    assert_eq!(t.get(&uri).await.code, 404);
    t.post(PODS, &pod("q")).await;
    t.delete(&format!("{PODS}/q"), &json!({})).await;
    assert_eq!(t.get(&format!("{PODS}/q")).await.code, 404, "nobody runs it, so it goes at once");
}

#[tokio::test]
async fn evictions_respect_budgets() {
    let t = Tester::new();
    t.account().await;
    let mut object = pod("p");
    object["metadata"]["labels"] = json!({"app": "x"});
    t.post(PODS, &object).await;
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = json!({
        "metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}},
    });
    assert_eq!(t.post(budgets, &budget).await.code, 201);
    let refused = t.post(&format!("{PODS}/p/eviction"), &json!({"metadata": {"name": "p"}})).await;
    assert_eq!(refused.code, 429);
    t.merge(&format!("{budgets}/b/status"), &json!({"status": {"disruptionsAllowed": 1}})).await;
    assert_eq!(t.post(&format!("{PODS}/p/eviction"), &json!({"metadata": {"name": "p"}})).await.code, 201);
    assert_eq!(t.get(&format!("{budgets}/b")).await.body["status"]["disruptionsAllowed"], 0);
    assert_eq!(t.get(&format!("{PODS}/p")).await.code, 404);
}

#[tokio::test]
async fn services_get_addresses_and_ports() {
    let t = Tester::new();
    let service =
        |name: &str, kind: &str| json!({"metadata": {"name": name}, "spec": {"type": kind, "ports": [{"port": 80}]}});
    let made = t.post(SERVICES, &service("a", "NodePort")).await.body;
    let ip = made["spec"]["clusterIP"].as_str().unwrap().to_owned();
    assert!(ip.starts_with("10.96."));
    assert_eq!(made["spec"]["clusterIPs"], json!([ip]));
    let port = made["spec"]["ports"][0]["nodePort"].as_u64().unwrap();
    assert!((30_000..=32_767).contains(&port));
    let mut taken = service("b", "ClusterIP");
    taken["spec"]["clusterIP"] = ip.as_str().into();
    assert_eq!(t.post(SERVICES, &taken).await.code, 422);
    let mut headless = service("c", "ClusterIP");
    headless["spec"]["clusterIP"] = "None".into();
    assert_eq!(t.post(SERVICES, &headless).await.body["spec"]["clusterIPs"], json!(["None"]));
    let mut update = service("a", "ClusterIP");
    update["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"].clone();
    let back = t.put(&format!("{SERVICES}/a"), &update).await.body;
    assert_eq!(back["spec"]["clusterIP"], ip.as_str(), "an update that leaves the address out keeps it");
    assert!(back["spec"]["ports"][0].get("nodePort").is_none());
    let external = json!({"metadata": {"name": "d"}, "spec": {"type": "ExternalName", "externalName": "x.y"}});
    assert!(t.post(SERVICES, &external).await.body["spec"].get("clusterIP").is_none());
}

#[tokio::test]
async fn dual_stack_services_are_refused() {
    let t = Tester::new();
    let service = json!({
        "metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}], "ipFamilyPolicy": "RequireDualStack"},
    });
    assert_eq!(t.post(SERVICES, &service).await.code, 501);
}

#[tokio::test]
async fn versions_of_a_custom_resource_differ_in_name_only() {
    let t = Tester::new();
    let mut crd = widget_crd();
    let mut second = crd["spec"]["versions"][0].clone();
    second["name"] = "v1beta1".into();
    second["storage"] = false.into();
    second["deprecated"] = true.into();
    crd["spec"]["versions"].as_array_mut().unwrap().push(second);
    assert_eq!(t.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd).await.code, 201);
    assert_eq!(t.post(WIDGETS, &widget("w")).await.code, 201);
    let old = "/apis/example.com/v1beta1/namespaces/default/widgets/w";
    let got = t.get(old).await;
    assert_eq!((got.code, &got.body["apiVersion"]), (200, &json!("example.com/v1beta1")));
    assert_eq!(got.headers["warning"], "299 - \"example.com/v1beta1 Widget is deprecated\"");
    let before = t.server.revision();
    assert_eq!(t.put(old, &got.body).await.code, 200);
    assert_eq!(t.server.revision(), before, "the same object in another version is no change");
    t.merge(old, &json!({"spec": {"text": "z"}})).await;
    let stored = t.get(&format!("{WIDGETS}/w")).await.body;
    assert_eq!((&stored["apiVersion"], &stored["spec"]["text"]), (&json!("example.com/v1"), &json!("z")));
}

#[tokio::test]
async fn claims_get_the_default_class() {
    let t = Tester::new();
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let claim = json!({
        "metadata": {"name": "c"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    assert_eq!(t.post(claims, &claim).await.body["spec"]["storageClassName"], "standard");
}

#[tokio::test]
async fn pods_under_limits_are_refused() {
    let t = Tester::new();
    t.account().await;
    let ranges = "/api/v1/namespaces/default/limitranges";
    let made = t.post(ranges, &json!({"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Pod"}]}})).await;
    assert_eq!(made.code, 201, "{made:?}");
    assert_eq!(t.post(PODS, &pod("p")).await.code, 501);
}

#[tokio::test]
async fn a_definition_takes_its_objects_along() {
    let t = Tester::new();
    t.widgets().await;
    t.post(WIDGETS, &widget("w")).await;
    let crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
    let conditions = t.get(crd).await.body["status"]["conditions"].clone();
    let established =
        conditions.as_array().unwrap().iter().any(|c| c["type"] == "Established" && c["status"] == "True");
    assert!(established);
    t.delete(crd, &json!({})).await;
    assert_eq!(t.get(crd).await.code, 404);
    assert_eq!(t.get(WIDGETS).await.code, 404);
    let mut hooked = widget_crd();
    let mut second = hooked["spec"]["versions"][0].clone();
    second["name"] = "v2".into();
    second["storage"] = false.into();
    hooked["spec"]["versions"].as_array_mut().unwrap().push(second);
    hooked["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://example.com"}}});
    let refused = t.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &hooked).await;
    assert_eq!(refused.code, 501, "{refused:?}");
}

#[tokio::test]
async fn a_definition_waits_for_held_objects() {
    let t = Tester::new();
    t.widgets().await;
    let mut object = widget("w");
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    t.post(WIDGETS, &object).await;
    let crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
    t.delete(crd, &json!({})).await;
    assert!(t.get(crd).await.body["metadata"]["deletionTimestamp"].is_string());
    let refused = t.post(WIDGETS, &widget("v")).await;
    assert_eq!(refused.code, 405, "{refused:?}");
    t.merge(&format!("{WIDGETS}/w"), &json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(t.get(crd).await.code, 404);
}

#[tokio::test]
async fn tokens_are_of_their_account() {
    let t = Tester::new();
    t.account().await;
    let got = t.post("/api/v1/namespaces/default/serviceaccounts/default/token", &json!({"spec": {}})).await;
    assert_eq!(got.code, 201, "{got:?}");
    let token = got.body["status"]["token"].as_str().unwrap();
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
    let who = t.post("/apis/authentication.k8s.io/v1/tokenreviews", &review).await.body;
    assert_eq!(who["status"]["user"]["username"], "system:serviceaccount:default:default");
    assert!(t.server.issue_token("default", "none").is_err());
    let me: Value = t.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &json!({})).await.body;
    assert_eq!(me["status"]["userInfo"]["username"], "kubernetes-admin");
}
