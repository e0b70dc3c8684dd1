//! Puts runs before all oracles and adds up what they say.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{
    Judgement, ORACLES, Oracle,
    case::{Case, Reference},
    wire::{
        CaseVerdict, FaultSummary, JudgementKind, Metrics, OracleSummary, Outcome, ScenarioVerdict, VERDICT_VERSION,
        without_seed,
    },
};
use crate::{
    diff::{Unstable, short},
    event::{Actor, MarkName, Request, Verb, is_background},
    normalise::Ruleset,
    observe::record::RunRecord,
    scenario::format::{KillTarget, Perturbation},
};

/// The learned mask may hide this share of the leaves, in percent, unless the scenario says otherwise.
const MASK_BUDGET_PERCENT: u32 = 10;
/// Firings of a fault that a report names.
const HITS: usize = 5;

/// Judges one perturbed run against its references.
#[must_use]
pub fn judge(references: &[RunRecord], run: &RunRecord) -> CaseVerdict {
    with_rules(run, |rules| {
        let reference = Reference::of(references, rules).unwrap_or_default();
        verdict(&Case::new(run, rules, Some(&reference)), ORACLES)
    })
}

/// Judges one run against what was learned before; `None` makes it a reference itself.
#[must_use]
pub fn judge_against(reference: Option<&Reference>, run: &RunRecord) -> CaseVerdict {
    with_rules(run, |rules| verdict(&Case::new(run, rules, reference), ORACLES))
}

/// Judges fault-free runs by the oracles that need no reference.
#[must_use]
pub fn judge_references(references: &[RunRecord]) -> Vec<CaseVerdict> {
    references.iter().map(|run| judge_against(None, run)).collect()
}

/// Judges all runs of a scenario.
#[must_use]
pub fn judge_scenario(references: &[RunRecord], runs: &[RunRecord]) -> ScenarioVerdict {
    let reference = learn_reference(references);
    let cases = runs.iter().map(|run| judge_against(Some(&reference), run)).collect();
    scenario_verdict(references, &reference, judge_references(references), cases)
}

/// What the references of a scenario teach; nothing when none of them converged.
#[must_use]
pub fn learn_reference(references: &[RunRecord]) -> Reference {
    let rules = references.first().map(|run| Ruleset::new(&run.plan.normalise).unwrap_or_default());
    Reference::of(references, &rules.unwrap_or_default()).unwrap_or_default()
}

/// Adds up runs that were judged before.
#[must_use]
pub fn scenario_verdict(
    references: &[RunRecord],
    reference: &Reference,
    judged_references: Vec<CaseVerdict>,
    cases: Vec<CaseVerdict>,
) -> ScenarioVerdict {
    let first = references.first();
    let plan = first.map(|run| &run.plan);
    let budget = plan.and_then(|plan| plan.normalise.mask_budget_percent).unwrap_or(MASK_BUDGET_PERCENT);
    let mut reasons: Vec<String> = reference.learned.unstable.iter().map(describe_unstable).collect();
    let mask = &reference.learned.mask;
    if mask.exceeds(budget) {
        reasons.push(format!(
            "mask budget exceeded: {} of {} leaves differ between fault-free runs, {budget} % may",
            mask.leaves_hidden, mask.leaves_total
        ));
    }
    if judged_references.is_empty() && cases.is_empty() {
        reasons.push("nothing was run".into());
    }
    let worst = judged_references.iter().chain(&cases).map(|case| case.outcome).max().unwrap_or(Outcome::Pass);
    let outcome = if reasons.is_empty() { worst } else { worst.max(Outcome::Inconclusive) };
    ScenarioVerdict {
        version: VERDICT_VERSION,
        scenario: plan.map(|plan| plan.scenario.clone()).unwrap_or_default(),
        file: plan.map(|plan| plan.file.display().to_string()).unwrap_or_default(),
        description: plan.map(|plan| plan.description.clone()).unwrap_or_default(),
        outcome,
        reasons,
        seed: plan.map_or(0, |plan| plan.seed.0),
        cluster: first.map(|run| run.cluster.clone()).unwrap_or_default(),
        duration_ms: judged_references.iter().chain(&cases).map(|case| case.duration_ms).sum(),
        references: judged_references,
        cases,
        mask: reference.learned.mask.clone(),
        mask_budget_percent: budget,
        unstable: reference.learned.unstable.clone(),
    }
}

