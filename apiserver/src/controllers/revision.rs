//! `ControllerRevision`s: the recorded templates of StatefulSets and DaemonSets.

use serde_json::{Value, json};

use super::{
    Client,
    claim::{self, Owner},
    kinds,
    object::{delete, get, int, is_terminating, map, name, namespace, patch_metadata, text},
    template,
};
use crate::status::ApiError;

/// The label under which a revision carries its hash.
const HASH_LABEL: &str = "controller.kubernetes.io/hash";

/// All revisions of an owner, oldest first.
pub(super) fn history(client: &dyn Client, owner: Owner<'_>) -> Result<Vec<Value>, ApiError> {
    let gvr = kinds::controller_revisions();
    let all = client.list(&gvr, Some(namespace(owner.object)))?;
    let mut mine = claim::claim(client, &gvr, owner, all, |_| true)?;
    mine.sort_by_key(|r| (int(r, "/revision"), name(r).to_owned()));
    Ok(mine)
}

/// The pod template that a revision records.
pub(super) fn template_of(revision: &Value) -> Value {
    let mut recorded = revision.pointer("/data/spec/template").cloned().unwrap_or_else(|| json!({}));
    if let Some(fields) = recorded.as_object_mut() {
        fields.remove("$patch");
    }
    recorded
}

/// The outcome of looking for the revision of the present template.
pub(super) enum Lookup {
    /// It is in the history, and the newest.
    Found(Value),
    /// The name is taken by another template: count the collision and come back.
    Collision,
}

/// Finds, renews or creates the revision of the owner's present template; `history` gets it as its last element.
pub(super) fn current(
    client: &dyn Client,
    owner: Owner<'_>,
    history: &mut Vec<Value>,
    collisions: i64,
) -> Result<Lookup, ApiError> {
    let gvr = kinds::controller_revisions();
    let wanted = owner.object.pointer("/spec/template").cloned().unwrap_or_else(|| json!({}));
    let newest = history.last().map_or(0, |r| int(r, "/revision"));
    let known = history.iter().position(|r| template::same_template(&template_of(r), &wanted));
    if let Some(at) = known {
        let mut revision = history.remove(at);
        if int(&revision, "/revision") < newest {
            // A template that comes back becomes the newest again instead of being recorded twice.
            let patch = json!({
                "metadata": {"resourceVersion": text(&revision, "/metadata/resourceVersion")},
                "revision": newest + 1,
            });
            revision = client.patch(&gvr, "", namespace(owner.object), name(&revision), &patch)?;
        }
        history.push(revision.clone());
        return Ok(Lookup::Found(revision));
    }
    let object = build(owner, &wanted, newest + 1, collisions);
    match client.create(&gvr, namespace(owner.object), &object) {
        Ok(created) => {
            history.push(created.clone());
            Ok(Lookup::Found(created))
        }
        Err(e) if e.reason == "AlreadyExists" => reuse(client, owner, &object, &wanted),
        Err(e) => Err(e),
    }
}

fn reuse(client: &dyn Client, owner: Owner<'_>, object: &Value, wanted: &Value) -> Result<Lookup, ApiError> {
    let gvr = kinds::controller_revisions();
    match get(client, &gvr, &super::object::key(object))? {
        Some(there) if template::same_template(&template_of(&there), wanted) && !is_terminating(&there) => {
            // Left behind with equal content (an orphan): take it over.
            patch_metadata(client, &gvr, &there, "ownerReferences", json!([owner.reference()]))?;
            Ok(Lookup::Found(there))
        }
        _ => Ok(Lookup::Collision),
    }
}

fn build(owner: Owner<'_>, wanted: &Value, revision: i64, collisions: i64) -> Value {
    let hash = template::hash(wanted, Some(collisions));
    let mut recorded = wanted.clone();
    recorded["$patch"] = json!("replace");
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {
            "name": format!("{}-{hash}", name(owner.object)),
            "namespace": namespace(owner.object),
            "ownerReferences": [owner.reference()],
        },
        "data": {"spec": {"template": recorded}},
        "revision": revision,
    });
    if let Some(labels) = map(wanted, "/metadata/labels") {
        object["metadata"]["labels"] = Value::Object(labels.clone());
    }
    template::add_labels(&mut object, &[(HASH_LABEL, &hash)]);
    if let Some(annotations) = map(owner.object, "/metadata/annotations") {
        let mut kept = annotations.clone();
        kept.remove("kubectl.kubernetes.io/last-applied-configuration");
        if !kept.is_empty() {
            object["metadata"]["annotations"] = Value::Object(kept);
        }
    }
    object
}

/// Deletes the oldest revisions beyond `limit` that are not in `live`.
pub(super) fn truncate(client: &dyn Client, history: &[Value], live: &[&str], limit: i64) -> Result<(), ApiError> {
    let idle: Vec<&Value> = history.iter().filter(|r| !live.contains(&name(r)) && !is_terminating(r)).collect();
    let surplus = idle.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
    for revision in &idle[..surplus] {
        delete(client, &kinds::controller_revisions(), revision, None)?;
    }
    Ok(())
}
