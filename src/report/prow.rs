//! One build of a Prow job, as its bucket holds it, and the configuration by which TestGrid shows it.
//!
//! # Flow
//! A [`Document`] and the [`Job`] that it was made in go in; [`File`]s come out: `started.json`, `finished.json`,
//! `build-log.txt`, what stands under `artifacts/`, and `testgrid.yaml`.
//!
//! # Guarantees
//! Times are seconds since 1970, and values of metadata strings, since TestGrid reads nothing else. The build passed
//! exactly when the gate did. Names are checked before anything is written.
//!
//! # Not done
//! Nothing is uploaded, and what Prow's own utilities write (`prowjob.json`, `podinfo.json`, the directory of a pull
//! request's builds) is left to them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use super::{json::Document, junit, terminal, words::tally};
use crate::verdict::Outcome;

/// Stands for a bucket that nobody has named.
const NO_BUCKET: &str = "YOUR-BUCKET";

/// Which build of which job it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Job {
    pub name: String,
    /// Later builds sort after earlier ones.
    pub build: String,
    /// `organisation/name`.
    pub repository: Option<String>,
    /// The number of a pull request.
    pub pull: Option<String>,
    /// The commit of the operator that was tested.
    pub revision: Option<String>,
    /// Every ref of the repository that was checked out: `main:<commit>,123:<commit>`.
    pub refs: Option<String>,
    pub node: Option<String>,
    pub bucket: Option<String>,
}

/// Why a build cannot have such a place.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum JobError {
    #[error("{what} `{value}` may hold letters, digits, `.`, `_` and `-` only; name another one with {option}")]
    Name { what: &'static str, value: String, option: &'static str },
    #[error("TestGrid keeps names that begin with `{prefix}` for its own files, so `{value}` is none; use --job")]
    Reserved { prefix: &'static str, value: String },
    #[error("`{0}` is no repository; --repository takes ORGANISATION/NAME")]
    Repository(String),
    #[error("a pull request's build needs --repository ORGANISATION/NAME, which its place is named by")]
    PullWithoutRepository,
}

/// A file of the build, with its path below the build's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    pub path: String,
    pub text: String,
}

/// When the build began and ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    pub started: Timestamp,
    pub finished: Timestamp,
}