/// One line about a place in which fault-free runs differ.
pub(super) fn describe_unstable(place: &Unstable) -> String {
    let Unstable { object, path, values } = place;
    if path.is_empty() {
        return format!("unstable reference: {object} is there in some fault-free runs only");
    }
    let values: Vec<String> = values.iter().map(|value| short(Some(value))).collect();
    format!("unstable reference: {object} {path} is {} in fault-free runs", values.join(" or "))
}

fn with_rules(run: &RunRecord, judge: impl FnOnce(&Ruleset) -> CaseVerdict) -> CaseVerdict {
    match Ruleset::new(&run.plan.normalise) {
        Ok(rules) => judge(&rules),
        Err(error) => {
            let rules = Ruleset::default();
            let mut verdict = verdict(&Case::new(run, &rules, None), &[]);
            verdict.reasons.push(error.to_string());
            verdict.outcome = Outcome::Inconclusive;
            verdict
        }
    }
}

fn verdict(case: &Case<'_>, oracles: &[&dyn Oracle]) -> CaseVerdict {
    let run = case.run;
    let (mut findings, mut summaries, mut reasons) = (Vec::new(), Vec::new(), reasons(case));
    for oracle in oracles {
        let (judgement, reason) = match heard(*oracle, case) {
            Judgement::Holds => (JudgementKind::Holds, String::new()),
            Judgement::Violated(found) => {
                findings.extend(found);
                (JudgementKind::Violated, String::new())
            }
            Judgement::Unknown(why) => {
                reasons.push(format!("{}: {why}", oracle.id()));
                (JudgementKind::Unknown, why)
            }
            Judgement::NotApplicable(why) => (JudgementKind::NotApplicable, why),
        };
        summaries.push(OracleSummary { id: oracle.id().to_owned(), judgement, reason });
    }
    let outcome = match (findings.is_empty(), reasons.is_empty()) {
        (false, _) => Outcome::Fail,
        (true, false) => Outcome::Inconclusive,
        (true, true) => Outcome::Pass,
    };
    let faults = run.history.faults.iter().map(|fault| FaultSummary {
        id: fault.id.clone(),
        matched: fault.matched,
        fired: fault.fired,
        hits: fault.hits.iter().take(HITS).map(|hit| hit.what.clone()).collect(),
        legal_because: fault.legal_because.clone(),
    });
    CaseVerdict {
        name: without_seed(&run.name).to_owned(),
        seed: run.plan.seed.0,
        perturbation: case.perturbation().map(|planned| planned.perturbation.id().to_owned()),
        line: case.perturbation().map(|planned| planned.line),
        outcome,
        findings,
        reasons,
        oracles: summaries,
        faults: faults.collect(),
        metrics: metrics(case),
        duration_ms: run.duration_ms,
        replay: None,
        confirmation: None,
    }
}

/// Asks one oracle. One that panics knows nothing; the other oracles are still asked.
fn heard(oracle: &dyn Oracle, case: &Case<'_>) -> Judgement {
    if let Some(skip) = case.plan().skip_oracles.iter().find(|skip| skip.id == oracle.id()) {
        return Judgement::NotApplicable(format!("skipped by the scenario: {}", skip.reason));
    }
    catch_unwind(AssertUnwindSafe(|| oracle.judge(case))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(ToString::to_string);
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Judgement::Unknown(format!("the oracle crashed: {text}"))
    })
}

