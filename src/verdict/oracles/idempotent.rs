//! `idempotent`: with nothing left to do, nothing is done.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use crate::{
    diff::{Delta, Mask, compare, render},
    event::{Actor, Change, ChangeKind, MarkName, Phase, Request},
    normalise::{Comparison, canonicalise},
    object::ObjectKey,
    observe::record::SnapshotLabel,
    scenario::format::Perturbation,
    verdict::{Case, Classification, Finding, Judgement, Oracle},
};

/// Requests that change nothing and are yet no finding: so many of one kind on one object for each occasion to
/// reconcile. Server-side apply on every reconcile is an accepted idiom, a start may reconcile an object twice, and
/// a status that is kept by a worker of its own is written once more.
const NO_OPS_PER_OCCASION: u64 = 3;
/// Groups of requests that a finding lists.
const SHOWN: usize = 10;

#[derive(Debug)]
pub(super) struct Idempotent;

impl Oracle for Idempotent {
    fn id(&self) -> &'static str {
        "idempotent"
    }

    fn title(&self) -> &'static str {
        "at rest, after a no-op re-apply and after a restart, nothing is written and nothing changes"
    }

    fn explain(&self) -> &'static str {
        "At rest the harness applies the inputs again without a change and restarts the operator. From then on no \
         write of the operator may change anything, and no object may differ from before: within one run even a \
         random value that changed is a finding (a rotated password, a new timestamp). Writes that change nothing are \
         tolerated three times per object for each re-apply and each start, because applying on every reconcile is an \
         accepted idiom; beyond that they are a loop. A write that changes only what the \
         scenario's `normalise.ignore` names is such a write. Leases, events, reviews and the notes that kopf and \
         Crossplane keep in annotations are not counted."
    }

    fn judge(&self, case: &Case<'_>) -> Judgement {
        if case.history().mark(MarkName::RestBegan).is_none() && case.phases_at_rest().len() == 1 {
            return if case.converged() {
                Judgement::Unknown("the run did not come to its rest phase".into())
            } else {
                Judgement::NotApplicable("the run did not converge".into())
            };
        }
        if let Some((key, path)) = undone_probe(case) {
            let why = format!(
                "the harness's re-apply at rest undid its own probe ({key} {path}), so writes after it prove nothing"
            );
            return Judgement::Unknown(why);
        }
        let delta = strict_delta(case);
        let (changing, idle): (Vec<&Request>, Vec<&Request>) =
            case.writes_at_rest().into_iter().partition(|request| changes_something(case, request));
        let mut findings = Vec::new();
        if !changing.is_empty() {
            findings.push(wrote(self.id(), case, &changing, &delta));
        } else if let Some(change) = delta.changed.first() {
            let key = change.object.to_object_key();
            findings.push(moved(self.id(), case, key, &format!("{} changed", change.path), &delta));
        } else if let Some((lone, how)) =
            delta.missing.first().map(|lone| (lone, "vanished")).or(delta.extra.first().map(|lone| (lone, "appeared")))
        {
            findings.push(moved(self.id(), case, lone.object.to_object_key(), how, &delta));
        }
        findings.extend(repeated(self.id(), case, &idle));
        if findings.is_empty() { Judgement::Holds } else { Judgement::Violated(findings) }
    }
}

/// A field that the harness itself changed at rest after its probe had edited an input: then there was work to do.
fn undone_probe(case: &Case<'_>) -> Option<(ObjectKey, String)> {
    case.history().mark(MarkName::ProbeApplied)?;
    let at_rest = |change: &&Change| change.phase == Phase::Rest && change.actor == Actor::Tester;
    let keys: BTreeSet<&ObjectKey> = case.history().changes.iter().filter(at_rest).map(|change| &change.key).collect();
    keys.into_iter().find_map(|key| {
        let by_harness = changes_at_rest(case, key, |change| at_rest(&change));
        Some((key.clone(), by_harness.first()?.changed.first()?.path.clone()))
    })
}

