//! A small API in memory: revisions, conflicts, generations, subresources, finalizers and grace, nothing else.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

use crate::{
    clock::{Clock, rfc3339_seconds},
    controllers::{
        Change, Client, ResourceInfo, kinds,
        object::{int, list, name, namespace, text},
    },
    entropy::Entropy,
    resource::Gvr,
    status::{ApiError, Cause},
};

#[derive(Debug)]
pub(super) struct FakeClock(Mutex<Timestamp>);

impl Default for FakeClock {
    fn default() -> Self {
        Self(Mutex::new("2026-01-01T00:00:00Z".parse().unwrap()))
    }
}

impl FakeClock {
    pub(super) fn get(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }

    pub(super) fn set(&self, at: Timestamp) {
        let mut now = self.0.lock().unwrap();
        *now = at.max(*now);
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        self.get()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.set(self.get() + duration);
        Box::pin(std::future::ready(()))
    }
}

#[derive(Debug, Default)]
struct Store {
    objects: BTreeMap<(Gvr, String, String), Value>,
    revision: u64,
    changes: Vec<Change>,
    writes: Vec<String>,
    watcher: Option<UnboundedSender<Change>>,
}

#[derive(Debug)]
pub(super) struct Fake {
    clock: Arc<FakeClock>,
    entropy: Entropy,
    store: Mutex<Store>,
    resources: Vec<ResourceInfo>,
}

impl Fake {
    pub(super) fn new(clock: Arc<FakeClock>) -> Self {
        let cluster = [
            (kinds::namespaces(), "Namespace"),
            (kinds::nodes(), "Node"),
            (kinds::volumes(), "PersistentVolume"),
            (kinds::storage_classes(), "StorageClass"),
            (Gvr::new("example.com", "v1", "realms"), "Realm"),
        ];
        let inside = [
            (kinds::pods(), "Pod"),
            (kinds::services(), "Service"),
            (kinds::endpoints(), "Endpoints"),
            (kinds::secrets(), "Secret"),
            (kinds::config_maps(), "ConfigMap"),
            (kinds::service_accounts(), "ServiceAccount"),
            (kinds::claims(), "PersistentVolumeClaim"),
            (kinds::endpoint_slices(), "EndpointSlice"),
            (kinds::replica_sets(), "ReplicaSet"),
            (kinds::deployments(), "Deployment"),
            (kinds::stateful_sets(), "StatefulSet"),
            (kinds::daemon_sets(), "DaemonSet"),
            (kinds::controller_revisions(), "ControllerRevision"),
            (kinds::jobs(), "Job"),
            (kinds::cron_jobs(), "CronJob"),
            (kinds::disruption_budgets(), "PodDisruptionBudget"),
            (Gvr::new("example.com", "v1", "widgets"), "Widget"),
        ];
        let info = |namespaced| move |(gvr, kind): (Gvr, &str)| ResourceInfo { gvr, kind: kind.into(), namespaced };
        let resources = cluster.into_iter().map(info(false)).chain(inside.into_iter().map(info(true))).collect();
        Self { clock, entropy: Entropy::seeded(7), store: Mutex::default(), resources }
    }

    fn lock(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap()
    }

    pub(super) fn watch(&self, watcher: UnboundedSender<Change>) {
        self.lock().watcher = Some(watcher);
    }

    pub(super) fn drain(&self) -> Vec<Change> {
        std::mem::take(&mut self.lock().changes)
    }

    pub(super) fn write_count(&self) -> usize {
        self.lock().writes.len()
    }

    pub(super) fn last_writes(&self) -> Vec<String> {
        self.lock().writes.iter().rev().take(12).cloned().collect()
    }

    pub(super) fn gvr_of(&self, object: &Value) -> Gvr {
        let kind = text(object, "/kind");
        self.resources.iter().find(|r| r.kind == kind).unwrap().gvr.clone()
    }

    pub(super) fn is_namespaced(&self, gvr: &Gvr) -> bool {
        self.resources.iter().any(|r| r.gvr == *gvr && r.namespaced)
    }

