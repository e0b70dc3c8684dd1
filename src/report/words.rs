//! Words and numbers that several reports share.

use std::fmt::Write as _;

use crate::verdict::{CaseVerdict, Outcome, ScenarioVerdict};

/// Seconds with three decimals.
pub(super) fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1_000, ms % 1_000)
}

/// Seconds for people.
pub(super) fn shown(ms: u64) -> String {
    format!("{}.{} s", ms / 1_000, ms % 1_000 / 100)
}

pub(super) fn plural(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// What a run did, in one line.
pub(super) fn did(case: &CaseVerdict) -> String {
    let metrics = &case.metrics;
    let mut parts = vec![plural(metrics.writes, "write", "writes")];
    if case.perturbation.is_some() && metrics.faults_scheduled > 0 {
        parts.insert(0, plural(metrics.faults_fired, "fault fired", "faults fired"));
    }
    if let Some(took) = metrics.recovery_ms {
        parts.push(format!("recovered in {} (bound {})", shown(took), shown(metrics.recovery_bound_ms)));
    }
    parts.join(", ")
}

/// All findings and reasons of a run, and how to repeat it.
pub(super) fn body(case: &CaseVerdict) -> String {
    let mut text = String::new();
    for finding in &case.findings {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "[{}] {}", finding.oracle, finding.sentence);
        if let Some(because) = &finding.legal_because {
            let _ = writeln!(text, "a real cluster may do so: {because}");
        }
        if !finding.detail.is_empty() {
            let _ = writeln!(text, "{}", finding.detail.trim_end());
        }
        if !finding.evidence.is_empty() {
            let requests: Vec<String> = finding.evidence.iter().map(|seq| format!("#{seq}")).collect();
            let _ = writeln!(text, "requests: {}", requests.join(" "));
        }
        text.push('\n');
    }
    for reason in &case.reasons {
        let _ = writeln!(text, "inconclusive: {reason}");
    }
    if let Some(confirmation) = &case.confirmation {
        let _ = writeln!(text, "{}", confirmation.in_words());
    }
    if let Some(replay) = &case.replay {
        let _ = writeln!(text, "replay: {replay}");
    }
    text.trim_end().to_owned()
}

/// How many runs failed, were inconclusive, and passed.
pub(super) fn counts(verdicts: &[ScenarioVerdict]) -> [usize; 3] {
    [Outcome::Fail, Outcome::Inconclusive, Outcome::Pass]
        .map(|outcome| verdicts.iter().map(|verdict| verdict.count(outcome)).sum())
}

/// `1 failed, 2 inconclusive, 3 passed`.
pub(super) fn tally(verdicts: &[ScenarioVerdict]) -> String {
    let [failed, inconclusive, passed] = counts(verdicts);
    format!("{failed} failed, {inconclusive} inconclusive, {passed} passed")
}

/// The worst of several verdicts; nothing at all is no success.
pub(super) fn worst(verdicts: &[ScenarioVerdict]) -> Outcome {
    verdicts.iter().map(|verdict| verdict.outcome).max().unwrap_or(Outcome::Inconclusive)
}
