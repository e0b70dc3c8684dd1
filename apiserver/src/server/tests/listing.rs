//! Lists: selectors, pages, revisions, forms.

use serde_json::{Value, json};

use super::{MAPS, Tester, WIDGETS, widget};

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|i| i["metadata"]["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn selectors_choose() {
    let t = Tester::new();
    for (name, app) in [("a", "x"), ("b", "y"), ("c", "x")] {
        t.config_map(name, json!({"app": app})).await;
    }
    let list = t.get(&format!("{MAPS}?labelSelector=app%3Dx")).await.body;
    assert_eq!(names(&list), ["a", "c"]);
    assert_eq!(list["kind"], "ConfigMapList");
    assert!(list["items"][0].get("kind").is_none(), "items of built-in lists have no kind");
    let list = t.get(&format!("{MAPS}?fieldSelector=metadata.name%3Db")).await.body;
    assert_eq!(names(&list), ["b"]);
    assert_eq!(t.get(&format!("{MAPS}?fieldSelector=data.a%3Db")).await.code, 400);
}

#[tokio::test]
async fn pages_are_of_one_revision() {
    let t = Tester::new();
    for name in ["a", "b", "c"] {
        t.config_map(name, json!({})).await;
    }
    let first = t.get(&format!("{MAPS}?limit=2")).await.body;
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 1);
    // What is written between pages must not show.
    t.config_map("d", json!({})).await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = t.get(&format!("{MAPS}?limit=2&continue={token}")).await.body;
    assert_eq!(names(&second), ["c"]);
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    t.server.compact();
    let expired = t.get(&format!("{MAPS}?limit=2&continue={token}")).await;
    assert_eq!((expired.code, &expired.body["reason"]), (410, &json!("Expired")));
    assert_eq!(t.get(&format!("{MAPS}?continue=!!")).await.code, 400);
}

#[tokio::test]
async fn revisions_of_lists_follow_the_rules() {
    let t = Tester::new();
    let made = t.config_map("a", json!({})).await;
    let revision = made["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    t.config_map("b", json!({})).await;
    let exact = t.get(&format!("{MAPS}?resourceVersion={revision}&resourceVersionMatch=Exact")).await.body;
    assert_eq!(names(&exact), ["a"]);
    let newer = t.get(&format!("{MAPS}?resourceVersion={revision}&resourceVersionMatch=NotOlderThan")).await.body;
    assert_eq!(names(&newer), ["a", "b"]);
    assert_eq!(t.get(&format!("{MAPS}?resourceVersionMatch=Exact")).await.code, 422);
    assert_eq!(t.get(&format!("{MAPS}?resourceVersion=0&resourceVersionMatch=Exact")).await.code, 422);
    let future = t.get(&format!("{MAPS}?resourceVersion=999999")).await;
    assert_eq!((future.code, &future.body["reason"]), (504, &json!("Timeout")));
    assert_eq!(future.headers["retry-after"], "1");
}

#[tokio::test]
async fn other_forms_are_negotiated() {
    let t = Tester::new();
    t.widgets().await;
    t.post(WIDGETS, &widget("w")).await;
    let partial = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
    let list = t.send("GET", WIDGETS, &[("accept", partial)], "").await.body;
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert!(list["items"][0].get("spec").is_none());
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let rows = t.send("GET", WIDGETS, &[("accept", table)], "").await.body;
    assert_eq!(rows["rows"][0]["cells"], json!(["w", "x"]));
    assert_eq!(rows["columnDefinitions"][1]["name"], "Text");
    // Pods have columns of their own, which are not computed: the objects come instead.
    let pods = t.send("GET", "/api/v1/pods", &[("accept", table)], "").await.body;
    assert_eq!(pods["kind"], "PodList");
    let only = t.send("GET", "/api/v1/pods", &[("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")], "").await;
    assert_eq!(only.code, 406);
    assert_eq!(t.send("GET", MAPS, &[("accept", "application/cbor")], "").await.code, 406);
}

#[tokio::test]
async fn lists_span_namespaces_in_key_order() {
    let t = Tester::new();
    t.config_map("z", json!({})).await;
    assert_eq!(t.post("/api/v1/namespaces", &json!({"metadata": {"name": "a"}})).await.code, 201);
    let other = "/api/v1/namespaces/a/configmaps";
    assert_eq!(t.post(other, &json!({"metadata": {"name": "m"}})).await.code, 201);
    assert_eq!(names(&t.get("/api/v1/configmaps").await.body), ["m", "z"]);
    assert_eq!(names(&t.get(other).await.body), ["m"]);
}
