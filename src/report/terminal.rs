//! The report that people read in a terminal or in a CI log.

use std::fmt::Write as _;

use owo_colors::{OwoColorize as _, Style};

use super::seeds::groups;
use super::words::{body, did, plural, shown, tally, worst};
use crate::verdict::{CaseVerdict, Outcome, ScenarioVerdict};

/// Reads well at 100 columns, with and without colour: a table of runs, then each run that did not pass.
#[must_use]
pub fn scenario(verdict: &ScenarioVerdict, color: bool) -> String {
    let mut page = Page { text: String::new(), color };
    page.heading(verdict);
    let width = verdict.all().map(|case| case.name.chars().count()).max().unwrap_or(0);
    let groups = groups(verdict.all());
    for group in &groups {
        let case = group.shown;
        let outcome = page.outcome(case.outcome, 12);
        let time = format!("{:>8}", shown(case.duration_ms));
        let mut what = if group.runs == 1 { did(case) } else { group.in_words() };
        if let Some(confirmation) = &case.confirmation {
            what = format!("{what}; {}", confirmation.in_words());
        }
        page.line(&format!("  {outcome}  {:<width$}  {time}  {what}", case.name));
    }
    for reason in &verdict.reasons {
        page.line("");
        let outcome = page.outcome(Outcome::Inconclusive, 0);
        page.line(&format!("{outcome} {reason}"));
    }
    for group in groups.iter().filter(|group| group.shown.outcome != Outcome::Pass) {
        page.failure(verdict, group.shown);
    }
    page.text
}

/// Every scenario, and one line about all of them where there are several.
#[must_use]
pub fn scenarios(verdicts: &[ScenarioVerdict], color: bool) -> String {
    let mut text: String = verdicts.iter().map(|verdict| format!("{}\n", scenario(verdict, color))).collect();
    if verdicts.len() > 1 {
        text.push_str(&total(verdicts, color));
    }
    text
}

/// One line about all scenarios, for the end.
#[must_use]
pub fn total(verdicts: &[ScenarioVerdict], color: bool) -> String {
    let page = Page { text: String::new(), color };
    let scenarios = plural(verdicts.len() as u64, "scenario", "scenarios");
    format!("{}: {} in {scenarios}\n", page.outcome(worst(verdicts), 0), tally(verdicts))
}

struct Page {
    text: String,
    color: bool,
}

impl Page {
    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    fn styled(&self, text: &str, style: Style) -> String {
        if self.color { text.style(style).to_string() } else { text.to_owned() }
    }

    fn outcome(&self, outcome: Outcome, width: usize) -> String {
        let style = match outcome {
            Outcome::Pass => Style::new().green(),
            Outcome::Inconclusive => Style::new().yellow().bold(),
            Outcome::Fail => Style::new().red().bold(),
        };
        let word = match outcome {
            Outcome::Pass => "pass",
            Outcome::Inconclusive => "INCONCLUSIVE",
            Outcome::Fail => "FAIL",
        };
        self.styled(&format!("{word:<width$}"), style)
    }

    fn heading(&mut self, verdict: &ScenarioVerdict) {
        let outcome = self.outcome(verdict.outcome, 0);
        let name = self.styled(&verdict.scenario, Style::new().bold());
        self.line(&format!(
            "{outcome} {name}  seed {} · {} · {} runs, {} in all",
            verdict.seed,
            verdict.cluster,
            verdict.all().count(),
            // Runs beside one another count each: how long it took is known to whoever waited.
            shown(verdict.duration_ms)
        ));
        if verdict.mask.leaves_hidden > 0 {
            let mask = &verdict.mask;
            let text = format!(
                "  {} of {} leaves differ by chance between fault-free runs",
                mask.leaves_hidden, mask.leaves_total
            );
            let text = self.styled(&text, Style::new().dimmed());
            self.line(&text);
        }
    }

    fn failure(&mut self, verdict: &ScenarioVerdict, case: &CaseVerdict) {
        let place = case.line.map_or_else(|| verdict.file.clone(), |line| format!("{}:{line}", verdict.file));
        let outcome = self.outcome(case.outcome, 0);
        let name = self.styled(&case.name, Style::new().bold());
        self.line("");
        self.line(&format!("{outcome} {name}  {place}"));
        for line in body(case).lines() {
            let style = match line.as_bytes() {
                [b'-', ..] => Style::new().red(),
                [b'+', ..] => Style::new().green(),
                [b'@', b'@', ..] => Style::new().cyan(),
                [b'[', ..] => Style::new().bold(),
                _ => Style::new(),
            };
            // An empty style still writes nothing but the text.
            // The replay line stands at the margin, so that scripts find it and people can copy it whole.
            let indent = if line.starts_with("replay: ") { "" } else { "  " };
            let line = if line.is_empty() { String::new() } else { format!("{indent}{}", self.styled(line, style)) };
            let _ = writeln!(self.text, "{line}");
        }
    }
}