/// Whether the write was taken by the server and may have changed something that is compared at all.
fn changes_something(case: &Case<'_>, request: &Request) -> bool {
    let taken = match request.committed {
        Some(committed) => committed,
        None => (200..300).contains(&request.answer.status),
    };
    taken && !changes_only_what_is_ignored(case, request)
}

/// Whether the observer saw the version that the write made, and it differs from the one before only in what rules
/// and the scenario leave out. A version that was not seen counts as a change.
fn changes_only_what_is_ignored(case: &Case<'_>, request: &Request) -> bool {
    let version = &request.answer.resource_version;
    let changes = &case.history().changes;
    let made = |change: &Change| change.kind == ChangeKind::Modified && change.resource_version == *version;
    let Some(at) = changes.iter().position(made).filter(|_| !version.is_empty()) else { return false };
    let (after, earlier) = (&changes[at], &changes[..at]);
    let Some(before) = earlier.iter().rev().find(|change| change.key == after.key) else { return false };
    step(case, before, after).is_empty()
}

/// What differs between two versions of an object, of all that is compared within a run.
fn step(case: &Case<'_>, before: &Change, after: &Change) -> Delta {
    let state = |change: &Change| canonicalise(std::slice::from_ref(&change.object), Comparison::WithinRun, case.rules);
    compare(&state(before), &state(after), &Mask::default())
}

/// What changed between the snapshots at rest.
fn strict_delta(case: &Case<'_>) -> Delta {
    let mut delta = case.strict_delta(SnapshotLabel::Final, SnapshotLabel::Rested).unwrap_or_default();
    // A perturbation of an operator at rest must change nothing either.
    if case.phases_at_rest().len() > 1
        // The probe comes between the two and does change something.
        && case.history().mark(MarkName::ProbeApplied).is_none()
        && let Some(earlier) = case.strict_delta(SnapshotLabel::Settled, SnapshotLabel::Final)
    {
        delta.missing.extend(earlier.missing);
        delta.extra.extend(earlier.extra);
        delta.changed.extend(earlier.changed);
    }
    delta
}

fn wrote(oracle: &str, case: &Case<'_>, writes: &[&Request], delta: &Delta) -> Finding {
    let groups = grouped(writes);
    let most = groups.iter().max_by_key(|(_, requests)| requests.len());
    let (target, requests) = most.map(|(target, requests)| (target.as_str(), requests.as_slice())).unwrap_or_default();
    let about = requests.first().and_then(|request| case.object_of(request));
    let steps = about.as_ref().map(|key| changes_at_rest(case, key, |_| true)).unwrap_or_default();
    let field = steps.first().and_then(|step| step.changed.first()).map(|change| format!(", changing {}", change.path));
    let times = match writes.len() {
        1 => "once".to_owned(),
        n => format!("{n} times"),
    };
    let mostly = if groups.len() > 1 { "mostly " } else { "" };
    let what = format!("wrote {times} although nothing was left to do: {mostly}{target}{}", field.unwrap_or_default());
    let mut detail = list(&groups);
    for step in steps.iter().take(2) {
        detail.push_str(&render(step, false));
    }
    if steps.is_empty() {
        detail.push_str(&render(delta, false));
    }
    Finding::new(oracle, Classification::NotIdempotent, &what, &case.cause())
        .about(about)
        .with_detail(detail)
        .with_evidence(writes.iter().take(SHOWN).map(|request| request.seq).collect())
}

fn moved(oracle: &str, case: &Case<'_>, key: ObjectKey, how: &str, delta: &Delta) -> Finding {
    let what = format!("{key}: {how} at rest, although the operator sent no write that explains it");
    Finding::new(oracle, Classification::NotIdempotent, &what, &case.cause())
        .about(Some(key))
        .with_detail(render(delta, false))
}

