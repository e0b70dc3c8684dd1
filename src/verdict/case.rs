//! What oracles look at: a run, and what was computed once from it and its references.

use std::collections::BTreeSet;

use super::finding::Cause;
use crate::{
    diff::{Delta, Learned, Mask, compare, learn},
    event::{Actor, Change, ChangeKind, MarkName, Phase, Request, Verb},
    history::History,
    normalise::{Canonical, Comparison, Ruleset, canonicalise, rules::is_bookkeeping},
    object::ObjectKey,
    observe::record::{RunRecord, SnapshotLabel},
    scenario::{
        format::Perturbation,
        plan::{Plan, PlannedPerturbation},
    },
};

/// The state that runs are compared with.
#[derive(Debug, Clone, Default)]
pub struct Reference {
    pub canonical: Canonical,
    pub learned: Learned,
    /// [`Learned::cautious`], computed once.
    pub cautious: Mask,
    /// How many fault-free runs converged and make it up.
    pub runs: usize,
}

impl Reference {
    /// Learns from the references that converged; `None` if none did.
    #[must_use]
    pub fn of(references: &[RunRecord], rules: &Ruleset) -> Option<Self> {
        let states: Vec<Canonical> = references
            .iter()
            .filter(|run| run.history.mark(MarkName::NotConverged).is_none())
            .filter_map(|run| run.snapshot(SnapshotLabel::Final))
            .map(|snapshot| canonicalise(&snapshot.objects, Comparison::AcrossRuns, rules))
            .collect();
        let learned = learn(&states);
        let (runs, cautious) = (states.len(), learned.cautious());
        states.into_iter().next().map(|canonical| Self { canonical, learned, cautious, runs })
    }
}

/// One run before its judges.
#[derive(Debug)]
pub struct Case<'a> {
    pub run: &'a RunRecord,
    pub rules: &'a Ruleset,
    /// `None` for a reference run.
    pub reference: Option<&'a Reference>,
    /// The final state, for comparison across runs.
    pub actual: Option<Canonical>,
    /// What differs from the reference, apart from what is masked or unstable.
    pub delta: Option<Delta>,
}

impl<'a> Case<'a> {
    #[must_use]
    pub fn new(run: &'a RunRecord, rules: &'a Ruleset, reference: Option<&'a Reference>) -> Self {
        let actual = run
            .snapshot(SnapshotLabel::Final)
            .map(|snapshot| canonicalise(&snapshot.objects, Comparison::AcrossRuns, rules));
        let delta = match (&actual, reference) {
            (Some(actual), Some(reference)) if reference.runs > 0 => {
                Some(compare(&reference.canonical, actual, &reference.cautious))
            }
            _ => None,
        };
        Self { run, rules, reference, actual, delta }
    }

