//! The harness as a client of the cluster: applies, patches, deletes and reads objects of any kind.
//!
//! # Guarantees
//! Its traffic never goes through the fault proxy. Kinds are looked up in discovery once and remembered.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use kube::{
    Client,
    api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams},
    core::GroupVersionKind,
    discovery::{ApiResource, Scope},
};
use serde_json::Value;

use super::ClusterError;
use crate::{
    clock::{RunClock, pause},
    object::{ObjectKey, metadata},
    scenario::format::ObjectRef,
};

/// The field manager of the workload, as a user's `kubectl` would be.
pub const USER_MANAGER: &str = "reconverge-user";
/// A field manager other than the user's, for `force-reapply`.
pub const FOREIGN_MANAGER: &str = "reconverge-foreign";
/// How often a bounded wait looks again.
const LOOK: Duration = Duration::from_millis(10);

/// A resource with its scope, as discovery gave it.
#[derive(Debug, Clone)]
pub struct Resolved {
    pub resource: ApiResource,
    pub namespaced: bool,
}

/// The harness's own access to a cluster; cheap to clone.
#[derive(Clone)]
pub struct Tester {
    client: Client,
    /// Where objects without a namespace go.
    namespace: String,
    kinds: Arc<Mutex<BTreeMap<(String, String), Resolved>>>,
}

impl Tester {
    #[must_use]
    pub fn new(client: Client, namespace: &str) -> Self {
        Self { client, namespace: namespace.to_owned(), kinds: Arc::default() }
    }

    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Server-side apply with force, as `manager`.
    ///
    /// # Errors
    /// Whatever the API server answers, with the object's name.
    pub async fn apply(&self, object: &Value, manager: &str) -> Result<Value, ClusterError> {
        let (api, name) = self.api_of(object).await?;
        let params = PatchParams::apply(manager).force();
        let done = api.patch(&name, &params, &Patch::Apply(object)).await;
        answer(done, || format!("apply {}", in_words(object)))
    }

    /// A JSON merge patch of one object.
    ///
    /// # Errors
    /// Whatever the API server answers, with the object's name.
    pub async fn merge(&self, target: &ObjectRef, patch: &Value) -> Result<Value, ClusterError> {
        let api = self.api_for(target).await?;
        let name = target.name.clone().unwrap_or_default();
        let params = PatchParams { field_manager: Some(USER_MANAGER.into()), ..PatchParams::default() };
        let done = api.patch(&name, &params, &Patch::Merge(patch)).await;
        answer(done, || format!("patch {} {name}", target.kind))
    }

    /// Deletes by name or by selector; what is not there counts as deleted.
    ///
    /// # Errors
    /// Whatever else the API server answers.
    pub async fn delete(&self, target: &ObjectRef, grace_seconds: Option<u32>) -> Result<Vec<String>, ClusterError> {
        let api = self.api_for(target).await?;
        let params = DeleteParams { grace_period_seconds: grace_seconds, ..DeleteParams::default() };
        let names = match &target.name {
            Some(name) => vec![name.clone()],
            None => self.find(target).await?.iter().map(|o| metadata(o, "name").to_owned()).collect(),
        };
        for name in &names {
            match api.delete(name, &params).await {
                Ok(_) => {}
                Err(error) if is_not_found(&error) => {}
                Err(error) => return Err(failed(format!("delete {} {name}", target.kind), error)),
            }
        }
        Ok(names)
    }

    /// The objects that a reference means, now; none when it does not exist.
    ///
    /// # Errors
    /// Whatever the API server answers beside 404.
    pub async fn find(&self, target: &ObjectRef) -> Result<Vec<Value>, ClusterError> {
        let api = self.api_for(target).await?;
        let types = (target.api_version.as_str(), target.kind.as_str());
        if let Some(name) = &target.name {
            let found = api.get_opt(name).await.map_err(|e| failed(format!("get {} {name}", target.kind), e))?;
            return Ok(found.into_iter().map(|object| typed(&object, types)).collect());
        }
        let params = ListParams { label_selector: target.selector.clone(), ..ListParams::default() };
        let list = api.list(&params).await.map_err(|e| failed(format!("list {}", target.kind), e))?;
        Ok(list.items.iter().map(|object| typed(object, types)).collect())
    }

