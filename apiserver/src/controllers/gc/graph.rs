//! Who owns whom, kept from changes alone.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{FOREGROUND, ORPHAN};
use crate::{
    controllers::{
        Change,
        object::{flag, group_of, has_finalizer, is_terminating, list, name, namespace, text, uid},
    },
    resource::Gvr,
};

/// One entry of `metadata.ownerReferences`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OwnerRef {
    pub uid: String,
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub blocks: bool,
}

impl OwnerRef {
    pub(super) fn parse(reference: &Value) -> Self {
        Self {
            uid: text(reference, "/uid").into(),
            api_version: text(reference, "/apiVersion").into(),
            kind: text(reference, "/kind").into(),
            name: text(reference, "/name").into(),
            blocks: flag(reference, "/blockOwnerDeletion"),
        }
    }
}

/// One object, as far as collection cares.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub gvr: Gvr,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub owners: Vec<OwnerRef>,
    pub terminating: bool,
    /// In foreground deletion.
    pub foreground: bool,
    /// In deletion with its dependents to be orphaned.
    pub orphaning: bool,
}

impl Node {
    fn of(change: &Change) -> Self {
        let object = &change.object;
        let terminating = is_terminating(object);
        Self {
            gvr: change.gvr.clone(),
            kind: text(object, "/kind").into(),
            namespace: namespace(object).into(),
            name: name(object).into(),
            uid: uid(object).into(),
            owners: list(object, "/metadata/ownerReferences").iter().map(OwnerRef::parse).collect(),
            terminating,
            foreground: terminating && has_finalizer(object, FOREGROUND),
            orphaning: terminating && has_finalizer(object, ORPHAN),
        }
    }

    /// Whether a reference gives this object's coordinates, not only its UID.
    pub(super) fn is_named(&self, owner: &OwnerRef) -> bool {
        self.kind == owner.kind && self.name == owner.name && self.gvr.group == group_of(&owner.api_version)
    }
}

/// The graph of all objects.
#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: BTreeMap<String, Node>,
    dependents: BTreeMap<String, BTreeSet<String>>,
    /// Objects with an owner of a kind that was unknown when last looked at.
    pub unresolved: BTreeSet<String>,
}

impl Graph {
    pub(super) fn node(&self, uid: &str) -> Option<Node> {
        self.nodes.get(uid).cloned()
    }

    pub(super) fn dependents(&self, uid: &str) -> Vec<Node> {
        let uids = self.dependents.get(uid).into_iter().flatten();
        uids.filter_map(|d| self.nodes.get(d).cloned()).collect()
    }

    pub(super) fn has_dependents(&self, uid: &str) -> bool {
        self.dependents.get(uid).is_some_and(|d| !d.is_empty())
    }

    /// Whether a dependent still blocks the foreground deletion of `uid`.
    pub(super) fn is_blocked(&self, uid: &str) -> bool {
        let dependents = self.dependents.get(uid).into_iter().flatten();
        dependents
            .filter_map(|d| self.nodes.get(d))
            .any(|node| node.owners.iter().any(|owner| owner.uid == uid && owner.blocks))
    }

    /// Takes a change in and tells whose situation it may have altered.
    pub(super) fn absorb(&mut self, change: &Change) -> BTreeSet<String> {
        let new = Node::of(change);
        let mut touched = BTreeSet::new();
        if new.uid.is_empty() {
            return touched;
        }
        let old = self.nodes.remove(&new.uid);
        for owner in old.iter().flat_map(|o| &o.owners) {
            if let Some(set) = self.dependents.get_mut(&owner.uid) {
                set.remove(&new.uid);
                if set.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
            // An owner that waits for its dependents has one obstacle less, perhaps.
            if self.nodes.get(&owner.uid).is_some_and(|n| n.foreground) {
                touched.insert(owner.uid.clone());
            }
        }
        if new.gvr.resource == "customresourcedefinitions" {
            touched.extend(std::mem::take(&mut self.unresolved));
        }
        if change.deleted {
            self.unresolved.remove(&new.uid);
            touched.extend(self.dependents.get(&new.uid).into_iter().flatten().cloned());
            return touched;
        }
        let same_owners = old.as_ref().is_some_and(|o| o.owners == new.owners && o.terminating == new.terminating);
        if !new.owners.is_empty() && !same_owners {
            touched.insert(new.uid.clone());
        }
        if new.foreground || new.orphaning {
            touched.insert(new.uid.clone());
            if !old.is_some_and(|o| o.foreground || o.orphaning) {
                touched.extend(self.dependents.get(&new.uid).into_iter().flatten().cloned());
            }
        }
        for owner in &new.owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(new.uid.clone());
        }
        self.nodes.insert(new.uid.clone(), new);
        touched
    }
}