fn repeated(oracle: &str, case: &Case<'_>, idle: &[&Request]) -> Option<Finding> {
    let allowed = NO_OPS_PER_OCCASION * occasions(case);
    let groups = grouped(idle);
    let (target, requests) = groups.iter().max_by_key(|(_, requests)| requests.len())?;
    if (requests.len() as u64) <= allowed {
        return None;
    }
    let what =
        format!("sent {} writes that change nothing at rest: {target} ({allowed} are tolerated)", requests.len());
    let finding = Finding::new(oracle, Classification::NotIdempotent, &what, &case.cause());
    Some(
        finding
            .about(requests.first().and_then(|request| case.object_of(request)))
            .with_detail(list(&groups))
            .with_evidence(requests.iter().take(SHOWN).map(|request| request.seq).collect()),
    )
}

/// How often the operator had a reason to look again: the re-apply, each start, each repetition.
fn occasions(case: &Case<'_>) -> u64 {
    let began = case.history().mark(MarkName::RestBegan).map_or(0, |mark| mark.at_ms);
    let starts =
        case.history().marks.iter().filter(|m| m.name == MarkName::OperatorStarted && m.at_ms >= began).count();
    let repetitions = match case.perturbation().map(|planned| &planned.perturbation) {
        Some(Perturbation::ForceReapply(reapply)) => reapply.times,
        Some(Perturbation::Restart(restart)) => restart.times,
        _ => 0,
    };
    1 + starts as u64 + u64::from(repetitions)
}

type Groups<'a> = BTreeMap<String, Vec<&'a Request>>;

fn grouped<'a>(requests: &[&'a Request]) -> Groups<'a> {
    let mut groups = Groups::new();
    for request in requests {
        groups.entry(request.target.to_string()).or_default().push(request);
    }
    groups
}

fn list(groups: &Groups<'_>) -> String {
    let mut text = String::new();
    for (target, requests) in groups.iter().take(SHOWN) {
        let first = requests.first().map_or(0, |request| request.seq);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}× {target} (first is #{first})", requests.len());
    }
    if groups.len() > SHOWN {
        let _ = writeln!(text, "… and {} more kinds of requests", groups.len() - SHOWN);
    }
    text
}

