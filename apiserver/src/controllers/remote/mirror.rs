//! What a server holds, as far as its watches and the answers to own writes have told.
//!
//! # Guarantees
//! An object is only replaced by a newer one, by `resourceVersion`, and one that is known to be gone does not come
//! back by an event that is late.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde_json::{Value, json};
use tokio::sync::watch;

use crate::{
    controllers::{
        Change, Key, ResourceInfo,
        object::{key, text, uid},
    },
    resource::Gvr,
};

#[derive(Debug)]
struct Table {
    info: ResourceInfo,
    listed: bool,
    objects: BTreeMap<Key, Value>,
    /// UIDs of what own deletions removed, until the watch tells of them.
    gone: BTreeSet<String>,
}

impl Table {
    fn new(info: ResourceInfo) -> Self {
        Self { info, listed: false, objects: BTreeMap::new(), gone: BTreeSet::new() }
    }

    fn put(&mut self, object: &Value) {
        let own = key(object);
        let is_old = self.objects.get(&own).is_some_and(|known| revision(known) >= revision(object));
        if !is_old && !self.gone.contains(uid(object)) {
            self.objects.insert(own, object.clone());
        }
    }

    fn remove(&mut self, object: &Value) {
        let own = key(object);
        if self.objects.get(&own).is_some_and(|known| uid(known) == uid(object)) {
            self.objects.remove(&own);
        }
    }
}

/// One table per resource.
#[derive(Debug)]
pub(super) struct Mirror {
    tables: Mutex<BTreeMap<String, Table>>,
    /// How many tables still wait for their first list.
    unlisted: watch::Sender<usize>,
}

impl Mirror {
    pub(super) fn new(resources: Vec<ResourceInfo>) -> Self {
        let unlisted = watch::Sender::new(resources.len());
        let tables = resources.into_iter().map(|info| (info.gvr.group_resource(), Table::new(info))).collect();
        Self { tables: Mutex::new(tables), unlisted }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Table>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn resources(&self) -> Vec<ResourceInfo> {
        self.lock().values().map(|table| table.info.clone()).collect()
    }

    pub(super) fn info(&self, gvr: &Gvr) -> Option<ResourceInfo> {
        self.lock().get(&gvr.group_resource()).map(|table| table.info.clone())
    }

    /// Waits for the first list of every resource.
    pub(super) async fn all_listed(&self) {
        // The sender is ours, so that this cannot fail.
        let _ = self.unlisted.subscribe().wait_for(|left| *left == 0).await;
    }

    pub(super) fn unlisted(&self) -> Vec<String> {
        self.lock().iter().filter(|(_, table)| !table.listed).map(|(name, _)| name.clone()).collect()
    }

    /// A resource that has come into being; tells whether it was unknown.
    pub(super) fn add(&self, info: ResourceInfo) -> bool {
        let mut tables = self.lock();
        let name = info.gvr.group_resource();
        if tables.get(&name).is_some_and(|table| table.info == info) {
            return false;
        }
        tables.insert(name, Table::new(info));
        self.count(&tables);
        true
    }

    /// A resource that is served no more; gives the deletions that nobody will tell of.
    pub(super) fn drop_resource(&self, group_resource: &str) -> Vec<Change> {
        let mut tables = self.lock();
        let Some(table) = tables.remove(group_resource) else { return Vec::new() };
        self.count(&tables);
        let gvr = table.info.gvr;
        table.objects.into_values().map(|object| Change { gvr: gvr.clone(), object, deleted: true }).collect()
    }

    fn count(&self, tables: &BTreeMap<String, Table>) {
        self.unlisted.send_replace(tables.values().filter(|table| !table.listed).count());
    }

    /// The objects of a resource, of one namespace or of all; `None` when they are not known here.
    pub(super) fn list(&self, gvr: &Gvr, namespace: Option<&str>) -> Option<Vec<Value>> {
        let tables = self.lock();
        let table = tables.get(&gvr.group_resource()).filter(|table| table.listed && table.info.gvr == *gvr)?;
        let inside = |key: &Key| namespace.is_none_or(|wanted| wanted.is_empty() || key.namespace == wanted);
        Some(table.objects.iter().filter(|(key, _)| inside(key)).map(|(_, object)| object.clone()).collect())
    }

    /// Takes in a whole list; gives every object as a change, and those that are gone since the last list.
    pub(super) fn replace(&self, gvr: &Gvr, items: Vec<Value>) -> Vec<Change> {
        let mut tables = self.lock();
        let Some(table) = tables.get_mut(&gvr.group_resource()) else { return Vec::new() };
        let items: Vec<Value> = items.into_iter().map(|item| typed(item, &table.info)).collect();
        let there: BTreeSet<&str> = items.iter().map(uid).collect();
        let lost: Vec<Value> = table.objects.values().filter(|o| !there.contains(uid(o))).cloned().collect();
        for object in &lost {
            table.remove(object);
        }
        for object in &items {
            table.put(object);
        }
        table.listed = true;
        self.count(&tables);
        let change = |deleted| move |object| Change { gvr: gvr.clone(), object, deleted };
        lost.into_iter().map(change(true)).chain(items.into_iter().map(change(false))).collect()
    }

    /// Takes in what a watch tells.
    pub(super) fn observe(&self, change: &Change) {
        let mut tables = self.lock();
        let Some(table) = tables.get_mut(&change.gvr.group_resource()) else { return };
        if change.deleted {
            table.gone.remove(uid(&change.object));
            table.remove(&change.object);
        } else {
            table.put(&change.object);
        }
    }

    /// Takes in the answer to an own write.
    pub(super) fn wrote(&self, gvr: &Gvr, object: &Value) {
        // A `Status` or a `Binding` has no revision: it says nothing about an object.
        if let Some(table) = self.lock().get_mut(&gvr.group_resource())
            && table.info.gvr == *gvr
            && revision(object) > 0
        {
            table.put(&typed(object.clone(), &table.info));
        }
    }

    /// After an own deletion a look showed the object to be gone.
    pub(super) fn deleted(&self, gvr: &Gvr, own: &Key) {
        if let Some(table) = self.lock().get_mut(&gvr.group_resource())
            && let Some(object) = table.objects.remove(own)
        {
            table.gone.insert(uid(&object).into());
        }
    }
}

/// Items of a list carry no type.
pub(super) fn typed(mut object: Value, info: &ResourceInfo) -> Value {
    if object.get("kind").is_none() {
        object["apiVersion"] = json!(info.gvr.api_version());
        object["kind"] = json!(info.kind);
    }
    object
}

/// Servers since 1.35 promise what all did before: revisions of one resource are numbers that grow.
fn revision(object: &Value) -> u64 {
    text(object, "/metadata/resourceVersion").parse().unwrap_or_default()
}
