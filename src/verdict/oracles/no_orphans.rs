//! `no-orphans`: after the workload is deleted, nothing that the operator made is left.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::{
    event::{ChangeKind, Phase},
    object::{ObjectKey, metadata, owner_references},
    observe::record::SnapshotLabel,
    verdict::{Case, Classification, Finding, Judgement, Oracle},
};

#[derive(Debug)]
pub(super) struct NoOrphans;

impl Oracle for NoOrphans {
    fn id(&self) -> &'static str {
        "no-orphans"
    }

    fn title(&self) -> &'static str {
        "after the workload is deleted, nothing that the operator made for it is left"
    }

    fn explain(&self) -> &'static str {
        "After the workload was deleted, an object is an orphan if it was not there before the workload and either \
         the operator created it or its owners are all gone. Events, Leases and objects that are being deleted do not \
         count (the latter are the matter of `gone`). A finding means that an owner reference or a clean-up in a \
         finalizer is missing. Where data is kept on purpose, skip this oracle with the reason."
    }

    fn judge(&self, case: &Case<'_>) -> Judgement {
        let Some(deleted) = case.run.snapshot(SnapshotLabel::Deleted) else {
            return Judgement::NotApplicable("nothing was deleted in this run".into());
        };
        let installed = case.run.snapshot(SnapshotLabel::Installed).map(|s| s.by_key()).unwrap_or_default();
        let left: BTreeMap<ObjectKey, &Value> = deleted.by_key();
        let uids: BTreeSet<&str> = left.values().map(|object| metadata(object, "uid")).collect();
        let created = created_by_operator(case);
        let orphans: Vec<(&ObjectKey, String)> = left
            .iter()
            .filter(|(key, object)| !installed.contains_key(key) && !is_excused(key, object))
            .filter_map(|(key, object)| Some((key, why(key, object, &uids, &created)?)))
            .collect();
        let Some((first, reason)) = orphans.first() else { return Judgement::Holds };
        let more = match orphans.len() - 1 {
            0 => String::new(),
            n => format!(" (and {n} more)"),
        };
        let what = format!("{first} is left after the workload was deleted: {reason}{more}");
        let detail: Vec<String> = orphans.iter().map(|(key, reason)| format!("{key}: {reason}")).collect();
        let finding = Finding::new(self.id(), Classification::Orphan, &what, &case.cause());
        let evidence = case.writes_to(first);
        Judgement::Violated(vec![
            finding.about(Some((*first).clone())).with_detail(detail.join("\n")).with_evidence(evidence),
        ])
    }
}

/// Objects that appeared by the operator's hand while the workload was there.
fn created_by_operator<'a>(case: &Case<'a>) -> BTreeSet<&'a ObjectKey> {
    case.history()
        .changes
        .iter()
        .filter(|change| {
            change.kind == ChangeKind::Added && change.phase != Phase::Install && case.is_by_operator(change)
        })
        .map(|change| &change.key)
        .collect()
}

fn is_excused(key: &ObjectKey, object: &Value) -> bool {
    crate::verdict::case::is_noise(key)
        || object.pointer("/metadata/deletionTimestamp").is_some()
        || object.pointer("/metadata/annotations/control-plane.alpha.kubernetes.io~1leader").is_some()
}

fn why(key: &ObjectKey, object: &Value, uids: &BTreeSet<&str>, created: &BTreeSet<&ObjectKey>) -> Option<String> {
    let owners = owner_references(object);
    let gone = |owner: &Value| owner.get("uid").and_then(Value::as_str).is_none_or(|uid| !uids.contains(uid));
    if let Some(owner) = owners.first().filter(|_| owners.iter().all(gone)) {
        let field = |name: &str| owner.get(name).and_then(Value::as_str).unwrap_or_default();
        return Some(format!("its owner {} {} is gone", field("kind"), field("name")));
    }
    (created.contains(key) && owners.is_empty()).then(|| "the operator created it and nothing owns it".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::event::{Actor, Verb};
    use crate::verdict::{
        judge_references,
        sample::{Sample, change, child},
    };

    fn sentences(run: Sample) -> Vec<String> {
        judge_references(&[run.build()]).remove(0).findings.into_iter().map(|finding| finding.sentence).collect()
    }

    #[test]
    fn what_is_left_is_an_orphan_only_if_the_operator_made_it() {
        let lone =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "lone", "namespace": "default"}});
        let by = |actor: Actor, phase: Phase| {
            Sample::reference().object(SnapshotLabel::Deleted, lone.clone()).change(|run| {
                run.history.changes.push(change(ChangeKind::Added, lone.clone(), 120, phase, actor));
            })
        };
        assert_eq!(
            sentences(by(Actor::Operator, Phase::Workload)),
            [
                "ConfigMap default/lone is left after the workload was deleted: the operator created it and nothing owns it, in a fault-free run"
            ]
        );
        assert_eq!(sentences(by(Actor::Tester, Phase::Workload)), [""; 0]);
        // The observer knows the operator only by the versions that its writes were answered with.
        let unknown = || by(Actor::Foreign("demo".into()), Phase::Workload);
        assert_eq!(sentences(unknown()), [""; 0]);
        assert_eq!(sentences(unknown().write(Verb::Create, "configmaps", 120, Phase::Workload)).len(), 1);
        assert_eq!(sentences(by(Actor::Operator, Phase::Install)), [""; 0]);
        let installed = by(Actor::Operator, Phase::Workload).object(SnapshotLabel::Installed, lone.clone());
        assert_eq!(sentences(installed), [""; 0]);
    }

    #[test]
    fn children_of_gone_owners_are_orphans_unless_they_are_going() {
        let left = Sample::reference().object(SnapshotLabel::Deleted, child());
        assert_eq!(
            sentences(left),
            [
                "ConfigMap default/x is left after the workload was deleted: its owner Demo x is gone, in a fault-free run"
            ]
        );
        let mut going = child();
        going["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
        assert_eq!(sentences(Sample::reference().object(SnapshotLabel::Deleted, going)), [""; 0]);
    }
}
