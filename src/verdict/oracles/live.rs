//! `live`: after recovery, the operator still acts.

use crate::{
    event::MarkName,
    verdict::{Case, Classification, Finding, Judgement, Oracle},
};

#[derive(Debug)]
pub(super) struct Live;

impl Oracle for Live {
    fn id(&self) -> &'static str {
        "live"
    }

    fn title(&self) -> &'static str {
        "a harmless edit after recovery is acted upon"
    }

    fn explain(&self) -> &'static str {
        "After recovery the scenario's `probe` edits an input, and its expectations must become true within the \
         recovery bound. An operator that lost its watch or its worker looks perfectly at rest; only an edit shows \
         that it went deaf. A finding names what never followed from the edit."
    }

    fn judge(&self, case: &Case<'_>) -> Judgement {
        let history = case.history();
        if let Some(missed) = history.mark(MarkName::ProbeMissed) {
            let detail = if missed.detail.is_empty() { "the expectations never held" } else { &missed.detail };
            let what = format!("deaf after recovery: an edit was not acted upon ({detail})");
            let finding = Finding::new(self.id(), Classification::Unresponsive, &what, &case.cause());
            return Judgement::Violated(vec![finding.with_detail(detail)]);
        }
        match (&case.plan().probe, history.mark(MarkName::ProbeSeen)) {
            (_, Some(_)) => Judgement::Holds,
            (None, None) => Judgement::NotApplicable("the scenario has no probe".into()),
            (Some(_), None) if !case.converged() => Judgement::NotApplicable("the run did not converge".into()),
            (Some(_), None) => Judgement::Unknown("the probe was not carried out".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        event::Mark,
        verdict::{Outcome, judge, sample::Sample},
    };

    #[test]
    fn a_missed_probe_is_found_and_a_seen_one_is_not() {
        let probed = |name: MarkName| {
            Sample::perturbed().change(|run| {
                run.history.marks.push(Mark {
                    at_ms: 2_500,
                    name,
                    detail: "ConfigMap default/x: data.a == '2'".into(),
                });
            })
        };
        let references = [Sample::reference().build()];
        assert_eq!(judge(&references, &probed(MarkName::ProbeSeen).build()).outcome, Outcome::Pass);
        let verdict = judge(&references, &probed(MarkName::ProbeMissed).build());
        assert_eq!(verdict.findings[0].classification, Classification::Unresponsive);
        assert_eq!(
            verdict.findings[0].sentence,
            "deaf after recovery: an edit was not acted upon (ConfigMap default/x: data.a == '2'), after 409 on patch demos.example.com default/x"
        );
    }
}
