//! `verdict.json`, written and read again.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::words::worst;
use crate::verdict::{Outcome, ScenarioVerdict, VERDICT_VERSION};

/// What an invocation says about itself, so that other formats can be made from its verdict later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Invocation {
    /// Of this program.
    pub tool_version: String,
    /// Whole seconds.
    pub started: Timestamp,
    pub finished: Timestamp,
    /// The code that the program ended with: what a merge gate went by.
    pub exit: u8,
}

/// Several scenarios as one document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Document<'a> {
    pub version: u32,
    pub outcome: Outcome,
    /// Absent where verdicts were made from recorded runs, and in files of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invocation: Option<Invocation>,
    pub scenarios: Cow<'a, [ScenarioVerdict]>,
}

/// Why a document cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    #[error("not a document of verdicts, which stands in the run directory itself")]
    Parse(#[source] serde_json::Error),
    #[error("written by a newer version of this program (format {found}, known is {VERDICT_VERSION})")]
    Newer { found: u32 },
}

impl<'a> Document<'a> {
    #[must_use]
    pub fn new(verdicts: &'a [ScenarioVerdict], invocation: Option<Invocation>) -> Self {
        Self { version: VERDICT_VERSION, outcome: worst(verdicts), invocation, scenarios: verdicts.into() }
    }

    /// With a line feed at its end.
    ///
    /// # Errors
    /// Never for verdicts that were made here; the serialiser's own otherwise.
    pub fn text(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }
}

/// Reads a document; fields that it does not know are left out.
///
/// # Errors
/// When it is something else, or too new.
pub fn read(text: &str) -> Result<Document<'static>, DocumentError> {
    let document: Document<'static> = serde_json::from_str(text).map_err(DocumentError::Parse)?;
    if document.version > VERDICT_VERSION {
        return Err(DocumentError::Newer { found: document.version });
    }
    Ok(document)
}

/// One scenario, as it stands in its run directory.
///
/// # Errors
/// Never for verdicts that were made here; the serialiser's own otherwise.
pub fn scenario(verdict: &ScenarioVerdict) -> serde_json::Result<String> {
    serde_json::to_string_pretty(verdict).map(|text| text + "\n")
}
