//! `recovers`: after the last fault, the operator is back within a bound.

use crate::verdict::{Case, Classification, Finding, Judgement, Oracle};

#[derive(Debug)]
pub(super) struct Recovers;

impl Oracle for Recovers {
    fn id(&self) -> &'static str {
        "recovers"
    }

    fn title(&self) -> &'static str {
        "after the last fault, the last change comes within the recovery bound"
    }

    fn explain(&self) -> &'static str {
        "The clock starts with the last thing that was done to the operator: the last hit of a fault, or the moment \
         when all faults were healed, if that came first. It stops at the last write of the operator, or the last \
         change of an object, before the run was found converged. The bound is `recovery.within`. A finding means that the \
         operator got there, but too late: look for back-offs that grow without a limit, or for a fault that only a \
         periodic resync repairs."
    }

    fn judge(&self, case: &Case<'_>) -> Judgement {
        if case.perturbation().is_none() {
            return Judgement::NotApplicable("a fault-free run has nothing to recover from".into());
        }
        let Some(since) = case.recovery_since_ms() else {
            return Judgement::Unknown("the faults were never healed".into());
        };
        let Some(took) = case.recovery_ms() else {
            return Judgement::NotApplicable("the run did not converge after the heal".into());
        };
        let bound = u64::try_from(case.plan().recovery_within.0.as_millis()).unwrap_or(u64::MAX);
        if took <= bound {
            return Judgement::Holds;
        }
        let what = format!("recovered only {} after the last fault; the bound is {}", seconds(took), seconds(bound));
        let writes: Vec<_> = case.history().writes().filter(|request| request.at_ms >= since).collect();
        let detail: Vec<String> = writes
            .iter()
            .map(|request| format!("+{} #{} {}", seconds(request.at_ms - since), request.seq, request.target))
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
        assert_eq!((clean.metrics.recovery_ms, clean.metrics.recovery_bound_ms), (Some(350), 2_000), "since the hit");
        let late = Sample::perturbed()
            .write(Verb::Update, "configmaps", 5_200, Phase::Recover)
            .change(|run| run.history.marks.iter_mut().filter(|m| m.at_ms == 2_000).for_each(|m| m.at_ms = 7_000));
        let verdict = judge(&references, &late.build());
        let finding = &verdict.findings[0];
        assert_eq!(
            finding.sentence,
            "recovered only 4.2 s after the last fault; the bound is 2.0 s, after 409 on patch demos.example.com default/x"
        );
        assert!(finding.detail.contains("+4.2 s #4 update configmaps default/x"), "{}", finding.detail);
    }

    #[test]
    fn a_write_after_convergence_does_not_count() {
        let run = Sample::perturbed().write(Verb::Update, "configmaps", 5_200, Phase::Delete);
        assert_eq!(judge(&[Sample::reference().build()], &run.build()).metrics.recovery_ms, Some(350));
    }

    /// A hit that is recorded after the heal (a call that was held until then) must not shorten the recovery time.
    #[test]
    fn the_clock_starts_at_the_heal_at_the_latest() {
        let run = Sample::perturbed().change(|run| run.history.faults[0].hits[0].at_ms = 1_200);
        assert_eq!(judge(&[Sample::reference().build()], &run.build()).metrics.recovery_ms, Some(300));
    }
}