    #[must_use]
    pub fn plan(&self) -> &'a Plan {
        &self.run.plan
    }

    #[must_use]
    pub fn history(&self) -> &'a History {
        &self.run.history
    }

    #[must_use]
    pub fn perturbation(&self) -> Option<&'a PlannedPerturbation> {
        self.run.plan.perturbation.as_ref()
    }

    /// Whether the run ever waited in vain for convergence.
    #[must_use]
    pub fn converged(&self) -> bool {
        self.history().mark(MarkName::Converged).is_some() && self.history().mark(MarkName::NotConverged).is_none()
    }

    /// What was done to the operator, for sentences.
    #[must_use]
    pub fn cause(&self) -> Cause {
        let Some(planned) = self.perturbation() else {
            return Cause { phrases: vec!["in a fault-free run".into()], legal_because: None };
        };
        let fault = self.history().faults.iter().find(|fault| fault.fired > 0);
        let mut phrases = Vec::new();
        if let Some([hit, rest @ ..]) = fault.map(|fault| fault.hits.as_slice()) {
            let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
            phrases.push(format!("after {}{more}", hit.what));
        }
        phrases.push(format!("after {}", planned.name));
        let legal = fault.map(|fault| fault.legal_because.clone()).filter(|text| !text.is_empty());
        Cause { phrases, legal_because: legal }
    }

    /// Phases in which the operator has nothing to do.
    #[must_use]
    pub fn phases_at_rest(&self) -> &'static [Phase] {
        match self.perturbation().map(|planned| &planned.perturbation) {
            // These disturb an operator at rest and change nothing that it should answer with a write.
            Some(
                Perturbation::Quiet(_)
                | Perturbation::ForceReapply(_)
                | Perturbation::Restart(_)
                | Perturbation::Partition(_)
                | Perturbation::ApiRestart(_),
            ) => &[Phase::Perturb, Phase::Recover, Phase::Rest],
            _ => &[Phase::Rest],
        }
    }

    /// The operator's writes when it had nothing to do, without its framework's own notes.
    #[must_use]
    pub fn writes_at_rest(&self) -> Vec<&'a Request> {
        let phases = self.phases_at_rest();
        self.history()
            .writes()
            .filter(|request| phases.contains(&request.phase) && !only_bookkeeping(request))
            .collect()
    }

    /// Two snapshots compared strictly; `None` if one was not taken.
    #[must_use]
    pub fn strict_delta(&self, before: SnapshotLabel, after: SnapshotLabel) -> Option<Delta> {
        let state = |label| {
            let snapshot = self.run.snapshot(label)?;
            Some(canonicalise(&snapshot.objects, Comparison::WithinRun, self.rules))
        };
        Some(compare(&state(before)?, &state(after)?, &Mask::default()))
    }

    /// When the recovery clock starts: with the last thing that was done to the operator. A fault that hits once
    /// heals itself at that moment; one that lasts, when it is healed.
    #[must_use]
    pub fn recovery_since_ms(&self) -> Option<u64> {
        let healed = self.healed_ms()?;
        let last_hit = self.history().faults.iter().flat_map(|fault| &fault.hits).map(|hit| hit.at_ms).max();
        Some(last_hit.map_or(healed, |hit| hit.min(healed)))
    }

    fn healed_ms(&self) -> Option<u64> {
        self.history().last_mark(MarkName::Healed).map(|mark| mark.at_ms)
    }

    /// The recovery time: from [`Case::recovery_since_ms`] to the last thing that moved before the run was found
    /// converged.
    #[must_use]
    pub fn recovery_ms(&self) -> Option<u64> {
        let (healed, since) = (self.healed_ms()?, self.recovery_since_ms()?);
        let converged =
            self.history().marks.iter().find(|mark| mark.name == MarkName::Converged && mark.at_ms >= healed)?.at_ms;
        let writes = self
            .history()
            .writes()
            .filter(|request| request.committed != Some(false))
            .map(|request| request.at_ms.saturating_add(request.duration_ms));
        let changes = self
            .history()
            .changes
            .iter()
            .filter(|change| change.actor != Actor::Tester && !is_noise(&change.key))
            .map(|change| change.at_ms);
        let within = |at: &u64| (since..=converged).contains(at);
        Some(writes.chain(changes).filter(within).max().unwrap_or(since) - since)
    }

    /// `seq` of the operator's last writes to an object.
    #[must_use]
    pub fn writes_to(&self, key: &ObjectKey) -> Vec<u64> {
        const SHOWN: usize = 5;
        let all: Vec<u64> =
            self.history().writes().filter(|request| concerns(request, key)).map(|request| request.seq).collect();
        all[all.len().saturating_sub(SHOWN)..].to_vec()
    }

    /// Whether the operator made this change. The observer does not know the operator's field manager, but a version
    /// belongs to one write only.
    #[must_use]
    pub fn is_by_operator(&self, change: &Change) -> bool {
        let version = &change.resource_version;
        change.actor == Actor::Operator
            || self.history().writes().any(|request| {
                (!version.is_empty() && request.answer.resource_version == *version)
                    // The answer to a create may have been lost on its way.
                    || (change.kind == ChangeKind::Added
                        && request.target.verb == Verb::Create
                        && request.committed != Some(false)
                        && request.answer.status < 300
                        && concerns(request, &change.key))
            })
    }

    /// The object that a request is about, as the observer knows it.
    #[must_use]
    pub fn object_of(&self, request: &Request) -> Option<ObjectKey> {
        let known: BTreeSet<&ObjectKey> = self.history().changes.iter().map(|change| &change.key).collect();
        known.into_iter().find(|key| concerns(request, key)).cloned()
    }
}

/// Renewed all the time, by whomever.
#[must_use]
pub(super) fn is_noise(key: &ObjectKey) -> bool {
    matches!(
        (key.group.as_str(), key.kind.as_str()),
        ("" | "events.k8s.io", "Event") | ("coordination.k8s.io", "Lease") | ("", "Node")
    )
}

/// Whether a request is about this object. The plural of a kind begins with it in lower case, apart from its last
/// letter (`policies` of `Policy`).
fn concerns(request: &Request, key: &ObjectKey) -> bool {
    let target = &request.target;
    let kind = key.kind.to_lowercase();
    let stem = kind.strip_suffix('y').unwrap_or(&kind);
    let name = if target.name.is_empty() { created_name(request) } else { &target.name };
    target.group == key.group
        && target.namespace == key.namespace
        && name == key.name
        && target.resource.starts_with(stem)
}

fn created_name(request: &Request) -> &str {
    request.body.pointer("/metadata/name").and_then(serde_json::Value::as_str).unwrap_or_default()
}

/// Whether a write is a patch of nothing but a framework's own annotations.
fn only_bookkeeping(request: &Request) -> bool {
    let Some(body) = request.body.as_object().filter(|body| !body.is_empty()) else { return false };
    body.iter().all(|(key, value)| match key.as_str() {
        "apiVersion" | "kind" => true,
        "metadata" => value.as_object().is_some_and(|metadata| {
            metadata.iter().all(|(field, value)| match field.as_str() {
                "annotations" => value.as_object().is_some_and(|map| map.keys().all(|name| is_bookkeeping(name))),
                "name" | "namespace" | "resourceVersion" | "uid" => true,
                _ => false,
            })
        }),
        "status" => value.as_object().is_some_and(|status| status.keys().all(|field| field == "kopf")),
        _ => false,
    }) && request.target.verb == Verb::Patch
}
