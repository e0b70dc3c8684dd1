//! The garbage collector: deletes what all owners have left, and carries out foreground and orphan deletion.
//!
//! # Flow
//! Every change updates a graph (uid -> owners, dependents) and names the uids to look at; a step decides on the
//! live object and its live owners.
//!
//! # Guarantees
//! An object goes only when each of its owners is verified to be absent: by UID, under its group and kind, in the
//! object's own namespace or at cluster scope. An owner in another namespace therefore counts as absent, as in a
//! real cluster. Deletes carry UID and resourceVersion as preconditions.
//!
//! # Not done
//! An owner whose kind the server does not know (its CRD is gone) is neither present nor absent: the object stays
//! and is looked at again when a CRD changes. A namespaced owner of a cluster-scoped object is never resolved.

mod graph;

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use self::graph::{Graph, Node, OwnerRef};
use super::{
    Change, Client, Controller, Key, Outcome, ResourceInfo,
    object::{found, group_of, has_finalizer, is_terminating, list, patch_metadata, remove_finalizer, text, uid},
};
use crate::status::ApiError;

pub(super) const FOREGROUND: &str = "foregroundDeletion";
pub(super) const ORPHAN: &str = "orphan";

/// See the module.
#[derive(Debug, Default)]
pub struct GarbageCollector {
    graph: Mutex<Graph>,
}

/// What became of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Solid,
    Absent,
    /// Deleted in the foreground: it waits for its dependents.
    Waiting,
    /// Its kind is not known.
    Unknown,
}

impl Controller for GarbageCollector {
    fn name(&self) -> &'static str {
        "generic-garbage-collector"
    }

    fn keys(&self, change: &Change, _client: &dyn Client) -> Vec<Key> {
        let mut graph = self.lock();
        let uids = graph.absorb(change);
        uids.into_iter().map(|uid| Key { namespace: String::new(), name: uid }).collect()
    }

    fn reconcile(&self, client: &dyn Client, key: &Key) -> Result<Outcome, ApiError> {
        let Some(node) = self.lock().node(&key.name) else { return Ok(Outcome::default()) };
        let Some(object) = found(client.get(&node.gvr, &node.namespace, &node.name))? else {
            return Ok(Outcome::default());
        };
        if uid(&object) != key.name {
            return Ok(Outcome::default());
        }
        if is_terminating(&object) {
            if has_finalizer(&object, ORPHAN) {
                self.orphan_dependents(client, &node, &object)?;
            } else if has_finalizer(&object, FOREGROUND) {
                let blocked = self.lock().is_blocked(&key.name);
                if blocked {
                    self.process_owners(client, &node, &object)?;
                } else {
                    remove_finalizer(client, &node.gvr, &object, FOREGROUND)?;
                }
            }
            return Ok(Outcome::default());
        }
        self.process_owners(client, &node, &object)?;
        Ok(Outcome::default())
    }
}

impl GarbageCollector {
    fn lock(&self) -> MutexGuard<'_, Graph> {
        self.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes every dependent's reference off, then lets the owner go.
    fn orphan_dependents(&self, client: &dyn Client, node: &Node, object: &Value) -> Result<(), ApiError> {
        let dependents = self.lock().dependents(uid(object));
        for dependent in dependents {
            let Some(child) = found(client.get(&dependent.gvr, &dependent.namespace, &dependent.name))? else {
                continue;
            };
            if uid(&child) == dependent.uid {
                drop_references(client, &dependent, &child, &[uid(object)])?;
            }
        }
        remove_finalizer(client, &node.gvr, object, ORPHAN)
    }

