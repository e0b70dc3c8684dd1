//! What a user of the cluster wants at an instant of a run: the workload's objects in their last form.
//!
//! # Guarantees
//! A later apply of the same object replaces an earlier one; patches and scales are merged into it; what the workload
//! deleted is no input any more. Once the probe's edit was made it is part of the inputs, too: applied again without
//! it, they would undo it, and the operator would rightly act on that.
//!
//! # Not done
//! An object that a patch creates or changes without the workload ever having applied it is no input.

use serde_json::{Value, json};

use crate::{
    cluster::{ClusterError, tester::Tester},
    object::ObjectKey,
    scenario::{
        format::ObjectRef,
        plan::{Plan, PlannedAction},
        selector::LabelSelector,
    },
};

/// Whether the probe's edit was made already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Probed {
    Yes,
    No,
}

/// The inputs, in the order in which they were first applied.
///
/// # Errors
/// When the workload names a kind that the cluster does not know.
pub(super) async fn inputs(tester: &Tester, plan: &Plan, probed: Probed) -> Result<Vec<Value>, ClusterError> {
    let mut inputs = Inputs { tester, found: Vec::new() };
    for step in &plan.workload {
        match &step.action {
            PlannedAction::Apply(objects) => {
                for object in objects {
                    inputs.put(object).await?;
                }
            }
            PlannedAction::Delete(target) => inputs.remove(target).await?,
            PlannedAction::Scale(scale) => {
                inputs.merge(&scale.target, &json!({"spec": {"replicas": scale.replicas}})).await?;
            }
            PlannedAction::Patch(patch) => inputs.merge(&patch.target, &Value::Object(patch.merge.clone())).await?,
            PlannedAction::Wait(_) => {}
        }
    }
    if let Some(probe) = plan.probe.as_ref().filter(|_| probed == Probed::Yes) {
        inputs.merge(&probe.patch.target, &Value::Object(probe.patch.merge.clone())).await?;
    }
    Ok(inputs.found.into_iter().map(|(_, object)| object).collect())
}

struct Inputs<'a> {
    tester: &'a Tester,
    found: Vec<(ObjectKey, Value)>,
}

impl Inputs<'_> {
    async fn put(&mut self, object: &Value) -> Result<(), ClusterError> {
        let key = self.tester.key_of(object).await?;
        match self.found.iter_mut().find(|(known, _)| *known == key) {
            Some((_, known)) => known.clone_from(object),
            None => self.found.push((key, object.clone())),
        }
        Ok(())
    }

    async fn remove(&mut self, target: &ObjectRef) -> Result<(), ClusterError> {
        let namespace = self.tester.namespace_of(target).await?;
        self.found.retain(|(key, object)| !is_meant(target, &namespace, key, object));
        Ok(())
    }

    async fn merge(&mut self, target: &ObjectRef, patch: &Value) -> Result<(), ClusterError> {
        let namespace = self.tester.namespace_of(target).await?;
        for (key, object) in &mut self.found {
            if is_meant(target, &namespace, key, object) {
                json_patch::merge(object, patch);
            }
        }
        Ok(())
    }
}

fn is_meant(target: &ObjectRef, namespace: &str, key: &ObjectKey, object: &Value) -> bool {
    let group = target.api_version.split_once('/').map_or("", |(group, _)| group);
    let picked = match (&target.name, &target.selector) {
        (Some(name), _) => *name == key.name,
        // Selectors were judged when the scenario was read.
        (None, Some(selector)) => selector.parse::<LabelSelector>().is_ok_and(|selector| selector.matches(object)),
        (None, None) => true,
    };
    key.kind == target.kind && key.group == group && key.namespace == namespace && picked
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cluster::{Cluster as _, embedded::Embedded},
        scenario::{
            format::{PatchAction, Probe, ScaleAction},
            plan::PlannedStep,
        },
        seed::Seed,
        verdict::sample::Sample,
    };

    fn map(name: &str, data: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "labels": {"app": name}},
            "data": {"a": data},
        })
    }

    fn target(api_version: &str, kind: &str, name: &str) -> ObjectRef {
        ObjectRef {
            api_version: api_version.into(),
            kind: kind.into(),
            name: Some(name.into()),
            namespace: None,
            selector: None,
        }
    }

    fn patch(name: &str, merge: &Value) -> PatchAction {
        PatchAction { target: target("v1", "ConfigMap", name), merge: merge.as_object().unwrap().clone() }
    }

    async fn after(actions: Vec<PlannedAction>, probe: Option<Probe>, probed: Probed) -> Vec<Value> {
        let cluster = Embedded::start(Seed(1)).await.unwrap();
        let tester = Tester::new(cluster.client(), "default");
        let mut plan = Sample::reference().build().plan;
        plan.workload = actions.into_iter().map(|action| PlannedStep { name: "step".into(), action }).collect();
        plan.probe = probe;
        let inputs = inputs(&tester, &plan, probed).await.unwrap();
        Box::new(cluster).shutdown().await;
        inputs
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_last_form_counts() {
        // The second apply names the namespace that the first one leaves to the scenario: it is the same object.
        let mut again = map("one", "2");
        again["metadata"]["namespace"] = json!("default");
        let actions = vec![
            PlannedAction::Apply(vec![map("one", "1"), map("two", "1"), map("three", "1")]),
            PlannedAction::Apply(vec![again.clone()]),
            PlannedAction::Delete(target("v1", "ConfigMap", "two")),
            PlannedAction::Delete(ObjectRef {
                name: None,
                selector: Some("app=three".into()),
                ..target("v1", "ConfigMap", "")
            }),
        ];
        assert_eq!(after(actions, None, Probed::No).await, [again]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn patches_and_scales_are_merged_into_their_object_only() {
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "one"}, "spec": {"replicas": 1},
        });
        let scale = ScaleAction { target: target("apps/v1", "Deployment", "one"), replicas: 3 };
        let actions = vec![
            PlannedAction::Apply(vec![map("one", "1"), deployment]),
            PlannedAction::Scale(scale),
            PlannedAction::Patch(patch("one", &json!({"data": {"a": null, "b": "2"}}))),
            // Not an input, and so no reason to make one.
            PlannedAction::Patch(patch("other", &json!({"data": {"b": "2"}}))),
        ];
        let inputs = after(actions, None, Probed::No).await;
        assert_eq!(inputs.len(), 2);
        assert_eq!(inputs[0]["data"], json!({"b": "2"}));
        assert_eq!(inputs[1]["spec"]["replicas"], 3);
    }

    /// Without it, the re-apply of the rest phase would take the probe's edit back.
    #[tokio::test(flavor = "multi_thread")]
    async fn the_probe_counts_once_it_was_made() {
        let probe = Probe { patch: patch("one", &json!({"data": {"a": "probed"}})), expect: vec![] };
        let actions = || vec![PlannedAction::Apply(vec![map("one", "1")])];
        assert_eq!(after(actions(), Some(probe.clone()), Probed::No).await, [map("one", "1")]);
        assert_eq!(after(actions(), Some(probe), Probed::Yes).await, [map("one", "probed")]);
    }
}
