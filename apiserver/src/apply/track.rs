//! Ownership after a create, an update or a patch.
//!
//! In: the live and the new object. Out: the new object's `managedFields`. Guaranteed: the writer owns what it changed,
//! and nobody else does. Deliberately not done: tracking of objects whose `managedFields` a client has emptied; the
//! real server stops too, until the first apply.

use serde_json::{Value, json};

use super::{
    Writer,
    fieldset::FieldSet,
    managers::{ManagerId, Managers, Operation},
    ownership::{Contest, reconcile_all, transfer, without_identity},
    shape::Shape,
};
use crate::schema::TypeRef;

/// After create, update or patch: recomputes the new object's `metadata.managedFields` relative to `live`.
///
/// `live` is `None` on create. A client that sends `[]` or `[{}]` empties the list; one that sends other entries
/// replaces the live ones, except on subresources.
pub fn track_update(live: Option<&Value>, new: &mut Value, ty: Option<TypeRef<'_>>, writer: &Writer<'_>) {
    track_update_resetting(live, new, ty, writer, &FieldSet::default());
}

/// As [`track_update`], where `reset` names the fields that the written endpoint ignores, with all below them.
pub fn track_update_resetting(
    live: Option<&Value>,
    new: &mut Value,
    ty: Option<TypeRef<'_>>,
    writer: &Writer<'_>,
    reset: &FieldSet,
) {
    let mut managers = present(live, new, writer);
    Managers::default().store(new);
    let stored = live.is_some_and(|object| object.pointer("/metadata/uid").is_some());
    if managers.is_empty() && stored {
        return;
    }
    // The entries of the live object are no part of what the writer changed.
    let before = live.map_or_else(|| empty_like(new), without_entries);
    record(Shape::root(ty), &before, new, &mut managers, writer, reset);
    managers.store(new);
}

/// The entries to start from: the client's, if it sent any, else the live ones.
fn present(live: Option<&Value>, new: &Value, writer: &Writer<'_>) -> Managers {
    let of_live = || live.and_then(|object| Managers::of_object(object).ok()).unwrap_or_default();
    if !writer.subresource.is_empty() {
        return of_live();
    }
    if let Some(Value::Array(list)) = new.pointer("/metadata/managedFields") {
        let blank = |entry: &Value| entry.as_object().is_some_and(|e| e.values().all(|v| v.is_null() || v == ""));
        if list.is_empty() || (list.len() == 1 && list.iter().all(blank)) {
            return Managers::default();
        }
    }
    Managers::of_object(new).ok().filter(|sent| !sent.is_empty()).unwrap_or_else(of_live)
}

/// Credits the writer with the differences between two objects, and everybody else with the rest.
pub(super) fn record(
    shape: Shape<'_>,
    before: &Value,
    after: &Value,
    managers: &mut Managers,
    writer: &Writer<'_>,
    reset: &FieldSet,
) {
    reconcile_all(shape, managers);
    if let Ok(changes) = transfer(shape, (before, after), managers, None, Contest::Take, reset) {
        let mine = without_identity(&changes.modified.union(&changes.added));
        if !mine.is_empty() {
            managers.credit(ManagerId::of(writer, Operation::Update), &mine, writer.api_version, writer.now);
        }
    }
    managers.fold_oldest();
}

/// An object of the same kind with nothing in it.
pub(super) fn empty_like(object: &Value) -> Value {
    json!({"apiVersion": object["apiVersion"], "kind": object["kind"]})
}

pub(super) fn without_entries(object: &Value) -> Value {
    let mut copy = object.clone();
    Managers::default().store(&mut copy);
    copy
}

/// Undoes a write that changed nothing but times in `managedFields`: gives `new` the times of `live`.
///
/// Returns whether the two objects are equal then, so that the write need not reach the store.
pub fn settle_times(live: &Value, new: &mut Value) -> bool {
    let path = "/metadata/managedFields";
    let untimed = |object: &Value| {
        let mut copy = object.clone();
        for entry in copy.pointer_mut(path).and_then(Value::as_array_mut).into_iter().flatten() {
            entry.as_object_mut().map(|fields| fields.remove("time"));
        }
        copy
    };
    let same = untimed(live) == untimed(new);
    if same {
        new.clone_from(live);
    }
    same
}