    /// Stores an object that differs from what is there; the caller has merged already.
    fn put(&self, gvr: &Gvr, verb: &str, mut next: Value) -> Result<Value, ApiError> {
        let mut store = self.lock();
        let id = (gvr.clone(), namespace(&next).to_owned(), name(&next).to_owned());
        store.writes.push(format!("{verb} {} {}/{}", gvr.resource, id.1, id.2));
        let old = store.objects.get(&id).cloned();
        if let Some(old) = &old {
            let sent = text(&next, "/metadata/resourceVersion").to_owned();
            if !sent.is_empty() && sent != text(old, "/metadata/resourceVersion") {
                return Err(ApiError::stale(gvr, &id.2));
            }
            next["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
            if next["spec"] != old["spec"] && old["metadata"].get("generation").is_some() {
                next["metadata"]["generation"] = json!(int(old, "/metadata/generation") + 1);
            }
            if next == *old {
                return Ok(next);
            }
        }
        store.revision += 1;
        next["metadata"]["resourceVersion"] = json!(store.revision.to_string());
        let held = !list(&next, "/metadata/finalizers").is_empty()
            || (gvr.resource == "namespaces" && !list(&next, "/spec/finalizers").is_empty())
            || (gvr.resource == "pods" && int(&next, "/metadata/deletionGracePeriodSeconds") > 0);
        let dying = next["metadata"].get("deletionTimestamp").is_some();
        let deleted = dying && !held;
        if deleted {
            store.objects.remove(&id);
        } else {
            store.objects.insert(id, next.clone());
        }
        let change = Change { gvr: gvr.clone(), object: next.clone(), deleted };
        if let Some(watcher) = &store.watcher {
            // A watcher that has gone is no concern of a write.
            let _ = watcher.send(change.clone());
        }
        store.changes.push(change);
        Ok(next)
    }

    fn merge_in(&self, gvr: &Gvr, subresource: &str, old: &Value, sent: &Value) -> Value {
        let mut next = sent.clone();
        for field in ["uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds"] {
            match old["metadata"].get(field) {
                Some(value) => next["metadata"][field] = value.clone(),
                None => drop(next["metadata"].as_object_mut().unwrap().remove(field)),
            }
        }
        match subresource {
            "status" => {
                let annotations = sent["metadata"].get("annotations").cloned();
                next = old.clone();
                next["metadata"]["resourceVersion"] = sent["metadata"]["resourceVersion"].clone();
                next["status"] = sent["status"].clone();
                if let (Some(annotations), "deployments") = (annotations, gvr.resource.as_str()) {
                    next["metadata"]["annotations"] = annotations;
                }
            }
            "finalize" => next["status"] = old["status"].clone(),
            _ => match old.get("status") {
                Some(status) => next["status"] = status.clone(),
                None => drop(next.as_object_mut().unwrap().remove("status")),
            },
        }
        next
    }
}

impl Client for Fake {
    fn now(&self) -> Timestamp {
        self.clock.get()
    }

    fn entropy(&self) -> &Entropy {
        &self.entropy
    }

    fn get(&self, gvr: &Gvr, namespace: &str, name: &str) -> Result<Value, ApiError> {
        let id = (gvr.clone(), namespace.to_owned(), name.to_owned());
        self.lock().objects.get(&id).cloned().ok_or_else(|| ApiError::not_found(gvr, name))
    }

    fn list(&self, gvr: &Gvr, wanted: Option<&str>) -> Result<Vec<Value>, ApiError> {
        let store = self.lock();
        let all = store.objects.iter().filter(|((g, n, _), _)| g == gvr && wanted.is_none_or(|w| w == n));
        Ok(all.map(|(_, o)| o.clone()).collect())
    }

