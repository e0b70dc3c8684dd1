//! `same-state`: the end is the same as without faults.

use crate::{
    diff::{Changed, Delta, render, short},
    normalise::{Canonical, CanonicalKey},
    object::ObjectKey,
    verdict::{Case, Classification, Finding, Judgement, Oracle, Reference},
};

#[derive(Debug)]
pub(super) struct SameState;

impl Oracle for SameState {
    fn id(&self) -> &'static str {
        "same-state"
    }

    fn title(&self) -> &'static str {
        "the final state equals that of a fault-free run"
    }

    fn explain(&self) -> &'static str {
        "The objects at rest after recovery are compared with those of fault-free runs of the same workload: first \
         which objects there are, then their desired fields, then their status. Random values are hidden by \
         normalisation rules, and what differs by chance between the fault-free runs by the learned mask. A finding \
         shows what is missing (`-`) and what is there instead (`+`). If a field says nothing about convergence, add \
         it to `normalise.ignore` with the reason."
    }

    fn judge(&self, case: &Case<'_>) -> Judgement {
        let Some(reference) = case.reference else {
            return Judgement::NotApplicable("a reference is not compared with itself".into());
        };
        if reference.runs == 0 {
            return Judgement::Unknown("no fault-free run converged".into());
        }
        let (Some(actual), Some(delta)) = (&case.actual, &case.delta) else {
            return if case.converged() {
                Judgement::Unknown("no final snapshot was taken".into())
            } else {
                Judgement::NotApplicable("the run did not converge".into())
            };
        };
        if delta.is_empty() {
            return match reference.learned.unstable.first() {
                None => Judgement::Holds,
                Some(place) => {
                    Judgement::Unknown(format!("{} {} is unstable in the references", place.object, place.path))
                }
            };
        }
        let (about, what) = first_difference(reference, actual, delta);
        let more = match delta.len() - 1 {
            0 => String::new(),
            1 => " (and 1 more difference)".into(),
            n => format!(" (and {n} more differences)"),
        };
        let finding = Finding::new(self.id(), Classification::ConvergenceDiff, &format!("{what}{more}"), &case.cause());
        let evidence = case.writes_to(&about);
        Judgement::Violated(vec![finding.about(Some(about)).with_detail(render(delta, false)).with_evidence(evidence)])
    }
}

fn first_difference(reference: &Reference, actual: &Canonical, delta: &Delta) -> (ObjectKey, String) {
    let count = |state: &Canonical, role: &CanonicalKey| state.objects.keys().filter(|key| key.role() == *role).count();
    let numbers = |key: &CanonicalKey| {
        let role = key.role();
        (count(actual, &role), count(&reference.canonical, &role))
    };
    if let Some(lone) = delta.missing.first() {
        let key = reference.canonical.name_of(&lone.object);
        let what = match numbers(&lone.object) {
            (0, 1) => format!("{key} is missing"),
            (now, before) => format!("{now} instead of {before} of {}", lone.object.role()),
        };
        return (key, what);
    }
    if let Some(lone) = delta.extra.first() {
        let key = actual.name_of(&lone.object);
        let what = match numbers(&lone.object) {
            (1, 0) => format!("{key} should not exist"),
            (now, before) => format!("{now} instead of {before} of {}, such as {}", lone.object.role(), key.name),
        };
        return (key, what);
    }
    match delta.changed.first() {
        Some(change) => (actual.name_of(&change.object), changed(actual, change)),
        None => (
            ObjectKey { group: String::new(), kind: String::new(), namespace: String::new(), name: String::new() },
            String::new(),
        ),
    }
}

fn changed(actual: &Canonical, change: &Changed) -> String {
    let (key, path) = (actual.name_of(&change.object), &change.path);
    match (&change.before, &change.after) {
        (None, after) => format!("{key}: {path} is {} instead of absent", short(after.as_ref())),
        (before, None) => format!("{key}: {path} is absent instead of {}", short(before.as_ref())),
        (before, after) => format!("{key}: {path} is {} instead of {}", short(after.as_ref()), short(before.as_ref())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::{
        observe::record::SnapshotLabel,
        verdict::{Outcome, judge, sample::Sample},
    };

    fn sentence(run: Sample) -> String {
        let verdict = judge(&[Sample::reference().build()], &run.build());
        assert_eq!(verdict.outcome, Outcome::Fail);
        verdict.findings.iter().find(|finding| finding.oracle == "same-state").unwrap().sentence.clone()
    }

    #[test]
    fn the_first_difference_is_said_in_words() {
        let remove = |index: usize| {
            Sample::perturbed().change(|run| {
                for snapshot in run.snapshots.iter_mut().filter(|snapshot| snapshot.objects.len() > 1) {
                    snapshot.objects.remove(index);
                }
            })
        };
        let worker = |name: &str| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "generateName": "w-"}});
        let extra = Sample::perturbed().object(SnapshotLabel::Final, worker("w-bcdfg"));
        for (run, expected) in [
            (
                Sample::perturbed().phase("Failed"),
                "Demo default/x: status.phase is `Failed` instead of `Running`, after 409 on patch demos.example.com default/x",
            ),
            (remove(1), "ConfigMap default/x is missing, after 409 on patch demos.example.com default/x"),
            (extra, "Pod default/w-bcdfg should not exist, after 409 on patch demos.example.com default/x"),
        ] {
            assert_eq!(sentence(run), expected);
        }
        let with_pod = |run: Sample, name: &str| {
            run.object(SnapshotLabel::Final, worker(name)).object(SnapshotLabel::Rested, worker(name))
        };
        let reference = with_pod(Sample::reference(), "w-xyz12").build();
        let twice = with_pod(with_pod(Sample::perturbed(), "w-bcdfg"), "w-hjklm").build();
        let verdict = judge(&[reference], &twice);
        assert!(
            verdict.findings[0].sentence.starts_with("2 instead of 1 of Pod default/w-<random>, such as w-"),
            "{:?}",
            verdict.findings
        );
        assert_eq!(verdict.findings[0].legal_because.as_deref(), Some("any other writer may have been first"));
    }

    #[test]
    fn without_a_reference_nothing_is_known() {
        let verdict = judge(&[], &Sample::perturbed().build());
        assert_eq!(
            (verdict.outcome, verdict.reasons),
            (Outcome::Inconclusive, vec!["same-state: no fault-free run converged".to_owned()])
        );
    }
}
