//! Conflicts between an applied configuration and the owners of what it changes.
//!
//! In: the paths each other manager would lose. Out: the 409 answer. Guaranteed: causes sorted by manager, then path,
//! where the real server's order varies. Deliberately not done: naming the object, as the real answer does not either.

use super::{
    fieldset::{FieldSet, PathElement, path_text},
    managers::{ManagerId, Operation},
};
use crate::status::{ApiError, Cause};

/// One path that another manager owns and that the applied configuration would change.
#[derive(Debug, Clone)]
pub(super) struct Conflict {
    pub(super) manager: ManagerId,
    pub(super) path: Vec<PathElement>,
}

/// The paths of `set`, each as a conflict with `manager`.
pub(super) fn with_manager(manager: &ManagerId, set: &FieldSet) -> Vec<Conflict> {
    set.paths().into_iter().map(|path| Conflict { manager: manager.clone(), path }).collect()
}

/// `"kubectl" with subresource "status" using apps/v1`; appliers are named without a version.
fn manager_text(id: &ManagerId) -> String {
    let mut text = format!("{:?}", id.manager);
    if !id.subresource.is_empty() {
        text.push_str(&format!(" with subresource {:?}", id.subresource));
    }
    if id.operation == Operation::Update {
        text.push_str(&format!(" using {}", id.api_version));
    }
    text
}

/// The answer to an apply that is not forced.
pub(super) fn error(conflicts: &[Conflict]) -> ApiError {
    let causes = conflicts.iter().map(|conflict| {
        let message = format!("conflict with {}", manager_text(&conflict.manager));
        Cause::new("FieldManagerConflict", path_text(&conflict.path), message)
    });
    let mut error = ApiError::new(409, "Conflict", message(conflicts));
    error.details.causes = causes.collect();
    error
}

fn message(conflicts: &[Conflict]) -> String {
    if let [one] = conflicts {
        let (manager, path) = (manager_text(&one.manager), path_text(&one.path));
        return format!("Apply failed with 1 conflict: conflict with {manager}: {path}");
    }
    let mut lines: Vec<String> = Vec::new();
    let mut last = None;
    for conflict in conflicts {
        if last != Some(&conflict.manager) {
            lines.push(format!("conflicts with {}:", manager_text(&conflict.manager)));
            last = Some(&conflict.manager);
        }
        lines.push(format!("- {}", path_text(&conflict.path)));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}