/// What each change of an object at rest changed.
fn changes_at_rest(case: &Case<'_>, key: &ObjectKey, counts: impl Fn(&Change) -> bool) -> Vec<Delta> {
    let phases = case.phases_at_rest();
    let seen: Vec<_> = case.history().changes.iter().filter(|change| change.key == *key).collect();
    seen.windows(2)
        .filter(|pair| phases.contains(&pair[1].phase) && pair[1].kind == ChangeKind::Modified && counts(pair[1]))
        .map(|pair| step(case, pair[0], pair[1]))
        .filter(|delta| !delta.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        event::{Mark, Verb},
        scenario::format::IgnoreRule,
        verdict::{
            Outcome, judge_references,
            sample::{Sample, change, child, demo},
        },
    };

    fn findings(run: Sample) -> Vec<Finding> {
        let verdict = judge_references(&[run.build()]).remove(0);
        assert_eq!(verdict.outcome == Outcome::Fail, !verdict.findings.is_empty());
        verdict.findings
    }

    #[test]
    fn a_write_at_rest_is_found_with_its_field() {
        let mut stamped = child();
        stamped["data"]["stamp"] = json!("2");
        let run = Sample::reference()
            .write(Verb::Update, "configmaps", 3_100, Phase::Rest)
            .write(Verb::Update, "configmaps", 3_200, Phase::Rest)
            .change(|run| {
                run.history.changes.push(change(ChangeKind::Modified, stamped, 3_101, Phase::Rest, Actor::Operator));
            });
        let found = findings(run);
        assert_eq!(
            found[0].sentence,
            "wrote 2 times although nothing was left to do: update configmaps default/x, changing data.stamp, in a fault-free run"
        );
        assert!(found[0].detail.contains("@@ data.stamp @@\n+\"2\""), "{}", found[0].detail);
        assert_eq!((found.len(), found[0].evidence.as_slice()), (1, [3, 4].as_slice()));
    }

    #[test]
    fn an_undone_probe_proves_nothing() {
        let mut edited = demo("Running");
        edited["spec"] = json!({"size": 4});
        let mut back = edited.clone();
        back["spec"]["size"] = json!(3);
        let run = Sample::reference().write(Verb::Update, "configmaps", 3_100, Phase::Rest).change(|run| {
            run.history.marks.push(Mark { at_ms: 2_000, name: MarkName::ProbeApplied, detail: String::new() });
            run.history.changes.extend([
                change(ChangeKind::Modified, edited, 2_001, Phase::Probe, Actor::Tester),
                change(ChangeKind::Modified, back, 3_001, Phase::Rest, Actor::Tester),
            ]);
        });
        let verdict = judge_references(&[run.build()]).remove(0);
        assert_eq!(verdict.outcome, Outcome::Inconclusive, "{:?}", verdict.findings);
        assert!(verdict.reasons[0].contains("(Demo default/x spec.size)"), "{:?}", verdict.reasons);
    }

    #[test]
    fn no_op_writes_are_tolerated_until_they_are_a_loop() {
        let no_ops = |count: u64| {
            let mut run = Sample::reference();
            for at in 0..count {
                run = run.write(Verb::Patch, "configmaps", 3_100 + at, Phase::Rest);
            }
            run.change(|run| {
                for request in run.history.requests.iter_mut().filter(|request| request.phase == Phase::Rest) {
                    request.committed = Some(false);
                }
            })
        };
        assert_eq!(findings(no_ops(3)), []);
        assert_eq!(
            findings(no_ops(4))[0].sentence,
            "sent 4 writes that change nothing at rest: patch configmaps default/x (3 are tolerated), in a fault-free run"
        );
    }

    #[test]
    fn a_change_of_nothing_but_ignored_fields_is_a_no_op() {
        let run = |ignored: &str, writes: u64| {
            let ignore = IgnoreRule { kind: None, path: ignored.into(), reason: "a habit".into() };
            let mut run = Sample::reference().change(|run| run.plan.normalise.ignore.push(ignore));
            for at in 3_100..3_100 + writes {
                let mut stamped = child();
                stamped["data"]["stamp"] = json!(at.to_string());
                run = run.write(Verb::Update, "configmaps", at, Phase::Rest).change(|run| {
                    run.history.changes.push(change(ChangeKind::Modified, stamped, at, Phase::Rest, Actor::Operator));
                });
            }
            findings(run)
        };
        assert_eq!(run("data.stamp", 3), []);
        assert!(run("data.other", 2)[0].sentence.contains("changing data.stamp"));
        // It is ignored what they say, not that they do not end.
        assert!(run("data.stamp", 4)[0].sentence.starts_with("sent 4 writes that change nothing at rest"));
    }

    #[test]
    fn bookkeeping_and_background_are_not_writes() {
        let run = Sample::reference().write(Verb::Patch, "demos", 3_100, Phase::Rest).change(|run| {
            let note = json!({"metadata": {"annotations": {"kopf.zalando.org/last-handled-configuration": "{}"}}});
            run.history.requests[2].body = note;
        });
        assert_eq!(findings(run), []);
        let lease = Sample::reference().write(Verb::Update, "leases", 3_100, Phase::Rest).change(|run| {
            run.history.requests[2].target.group = "coordination.k8s.io".into();
        });
        assert_eq!(findings(lease), []);
    }

    #[test]
    fn a_rotated_secret_is_found_within_a_run() {
        let secret = |hash: &str| {
            let value = format!("<redacted length=12 hash={hash}>");
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x", "namespace": "default"}, "data": {"password": value}})
        };
        let run = |hash: &str| {
            Sample::reference()
                .object(SnapshotLabel::Final, secret("aaaaaaaa"))
                .object(SnapshotLabel::Rested, secret(hash))
        };
        assert_eq!(findings(run("aaaaaaaa")), []);
        let found = findings(run("bbbbbbbb"));
        assert!(
            found[0].sentence.starts_with("Secret default/x: data.password changed at rest"),
            "{}",
            found[0].sentence
        );
    }
}
