//! Annotations, the step summary and the step outputs of GitHub Actions.

use std::{fmt::Write as _, path::Path};

use super::{
    seeds::groups,
    words::{body, counts, did, shown, tally, worst},
};
use crate::verdict::{Outcome, ScenarioVerdict};

/// GitHub shows so many annotations of a kind per step.
const ANNOTATIONS: usize = 10;
/// GitHub refuses summaries above 1 MiB.
const SUMMARY_BYTES: usize = 900 * 1024;

/// Workflow commands, one a line: failures first, then inconclusive runs, then how many were left out. Several seeds of
/// one perturbation are one annotation.
#[must_use]
pub fn annotations(verdicts: &[ScenarioVerdict]) -> String {
    let mut lines = Vec::new();
    for (outcome, command) in [(Outcome::Fail, "error"), (Outcome::Inconclusive, "warning")] {
        let all =
            verdicts.iter().flat_map(|verdict| groups(verdict.all()).into_iter().map(move |group| (verdict, group)));
        let mut found: Vec<String> = all
            .filter(|(_, group)| group.shown.outcome == outcome)
            .map(|(verdict, group)| {
                let case = group.shown;
                let line = case.line.map(|line| format!(",line={line}")).unwrap_or_default();
                let title = property(&format!("{}: {}", verdict.scenario, case.name));
                format!("::{command} file={}{line},title={title}::{}", property(&verdict.file), data(&group.headline()))
            })
            .collect();
        if outcome == Outcome::Inconclusive {
            found.extend(verdicts.iter().flat_map(|verdict| {
                verdict.reasons.iter().map(|reason| {
                    format!(
                        "::{command} file={},title={}::{}",
                        property(&verdict.file),
                        property(&verdict.scenario),
                        data(reason)
                    )
                })
            }));
        }
        let left_out = found.len().saturating_sub(ANNOTATIONS);
        lines.extend(found.into_iter().take(ANNOTATIONS));
        if left_out > 0 {
            lines.push(format!("::notice title=reconverge::{left_out} more of level {command} are in the report"));
        }
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

/// Markdown for the step summary.
#[must_use]
pub fn summary(verdicts: &[ScenarioVerdict]) -> String {
    let mut text = format!("## Reconverge: {}\n\n{}.\n\n", worst(verdicts), tally(verdicts));
    text.push_str("| scenario | run | outcome | time | what happened |\n|---|---|---|---|---|\n");
    for verdict in verdicts {
        for group in groups(verdict.all()) {
            let case = group.shown;
            let what = match case.outcome {
                Outcome::Pass if group.runs == 1 => did(case),
                Outcome::Pass => group.in_words(),
                _ => group.headline(),
            };
            let cells = [verdict.scenario.as_str(), &case.name, case.outcome.as_str(), &shown(case.duration_ms), &what]
                .map(cell);
            // Writing to a String cannot fail.
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
    }
    for verdict in verdicts {
        for reason in &verdict.reasons {
            let _ = writeln!(text, "\n**{}**: {reason}", verdict.scenario);
        }
        for group in groups(verdict.all()).iter().filter(|group| group.shown.outcome != Outcome::Pass) {
            let case = group.shown;
            let block = format!(
                "\n<details><summary>{}: {}</summary>\n\n{}\n</details>\n",
                verdict.scenario,
                case.name,
                fenced(&body(case))
            );
            if text.len() + block.len() > SUMMARY_BYTES {
                text.push_str("\nThe rest is in the report files.\n");
                return text;
            }
            text.push_str(&block);
        }
    }
    text
}

/// Outputs of the step, one a line: `outcome`, how many runs ended so, the seed, and where the reports are. A scenario
/// of which nothing can be said counts as one inconclusive run.
#[must_use]
pub fn outputs(verdicts: &[ScenarioVerdict], seed: u64, directory: &Path, junit: &Path) -> String {
    let [failed, inconclusive, passed] = counts(verdicts);
    let unstable = verdicts.iter().filter(|verdict| !verdict.reasons.is_empty()).count();
    let values = [
        ("outcome", worst(verdicts).to_string()),
        ("passed", passed.to_string()),
        ("failed", failed.to_string()),
        ("inconclusive", (inconclusive + unstable).to_string()),
        ("seed", seed.to_string()),
        ("report-dir", directory.display().to_string()),
        ("junit", junit.display().to_string()),
    ];
    // A line feed in a path would begin another output.
    values.into_iter().map(|(name, value)| format!("{name}={}\n", value.replace(['\n', '\r'], " "))).collect()
}

/// A fence longer than any in the text.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}diff\n{text}\n{fence}\n")
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