/// Why a file could not be written out, which in memory does not happen.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    #[error("could not write JSON")]
    Json(#[from] serde_json::Error),
    #[error("could not write JUnit")]
    Junit(#[from] quick_junit::SerializeError),
    #[error("could not write YAML")]
    Yaml(#[from] serde_saphyr::ser::Error),
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Started<'a> {
    timestamp: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pull: Option<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    repos: BTreeMap<&'a str, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repo_commit: Option<&'a str>,
}

#[derive(Serialize)]
struct Finished<'a> {
    timestamp: i64,
    passed: bool,
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<&'a str>,
    metadata: BTreeMap<&'static str, String>,
}

impl Job {
    /// Holds the names against the rules of those who read them.
    ///
    /// # Errors
    /// What is wrong with the first name that is.
    pub fn check(&self) -> Result<(), JobError> {
        let names = [
            ("the job", Some(&self.name), "--job"),
            ("the build", Some(&self.build), "--build-id"),
            ("the pull request", self.pull.as_ref(), "--pull"),
            ("the bucket", self.bucket.as_ref(), "--testgrid-bucket"),
        ];
        for (what, value, option) in names {
            if let Some(value) = value.filter(|value| !is_name(value)) {
                return Err(JobError::Name { what, value: value.clone(), option });
            }
        }
        // It compares names without case and punctuation.
        let plain: String = self.name.chars().filter(char::is_ascii_alphanumeric).collect();
        for prefix in ["dashboard", "alerter", "summary", "bugs"] {
            if plain.to_ascii_lowercase().starts_with(prefix) {
                return Err(JobError::Reserved { prefix, value: self.name.clone() });
            }
        }
        match &self.repository {
            Some(repository) if !is_repository(repository) => Err(JobError::Repository(repository.clone())),
            None if self.pull.is_some() => Err(JobError::PullWithoutRepository),
            _ => Ok(()),
        }
    }

    /// Where the build belongs in its bucket.
    #[must_use]
    pub fn place(&self) -> String {
        let Self { name, build, .. } = self;
        match (&self.pull, &self.repository) {
            (Some(pull), Some(repository)) => {
                format!("pr-logs/pull/{}/{pull}/{name}/{build}", repository.replace('/', "_"))
            }
            _ => format!("logs/{name}/{build}"),
        }
    }

    /// What TestGrid reads the builds of this job from.
    fn prefix(&self) -> String {
        let bucket = self.bucket.as_deref().unwrap_or(NO_BUCKET);
        let folder = if self.pull.is_some() { "pr-logs/directory" } else { "logs" };
        format!("{bucket}/{folder}/{}", self.name)
    }
}

fn is_name(text: &str) -> bool {
    text.chars().any(|c| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
}

fn is_repository(text: &str) -> bool {
    text.split_once('/').is_some_and(|(organisation, name)| is_name(organisation) && is_name(name))
}

/// All files of one build.
///
/// # Errors
/// When a serialiser fails, which writing to memory does not.
pub fn files(document: &Document<'_>, job: &Job, times: Times, about: &junit::About) -> Result<Vec<File>, FilesError> {
    let file = |path: &str, text: String| File { path: path.to_owned(), text };
    let log = terminal::scenarios(&document.scenarios, false);
    Ok(vec![
        file("started.json", started(job, times)?),
        file("finished.json", finished(document, job, times, about)?),
        file("build-log.txt", log.clone()),
        file(&format!("artifacts/{}", junit_name(times.started, 1)), junit::report(&document.scenarios, about)?),
        file("artifacts/verdict.json", document.text()?),
        file("artifacts/report.txt", log),
        file("testgrid.yaml", testgrid(job)?),
    ])
}

/// A name of a JUnit file that TestGrid takes apart into context, time and thread. The thread keeps several files of
/// one build apart.
#[must_use]
pub fn junit_name(started: Timestamp, thread: u32) -> String {
    format!("junit_reconverge_{}_{thread:02}.xml", started.strftime("%Y%m%d-%H%M"))
}

fn started(job: &Job, times: Times) -> serde_json::Result<String> {
    let refs = job.refs.as_ref().or(job.revision.as_ref());
    let repos = job.repository.iter().zip(refs).map(|(name, refs)| (name.as_str(), refs.clone())).collect();
    pretty(&Started {
        timestamp: times.started.as_second(),
        node: job.node.as_deref(),
        pull: job.pull.as_deref(),
        repos,
        repo_commit: job.revision.as_deref(),
    })
}

fn finished(document: &Document<'_>, job: &Job, times: Times, about: &junit::About) -> serde_json::Result<String> {
    let exit = document.invocation.as_ref().map(|invocation| invocation.exit);
    let passed = exit.map_or(document.outcome == Outcome::Pass, |exit| exit == 0);
    let result = match exit {
        // What a shell calls an interrupt, and so does this program.
        Some(130) => "ABORTED",
        _ if passed => "SUCCESS",
        _ => "FAILURE",
    };
    let all = |of: fn(&str) -> Option<&str>| {
        let mut found: Vec<&str> = document.scenarios.iter().filter_map(|verdict| of(&verdict.cluster)).collect();
        found.sort_unstable();
        found.dedup();
        found.join(", ")
    };
    let seeds = document.scenarios.iter().filter(|verdict| verdict.all().next().is_some()).map(|verdict| verdict.seed);
    let metadata = [
        // The version that heads a column: of the operator, else of the harness.
        ("job-version", job.revision.clone().unwrap_or_else(|| about.tool_version.clone())),
        ("reconverge", about.tool_version.clone()),
        ("outcome", document.outcome.to_string()),
        ("runs", tally(&document.scenarios)),
        ("cluster", all(|cluster| Some(cluster).filter(|text| !text.is_empty()))),
        ("kubernetes", all(kubernetes)),
        ("seed", seeds.min().map(|seed| seed.to_string()).unwrap_or_default()),
    ];
    pretty(&Finished {
        timestamp: times.finished.as_second(),
        passed,
        result,
        revision: job.revision.as_deref(),
        metadata: metadata.into_iter().filter(|(_, value)| !value.is_empty()).collect(),
    })
}

/// The version of Kubernetes in a cluster's description, such as `envtest (kube-apiserver 1.34.4)`.
fn kubernetes(cluster: &str) -> Option<&str> {
    let is_version = |word: &&str| {
        let word = word.strip_prefix('v').unwrap_or(word);
        word.starts_with(|c: char| c.is_ascii_digit()) && word.matches('.').count() >= 2
    };
    cluster.split(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | ',' | ';')).find(is_version)
}

fn pretty(value: &impl Serialize) -> serde_json::Result<String> {
    serde_json::to_string_pretty(value).map(|text| text + "\n")
}

/// The configuration by which TestGrid shows the job: its group of tests, and a dashboard with one tab.
///
/// # Errors
/// When the serialiser fails, which writing to memory does not.
pub fn testgrid(job: &Job) -> Result<String, serde_saphyr::ser::Error> {
    let group = serde_json::json!({
        "name": job.name,
        "gcs_prefix": job.prefix(),
        "days_of_results": 14,
        "num_columns_recent": 10,
        // One failure of a seeded campaign is a finding already.
        "num_failures_to_alert": 1,
        "alert_stale_results_hours": 48,
        // Without Prow's podinfo.json there is nothing to analyse.
        "disable_prowjob_analysis": true,
        "short_text_metric": "recovery_seconds",
        "test_annotations": [{"short_text": "I", "property_name": "inconclusive"}],
        "column_header": [
            {"configuration_value": "Commit"},
            {"configuration_value": "kubernetes"},
            {"configuration_value": "cluster"},
        ],
    });
    let configuration = serde_json::json!({
        "test_groups": [group],
        "dashboards": [{
            "name": format!("reconverge-{}", job.name),
            "dashboard_tab": [{"name": "convergence", "test_group_name": job.name}],
        }],
    });
    let text = serde_saphyr::to_string(&configuration)?;
    let note = match job.bucket {
        Some(_) => String::new(),
        None => format!("# {NO_BUCKET} stands for the bucket; --testgrid-bucket names it.\n"),
    };
    Ok(note + &text)
}
