//! `explain`: perturbations, oracles, normalisation rules and defaults, by id.

use super::{arguments::Explain, exit::Exit, output};
use crate::{
    faults::catalogue::{self, CATALOGUE, FaultDoc},
    report::explain,
    scenario,
};

/// What faults leave alone, and what runs do unless a scenario says otherwise.
const DEFAULTS: &str = "\
defaults

Faults leave these requests alone unless a scenario sets `includeBackground: true`:
  leases (coordination.k8s.io), events, TokenReview and access reviews, TokenRequest,
  discovery, /version, /openapi, health paths.
One slow lease renewal kills many operators, and would turn every delay into a crash.
Their writes do not count as writes of the operator either.

references         3 fault-free runs
settle             1s without a write of the operator and without a change
deadline           60s for a step or a fault-free run to become quiet
recovery.within    120s from the last thing done to the operator
maskBudgetPercent  10: the learned mask may hide at most so many of the leaves
seed               1; `--repeat N` counts up from it
parallel           8 runs at a time; operators marked `exclusive` one at a time
";

/// `reconverge explain`.
pub fn explain(command: &Explain) -> Exit {
    let Some(id) = &command.id else {
        output::result(&everything());
        return Exit::Pass;
    };
    let text = match id.as_str() {
        "defaults" => Some(DEFAULTS.to_owned()),
        id => catalogue::find(id).map(perturbation).or_else(|| explain::topic(id)),
    };
    match text {
        Some(text) => {
            output::result(&text);
            Exit::Pass
        }
        None => {
            let known = known();
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let hint =
                scenario::error::suggestion(id, &known).unwrap_or_else(|| "`reconverge explain` lists all".into());
            output::error(&format!("nothing has the id `{id}`; {hint}"));
            Exit::Usage
        }
    }
}

fn known() -> Vec<String> {
    let faults = CATALOGUE.iter().map(|doc| doc.id.to_owned());
    faults.chain(explain::topics().into_iter().map(|(id, _)| id.to_owned())).chain(["defaults".to_owned()]).collect()
}

fn everything() -> String {
    let mut text = String::from("Perturbations\n");
    for doc in CATALOGUE {
        text.push_str(&format!("  {:<24} {}\n", doc.id, doc.title));
    }
    text.push_str("\nOracles and normalisation rules\n");
    for (id, title) in explain::topics() {
        text.push_str(&format!("  {id:<24} {title}\n"));
    }
    text.push_str("\n  defaults                 what faults leave alone, and what runs do by default\n");
    text
}

fn perturbation(doc: &FaultDoc) -> String {
    let mut text = format!("perturbation {}: {}\n\n{}\n\nLegal because: {}\n", doc.id, doc.title, doc.what, doc.legal);
    if !doc.options.is_empty() {
        text.push_str("\nOptions\n");
        for (name, meaning) in doc.options {
            text.push_str(&format!("  {name:<20} {meaning}\n"));
        }
    }
    text
}
