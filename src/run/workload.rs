//! Carries out the workload, its probe and its deletion.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json};

use super::{
    Outcome, Reached, RunError, Stage,
    inputs::{Probed, inputs},
};
use crate::{
    cluster::tester::USER_MANAGER,
    event::{Event, MarkName, Phase},
    object::{ObjectKey, metadata},
    observe::record::SnapshotLabel,
    scenario::{
        format::ObjectRef,
        plan::{PlannedAction, PlannedStep},
        predicate::Predicate,
    },
};

/// The annotation that makes a re-apply of the same input visible to the operator.
const NONCE: &str = "reconverge.dev/nonce";
/// The garbage collector of kube-controller-manager looks for new kinds every 30 s, and only then sees who owns what.
const COLLECTED_WITHIN: Duration = Duration::from_secs(75);

impl Stage<'_> {
    /// Every step, each awaited until the operator is quiet or the deadline has passed.
    pub(super) async fn carry_out_workload(&self) -> Result<(), RunError> {
        for step in &self.plan().workload {
            self.setup.events.send(Event::StepStarted { run: self.setup.name.clone(), step: step.name.clone() });
            self.step(step).await?;
            self.acted();
            // Under faults a step may never become quiet; what matters is the state after healing.
            self.quiet(self.plan().deadline.0).await?;
        }
        // A reference run has to converge here; with faults the expectations may well hold only after healing.
        if self.setup.rules.is_empty() {
            self.converge(self.plan().deadline.0).await?;
        }
        Ok(())
    }

    async fn step(&self, step: &PlannedStep) -> Result<(), RunError> {
        match &step.action {
            PlannedAction::Apply(objects) => {
                for object in objects {
                    self.tester.apply(object, USER_MANAGER).await?;
                }
            }
            PlannedAction::Patch(patch) => {
                self.tester.merge(&patch.target, &Value::Object(patch.merge.clone())).await?;
            }
            PlannedAction::Delete(target) => {
                self.tester.delete(target, None).await?;
            }
            PlannedAction::Scale(scale) => {
                let patch = json!({"spec": {"replicas": scale.replicas}});
                self.tester.merge(&scale.target, &patch).await?;
            }
            PlannedAction::Wait(wait) => {
                let predicate = Predicate::compile(&wait.condition)?;
                let within = wait.timeout.unwrap_or(self.plan().deadline);
                // Under a fault that lasts until it is healed a wait may well be in vain.
                if let Reached::No(why) = self.holds(&[predicate], within.0).await?
                    && self.setup.rules.is_empty()
                {
                    self.recorder.mark(MarkName::NotConverged, format!("step `{}`: {why}", step.name));
                }
            }
        }
        Ok(())
    }

    /// Server-side apply of every input, with force, again.
    pub(super) async fn reapply_inputs(&self, manager: &str, nonce: Option<u32>) -> Result<(), RunError> {
        for object in self.inputs().await? {
            let mut object = object;
            if let Some(nonce) = nonce {
                object["metadata"]["annotations"][NONCE] = json!(nonce.to_string());
            }
            self.tester.apply(&object, manager).await?;
        }
        self.acted();
        Ok(())
    }

    /// See [`inputs`](super::inputs); the probe's edit belongs to them from the moment when it was made.
    async fn inputs(&self) -> Result<Vec<Value>, RunError> {
        let made = self.recorder.read(|history| history.mark(MarkName::ProbeApplied).is_some());
        let probed = if made { Probed::Yes } else { Probed::No };
        Ok(inputs(&self.tester, self.plan(), probed).await?)
    }

    /// One more harmless edit must still be acted upon.
    pub(super) async fn probe(&self) -> Result<(), RunError> {
        let Some(probe) = &self.plan().probe else { return Ok(()) };
        self.enter(Phase::Probe);
        let expect = probe.expect.iter().map(Predicate::compile).collect::<Result<Vec<_>, _>>()?;
        self.recorder.mark(MarkName::ProbeApplied, "");
        self.tester.merge(&probe.patch.target, &Value::Object(probe.patch.merge.clone())).await?;
        self.acted();
        match self.holds(&expect, self.plan().recovery_within.0).await? {
            Reached::Yes => self.recorder.mark(MarkName::ProbeSeen, ""),
            Reached::No(why) => self.recorder.mark(MarkName::ProbeMissed, why),
        }
        self.quiet(self.plan().deadline.0).await?;
        Ok(())
    }

    /// Deletes what the workload applied, in reverse, and waits until it is gone and the rest is quiet.
    pub(super) async fn delete_workload(&self, outcome: &mut Outcome) -> Result<(), RunError> {
        self.enter(Phase::Delete);
        let inputs = self.inputs().await?;
        for object in inputs.iter().rev() {
            self.tester.delete(&reference_to(object), None).await?;
        }
        self.acted();
        self.recorder.mark(MarkName::Deleted, "");
        let mut keys = BTreeSet::new();
        for object in &inputs {
            keys.insert(self.tester.key_of(object).await?);
        }
        let left = || self.observer.select(|key, _| keys.contains(key));
        let gone = |_| {
            let left = left();
            if left.is_empty() { Ok(()) } else { Err(left.iter().map(remains).collect::<Vec<_>>().join("; ")) }
        };
        match self.wait(self.plan().recovery_within.0, gone).await? {
            Reached::Yes => self.recorder.mark(MarkName::Gone, ""),
            Reached::No(what) => self.recorder.mark(MarkName::NotGone, what),
        }
        self.quiet(self.plan().deadline.0.max(COLLECTED_WITHIN)).await?;
        outcome.snapshots.push(self.observer.snapshot(SnapshotLabel::Deleted).await?);
        Ok(())
    }
}

fn reference_to(object: &Value) -> ObjectRef {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let namespace = metadata(object, "namespace");
    ObjectRef {
        api_version: text("apiVersion"),
        kind: text("kind"),
        name: Some(metadata(object, "name").to_owned()),
        namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
        selector: None,
    }
}

/// `Widget default/demo (finalizers: a.b/c)`.
fn remains(object: &Value) -> String {
    let name = ObjectKey::of(object).map(|key| key.to_string()).unwrap_or_default();
    let finalizers: Vec<&str> = object
        .pointer("/metadata/finalizers")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if finalizers.is_empty() { name } else { format!("{name} (finalizers: {})", finalizers.join(", ")) }
}
