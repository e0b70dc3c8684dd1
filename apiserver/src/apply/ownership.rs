//! What one write takes from other managers, and what is never owned.
//!
//! In: the live and the new object, and everyone's fields. Out: everyone's fields after the write, or conflicts.
//! Guaranteed: changed and added values leave the sets of all others, removed ones too. Deliberately not done:
//! conversion between versions: sets of all versions are read in the shape of the written one.

use serde_json::Value;

use super::{
    compare::{Comparison, compare},
    conflict::{self, Conflict},
    fieldset::FieldSet,
    managers::{ManagerId, Managers},
    reconcile::reconcile,
    shape::Shape,
};

/// Whether others lose what the write changes, or stop it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Contest {
    Take,
    Refuse,
}

/// Takes the differences of `old` and `new` from all managers but `own`.
pub(super) fn transfer(
    shape: Shape<'_>,
    (old, new): (&Value, &Value),
    managers: &mut Managers,
    own: Option<&ManagerId>,
    contest: Contest,
    reset: &FieldSet,
) -> Result<Comparison, Vec<Conflict>> {
    let changes = compare(shape, old, new).excluding(reset);
    let written = changes.modified.union(&changes.added);
    let mut conflicts = Vec::new();
    for (id, entry) in managers.0.iter().filter(|(id, _)| Some(*id) != own) {
        conflicts.extend(conflict::with_manager(id, &entry.set.intersection(&written)));
    }
    if contest == Contest::Refuse && !conflicts.is_empty() {
        return Err(conflicts);
    }
    for (_, entry) in managers.0.iter_mut().filter(|(id, _)| Some(*id) != own) {
        entry.set = entry.set.difference(&written).difference(&changes.removed);
    }
    managers.drop_empty();
    Ok(changes)
}

/// Reads all stored sets in the present shape.
pub(super) fn reconcile_all(shape: Shape<'_>, managers: &mut Managers) {
    for entry in managers.0.values_mut() {
        entry.set = reconcile(shape, &entry.set);
    }
}

/// The fields that no manager owns, because the server or the request's address determines them.
pub(super) fn without_identity(set: &FieldSet) -> FieldSet {
    const METADATA: [&str; 9] = [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ];
    let mut never = FieldSet::of_fields(&[&["apiVersion"], &["kind"], &["metadata"]]);
    never = never.union(&FieldSet::of_fields(&METADATA.map(|name| ["metadata", name]).each_ref().map(|p| &p[..])));
    set.difference(&never)
}