/// What makes a run say nothing, whatever the oracles find: a green run must have proved something.
fn reasons(case: &Case<'_>) -> Vec<String> {
    let (run, history) = (case.run, case.history());
    let mut reasons = run.inconclusive.clone();
    let operator = || history.requests.iter().filter(|request| request.actor == Actor::Operator);
    if operator().next().is_none() {
        let bypassed = history.changes.iter().any(|change| change.actor == Actor::Operator);
        reasons.push(if bypassed {
            "the operator wrote objects, but none of its requests came through the proxy".into()
        } else {
            "no request of the operator was seen".into()
        });
    }
    let Some(planned) = case.perturbation() else { return reasons };
    if matches!(planned.perturbation, Perturbation::Quiet(_)) {
        return reasons;
    }
    let (matched, fired) =
        history.faults.iter().fold((0, 0), |(matched, fired), fault| (matched + fault.matched, fired + fault.fired));
    // A run that was cut short says so itself.
    if fired == 0 && run.inconclusive.is_empty() {
        reasons.push(match matched {
            0 => format!("{} never fired: nothing matched it", planned.name),
            matched => format!("{} never fired, although {matched} requests matched it", planned.name),
        });
    }
    // A watch that was open all along proves nothing, and neither does a lease that is still renewed.
    let alive = |request: &Request, since: u64| {
        let ended = request.at_ms.saturating_add(request.duration_ms);
        let counted = if request.target.verb == Verb::Watch { request.at_ms } else { ended };
        counted >= since && !is_background(&request.target)
    };
    // A re-apply or the end of a pod may be seen by a watch that is open, and need no request: there the restart
    // of the rest phase is proof enough.
    let by_watch = match &planned.perturbation {
        Perturbation::ForceReapply(_) => true,
        Perturbation::PodKill(kill) => kill.target == KillTarget::Pods,
        _ => false,
    };
    let hits = history.faults.iter().flat_map(|fault| &fault.hits).map(|hit| hit.at_ms);
    let since = hits.min().or_else(|| history.last_mark(MarkName::Healed).map(|mark| mark.at_ms));
    let until = history.mark(MarkName::RestBegan).filter(|_| !by_watch).map_or(u64::MAX, |mark| mark.at_ms);
    if let Some(since) = since
        && !operator().any(|request| request.at_ms <= until && alive(request, since))
    {
        reasons.push("the operator sent no request after it was disturbed".into());
    }
    reasons
}