    fn process_owners(&self, client: &dyn Client, node: &Node, object: &Value) -> Result<(), ApiError> {
        let owners: Vec<OwnerRef> = list(object, "/metadata/ownerReferences").iter().map(OwnerRef::parse).collect();
        if owners.is_empty() {
            return Ok(());
        }
        let mut absent = Vec::new();
        let mut waiting = Vec::new();
        let mut held = false;
        for owner in &owners {
            match self.standing(client, node, owner)? {
                Standing::Solid => held = true,
                Standing::Absent => absent.push(owner.uid.as_str()),
                Standing::Waiting => waiting.push(owner.uid.as_str()),
                Standing::Unknown => {
                    held = true;
                    self.lock().unresolved.insert(node.uid.clone());
                }
            }
        }
        if held {
            let gone: Vec<&str> = absent.into_iter().chain(waiting).collect();
            return if gone.is_empty() { Ok(()) } else { drop_references(client, node, object, &gone) };
        }
        if is_terminating(object) {
            return self.unblock(client, node, object, !waiting.is_empty());
        }
        let has_dependents = self.lock().has_dependents(&node.uid);
        let policy = if !waiting.is_empty() && has_dependents {
            "Foreground"
        } else if has_finalizer(object, ORPHAN) {
            "Orphan"
        } else if has_finalizer(object, FOREGROUND) {
            "Foreground"
        } else {
            "Background"
        };
        let options = json!({
            "preconditions": {"uid": uid(object), "resourceVersion": text(object, "/metadata/resourceVersion")},
            "propagationPolicy": policy,
        });
        match client.delete(&node.gvr, &node.namespace, &node.name, &options) {
            Err(e) if e.code == 404 => Ok(()),
            other => other,
        }
    }

    /// Breaks a circle of foreground deletions: the object no longer blocks its owners when one of its own
    /// dependents is in foreground deletion, too.
    fn unblock(&self, client: &dyn Client, node: &Node, object: &Value, waiting: bool) -> Result<(), ApiError> {
        let circular = self.lock().dependents(&node.uid).iter().any(|d| d.foreground);
        let blocks = list(object, "/metadata/ownerReferences").iter().any(|r| r["blockOwnerDeletion"] == true);
        if !(waiting && circular && blocks) {
            return Ok(());
        }
        let mut refs = list(object, "/metadata/ownerReferences").to_vec();
        for reference in &mut refs {
            reference["blockOwnerDeletion"] = json!(false);
        }
        patch_metadata(client, &node.gvr, object, "ownerReferences", json!(refs))
    }

    /// The owner as the graph knows it, else as the server does.
    fn standing(&self, client: &dyn Client, child: &Node, owner: &OwnerRef) -> Result<Standing, ApiError> {
        if let Some(node) = self.lock().node(&owner.uid)
            && node.is_named(owner)
            && (node.namespace.is_empty() || node.namespace == child.namespace)
        {
            return Ok(if node.foreground { Standing::Waiting } else { Standing::Solid });
        }
        let Some(resource) = resolve(client, owner) else { return Ok(Standing::Unknown) };
        let namespace = match (resource.namespaced, child.namespace.is_empty()) {
            (true, true) => return Ok(Standing::Solid),
            (true, false) => child.namespace.as_str(),
            (false, _) => "",
        };
        let Some(there) = found(client.get(&resource.gvr, namespace, &owner.name))? else {
            return Ok(Standing::Absent);
        };
        Ok(if uid(&there) != owner.uid {
            Standing::Absent
        } else if is_terminating(&there) && has_finalizer(&there, FOREGROUND) {
            Standing::Waiting
        } else {
            Standing::Solid
        })
    }
}

fn resolve(client: &dyn Client, owner: &OwnerRef) -> Option<ResourceInfo> {
    let group = group_of(&owner.api_version);
    client.resources().into_iter().find(|r| r.kind == owner.kind && r.gvr.group == group)
}

fn drop_references(client: &dyn Client, node: &Node, object: &Value, owners: &[&str]) -> Result<(), ApiError> {
    let left: Vec<&Value> =
        list(object, "/metadata/ownerReferences").iter().filter(|r| !owners.contains(&text(r, "/uid"))).collect();
    patch_metadata(client, &node.gvr, object, "ownerReferences", json!(left))
}