    /// One object by key, in the version under which it was applied.
    ///
    /// # Errors
    /// Whatever the API server answers beside 404.
    pub async fn get(&self, object: &Value) -> Result<Option<Value>, ClusterError> {
        let (api, name) = self.api_of(object).await?;
        let found = api.get_opt(&name).await.map_err(|e| failed(format!("get {}", in_words(object)), e))?;
        Ok(found.map(|f| typed(&f, (text(object, "apiVersion"), text(object, "kind")))))
    }

    /// Waits until a just installed CRD can be listed: established is not enough.
    ///
    /// # Errors
    /// When that takes longer than `within`.
    pub async fn await_crd(&self, crd: &Value, clock: RunClock, within: Duration) -> Result<(), ClusterError> {
        let deadline = clock.deadline(within);
        let group = crd.pointer("/spec/group").and_then(Value::as_str).unwrap_or_default();
        let kind = crd.pointer("/spec/names/kind").and_then(Value::as_str).unwrap_or_default();
        let versions = crd.pointer("/spec/versions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let served = versions.iter().filter(|v| v.get("served") == Some(&Value::Bool(true)));
        for version in served.filter_map(|v| v.get("name").and_then(Value::as_str)) {
            let target = ObjectRef {
                api_version: format!("{group}/{version}"),
                kind: kind.to_owned(),
                name: None,
                namespace: None,
                selector: None,
            };
            loop {
                let last = match self.find(&target).await {
                    Ok(_) => break,
                    Err(error) => error.to_string(),
                };
                if deadline.passed(clock) {
                    let doing = format!("a list of {kind} in {group}/{version} after installing its CRD");
                    let within_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
                    return Err(ClusterError::Timeout { doing, within_ms, last });
                }
                pause(LOOK).await;
            }
        }
        Ok(())
    }

    /// Where an object belongs: its own namespace, the scenario's, or none for cluster-scoped kinds.
    ///
    /// # Errors
    /// When the kind is unknown to the cluster.
    pub async fn key_of(&self, object: &Value) -> Result<ObjectKey, ClusterError> {
        let resolved = self.resolve(text(object, "apiVersion"), text(object, "kind")).await?;
        let mut key = ObjectKey::of(object).ok_or_else(|| ClusterError::NotAnObject(in_words(object)))?;
        if !resolved.namespaced {
            key.namespace.clear();
        } else if key.namespace.is_empty() {
            key.namespace.clone_from(&self.namespace);
        }
        Ok(key)
    }

    /// The namespace that a reference means, empty for cluster-scoped kinds.
    ///
    /// # Errors
    /// When the kind is unknown to the cluster.
    pub async fn namespace_of(&self, target: &ObjectRef) -> Result<String, ClusterError> {
        let resolved = self.resolve(&target.api_version, &target.kind).await?;
        let own = target.namespace.clone().unwrap_or_else(|| self.namespace.clone());
        Ok(if resolved.namespaced { own } else { String::new() })
    }

    async fn api_of(&self, object: &Value) -> Result<(Api<DynamicObject>, String), ClusterError> {
        let key = self.key_of(object).await?;
        let resolved = self.resolve(text(object, "apiVersion"), text(object, "kind")).await?;
        Ok((self.api(&resolved, &key.namespace), key.name))
    }

    async fn api_for(&self, target: &ObjectRef) -> Result<Api<DynamicObject>, ClusterError> {
        let resolved = self.resolve(&target.api_version, &target.kind).await?;
        let namespace = target.namespace.as_deref().unwrap_or(&self.namespace);
        Ok(self.api(&resolved, namespace))
    }

    fn api(&self, resolved: &Resolved, namespace: &str) -> Api<DynamicObject> {
        if resolved.namespaced {
            Api::namespaced_with(self.client.clone(), namespace, &resolved.resource)
        } else {
            Api::all_with(self.client.clone(), &resolved.resource)
        }
    }

    async fn resolve(&self, api_version: &str, kind: &str) -> Result<Resolved, ClusterError> {
        let key = (api_version.to_owned(), kind.to_owned());
        if let Some(known) = self.kinds.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(known.clone());
        }
        let unknown = || ClusterError::UnknownKind { api_version: api_version.into(), kind: kind.into() };
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let gvk = GroupVersionKind::gvk(group, version, kind);
        let (resource, capabilities) =
            kube::discovery::pinned_kind(&self.client, &gvk).await.map_err(|error| match error {
                kube::Error::Discovery(_) => unknown(),
                error if is_not_found(&error) => unknown(),
                error => failed(format!("look up {kind} in {api_version}"), error),
            })?;
        let resolved = Resolved { resource, namespaced: capabilities.scope == Scope::Namespaced };
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner).insert(key, resolved.clone());
        Ok(resolved)
    }
}

