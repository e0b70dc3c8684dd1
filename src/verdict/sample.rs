//! Small records for tests: a run that every oracle likes, to be changed in one place.

use serde_json::{Value, json};

use crate::{
    event::{Actor, Answer, Change, ChangeKind, FaultRecord, Hit, Mark, MarkName, Phase, Request, Target, Verb},
    history::History,
    object::{ObjectKey, metadata},
    observe::record::{OperatorExit, RunRecord, Snapshot, SnapshotLabel},
    scenario::{
        duration::Span,
        format::{Conflict, Lane, Normalise, Perturbation},
        plan::{OperatorPlan, PLAN_VERSION, Plan, PlannedPerturbation},
    },
    seed::Seed,
};

/// A record under construction.
pub(crate) struct Sample {
    run: RunRecord,
}

impl Sample {
    /// A fault-free run: the operator made a `ConfigMap` for a `Demo` and wrote its status.
    pub(crate) fn reference() -> Self {
        let history = History {
            requests: vec![
                request(Verb::Create, "", "configmaps", 100, Phase::Workload),
                request(Verb::Patch, "example.com", "demos", 200, Phase::Workload),
            ],
            changes: vec![
                change(ChangeKind::Added, demo("Running"), 50, Phase::Workload, Actor::Tester),
                change(ChangeKind::Added, child(), 110, Phase::Workload, Actor::Operator),
            ],
            marks: vec![
                mark(MarkName::OperatorStarted, 10),
                mark(MarkName::WorkloadApplied, 60),
                mark(MarkName::Converged, 900),
            ],
            faults: vec![],
        };
        let run = RunRecord {
            name: "reference-1".into(),
            plan: plan(None),
            history,
            snapshots: vec![
                snapshot(SnapshotLabel::Installed, vec![]),
                snapshot(SnapshotLabel::Final, vec![demo("Running"), child()]),
                snapshot(SnapshotLabel::Rested, vec![demo("Running"), child()]),
                snapshot(SnapshotLabel::Deleted, vec![]),
            ],
            exits: vec![],
            cluster: "embedded".into(),
            inconclusive: vec![],
            duration_ms: 6_000,
        };
        Self { run }.ending()
    }

    /// The same with one 409, from which the operator recovered in 0.3 s.
    pub(crate) fn perturbed() -> Self {
        let mut sample = Self::reference();
        let run = &mut sample.run;
        run.name = "conflict".into();
        run.plan = plan(Some(Perturbation::Conflict(Conflict::default())));
        run.history.faults.push(FaultRecord {
            id: "conflict".into(),
            matched: 2,
            fired: 1,
            legal_because: "any other writer may have been first".into(),
            hits: vec![Hit { at_ms: 950, what: "409 on patch demos.example.com default/x".into() }],
        });
        run.history.marks.extend([mark(MarkName::Healed, 1_000), mark(MarkName::Converged, 2_000)]);
        run.history.marks.sort_by_key(|mark| mark.at_ms);
        run.history.requests.push(request(Verb::Patch, "example.com", "demos", 1_295, Phase::Recover));
        sample
    }

    fn ending(mut self) -> Self {
        let marks = [
            mark(MarkName::RestBegan, 3_000),
            mark(MarkName::RestEnded, 4_000),
            mark(MarkName::Deleted, 5_000),
            mark(MarkName::Gone, 5_100),
        ];
        self.run.history.marks.extend(marks);
        self
    }

    /// The phase of the `Demo` in the final state.
    pub(crate) fn phase(self, phase: &str) -> Self {
        self.change(|run| {
            for snapshot in run.snapshots.iter_mut().filter(|snapshot| snapshot.objects.len() > 1) {
                snapshot.objects[0] = demo(phase);
            }
        })
    }

    pub(crate) fn change(mut self, change: impl FnOnce(&mut RunRecord)) -> Self {
        change(&mut self.run);
        self
    }

    /// Adds a write of the operator.
    pub(crate) fn write(self, verb: Verb, resource: &str, at_ms: u64, phase: Phase) -> Self {
        let group = if resource == "demos" { "example.com" } else { "" };
        self.change(|run| run.history.requests.push(request(verb, group, resource, at_ms, phase)))
    }

