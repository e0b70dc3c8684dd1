//! What an invocation leaves behind: reports in its run directory, and what its surroundings ask for.
//!
//! # Guarantees
//! Reports are written for a partial result, too. `verdict.json` says when the invocation began and ended and with
//! which code, so that `report` can make every other format of it later.
//!
//! # Not done
//! No service is called: under GitHub Actions a workflow's token is never needed, so that runs on forks report as well.

use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::{arguments::Format, exit::Exit, output};
use crate::{
    campaign, clock,
    report::{
        github,
        json::{self, Document, Invocation},
        junit, prow, terminal,
    },
    run::RunError,
    seed::Seed,
    verdict::ScenarioVerdict,
};

/// An invocation at its end.
pub struct Finished<'a> {
    pub directory: &'a Path,
    pub verdicts: &'a [ScenarioVerdict],
    /// The first.
    pub seed: Seed,
    pub invocation: Invocation,
}

/// What this invocation says about itself, at its end.
pub fn invocation(started: Timestamp, exit: Exit) -> Invocation {
    Invocation {
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        started: whole_seconds(started),
        finished: whole_seconds(clock::wall()),
        exit: exit as u8,
    }
}

fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// What JUnit says about the making of its report.
pub fn about(invocation: &Invocation) -> junit::About {
    junit::About {
        tool_version: invocation.tool_version.clone(),
        timestamp: Some(invocation.started.to_string()),
        hostname: None,
    }
}

/// Writes all reports; tells the user about what could not be written.
pub fn reports(finished: &Finished<'_>, junit: Option<&Path>) -> Exit {
    match write_reports(finished, junit) {
        Ok(()) => Exit::Pass,
        Err(error) => {
            output::error(&campaign::chain(&error));
            Exit::Environment
        }
    }
}

fn write_reports(finished: &Finished<'_>, junit: Option<&Path>) -> Result<(), RunError> {
    let Finished { directory, verdicts, invocation, .. } = finished;
    for verdict in *verdicts {
        let path = directory.join(&verdict.scenario).join("verdict.json");
        write(&path, &made(&path, json::scenario(verdict))?)?;
    }
    let path = directory.join("verdict.json");
    write(&path, &made(&path, Document::new(verdicts, Some(invocation.clone())).text())?)?;
    let path = directory.join("report").join("junit_reconverge.xml");
    let text = made(&path, junit::report(verdicts, &about(invocation)))?;
    write(&path, &text)?;
    let artifacts = std::env::var_os("ARTIFACTS").filter(|folder| !folder.is_empty()).map(|folder| {
        // The process tells several invocations of one job apart.
        PathBuf::from(folder).join(prow::junit_name(invocation.started, std::process::id()))
    });
    for copy in junit.into_iter().chain(artifacts.as_deref()) {
        write(copy, &text)?;
    }
    write(&directory.join("report").join("report.txt"), &terminal::scenarios(verdicts, false))?;
    for_github(finished, &path)
}

/// Annotations, the step summary and the step's outputs, where GitHub Actions runs us.
fn for_github(finished: &Finished<'_>, junit: &Path) -> Result<(), RunError> {
    if std::env::var_os("GITHUB_ACTIONS").is_some() {
        let annotations = github::annotations(finished.verdicts);
        if !annotations.is_empty() {
            output::note(annotations.trim_end());
        }
    }
    append("GITHUB_STEP_SUMMARY", || github::summary(finished.verdicts))?;
    // Later steps may run in another directory.
    let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    append("GITHUB_OUTPUT", || {
        github::outputs(finished.verdicts, finished.seed.0, &whole(finished.directory), &whole(junit))
    })
}

/// Appends to the file that the variable names, if it names one.
fn append(variable: &str, text: impl FnOnce() -> String) -> Result<(), RunError> {
    use std::io::Write as _;
    let Some(path) = std::env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from) else {
        return Ok(());
    };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(&path);
    file.and_then(|mut file| file.write_all(text().as_bytes())).map_err(|source| RunError::Write { path, source })
}

/// Writes a file, and the folders that it stands in.
///
/// # Errors
/// When the file system refuses.
pub fn write(path: &Path, text: &str) -> Result<(), RunError> {
    let failed = |source| RunError::Write { path: path.to_owned(), source };
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    std::fs::write(path, text).map_err(failed)
}

fn made<E>(path: &Path, text: Result<String, E>) -> Result<String, RunError>
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    text.map_err(|error| RunError::Write { path: path.to_owned(), source: std::io::Error::other(error) })
}

/// Prints the result on stdout.
pub fn print(verdicts: &[ScenarioVerdict], invocation: Option<Invocation>, format: Format) {
    match format {
        Format::Text => output::result(&terminal::scenarios(verdicts, output::stdout_colour())),
        Format::Json => match Document::new(verdicts, invocation).text() {
            Ok(text) => output::result(&text),
            Err(error) => output::error(&format!("could not write JSON: {error}")),
        },
    }
}