/// An object as the API gives it in lists lacks `apiVersion` and `kind`; put them back.
pub(crate) fn typed(object: &DynamicObject, types: (&str, &str)) -> Value {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    set_type(&mut value, types);
    value
}

/// Names the type of an item of a list, which has none of its own.
pub(crate) fn set_type(value: &mut Value, (api_version, kind): (&str, &str)) {
    if let Some(map) = value.as_object_mut() {
        map.entry("apiVersion").or_insert_with(|| api_version.into());
        map.entry("kind").or_insert_with(|| kind.into());
    }
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn in_words(object: &Value) -> String {
    format!("{} {}", text(object, "kind"), metadata(object, "name"))
}

fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

fn failed(doing: String, source: kube::Error) -> ClusterError {
    ClusterError::Request { doing, source: Box::new(source) }
}

fn answer(done: Result<DynamicObject, kube::Error>, doing: impl FnOnce() -> String) -> Result<Value, ClusterError> {
    let object = done.map_err(|error| failed(doing(), error))?;
    Ok(serde_json::to_value(object).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        cluster::{Cluster as _, embedded::Embedded},
        seed::Seed,
    };

    const SOON: Duration = Duration::from_secs(20);

    async fn with_cluster(test: impl AsyncFnOnce(&Tester)) {
        let cluster = Embedded::start(Seed(1)).await.unwrap();
        test(&Tester::new(cluster.client(), "default")).await;
        Box::new(cluster).shutdown().await;
    }

    fn map(name: &str, value: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "labels": {"app": "demo"}},
            "data": {"a": value},
        })
    }

    fn maps(name: Option<&str>, selector: Option<&str>) -> ObjectRef {
        ObjectRef {
            api_version: "v1".into(),
            kind: "ConfigMap".into(),
            name: name.map(Into::into),
            namespace: None,
            selector: selector.map(Into::into),
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn objects_go_to_the_scenarios_namespace_and_are_applied_with_force() {
        with_cluster(async |tester| {
            let first = tester.apply(&map("one", "1"), USER_MANAGER).await.unwrap();
            assert_eq!(metadata(&first, "namespace"), "default");
            let again = tester.apply(&map("one", "1"), USER_MANAGER).await.unwrap();
            assert_eq!(metadata(&first, "resourceVersion"), metadata(&again, "resourceVersion"), "nothing to do");
            // Without force this would be a conflict with the user.
            let forced = tester.apply(&map("one", "2"), FOREIGN_MANAGER).await.unwrap();
            assert_eq!(forced["data"]["a"], "2");
            let merged = tester.merge(&maps(Some("one"), None), &json!({"data": {"a": null, "b": "3"}})).await.unwrap();
            assert_eq!(merged["data"], json!({"b": "3"}));
        })
        .await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn objects_are_found_and_deleted_by_name_and_by_selector() {
        with_cluster(async |tester| {
            for name in ["one", "two", "three"] {
                tester.apply(&map(name, "1"), USER_MANAGER).await.unwrap();
            }
            let found = tester.find(&maps(Some("one"), None)).await.unwrap();
            // Lists leave out the type; what is found has it all the same.
            assert_eq!((found.len(), &found[0]["kind"]), (1, &json!("ConfigMap")));
            assert_eq!(tester.find(&maps(None, Some("app=demo"))).await.unwrap()[0]["apiVersion"], "v1");
            assert_eq!(tester.delete(&maps(Some("one"), None), None).await.unwrap(), ["one"]);
            assert_eq!(tester.get(&map("one", "1")).await.unwrap(), None);
            assert_eq!(tester.find(&maps(Some("one"), None)).await.unwrap(), Vec::<Value>::new());
            tester.delete(&maps(Some("one"), None), None).await.expect("what is not there counts as deleted");
            assert_eq!(tester.delete(&maps(None, Some("app=demo")), None).await.unwrap(), ["three", "two"]);
            assert_eq!(tester.find(&maps(None, Some("app=demo"))).await.unwrap(), Vec::<Value>::new());
        })
        .await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn keys_have_the_scope_of_their_kind() {
        with_cluster(async |tester| {
            assert_eq!(tester.key_of(&map("one", "1")).await.unwrap().namespace, "default");
            let class = json!({
                "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
                "metadata": {"name": "fast", "namespace": "nonsense"},
            });
            assert_eq!(tester.key_of(&class).await.unwrap().namespace, "");
            let nameless = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}});
            assert!(matches!(tester.key_of(&nameless).await, Err(ClusterError::NotAnObject(_))));
            let elsewhere = ObjectRef { namespace: Some("other".into()), ..maps(None, None) };
            assert_eq!(tester.namespace_of(&elsewhere).await.unwrap(), "other");
        })
        .await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn errors_name_the_object() {
        with_cluster(async |tester| {
            let unknown = json!({"apiVersion": "a.b/v1", "kind": "Odd", "metadata": {"name": "x"}});
            let error = tester.apply(&unknown, USER_MANAGER).await.unwrap_err();
            assert!(matches!(&error, ClusterError::UnknownKind { kind, .. } if kind == "Odd"), "{error}");
            let error = tester.merge(&maps(Some("none"), None), &json!({})).await.unwrap_err();
            assert_eq!(error.to_string(), "could not patch ConfigMap none");
        })
        .await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_crd_is_awaited_until_it_can_be_listed() {
        with_cluster(async |tester| {
            let clock = RunClock::start();
            let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
            let crd = json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": "odds.a.b"},
                "spec": {
                    "group": "a.b", "scope": "Namespaced",
                    "names": {"kind": "Odd", "plural": "odds", "singular": "odd", "listKind": "OddList"},
                    "versions": [
                        {"name": "v1", "served": true, "storage": true, "schema": schema},
                        {"name": "v0", "served": false, "storage": false, "schema": schema},
                    ],
                },
            });
            let error = tester.await_crd(&crd, clock, Duration::from_millis(50)).await.unwrap_err();
            assert!(matches!(error, ClusterError::Timeout { within_ms: 50, .. }), "{error}");
            tester.apply(&crd, USER_MANAGER).await.unwrap();
            tester.await_crd(&crd, clock, SOON).await.unwrap();
            let odd = json!({"apiVersion": "a.b/v1", "kind": "Odd", "metadata": {"name": "x"}});
            tester.apply(&odd, USER_MANAGER).await.unwrap();
        })
        .await;
    }
}
