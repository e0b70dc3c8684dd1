//! `report`: a finished run's verdict in another format, without a cluster.
//!
//! # Flow
//! The `verdict.json` of a run directory goes in; text goes to stdout or to a file, or, for Prow, a build's directory
//! is written.
//!
//! # Not done
//! Nothing is judged: `analyze` does that, and the exit code of `run` is what a gate goes by. This ends with 0 when
//! the report was written, whatever it says.

use std::path::{Path, PathBuf};

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};

use super::{
    arguments::{JobArguments, Report as Command, ReportFormat},
    exit::Exit,
    output, publish,
};
use crate::{
    campaign,
    report::{
        github,
        json::{self, Document},
        junit,
        prow::{self, Job, Times},
        terminal,
    },
    run::RunError,
};

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
enum ReportError {
    #[error("could not read {path}; a run that was killed has none, but `reconverge analyze` judges what it left")]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("could not use {path}")]
    Document {
        path: PathBuf,
        #[source]
        source: json::DocumentError,
    },
    #[error("could not name the build")]
    Job(#[from] prow::JobError),
    #[error(transparent)]
    Files(#[from] prow::FilesError),
    #[error(transparent)]
    Write(#[from] RunError),
}

/// `reconverge report`.
pub fn report(command: &Command) -> Exit {
    match carry_out(command) {
        Ok(()) => Exit::Pass,
        Err(error) => {
            output::error(&campaign::chain(&error));
            if matches!(error, ReportError::Job(_)) { Exit::Usage } else { Exit::Environment }
        }
    }
}

fn carry_out(command: &Command) -> Result<(), ReportError> {
    let path = command.directory.join("verdict.json");
    let text = std::fs::read_to_string(&path).map_err(|source| ReportError::Read { path: path.clone(), source })?;
    let document = json::read(&text).map_err(|source| ReportError::Document { path: path.clone(), source })?;
    let times = times(&document, &path);
    let about = document.invocation.as_ref().map_or_else(
        || junit::About { timestamp: Some(times.started.to_string()), ..junit::About::default() },
        publish::about,
    );
    let colour = command.out.is_none() && output::stdout_colour();
    let text = match (command.format, &command.out) {
        (ReportFormat::Prow, Some(folder)) => return build(command, folder, &document, times, &about),
        // The arguments ask for a directory, so this is `--out` of the environment at most.
        (ReportFormat::Text | ReportFormat::Prow, _) => terminal::scenarios(&document.scenarios, colour),
        (ReportFormat::Json, _) => document.text().map_err(prow::FilesError::from)?,
        (ReportFormat::Junit, _) => junit::report(&document.scenarios, &about).map_err(prow::FilesError::from)?,
        (ReportFormat::Github, _) => github::summary(&document.scenarios),
    };
    match &command.out {
        Some(path) => publish::write(path, &text)?,
        None => output::result(&text),
    }
    Ok(())
}

fn build(
    command: &Command,
    folder: &Path,
    document: &Document<'_>,
    times: Times,
    about: &junit::About,
) -> Result<(), ReportError> {
    let job = job(&command.job, times, |name| std::env::var(name).ok());
    job.check()?;
    let mut written = Vec::new();
    for file in prow::files(document, &job, times, about)? {
        publish::write(&folder.join(&file.path), &file.text)?;
        written.push(file.path);
    }
    output::result(&format!("{}: {}", folder.display(), written.join(", ")));
    output::result(&format!("its place in the bucket: {}", job.place()));
    Ok(())
}

/// The job of the arguments, with what Prow's environment adds. An empty value is none.
fn job(arguments: &JobArguments, times: Times, environment: impl Fn(&str) -> Option<String>) -> Job {
    let given = |value: &Option<String>| value.clone().filter(|value| !value.is_empty());
    let set = |name: &str| environment(name).filter(|value| !value.is_empty());
    let pull = given(&arguments.pull);
    let repository = set("REPO_OWNER").zip(set("REPO_NAME")).map(|(owner, name)| format!("{owner}/{name}"));
    Job {
        name: given(&arguments.job).unwrap_or_else(|| "reconverge".into()),
        build: given(&arguments.build_id).unwrap_or_else(|| times.started.strftime("%Y%m%d%H%M%S").to_string()),
        repository: given(&arguments.repository).or(repository),
        revision: given(&arguments.revision).or_else(|| set("PULL_BASE_SHA")),
        refs: set("PULL_REFS"),
        node: set("HOSTNAME"),
        bucket: given(&arguments.testgrid_bucket),
        pull,
    }
}

/// From the document; where it does not say, from the name of the run directory and the age of the file.
fn times(document: &Document<'_>, path: &Path) -> Times {
    if let Some(invocation) = &document.invocation {
        return Times { started: invocation.started, finished: invocation.finished };
    }
    let written = std::fs::metadata(path).and_then(|data| data.modified()).ok();
    let written = written.and_then(|time| Timestamp::try_from(time).ok());
    // `latest` is a link.
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    let stamp = folder.as_deref().and_then(Path::file_name).and_then(|name| stamp(&name.to_string_lossy()));
    let started = stamp.or(written).unwrap_or(Timestamp::UNIX_EPOCH);
    Times { started, finished: written.unwrap_or(started).max(started) }
}

/// The time in a run directory's name, such as `20260102T030405Z-4711`.
fn stamp(name: &str) -> Option<Timestamp> {
    let (stamp, _) = name.split_once('-')?;
    let time = DateTime::strptime("%Y%m%dT%H%M%SZ", stamp).ok()?;
    TimeZone::UTC.to_timestamp(time).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{report::json::Invocation, verdict::ScenarioVerdict};

    fn run_directory(parent: &Path, invocation: Option<Invocation>) -> PathBuf {
        let folder = parent.join("20260102T030405Z-4711");
        let verdicts = [ScenarioVerdict::not_run("demo", "demo/scenario.yaml".into(), "no cluster".into())];
        let text = Document::new(&verdicts, invocation).text().unwrap();
        publish::write(&folder.join("verdict.json"), &text).unwrap();
        folder
    }

    fn invocation(exit: u8) -> Invocation {
        let [started, finished] = ["2026-01-02T03:04:05Z", "2026-01-02T03:05:00Z"].map(|time| time.parse().unwrap());
        Invocation { tool_version: "0.1.0".into(), started, finished, exit }
    }

    fn command(directory: PathBuf, format: ReportFormat, out: &Path) -> Command {
        let job = JobArguments { job: Some("ci-demo".into()), ..JobArguments::default() };
        Command { directory, format, out: Some(out.to_owned()), job }
    }

    fn json_of(path: &Path) -> serde_json::Value {
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    #[test]
    fn a_build_is_written_from_the_run_directory_alone() {
        let home = tempfile::tempdir().unwrap();
        let out = home.path().join("build");
        let run = run_directory(home.path(), Some(invocation(2)));
        assert_eq!(report(&command(run, ReportFormat::Prow, &out)), Exit::Pass);
        assert_eq!(json_of(&out.join("started.json"))["timestamp"], 1_767_323_045);
        let finished = json_of(&out.join("finished.json"));
        assert_eq!(finished["timestamp"], 1_767_323_100);
        assert_eq!((&finished["passed"], &finished["result"]), (&false.into(), &"FAILURE".into()));
        for file in ["artifacts/junit_reconverge_20260102-0304_01.xml", "artifacts/verdict.json", "testgrid.yaml"] {
            assert!(out.join(file).exists(), "{file}");
        }
    }

    /// Files of older versions do not say when they were made.
    #[test]
    fn without_its_own_times_a_run_has_those_of_its_directory() {
        let home = tempfile::tempdir().unwrap();
        let out = home.path().join("build");
        let run = run_directory(home.path(), None);
        std::os::unix::fs::symlink(&run, home.path().join("latest")).unwrap();
        assert_eq!(report(&command(home.path().join("latest"), ReportFormat::Prow, &out)), Exit::Pass);
        assert_eq!(json_of(&out.join("started.json"))["timestamp"], 1_767_323_045);
        assert!(json_of(&out.join("finished.json"))["timestamp"].as_i64().unwrap() > 1_767_323_045);
        assert_eq!((stamp("latest"), stamp("2026-x")), (None, None));
    }

    #[test]
    fn other_formats_are_one_file_each() {
        let home = tempfile::tempdir().unwrap();
        let run = run_directory(home.path(), Some(invocation(2)));
        for (format, sign) in [
            (ReportFormat::Text, "INCONCLUSIVE demo"),
            (ReportFormat::Json, "\"invocation\": {"),
            (ReportFormat::Junit, "timestamp=\"2026-01-02T03:04:05Z\""),
            (ReportFormat::Github, "## Reconverge: inconclusive"),
        ] {
            let out = home.path().join("new/out");
            assert_eq!(report(&command(run.clone(), format, &out)), Exit::Pass);
            let text = std::fs::read_to_string(&out).unwrap();
            assert!(text.contains(sign), "{format:?}: {text}");
        }
    }

    #[test]
    fn what_is_no_run_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let out = home.path().join("out");
        let nothing = command(home.path().to_owned(), ReportFormat::Text, &out);
        assert_eq!(report(&nothing), Exit::Environment);
        let run = run_directory(home.path(), Some(invocation(0)));
        let mut misnamed = command(run.clone(), ReportFormat::Prow, &out);
        misnamed.job.job = Some("folder/job".into());
        assert_eq!(report(&misnamed), Exit::Usage);
        std::fs::write(run.join("verdict.json"), r#"{"version": 99, "outcome": "pass", "scenarios": []}"#).unwrap();
        assert_eq!(report(&command(run, ReportFormat::Text, &out)), Exit::Environment);
        assert!(!out.exists(), "nothing is written half");
    }

    #[test]
    fn the_environment_of_a_prow_job_is_enough() {
        let times = Times { started: invocation(0).started, finished: invocation(0).finished };
        let prow = |name: &str| {
            let value = match name {
                "REPO_OWNER" => "example",
                "REPO_NAME" => "operator",
                "PULL_BASE_SHA" => "b45e",
                "PULL_REFS" => "main:b45e",
                _ => "",
            };
            Some(value.to_owned())
        };
        let found = job(&JobArguments { job: Some(String::new()), ..JobArguments::default() }, times, prow);
        let expected = Job {
            name: "reconverge".into(),
            build: "20260102030405".into(),
            repository: Some("example/operator".into()),
            revision: Some("b45e".into()),
            refs: Some("main:b45e".into()),
            ..Job::default()
        };
        assert_eq!(found, expected);
    }
}
