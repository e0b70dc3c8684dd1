//! `no-errors`: the operator does not exit by itself.

use crate::verdict::{Case, Classification, Finding, Judgement, Oracle};

#[derive(Debug)]
pub(super) struct NoErrors;

impl Oracle for NoErrors {
    fn id(&self) -> &'static str {
        "no-errors"
    }

    fn title(&self) -> &'static str {
        "the operator never exits unless it is told to"
    }

    fn explain(&self) -> &'static str {
        "Every exit of the operator's process that the harness did not ask for is a finding: a panic, a failed \
         assertion, or an error that should have been retried. In a cluster the pod is restarted with a growing \
         delay, so that such an operator is away for minutes. The last lines of its output are shown."
    }

    fn judge(&self, case: &Case<'_>) -> Judgement {
        let exits: Vec<_> = case.run.exits.iter().filter(|exit| !exit.asked).collect();
        let Some(first) = exits.first() else { return Judgement::Holds };
        let times = match exits.len() {
            1 => "once".to_owned(),
            n => format!("{n} times"),
        };
        let what = format!("the operator exited by itself {times} ({})", first.how);
        let detail: Vec<String> = exits
            .iter()
            .map(|exit| {
                format!("at {} ms, start no. {}: {}\n{}", exit.at_ms, exit.incarnation, exit.how, exit.log_tail)
            })
            .collect();
        let finding = Finding::new(self.id(), Classification::CrashLoop, &what, &case.cause());
        Judgement::Violated(vec![finding.with_detail(detail.join("\n"))])
    }
}

#[cfg(test)]
mod tests {
    use crate::verdict::{Outcome, judge_references, sample::Sample};

    #[test]
    fn only_exits_that_nobody_asked_for_are_found() {
        let asked = judge_references(&[Sample::reference().exit(700, true).build()]).remove(0);
        assert_eq!(asked.outcome, Outcome::Pass);
        let by_itself = judge_references(&[Sample::reference().exit(700, false).exit(800, false).build()]).remove(0);
        let finding = &by_itself.findings[0];
        assert_eq!(finding.sentence, "the operator exited by itself 2 times (exit code 1), in a fault-free run");
        assert!(finding.detail.contains("fatal: cannot list demos"));
    }
}
