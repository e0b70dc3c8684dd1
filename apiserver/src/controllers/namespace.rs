//! Empties a namespace that is being deleted, reports on it in conditions, and releases it when nothing is left.
//!
//! Pods go first, as since Kubernetes 1.34; everything else follows when no pod is left. What has finalizers of its
//! own is waited for, never forced.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde_json::{Value, json};

use super::{
    Change, Client, Controller, Key, Outcome, ResourceInfo,
    condition::{self, Condition, Times},
    kinds,
    object::{delete, get, is_terminating, list, name, namespace, status_of, write_status},
};
use crate::status::ApiError;

/// See the module.
#[derive(Debug, Default)]
pub struct NamespaceController {
    /// Namespaces in deletion, so that a change in any other costs one look-up.
    terminating: Mutex<BTreeSet<String>>,
}

/// What is still in the namespace.
#[derive(Debug, Default)]
struct Remains {
    /// `pods. has 2 resource instances`, per resource.
    counts: Vec<String>,
    /// Finalizer and number of objects that carry it.
    finalizers: std::collections::BTreeMap<String, usize>,
    failures: Vec<String>,
}

impl Controller for NamespaceController {
    fn name(&self) -> &'static str {
        "namespace-controller"
    }

    fn keys(&self, change: &Change, _client: &dyn Client) -> Vec<Key> {
        let mut terminating = self.lock();
        if kinds::is(&change.gvr, &kinds::namespaces()) {
            let own = name(&change.object);
            if change.deleted || !is_terminating(&change.object) {
                terminating.remove(own);
                return Vec::new();
            }
            terminating.insert(own.into());
            return vec![cluster_key(own)];
        }
        let inside = namespace(&change.object);
        if terminating.contains(inside) { vec![cluster_key(inside)] } else { Vec::new() }
    }

    fn reconcile(&self, client: &dyn Client, key: &Key) -> Result<Outcome, ApiError> {
        let Some(object) = get(client, &kinds::namespaces(), key)? else { return Ok(Outcome::default()) };
        let held = list(&object, "/spec/finalizers").iter().any(|f| f == "kubernetes");
        if !is_terminating(&object) || !held {
            return Ok(Outcome::default());
        }
        let remains = empty(client, &key.name)?;
        let mut status = status_of(&object);
        status["phase"] = json!("Terminating");
        report(&mut status, &remains, client);
        let wrote = write_status(client, &kinds::namespaces(), &object, status)?;
        if !remains.counts.is_empty() || !remains.failures.is_empty() {
            return Ok(Outcome::default());
        }
        let Some(mut object) = (if wrote { get(client, &kinds::namespaces(), key)? } else { Some(object) }) else {
            return Ok(Outcome::default());
        };
        let left: Vec<Value> =
            list(&object, "/spec/finalizers").iter().filter(|f| *f != "kubernetes").cloned().collect();
        object["spec"]["finalizers"] = json!(left);
        super::object::found(client.update(&kinds::namespaces(), "finalize", &object))?;
        Ok(Outcome::default())
    }
}

impl NamespaceController {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.terminating.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn cluster_key(name: &str) -> Key {
    Key { namespace: String::new(), name: name.into() }
}

fn empty(client: &dyn Client, namespace: &str) -> Result<Remains, ApiError> {
    let mut remains = Remains::default();
    let resources: Vec<ResourceInfo> = client.resources().into_iter().filter(|r| r.namespaced).collect();
    let (pods, others): (Vec<_>, Vec<_>) = resources.into_iter().partition(|r| kinds::is(&r.gvr, &kinds::pods()));
    for resource in &pods {
        clear(client, resource, namespace, &mut remains);
    }
    if !remains.counts.is_empty() {
        return Ok(remains);
    }
    for resource in &others {
        clear(client, resource, namespace, &mut remains);
    }
    Ok(remains)
}

/// Deletes all objects of one resource and notes what does not go at once.
fn clear(client: &dyn Client, resource: &ResourceInfo, namespace: &str, remains: &mut Remains) {
    let mut failed = |error: &ApiError| remains.failures.push(error.message.clone());
    let items = match client.list(&resource.gvr, Some(namespace)) {
        Ok(items) => items,
        Err(e) => return failed(&e),
    };
    for item in items.iter().filter(|i| !is_terminating(i)) {
        if let Err(e) = delete(client, &resource.gvr, item, Some("Background")) {
            failed(&e);
        }
    }
    if items.is_empty() {
        return;
    }
    let left = match client.list(&resource.gvr, Some(namespace)) {
        Ok(left) => left,
        Err(e) => return failed(&e),
    };
    for finalizer in left.iter().flat_map(|i| list(i, "/metadata/finalizers")).filter_map(Value::as_str) {
        *remains.finalizers.entry(finalizer.into()).or_default() += 1;
    }
    if !left.is_empty() {
        let gvr = &resource.gvr;
        remains.counts.push(format!("{}.{} has {} resource instances", gvr.resource, gvr.group, left.len()));
    }
}

fn report(status: &mut Value, remains: &Remains, client: &dyn Client) {
    let finalizers: Vec<String> =
        remains.finalizers.iter().map(|(f, n)| format!("{f} in {n} resource instances")).collect();
    let remaining = format!("Some resources are remaining: {}", remains.counts.join(", "));
    let finalizing = format!("Some content in the namespace has finalizers remaining: {}", finalizers.join(", "));
    let failed = format!(
        "Failed to delete all resource types, {} remaining: {}",
        remains.failures.len(),
        remains.failures.join(", ")
    );
    let rows = [
        ("NamespaceDeletionDiscoveryFailure", false, "ResourcesDiscovered", "All resources successfully discovered"),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            false,
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        if remains.failures.is_empty() {
            (
                "NamespaceDeletionContentFailure",
                false,
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization",
            )
        } else {
            ("NamespaceDeletionContentFailure", true, "ContentDeletionFailed", failed.as_str())
        },
        if remains.counts.is_empty() {
            ("NamespaceContentRemaining", false, "ContentRemoved", "All content successfully removed")
        } else {
            ("NamespaceContentRemaining", true, "SomeResourcesRemain", remaining.as_str())
        },
        if finalizers.is_empty() {
            (
                "NamespaceFinalizersRemaining",
                false,
                "ContentHasNoFinalizers",
                "All content-preserving finalizers finished",
            )
        } else {
            ("NamespaceFinalizersRemaining", true, "SomeFinalizersRemain", finalizing.as_str())
        },
    ];
    for (kind, bad, reason, message) in rows {
        let condition = Condition { kind, status: if bad { "True" } else { "False" }, reason, message };
        condition::set(status, &condition, Times::TransitionOnly, client.now());
    }
}