    fn create(&self, gvr: &Gvr, namespace: &str, object: &Value) -> Result<Value, ApiError> {
        let info = self.resources.iter().find(|r| r.gvr == *gvr).unwrap();
        let mut next = object.clone();
        next["apiVersion"] = json!(gvr.api_version());
        next["kind"] = json!(info.kind);
        assert_eq!(info.namespaced, !namespace.is_empty(), "{gvr}: wrong scope");
        if text(&next, "/metadata/name").is_empty() {
            let prefix = text(&next, "/metadata/generateName").to_owned();
            assert!(!prefix.is_empty(), "{gvr}: no name");
            next["metadata"]["name"] = json!(format!("{prefix}{}", self.entropy.suffix(5)));
        }
        let own = name(&next).to_owned();
        if self.get(gvr, namespace, &own).is_ok() {
            self.lock().writes.push(format!("create (exists) {} {namespace}/{own}", gvr.resource));
            return Err(ApiError::already_exists(gvr, &own));
        }
        next["metadata"]["uid"] = json!(self.entropy.uuid());
        next["metadata"]["creationTimestamp"] = json!(rfc3339_seconds(self.clock.get()));
        if matches!(gvr.group.as_str(), "apps" | "batch" | "policy") || gvr.resource == "pods" {
            next["metadata"]["generation"] = json!(1);
        }
        let home = self.get(&kinds::namespaces(), "", namespace).unwrap_or_default();
        if !text(&home, "/metadata/deletionTimestamp").is_empty() {
            self.lock().writes.push(format!("create (namespace ends) {} {namespace}/{own}", gvr.resource));
            let mut error = ApiError::new(403, "Forbidden", "the namespace is being terminated");
            error.details.causes.push(Cause::new(
                "NamespaceTerminating",
                "metadata.namespace",
                "it is being terminated",
            ));
            return Err(error);
        }
        match gvr.resource.as_str() {
            "namespaces" => next["spec"] = json!({"finalizers": ["kubernetes"]}),
            // The one default here that has made a controller write for ever.
            "endpointslices" => {
                for port in next["ports"].as_array_mut().into_iter().flatten() {
                    if port["name"].is_null() {
                        port["name"] = json!("");
                    }
                }
            }
            "pods" => next["status"] = json!({"phase": "Pending"}),
            _ => {}
        }
        self.put(gvr, "create", next)
    }

    fn update(&self, gvr: &Gvr, subresource: &str, object: &Value) -> Result<Value, ApiError> {
        let old = self.get(gvr, namespace(object), name(object))?;
        let next = self.merge_in(gvr, subresource, &old, object);
        self.put(gvr, &format!("update/{subresource}"), next)
    }

    fn patch(
        &self,
        gvr: &Gvr,
        subresource: &str,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<Value, ApiError> {
        let old = self.get(gvr, namespace, name)?;
        let mut next = old.clone();
        merge(&mut next, patch);
        if next["metadata"]["uid"] != old["metadata"]["uid"] {
            return Err(ApiError::conflict(gvr, name, "the UID in the precondition does not match"));
        }
        let next = self.merge_in(gvr, subresource, &old, &next);
        self.put(gvr, "patch", next)
    }

    fn delete(&self, gvr: &Gvr, namespace: &str, name: &str, options: &Value) -> Result<(), ApiError> {
        let mut next = self.get(gvr, namespace, name)?;
        for field in ["uid", "resourceVersion"] {
            let wanted = &options["preconditions"][field];
            if !wanted.is_null() && *wanted != next["metadata"][field] {
                return Err(ApiError::conflict(gvr, name, "a precondition does not hold"));
            }
        }
        let finalizer = match text(options, "/propagationPolicy") {
            "Foreground" => Some("foregroundDeletion"),
            "Orphan" => Some("orphan"),
            _ => None,
        };
        let mut finalizers = list(&next, "/metadata/finalizers").to_vec();
        if let Some(finalizer) = finalizer
            && !finalizers.contains(&json!(finalizer))
        {
            finalizers.push(json!(finalizer));
            next["metadata"]["finalizers"] = json!(finalizers);
        }
        if next["metadata"].get("deletionTimestamp").is_none() {
            next["metadata"]["deletionTimestamp"] = json!(rfc3339_seconds(self.clock.get()));
        }
        if gvr.resource == "pods" {
            let bound = !text(&next, "/spec/nodeName").is_empty();
            let ended = matches!(text(&next, "/status/phase"), "Succeeded" | "Failed");
            let grace = if bound && !ended { options["gracePeriodSeconds"].as_i64().unwrap_or(30) } else { 0 };
            let old = next["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(i64::MAX);
            next["metadata"]["deletionGracePeriodSeconds"] = json!(grace.min(old));
        }
        self.put(gvr, "delete", next).map(|_| ())
    }

    fn create_subresource(
        &self,
        gvr: &Gvr,
        subresource: &str,
        namespace: &str,
        name: &str,
        object: &Value,
    ) -> Result<Value, ApiError> {
        assert_eq!(subresource, "binding");
        let mut pod = self.get(gvr, namespace, name)?;
        pod["spec"]["nodeName"] = object["target"]["name"].clone();
        self.put(gvr, "bind", pod)
    }

    fn resources(&self) -> Vec<ResourceInfo> {
        self.resources.clone()
    }
}

fn merge(target: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in fields {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut target[key.as_str()], value);
        }
    }
}
