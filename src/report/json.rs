//! `verdict.json`.

use serde::Serialize;

use super::words::worst;
use crate::verdict::{Outcome, ScenarioVerdict, VERDICT_VERSION};

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    outcome: Outcome,
    scenarios: &'a [ScenarioVerdict],
}

/// Several scenarios as one document, with a line feed at its end.
///
/// # Errors
/// Never for verdicts that were made here; the serialiser's own otherwise.
pub fn document(verdicts: &[ScenarioVerdict]) -> serde_json::Result<String> {
    let document = Document { version: VERDICT_VERSION, outcome: worst(verdicts), scenarios: verdicts };
    serde_json::to_string_pretty(&document).map(|text| text + "\n")
}

/// One scenario, as it stands in its run directory.
///
/// # Errors
/// Never for verdicts that were made here; the serialiser's own otherwise.
pub fn scenario(verdict: &ScenarioVerdict) -> serde_json::Result<String> {
    serde_json::to_string_pretty(verdict).map(|text| text + "\n")
}
