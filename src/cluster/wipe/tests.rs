//! The plan of a wipe on made-up lists, and a wipe of an embedded cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube::core::GroupVersionKind;
use serde_json::Value;

use super::{
    order::{FIRST, LAST},
    *,
};
use crate::{
    cluster::{
        Cluster as _,
        embedded::Embedded,
        tester::{Tester, USER_MANAGER},
    },
    seed::Seed,
};

fn found(group: &str, kind: &str, name: &str) -> Found {
    Found {
        identity: Identity { group: group.into(), kind: kind.into(), namespace: "default".into(), name: name.into() },
        resource: ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind)),
        metadata: ObjectMeta { uid: Some(format!("uid-of-{name}")), ..ObjectMeta::default() },
    }
}

fn owned(mut child: Found, owner: &Found) -> Found {
    let uid = owner.metadata.uid.clone().unwrap_or_default();
    child.metadata.owner_references = Some(vec![OwnerReference { uid, ..OwnerReference::default() }]);
    child
}

fn baseline(of: &[&Found]) -> Baseline {
    Baseline(of.iter().map(|found| found.identity.clone()).collect())
}

fn names(of: &[&Found]) -> Vec<String> {
    of.iter().map(|found| found.identity.name.clone()).collect()
}

#[test]
fn what_belongs_to_the_baseline_stays() {
    let deployment = found("apps", "Deployment", "coredns");
    // Their names are made anew whenever the pod is replaced.
    let set = owned(found("apps", "ReplicaSet", "coredns-1"), &deployment);
    let pod = owned(found("", "Pod", "coredns-1-2"), &set);
    let other = found("", "Pod", "stray");
    let dangling = owned(found("", "Pod", "orphan"), &found("apps", "ReplicaSet", "gone"));
    let before = baseline(&[&deployment]);
    let all = [deployment, set, pod, other, dangling];
    assert_eq!(names(&extras(&all, &before)), ["stray", "orphan"]);
}

#[test]
fn what_every_namespace_is_given_is_not_in_the_way() {
    let service = found("", "Service", "kubernetes");
    let all = [
        found("", "ConfigMap", "kube-root-ca.crt"),
        found("", "ServiceAccount", "default"),
        found("", "Endpoints", "kubernetes"),
        found("", "Endpoints", "mine"),
        found("", "ConfigMap", "default"),
    ];
    assert_eq!(names(&extras(&all, &baseline(&[&service]))), ["mine", "default"]);
}

#[test]
fn webhooks_go_first_and_definitions_last() {
    let widget = found("demo.test", "Widget", "demo");
    let child = owned(found("", "ConfigMap", "child"), &widget);
    let order = [
        found("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", "guard"),
        widget,
        child,
        found("apiextensions.k8s.io", "CustomResourceDefinition", "widgets.demo.test"),
    ];
    let ranks: Vec<u8> = order.iter().map(rank).collect();
    assert!(ranks.is_sorted() && ranks.windows(2).all(|pair| pair[0] != pair[1]), "{ranks:?}");
}

#[test]
fn nothing_is_deleted_before_its_turn() {
    let widget = found("demo.test", "Widget", "demo");
    let child = owned(found("", "ConfigMap", "child"), &widget);
    let definition = found("apiextensions.k8s.io", "CustomResourceDefinition", "widgets.demo.test");
    let mut hook = found("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", "guard");
    let deleted = |mut object: Found| {
        object.metadata.deletion_timestamp = Some(Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH));
        object
    };
    assert_eq!(due_rank(&[&hook, &widget, &child, &definition]), Some(FIRST));
    hook = deleted(hook);
    assert_eq!(due_rank(&[&hook, &widget]), None, "the webhook may still refuse it");
    assert_eq!(due_rank(&[&widget, &child, &definition]), Some(1));
    let widget = deleted(widget);
    assert_eq!(due_rank(&[&widget, &child, &definition]), Some(2));
    assert_eq!(due_rank(&[&widget, &definition]), None, "its deletion may need its definition");
    assert_eq!(due_rank(&[&definition]), Some(LAST));
}

/// The names of CRDs are made of what they define; nothing else of that name is meant.
#[test]
fn a_definition_is_known_by_its_name() {
    let served = [ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("demo.test", "v1", "Widget"), "widgets")];
    let definition = found("apiextensions.k8s.io", "CustomResourceDefinition", "widgets.demo.test");
    assert!(is_definition_of(&definition.identity, &served));
    assert!(!is_definition_of(&found("", "ConfigMap", "widgets.demo.test").identity, &served));
    assert!(!is_definition_of(&definition.identity, &[]));
}

#[test]
fn a_pod_with_a_long_grace_is_told_again() {
    let mut pod = found("", "Pod", "slow");
    assert!(is_undeleted(&pod));
    pod.metadata.deletion_timestamp = Some(Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH));
    pod.metadata.deletion_grace_period_seconds = Some(30);
    assert!(is_undeleted(&pod));
    pod.metadata.deletion_grace_period_seconds = Some(1);
    assert!(!is_undeleted(&pod));
}

#[test]
fn a_finalizer_of_the_operator_is_stuck_at_once_and_one_of_kubernetes_later() {
    let with = |finalizer: &str, for_ms: u64| {
        let mut object = found("demo.test", "Widget", "demo");
        object.metadata.finalizers = Some(vec![finalizer.into()]);
        assert!(!is_stuck(&object, u64::MAX), "nobody asked for its deletion");
        object.metadata.deletion_timestamp = Some(Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH));
        is_stuck(&object, for_ms)
    };
    assert!(with("demo.test/cleanup", 1_000));
    assert!(!with("demo.test/cleanup", 900));
    for finalizer in ["kubernetes.io/pvc-protection", "foregroundDeletion", "service.kubernetes.io/load-balancer"] {
        assert!(!with(finalizer, 29_000), "{finalizer}");
        assert!(with(finalizer, 30_000), "{finalizer}");
    }
}

fn crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.demo.test"},
        "spec": {
            "group": "demo.test", "scope": "Namespaced",
            "names": {"kind": "Gadget", "plural": "gadgets", "singular": "gadget", "listKind": "GadgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    })
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "own"},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}},
        },
    })
}

/// An operator's leftovers: a namespace with running pods, and an object whose finalizer nobody removes.
#[tokio::test(flavor = "multi_thread")]
async fn a_used_cluster_holds_again_what_it_held() {
    let cluster = Embedded::start(Seed(1)).await.unwrap();
    let client = cluster.client();
    let before = Baseline::take_when_still(&client, Duration::from_millis(300), WITHIN).await.unwrap();
    assert_eq!(wipe(&client, &before).await.unwrap(), Wiped::default(), "nothing to do");

    let tester = Tester::new(client.clone(), "default");
    let gadget = json!({
        "apiVersion": "demo.test/v1", "kind": "Gadget",
        "metadata": {"name": "demo", "finalizers": ["demo.test/cleanup"]},
    });
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "own"}});
    let role =
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "own"}});
    tester.apply(&crd(), USER_MANAGER).await.unwrap();
    tester.await_crd(&crd(), RunClock::start(), Duration::from_secs(20)).await.unwrap();
    for object in [gadget, namespace, deployment(), role] {
        tester.apply(&object, USER_MANAGER).await.unwrap();
    }
    let done = wipe(&client, &before).await.unwrap();
    assert_eq!(done.stuck, ["Gadget default/demo"]);
    assert!(done.removed >= 5, "{done:?}");
    assert_eq!(Baseline::take_when_still(&client, Duration::from_millis(300), WITHIN).await.unwrap(), before);
    Box::new(cluster).shutdown().await;
}
