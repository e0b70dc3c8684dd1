//! `converges`: the operator gets there, and comes to rest.

use std::{collections::BTreeMap, fmt::Write as _};

use crate::{
    event::{Actor, MarkName, Request},
    verdict::{Case, Classification, Finding, Judgement, Oracle},
};

/// Errors and requests that a finding lists.
const SHOWN: usize = 5;
/// Before the deadline, this many settle windows are looked at to tell a busy operator from an idle one.
const WINDOWS: u64 = 3;

#[derive(Debug)]
pub(super) struct Converges;

impl Oracle for Converges {
    fn id(&self) -> &'static str {
        "converges"
    }

    fn title(&self) -> &'static str {
        "every expectation is met and the operator comes to rest before the deadline"
    }

    fn explain(&self) -> &'static str {
        "After each step of the workload, and after faults are healed, every `expect` predicate must become true and \
         the operator must send no mutating request for the `settle` window, all before the `deadline`. Requests are \
         counted rather than stored changes, because the API server swallows writes that change nothing. A finding \
         either names the expectation that was never met, or the writes that never stopped (a hot loop: look for \
         times, random order, or server defaults in what is written)."
    }

    fn judge(&self, case: &Case<'_>) -> Judgement {
        let history = case.history();
        if let Some(mark) = history.mark(MarkName::Interrupted) {
            return Judgement::Unknown(format!("the run was interrupted {}", mark.detail).trim_end().into());
        }
        let Some(mark) = history.last_mark(MarkName::NotConverged) else {
            return match history.mark(MarkName::Converged) {
                Some(_) => Judgement::Holds,
                None => Judgement::Unknown("the run ended before convergence was looked for".into()),
            };
        };
        let window = u64::try_from(case.plan().settle.0.as_millis()).unwrap_or(u64::MAX).saturating_mul(WINDOWS);
        let since = mark.at_ms.saturating_sub(window);
        let writes: Vec<&Request> = history.writes().filter(|r| (since..=mark.at_ms).contains(&r.at_ms)).collect();
        let errors = last_errors(case, mark.at_ms);
        let (classification, what, about) = match busiest(&writes) {
            // One write in each settle window keeps the run from settling.
            Some((target, first)) if writes.len() as u64 >= WINDOWS => (
                Classification::NotIdempotent,
                format!("never at rest: {} writes in the last {window} ms, mostly {target}", writes.len()),
                case.object_of(first),
            ),
            _ => (Classification::ConvergenceDiff, format!("not converged: {}", unmet(&mark.detail)), None),
        };
        let mut detail = format!("at {} ms: {}\n", mark.at_ms, unmet(&mark.detail));
        for line in &errors {
            // Writing to a String cannot fail.
            let _ = writeln!(detail, "{line}");
        }
        let evidence = writes.iter().rev().take(SHOWN).map(|request| request.seq).collect();
        let finding = Finding::new(self.id(), classification, &what, &case.cause());
        Judgement::Violated(vec![finding.about(about).with_detail(detail).with_evidence(evidence)])
    }
}

fn unmet(detail: &str) -> &str {
    if detail.is_empty() { "the deadline passed" } else { detail }
}

fn busiest<'a>(writes: &[&'a Request]) -> Option<(String, &'a Request)> {
    let mut groups: BTreeMap<String, Vec<&Request>> = BTreeMap::new();
    for request in writes {
        groups.entry(request.target.to_string()).or_default().push(request);
    }
    let (target, requests) = groups.into_iter().max_by_key(|(_, requests)| requests.len())?;
    Some((target, *requests.first()?))
}

/// The operator's last refused requests and unasked exits.
fn last_errors(case: &Case<'_>, before_ms: u64) -> Vec<String> {
    let refused = case.history().requests.iter().filter(|request| {
        request.actor == Actor::Operator && request.answer.status >= 400 && request.at_ms <= before_ms
    });
    let mut lines: Vec<String> = refused
        .rev()
        .take(SHOWN)
        .map(|request| {
            let answer = &request.answer;
            let injected = if request.faults.is_empty() { "" } else { " (injected)" };
            format!(
                "#{} {}: {} {} {}{injected}",
                request.seq, request.target, answer.status, answer.reason, answer.message
            )
        })
        .collect();
    lines.reverse();
    lines.extend(
        case.run
            .exits
            .iter()
            .filter(|exit| !exit.asked)
            .map(|exit| format!("operator exited at {} ms: {}; last output:\n{}", exit.at_ms, exit.how, exit.log_tail)),
    );
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        event::{Phase, Verb},
        verdict::{judge_references, sample::Sample},
    };

    #[test]
    fn an_unmet_expectation_is_named() {
        let run = Sample::reference()
            .replace_mark(
                MarkName::Converged,
                MarkName::NotConverged,
                "Demo default/x: status.phase == 'Running' is false",
            )
            .change(|run| {
                run.history.requests[1].answer.status = 403;
                run.history.requests[1].answer.reason = "Forbidden".into();
            });
        let verdict = judge_references(&[run.build()]).remove(0);
        let finding = verdict.findings.iter().find(|finding| finding.oracle == "converges").unwrap();
        assert_eq!(
            finding.sentence,
            "not converged: Demo default/x: status.phase == 'Running' is false, in a fault-free run"
        );
        assert_eq!(finding.classification, Classification::ConvergenceDiff);
        assert!(finding.detail.contains("#2 patch demos.example.com default/x: 403 Forbidden"), "{}", finding.detail);
    }

    #[test]
    fn a_hot_loop_is_told_apart() {
        let mut run = Sample::reference().replace_mark(MarkName::Converged, MarkName::NotConverged, "writes go on");
        for at in 0..10 {
            run = run.write(Verb::Update, "configmaps", 500 + at * 30, Phase::Workload);
        }
        let verdict = judge_references(&[run.build()]).remove(0);
        let finding = verdict.findings.iter().find(|finding| finding.oracle == "converges").unwrap();
        assert_eq!(finding.classification, Classification::NotIdempotent);
        assert!(
            finding
                .sentence
                .starts_with("never at rest: 12 writes in the last 3000 ms, mostly update configmaps default/x"),
            "{}",
            finding.sentence
        );
        assert_eq!(finding.object.as_ref().unwrap().to_string(), "ConfigMap default/x");
    }

    #[test]
    fn without_marks_nothing_is_known() {
        for run in [
            Sample::reference().change(|run| run.history.marks.clear()),
            Sample::reference().replace_mark(MarkName::Converged, MarkName::Interrupted, "by a signal"),
        ] {
            let verdict = judge_references(&[run.build()]).remove(0);
            assert!(verdict.reasons.iter().any(|reason| reason.starts_with("converges: ")), "{:?}", verdict.reasons);
        }
    }
}
