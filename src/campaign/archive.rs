//! A scenario's run directories, read and judged again without a cluster.
//!
//! # Guarantees
//! What a run wrote is read back as the record that was judged when it ended, so that the verdict is the same.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    history::{Entry, History},
    observe::record::{OperatorExit, RunRecord, Snapshot},
    run::{RunError, write_json},
    scenario::plan::Plan,
    verdict::{self, ScenarioVerdict},
};

/// What `run.json` adds to the plan, the history and the snapshots of a run's directory.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct RunFile {
    name: String,
    cluster: String,
    duration_ms: u64,
    exits: Vec<OperatorExit>,
    inconclusive: Vec<String>,
    #[serde(default)]
    replay: Option<String>,
}

impl RunFile {
    fn of(record: &RunRecord, replay: &str) -> Self {
        Self {
            name: record.name.clone(),
            cluster: record.cluster.clone(),
            duration_ms: record.duration_ms,
            exits: record.exits.clone(),
            inconclusive: record.inconclusive.clone(),
            replay: Some(replay.to_owned()),
        }
    }
}

/// Writes what makes the directory of a run complete; the run itself has written the rest.
///
/// # Errors
/// When the file cannot be written.
pub(super) fn complete(directory: &Path, record: &RunRecord, replay: &str) -> Result<(), RunError> {
    write_json(&directory.join("run.json"), &RunFile::of(record, replay))
}

/// Why a run directory cannot be judged again.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("could not read {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{path}:{line}: not what this version writes")]
    Parse {
        path: PathBuf,
        line: usize,
        #[source]
        source: serde_json::Error,
    },
    #[error("{0} holds no fault-free runs (reference-1, ...); is it the directory of one scenario's campaign?")]
    NoReference(PathBuf),
}

/// Judges the runs of a scenario's directory again, without a cluster.
///
/// # Errors
/// When a file is missing or not readable.
pub fn analyze(directory: &Path) -> Result<ScenarioVerdict, ReadError> {
    let mut references = Vec::new();
    let mut perturbed = Vec::new();
    let mut replays = BTreeMap::new();
    for folder in folders(directory)? {
        if !folder.join("run.json").exists() {
            continue;
        }
        let (record, replay) = read_record(&folder)?;
        replays.insert(record.name.clone(), replay);
        if record.plan.perturbation.is_none() { references.push(record) } else { perturbed.push(record) }
    }
    if references.is_empty() {
        return Err(ReadError::NoReference(directory.to_owned()));
    }
    let mut verdict = verdict::judge_scenario(&references, &perturbed);
    for case in verdict.references.iter_mut().chain(&mut verdict.cases) {
        case.replay = replays.remove(&case.name).flatten();
    }
    Ok(verdict)
}

