//! What can be wrong with a scenario, with the place in the file.
//!
//! # Flow
//! A text and a [`Place`] in; a [`Problem`] that miette can draw out. Several problems of one scenario make one
//! [`ScenarioError`].
//!
//! # Guarantees
//! Every problem names its file. Line and column count from 1, columns in characters.

use std::{fmt, io, path::PathBuf, sync::Arc};

use miette::{Diagnostic, LabeledSpan, NamedSource, SourceCode, SourceSpan};

use super::places::Place;

/// A text with the name under which it is shown.
pub type Source = Arc<NamedSource<String>>;

/// One mistake in a scenario or in a file that it names.
#[derive(Debug, Clone)]
pub struct Problem {
    /// A lower-case fragment.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
    pub file: PathBuf,
    /// From 1; 0 where the problem has no place in the file.
    pub line: usize,
    /// From 1; 0 where the problem has no place in the file.
    pub column: usize,
    span: Option<SourceSpan>,
    source: Option<Source>,
}

impl Problem {
    /// A problem at a place of a text.
    #[must_use]
    pub fn at(file: PathBuf, source: &Source, place: Place, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            help: None,
            file,
            line: place.line,
            column: place.column,
            span: Some(SourceSpan::new(place.offset.into(), place.length)),
            source: Some(Arc::clone(source)),
        }
    }

    /// A problem of a whole file.
    #[must_use]
    pub fn of_file(file: PathBuf, message: impl Into<String>) -> Self {
        Self { message: message.into(), help: None, file, line: 0, column: 0, span: None, source: None }
    }

    #[must_use]
    pub fn with_help(mut self, help: Option<String>) -> Self {
        self.help = help;
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

impl Diagnostic for Problem {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.as_ref().map(|help| Box::new(help) as _)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.source.as_ref().map(|source| source as _)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let span = self.span?;
        Some(Box::new(std::iter::once(LabeledSpan::new_with_span(None, span))))
    }
}

/// Why a scenario cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    #[error("cannot read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} holds no scenario.yaml", path.display())]
    NotFound { path: PathBuf },
    #[error("{}", summary(problems))]
    Invalid {
        /// Never empty.
        problems: Vec<Problem>,
    },
}

/// With one problem its place and message, else how many there are.
fn summary(problems: &[Problem]) -> String {
    match problems {
        [one] if one.line > 0 => {
            format!("{}:{}:{}: {}", one.file.display(), one.line, one.column, one.message)
        }
        [one] => format!("{}: {}", one.file.display(), one.message),
        many => {
            let file = many.first().map(|p| p.file.display().to_string()).unwrap_or_default();
            format!("{file}: {} problems", many.len())
        }
    }
}

impl ScenarioError {
    /// The mistakes, in the order of the file; empty when no file could be read.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        match self {
            Self::Invalid { problems } => problems,
            _ => &[],
        }
    }

    /// `Ok` when there are no problems.
    ///
    /// # Errors
    /// [`ScenarioError::Invalid`] when there are.
    pub fn unless_empty(problems: Vec<Problem>) -> Result<(), Self> {
        if problems.is_empty() { Ok(()) } else { Err(Self::Invalid { problems }) }
    }
}

impl Diagnostic for ScenarioError {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new("reconverge::scenario"))
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        match self {
            Self::Invalid { problems } if problems.len() == 1 => problems[0].help(),
            Self::NotFound { .. } => Some(Box::new("name a scenario file, or a folder that has a scenario.yaml")),
            _ => None,
        }
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        match self {
            Self::Invalid { problems } if problems.len() == 1 => problems[0].source_code(),
            _ => None,
        }
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        match self {
            Self::Invalid { problems } if problems.len() == 1 => problems[0].labels(),
            _ => None,
        }
    }

    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        match self {
            Self::Invalid { problems } if problems.len() > 1 => {
                Some(Box::new(problems.iter().map(|problem| problem as &dyn Diagnostic)))
            }
            _ => None,
        }
    }
}

/// The known word that is closest to a misspelt one, where one is close.
#[must_use]
pub fn closest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A third of the letters may differ: `perturbation` finds `perturbations`, `foo` finds nothing.
    let limit = (word.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&word.to_lowercase(), &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

/// `did you mean ...?`, or the list of what is known.
#[must_use]
pub fn suggestion(word: &str, known: &[&str]) -> Option<String> {
    match closest(word, known.iter().copied()) {
        Some(candidate) => Some(format!("did you mean `{candidate}`?")),
        None if known.is_empty() => None,
        None => {
            let mut sorted = known.to_vec();
            sorted.sort_unstable();
            Some(format!("known here: {}", sorted.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_what_is_close_and_lists_otherwise() {
        let known = ["perturbations", "probe", "settle"];
        assert_eq!(suggestion("perturbation", &known).as_deref(), Some("did you mean `perturbations`?"));
        assert_eq!(suggestion("setlte", &known).as_deref(), Some("did you mean `settle`?"));
        assert_eq!(suggestion("chaos", &known).as_deref(), Some("known here: perturbations, probe, settle"));
        assert_eq!(suggestion("chaos", &[]), None);
    }
}
