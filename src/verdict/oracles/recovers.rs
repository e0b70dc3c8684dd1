//! `recovers`: after faults are healed, the operator is back within a bound.

use crate::{
    event::MarkName,
    verdict::{Case, Classification, Finding, Judgement, Oracle},
};

#[derive(Debug)]
pub(super) struct Recovers;

impl Oracle for Recovers {
    fn id(&self) -> &'static str {
        "recovers"
    }

    fn title(&self) -> &'static str {
        "after the heal, the last change comes within the recovery bound"
    }

    fn explain(&self) -> &'static str {
        "The clock starts when all faults are healed and stops at the last write of the operator, or the last change \
         of an object, before the run was found converged. The bound is `recovery.within`. A finding means that the \
         operator got there, but too late: look for back-offs that grow without a limit, or for a fault that only a \
         periodic resync repairs."
    }

    fn judge(&self, case: &Case<'_>) -> Judgement {
        if case.perturbation().is_none() {
            return Judgement::NotApplicable("a fault-free run has nothing to recover from".into());
        }
        if case.history().mark(MarkName::Healed).is_none() {
            return Judgement::Unknown("the faults were never healed".into());
        }
        let Some(took) = case.recovery_ms() else {
            return Judgement::NotApplicable("the run did not converge after the heal".into());
        };
        let bound = u64::try_from(case.plan().recovery_within.0.as_millis()).unwrap_or(u64::MAX);
        if took <= bound {
            return Judgement::Holds;
        }
        let what = format!("recovered only {} after the heal; the bound is {}", seconds(took), seconds(bound));
        let healed = case.history().last_mark(MarkName::Healed).map_or(0, |mark| mark.at_ms);
        let writes: Vec<_> = case.history().writes().filter(|request| request.at_ms >= healed).collect();
        let detail: Vec<String> = writes
            .iter()
            .map(|request| format!("+{} #{} {}", seconds(request.at_ms - healed), request.seq, request.target))
            .collect();
        let finding = Finding::new(self.id(), Classification::SlowRecovery, &what, &case.cause());
        let evidence = writes.iter().map(|request| request.seq).collect();
        Judgement::Violated(vec![finding.with_detail(detail.join("\n")).with_evidence(evidence)])
    }
}

fn seconds(ms: u64) -> String {
    format!("{}.{:01} s", ms / 1_000, ms % 1_000 / 100)
}

#[cfg(test)]
mod tests {
    use crate::{
        event::{Phase, Verb},
        verdict::{judge, sample::Sample},
    };

    #[test]
    fn a_late_write_is_slow_recovery() {
        let references = [Sample::reference().build()];
        let clean = judge(&references, &Sample::perturbed().build());
        assert_eq!((clean.metrics.recovery_ms, clean.metrics.recovery_bound_ms), (Some(300), 2_000));
        let late = Sample::perturbed()
            .write(Verb::Update, "configmaps", 5_200, Phase::Recover)
            .change(|run| run.history.marks.iter_mut().filter(|m| m.at_ms == 2_000).for_each(|m| m.at_ms = 7_000));
        let verdict = judge(&references, &late.build());
        let finding = &verdict.findings[0];
        assert_eq!(
            finding.sentence,
            "recovered only 4.2 s after the heal; the bound is 2.0 s, after 409 on patch demos.example.com default/x"
        );
        assert!(finding.detail.contains("+4.2 s #4 update configmaps default/x"), "{}", finding.detail);
    }

    #[test]
    fn a_write_after_convergence_does_not_count() {
        let run = Sample::perturbed().write(Verb::Update, "configmaps", 5_200, Phase::Delete);
        assert_eq!(judge(&[Sample::reference().build()], &run.build()).metrics.recovery_ms, Some(300));
    }
}