    /// Adds an object to one snapshot.
    pub(crate) fn object(self, label: SnapshotLabel, object: Value) -> Self {
        self.change(|run| {
            run.snapshots
                .iter_mut()
                .filter(|snapshot| snapshot.label == label)
                .for_each(|s| s.objects.push(object.clone()));
        })
    }

    /// Replaces the marks of this name by one with a text.
    pub(crate) fn replace_mark(self, old: MarkName, new: MarkName, detail: &str) -> Self {
        self.change(|run| {
            for mark in run.history.marks.iter_mut().filter(|mark| mark.name == old) {
                mark.name = new;
                mark.detail = detail.into();
            }
        })
    }

    pub(crate) fn exit(self, at_ms: u64, asked: bool) -> Self {
        self.change(|run| {
            let log_tail = "fatal: cannot list demos".into();
            run.exits.push(OperatorExit { at_ms, incarnation: 1, how: "exit code 1".into(), asked, log_tail });
        })
    }

    /// Numbers the requests, as the recorder does.
    pub(crate) fn build(mut self) -> RunRecord {
        for (seq, request) in (1..).zip(&mut self.run.history.requests) {
            request.seq = seq;
        }
        self.run
    }
}

pub(crate) fn demo(phase: &str) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Demo",
        "metadata": {"name": "x", "namespace": "default", "uid": "demo-uid"},
        "status": {"phase": phase},
    })
}

/// The `ConfigMap` that the operator made.
pub(crate) fn child() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "x", "namespace": "default", "uid": "child-uid",
            "ownerReferences": [{"apiVersion": "example.com/v1", "kind": "Demo", "name": "x", "uid": "demo-uid", "controller": true}],
        },
        "data": {"a": "1"},
    })
}

pub(crate) fn change(kind: ChangeKind, object: Value, at_ms: u64, phase: Phase, actor: Actor) -> Change {
    Change {
        at_ms,
        phase,
        kind,
        key: ObjectKey::of(&object).unwrap(),
        uid: metadata(&object, "uid").into(),
        resource_version: at_ms.to_string(),
        generation: None,
        actor,
        object,
    }
}

fn mark(name: MarkName, at_ms: u64) -> Mark {
    Mark { at_ms, name, detail: String::new() }
}

fn snapshot(label: SnapshotLabel, objects: Vec<Value>) -> Snapshot {
    Snapshot { label, at_ms: 0, objects }
}

fn request(verb: Verb, group: &str, resource: &str, at_ms: u64, phase: Phase) -> Request {
    let target = Target {
        verb,
        group: group.into(),
        version: "v1".into(),
        resource: resource.into(),
        subresource: String::new(),
        namespace: "default".into(),
        name: "x".into(),
        path: String::new(),
    };
    Request {
        seq: 0,
        at_ms,
        duration_ms: 5,
        phase,
        actor: Actor::Operator,
        incarnation: 1,
        user_agent: "demo/1".into(),
        target,
        content_type: "application/json".into(),
        field_manager: String::new(),
        dry_run: false,
        precondition: String::new(),
        body: Value::Null,
        answer: Answer {
            status: 200,
            reason: String::new(),
            message: String::new(),
            resource_version: at_ms.to_string(),
        },
        committed: Some(true),
        write_ordinal: None,
        faults: vec![],
    }
}

fn plan(perturbation: Option<Perturbation>) -> Plan {
    let perturbation = perturbation.map(|perturbation| PlannedPerturbation {
        index: 0,
        name: perturbation.id().into(),
        perturbation,
        line: 12,
    });
    Plan {
        version: PLAN_VERSION,
        scenario: "demo".into(),
        file: "scenarios/demo/scenario.yaml".into(),
        description: "A Demo and its ConfigMap.".into(),
        lane: Lane::Embedded,
        namespace: "default".into(),
        seed: Seed(42),
        operator: OperatorPlan {
            install: vec![],
            service_account: None,
            command: vec!["demo".into()],
            build: vec![],
            env: std::collections::BTreeMap::new(),
            working_directory: ".".into(),
            start_timeout: Span::from_secs(30),
            stop_timeout: Span::from_secs(5),
            exclusive: false,
            deployment: None,
        },
        workload: vec![],
        expect: vec![],
        settle: Span::from_secs(1),
        deadline: Span::from_secs(60),
        recovery_within: Span::from_secs(2),
        probe: None,
        perturbation,
        normalise: Normalise::default(),
        references: 3,
        skip_oracles: vec![],
    }
}
