//! From the text of a scenario file to its format.
//!
//! # Flow
//! YAML in; a [`ScenarioFile`], the scenario with the places of its parts, out.
//!
//! # Guarantees
//! Strict: unknown fields, duplicate keys and a second document are errors, each with a place and, where a known word
//! is close, a suggestion. The first such error ends the reading; what the words mean is [`super::check`]'s matter.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use miette::NamedSource;
use serde_saphyr::Error as YamlError;

use super::{
    error::{Problem, ScenarioError, Source, suggestion},
    format::Scenario,
    places::{Place, Places},
};

/// A scenario as it stands in its file.
#[derive(Debug, Clone)]
pub struct ScenarioFile {
    pub scenario: Scenario,
    pub file: PathBuf,
    pub places: Places,
    pub source: Source,
}

impl ScenarioFile {
    /// The line of the n-th perturbation, from 1.
    #[must_use]
    pub fn perturbation_line(&self, index: usize) -> usize {
        self.places.value(&format!("spec.perturbations[{index}]")).line
    }

    /// A problem at a value of the file.
    #[must_use]
    pub fn problem(&self, path: &str, message: impl Into<String>) -> Problem {
        Problem::at(self.file.clone(), &self.source, self.places.value(path), message)
    }
}

/// How scenario and manifest files are read.
pub(super) fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        with_snippet: false,
        // As in YAML 1.2: `on` and `yes` are words. A mistaken boolean then fails loudly at the API server.
        strict_booleans: true,
    }
}

/// Reads a scenario file's text; `file` is only for messages.
///
/// # Errors
/// [`ScenarioError::Invalid`] with one problem: where the text is not YAML, or not a scenario.
pub fn parse(text: &str, file: &Path) -> Result<ScenarioFile, ScenarioError> {
    let source = Arc::new(NamedSource::new(file.display().to_string(), text.to_owned()).with_language("yaml"));
    match serde_saphyr::from_str_with_options::<Scenario>(text, options()) {
        Ok(scenario) => {
            Ok(ScenarioFile { scenario, file: file.to_owned(), places: Places::read(text), source: source.clone() })
        }
        Err(error) => Err(ScenarioError::Invalid { problems: vec![problem(&error, text, file, &source)] }),
    }
}

/// A YAML error in our words, at its place.
pub(super) fn problem(error: &YamlError, text: &str, file: &Path, source: &Source) -> Problem {
    let error = error.without_snippet();
    let place = error
        .location()
        .map_or(Place { line: 1, column: 1, offset: 0, length: 0 }, |location| Place::of(location, text));
    let (message, help) = describe(error);
    Problem::at(file.to_owned(), source, place, message).with_help(help)
}

fn describe(error: &YamlError) -> (String, Option<String>) {
    match error {
        YamlError::SerdeUnknownField { field, expected, .. } => {
            (format!("unknown field `{field}`"), suggestion(field, expected))
        }
        YamlError::SerdeUnknownVariant { variant, expected, .. } => {
            (format!("`{variant}` is not known here"), suggestion(variant, expected))
        }
        YamlError::SerdeMissingField { field, .. } => (format!("the field `{field}` is missing"), None),
        YamlError::DuplicateMappingKey { key: Some(key), .. } => (format!("`{key}` stands here twice"), None),
        YamlError::MultipleDocuments { .. } => ("a scenario file holds one document, this is a second".into(), None),
        YamlError::Eof { .. } => ("the file is empty".into(), None),
        YamlError::SerdeInvalidType { unexpected, expected, .. }
        | YamlError::SerdeInvalidValue { unexpected, expected, .. } => {
            (format!("expected {expected}, found {unexpected}"), None)
        }
        YamlError::InvalidScalar { ty, .. } => (format!("expected {ty}"), None),
        YamlError::Message { msg, .. } => (msg.clone(), None),
        other => {
            // The first line says what; the place is ours to show.
            let text = other.to_string();
            (text.lines().next().unwrap_or_default().to_owned(), None)
        }
    }
}