fn folders(directory: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let failed = |source| ReadError::Read { path: directory.to_owned(), source };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The record, and the line that replays it.
fn read_record(folder: &Path) -> Result<(RunRecord, Option<String>), ReadError> {
    let file: RunFile = read_json(&folder.join("run.json"))?;
    let plan: Plan = read_json(&folder.join("plan.json"))?;
    let mut snapshots: Vec<Snapshot> = Vec::new();
    let snapshot_folder = folder.join("snapshots");
    if snapshot_folder.is_dir() {
        let failed = |source| ReadError::Read { path: snapshot_folder.clone(), source };
        for entry in std::fs::read_dir(&snapshot_folder).map_err(failed)? {
            snapshots.push(read_json(&entry.map_err(failed)?.path())?);
        }
    }
    snapshots.sort_by_key(|snapshot| snapshot.at_ms);
    let record = RunRecord {
        name: file.name,
        plan,
        history: read_history(&folder.join("history.jsonl"))?,
        snapshots,
        exits: file.exits,
        cluster: file.cluster,
        inconclusive: file.inconclusive,
        duration_ms: file.duration_ms,
    };
    Ok((record, file.replay))
}

fn read_history(path: &Path) -> Result<History, ReadError> {
    let text = read(path)?;
    let mut history = History::default();
    for (index, line) in text.lines().enumerate() {
        let entry = serde_json::from_str(line).map_err(|source| ReadError::Parse {
            path: path.to_owned(),
            line: index + 1,
            source,
        })?;
        match entry {
            Entry::Request(request) => history.requests.push(*request),
            Entry::Change(change) => history.changes.push(*change),
            Entry::Mark(mark) => history.marks.push(mark),
            Entry::Fault(fault) => history.faults.push(fault),
        }
    }
    Ok(history)
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, ReadError> {
    serde_json::from_str(&read(path)?).map_err(|source| ReadError::Parse {
        path: path.to_owned(),
        line: source.line(),
        source,
    })
}

fn read(path: &Path) -> Result<String, ReadError> {
    std::fs::read_to_string(path).map_err(|source| ReadError::Read { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::{Outcome, sample::Sample};

    /// Writes a record as a run and its campaign do.
    fn write(directory: &Path, record: &RunRecord) {
        let folder = directory.join(&record.name);
        write_json(&folder.join("plan.json"), &record.plan).unwrap();
        for (index, snapshot) in record.snapshots.iter().enumerate() {
            write_json(&folder.join("snapshots").join(format!("{index}.json")), snapshot).unwrap();
        }
        let history = record.history.clone();
        let mut entries: Vec<Entry> =
            history.requests.into_iter().map(|request| Entry::Request(Box::new(request))).collect();
        entries.extend(history.changes.into_iter().map(|change| Entry::Change(Box::new(change))));
        entries.extend(history.marks.into_iter().map(Entry::Mark));
        entries.extend(history.faults.into_iter().map(Entry::Fault));
        let lines: String = entries.iter().map(|entry| serde_json::to_string(entry).unwrap() + "\n").collect();
        std::fs::write(folder.join("history.jsonl"), lines).unwrap();
        complete(&folder, record, &format!("replay of {}", record.name)).unwrap();
    }

    fn named(name: &str, sample: Sample) -> RunRecord {
        let mut at = 0..;
        sample
            .change(|run| {
                run.name = name.into();
                // Snapshots are put in order by their time.
                run.snapshots.iter_mut().zip(&mut at).for_each(|(snapshot, at_ms)| snapshot.at_ms = at_ms);
            })
            .build()
    }

    #[test]
    fn a_run_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let record =
            named("conflict", Sample::perturbed().exit(10, true).change(|run| run.inconclusive.push("odd".into())));
        write(folder.path(), &record);
        assert_eq!(read_record(&folder.path().join("conflict")).unwrap().0, record);
    }

    #[test]
    fn a_directory_is_judged_as_its_runs_were() {
        let folder = tempfile::tempdir().unwrap();
        let references = ["reference-1", "reference-2"].map(|name| named(name, Sample::reference()));
        let perturbed =
            [named("conflict", Sample::perturbed()), named("conflict-2", Sample::perturbed().phase("Failed"))];
        references.iter().chain(&perturbed).for_each(|record| write(folder.path(), record));
        // Neither a run that was cut short nor a stray file is a run.
        std::fs::create_dir(folder.path().join("conflict-3")).unwrap();
        std::fs::write(folder.path().join("verdict.json"), "{}").unwrap();
        let verdict = analyze(folder.path()).unwrap();
        let mut wanted = verdict::judge_scenario(&references, &perturbed);
        for case in wanted.references.iter_mut().chain(&mut wanted.cases) {
            case.replay = Some(format!("replay of {}", case.name));
        }
        assert_eq!(verdict, wanted);
        let outcomes: Vec<_> = verdict.cases.iter().map(|case| (case.name.as_str(), case.outcome)).collect();
        assert_eq!(outcomes, [("conflict", Outcome::Pass), ("conflict-2", Outcome::Fail)]);
    }

    #[test]
    fn what_cannot_be_judged_says_why() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &named("conflict", Sample::perturbed()));
        let error = analyze(folder.path()).unwrap_err();
        assert!(matches!(error, ReadError::NoReference(_)), "{error}");
        let history = folder.path().join("conflict/history.jsonl");
        let text = std::fs::read_to_string(&history).unwrap();
        let second = text.lines().nth(1).unwrap();
        std::fs::write(&history, text.replace(second, "{\"unheard-of\": 1}")).unwrap();
        let error = analyze(folder.path()).unwrap_err();
        assert!(matches!(error, ReadError::Parse { line: 2, .. }), "{error}");
        std::fs::remove_file(&history).unwrap();
        assert!(matches!(analyze(folder.path()).unwrap_err(), ReadError::Read { .. }));
        assert!(matches!(analyze(&folder.path().join("none")).unwrap_err(), ReadError::Read { .. }));
    }
}
