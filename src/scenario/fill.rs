//! From the steps of a file to the steps of a plan: namespaces and names that the file leaves open.

use serde_json::Value;

use super::{
    format::{Action, Expectation, ObjectRef, Step},
    manifest::Scopes,
    plan::{PlannedAction, PlannedStep},
    predicate,
};

/// Fills in the scenario's namespace where none is named.
pub struct Filler {
    pub scopes: Scopes,
    pub namespace: String,
}

impl Filler {
    pub fn object(&self, object: &mut Value) {
        self.scopes.fill_namespace(object, &self.namespace);
    }

    pub fn reference(&self, object: &mut ObjectRef) {
        if object.namespace.is_none() && self.scopes.is_namespaced(&object.api_version, &object.kind) {
            object.namespace = Some(self.namespace.clone());
        }
    }

    pub fn expectation(&self, expectation: &Expectation) -> Expectation {
        let mut filled = expectation.clone();
        self.reference(&mut filled.object);
        filled
    }

    /// The planned form of a step; a checked step has exactly one action.
    pub fn step(&self, step: &Step, objects: &[Value]) -> Option<PlannedStep> {
        let action = match step.actions().pop()? {
            Action::Apply(_) => {
                let mut objects = objects.to_vec();
                objects.iter_mut().for_each(|object| self.object(object));
                PlannedAction::Apply(objects)
            }
            Action::Patch(mut patch) => {
                self.reference(&mut patch.target);
                PlannedAction::Patch(patch)
            }
            Action::Delete(mut object) => {
                self.reference(&mut object);
                PlannedAction::Delete(object)
            }
            Action::Scale(mut scale) => {
                self.reference(&mut scale.target);
                PlannedAction::Scale(scale)
            }
            Action::Wait(mut wait) => {
                self.reference(&mut wait.condition.object);
                PlannedAction::Wait(wait)
            }
        };
        let name = step.name.clone().unwrap_or_else(|| in_words(&action));
        Some(PlannedStep { name, action })
    }
}

/// The name of a step that has none.
fn in_words(action: &PlannedAction) -> String {
    match action {
        PlannedAction::Apply(objects) => {
            let of = |object: &Value| crate::object::ObjectKey::of(object).map(|key| key.to_string());
            match objects.as_slice() {
                [one] => format!("apply {}", of(one).unwrap_or_default()),
                many => format!("apply {} objects", many.len()),
            }
        }
        PlannedAction::Patch(patch) => format!("patch {}", predicate::describe(&patch.target)),
        PlannedAction::Delete(object) => format!("delete {}", predicate::describe(object)),
        PlannedAction::Scale(scale) => {
            format!("scale {} to {}", predicate::describe(&scale.target), scale.replicas)
        }
        PlannedAction::Wait(wait) => format!("wait for {}", predicate::describe(&wait.condition.object)),
    }
}