fn metrics(case: &Case<'_>) -> Metrics {
    let history = case.history();
    let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    let masked = case.reference.map_or(0, |reference| reference.learned.mask.leaves_hidden);
    let leaves = case.actual.as_ref().map_or(0, crate::normalise::Canonical::leaves);
    Metrics {
        faults_scheduled: count(history.faults.len()),
        faults_matched: history.faults.iter().map(|fault| fault.matched).sum(),
        faults_fired: history.faults.iter().map(|fault| fault.fired).sum(),
        requests_seen: count(history.requests.iter().filter(|request| request.actor == Actor::Operator).count()),
        writes: count(history.writes().count()),
        writes_after_settle: count(case.writes_at_rest().len()),
        recovery_ms: case.recovery_ms(),
        recovery_bound_ms: u64::try_from(case.plan().recovery_within.0.as_millis()).unwrap_or(u64::MAX),
        leaves_compared: if case.delta.is_some() { count(leaves.saturating_sub(masked)) } else { 0 },
        leaves_masked: count(masked),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::sample::Sample;

    #[derive(Debug)]
    struct Crashes;

    impl Oracle for Crashes {
        fn id(&self) -> &'static str {
            "crashes"
        }
        fn title(&self) -> &'static str {
            "never"
        }
        fn explain(&self) -> &'static str {
            "never"
        }
        fn judge(&self, _: &Case<'_>) -> Judgement {
            panic!("index out of range")
        }
    }

    #[test]
    fn a_clean_run_passes() {
        let verdict = judge(&[Sample::reference().build()], &Sample::perturbed().build());
        assert_eq!((verdict.outcome, verdict.reasons, verdict.findings), (Outcome::Pass, vec![], vec![]));
    }

    #[test]
    fn a_run_that_proves_nothing_is_inconclusive() {
        for (what, run) in [
            ("never fired", Sample::perturbed().change(|run| run.history.faults[0].fired = 0)),
            (
                "none of its requests came through the proxy",
                Sample::perturbed().change(|run| run.history.requests.clear()),
            ),
            (
                "no request after it was disturbed",
                Sample::perturbed().change(|run| run.history.requests.retain(|request| request.at_ms < 1_000)),
            ),
            (
                "no request after it was disturbed",
                // The watch of an operator whose workers are dead stays open.
                Sample::perturbed().change(|run| {
                    run.history.requests.retain(|request| request.at_ms < 1_000);
                    run.history.requests[0].target.verb = Verb::Watch;
                    run.history.requests[0].duration_ms = 5_000;
                }),
            ),
            ("refused", Sample::perturbed().change(|run| run.inconclusive.push("refused".into()))),
            (
                "no normalisation rule",
                Sample::perturbed().change(|run| run.plan.normalise.disable.push("nonsense".into())),
            ),
        ] {
            let verdict = judge(&[Sample::reference().build()], &run.build());
            assert_eq!(verdict.outcome, Outcome::Inconclusive, "{what}: {:?}", verdict.reasons);
            assert!(verdict.reasons.iter().any(|reason| reason.contains(what)), "{what}: {:?}", verdict.reasons);
        }
    }

    #[test]
    fn a_crashed_oracle_is_no_pass() {
        let (rules, run) = (Ruleset::default(), Sample::reference().build());
        let verdict = verdict(&Case::new(&run, &rules, None), &[&Crashes]);
        assert_eq!(verdict.outcome, Outcome::Inconclusive);
        assert_eq!(verdict.reasons, ["crashes: the oracle crashed: index out of range"]);
    }

    #[test]
    fn an_unstable_reference_names_the_field() {
        let references = ["Running", "Pending", "Running"].map(|phase| Sample::reference().phase(phase).build());
        let verdict = judge_scenario(&references, &[Sample::perturbed().phase("Pending").build()]);
        assert_eq!(verdict.outcome, Outcome::Inconclusive);
        assert_eq!(
            verdict.reasons,
            ["unstable reference: Demo default/x status.phase is `Running` or `Pending` in fault-free runs"]
        );
        assert_eq!(verdict.cases[0].outcome, Outcome::Inconclusive, "{:?}", verdict.cases[0]);
    }

    #[test]
    fn too_large_a_mask_is_inconclusive() {
        let judged = |budget| {
            let set = |run: Sample| run.change(|run| run.plan.normalise.mask_budget_percent = budget).build();
            let references = ["a1b2c3d4e5", "b2c3d4e5f6", "c3d4e5f6a7"].map(|id| set(Sample::reference().phase(id)));
            judge_scenario(&references, &[set(Sample::perturbed().phase("d4e5f6a7b8"))])
        };
        let verdict = judged(Some(5));
        assert_eq!(verdict.reasons.len(), 1, "{:?}", verdict.reasons);
        assert!(verdict.reasons[0].starts_with("mask budget exceeded: 1 of "), "{:?}", verdict.reasons);
        assert_eq!(verdict.outcome, Outcome::Inconclusive);
        let verdict = judged(None);
        assert_eq!((verdict.outcome, verdict.reasons), (Outcome::Pass, vec![]));
    }

    #[test]
    fn a_finding_beats_a_reason() {
        let run = Sample::perturbed().phase("Failed").change(|run| run.inconclusive.push("odd".into())).build();
        let verdict = judge_scenario(&[Sample::reference().build()], &[run]);
        assert_eq!(verdict.outcome, Outcome::Fail);
    }

    #[test]
    fn scenarios_skip_oracles() {
        let skip = crate::scenario::format::SkipOracle { id: "same-state".into(), reason: "random".into() };
        let run = Sample::perturbed().phase("Failed").change(|run| run.plan.skip_oracles.push(skip)).build();
        let verdict = judge(&[Sample::reference().build()], &run);
        assert_eq!(verdict.outcome, Outcome::Pass);
        let summary = verdict.oracles.iter().find(|summary| summary.id == "same-state").unwrap();
        assert_eq!(summary.reason, "skipped by the scenario: random");
    }
}
