//! `run` and `replay`.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{
    arguments::{Global, Replay, Run, Running},
    exit::Exit,
    interrupt,
    lanes::Lanes,
    list::{self, Selected},
    output, progress,
    publish::{self, Finished},
};
use crate::{
    campaign::{self, campaign},
    clock,
    cluster::ClusterError,
    event::EventSink,
    run::RunError,
    scenario::{format::Lane, resolve, resolve::Context},
    seed::Seed,
    verdict::{Outcome, ScenarioVerdict},
};

/// What one invocation shall do with every scenario.
struct Job {
    selected: Vec<Selected>,
    seeds: Vec<Seed>,
    only: Vec<String>,
    fail_fast: bool,
    running: Running,
}

/// `reconverge run`.
pub async fn run(command: Run, global: &Global) -> Exit {
    let selected = list::select(&command.selection);
    let selected = match selected.and_then(|selected| list::with_runs(selected, &command.perturbations)) {
        Ok(selected) => selected,
        Err(exit) => return exit,
    };
    let seeds = (0..command.repeat).map(|step| Seed(command.seed.0.wrapping_add(step))).collect();
    let job =
        Job { selected, seeds, only: command.perturbations, fail_fast: command.fail_fast, running: command.running };
    if command.dry_run { dry_run(&job) } else { carry_out(job, global).await }
}

/// `reconverge replay`.
pub async fn replay(command: Replay, global: &Global) -> Exit {
    let only = vec![command.run];
    let selected = match list::load(&command.path).and_then(|selected| list::with_runs(vec![selected], &only)) {
        Ok(selected) => selected,
        Err(exit) => return exit,
    };
    let job = Job { selected, seeds: vec![command.seed], only, fail_fast: false, running: command.running };
    carry_out(job, global).await
}

fn dry_run(job: &Job) -> Exit {
    let mut text = String::new();
    for Selected { loaded, .. } in &job.selected {
        let spec = &loaded.scenario.spec;
        text.push_str(&format!("{}: {} fault-free runs, then\n", loaded.scenario.metadata.name, spec.references));
        let wanted = |name: &str| job.only.is_empty() || job.only.iter().any(|only| only.starts_with(name));
        for entry in resolve::perturbations(loaded).into_iter().filter(|entry| wanted(&entry.name)) {
            let detail = serde_json::to_value(&entry.perturbation).unwrap_or_default();
            let detail = said(detail.get(entry.perturbation.id()).unwrap_or(&Value::Null));
            let detail = if detail == json!({}) { String::new() } else { format!("  {detail}") };
            text.push_str(&format!("  {} x {} seeds{detail}\n", entry.name, job.seeds.len()));
        }
    }
    output::result(&text);
    Exit::Pass
}

/// Options without those that say nothing.
fn said(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().map(|(key, value)| (key.clone(), said(value)));
            kept.filter(|(_, value)| {
                !matches!(value, Value::Null | Value::Bool(false)) && *value != json!([]) && *value != json!({})
            })
            .collect()
        }
        other => other.clone(),
    }
}

async fn carry_out(job: Job, global: &Global) -> Exit {
    let started = clock::wall();
    let cancel = match interrupt::watch() {
        Ok(cancel) => cancel,
        Err(error) => {
            output::error(&format!("could not watch for signals: {error}"));
            return Exit::Environment;
        }
    };
    let directory = match new_run_directory(&job.running.runs_dir) {
        Ok(directory) => directory,
        Err(error) => {
            output::error(&format!("could not make a run directory in {}: {error}", job.running.runs_dir.display()));
            return Exit::Environment;
        }
    };
    if !global.quiet {
        let seeds = job.seeds.len();
        let first = job.seeds.first().copied().unwrap_or(Seed(1));
        output::note(&format!(
            "seed {first}{}; run directory {}",
            if seeds > 1 { format!(" and {} more", seeds - 1) } else { String::new() },
            directory.display()
        ));
    }
    let (events, receiver) = EventSink::channel();
    let shown = progress::show(receiver, global);
    let mut lanes = Lanes::new(&job.running);
    let mut verdicts = Vec::new();
    let mut exit = Exit::Pass;
    for selected in &job.selected {
        if cancel.is_cancelled() {
            break;
        }
        match one_scenario(selected, &job, &mut lanes, &directory, &events, &cancel).await {
            Ok(verdict) => {
                exit = exit.worst(Exit::of(verdict.outcome, job.running.allow_inconclusive));
                let failed = verdict.outcome == Outcome::Fail;
                verdicts.push(verdict);
                if failed && job.fail_fast {
                    break;
                }
            }
            Err(error) => {
                let name = &selected.loaded.scenario.metadata.name;
                exit = exit.worst(exit_of(&error));
                let why = campaign::chain(&error);
                if !matches!(error, RunError::Interrupted) {
                    output::error(&format!("{name}: {why}"));
                }
                verdicts.push(ScenarioVerdict::not_run(name, selected.loaded.file.display().to_string(), why));
            }
        }
    }
    drop(events);
    let _ = shown.await;
    lanes.close(exit != Exit::Pass).await;
    let exit = if cancel.is_cancelled() { Exit::Interrupted } else { exit };
    let finished = Finished {
        directory: &directory,
        verdicts: &verdicts,
        seed: job.seeds.first().copied().unwrap_or(Seed(1)),
        invocation: publish::invocation(started, exit),
    };
    let written = publish::reports(&finished, job.running.junit.as_deref());
    publish::print(&verdicts, Some(finished.invocation), job.running.output);
    exit.worst(written)
}

async fn one_scenario(
    selected: &Selected,
    job: &Job,
    lanes: &mut Lanes,
    directory: &Path,
    events: &EventSink,
    cancel: &tokio_util::sync::CancellationToken,
) -> Result<ScenarioVerdict, RunError> {
    let folder = directory.join(&selected.loaded.scenario.metadata.name);
    std::fs::create_dir_all(&folder).map_err(|source| RunError::Write { path: folder.clone(), source })?;
    let lane = job.running.lane().map(Lane::from);
    let clusters = lanes.of(lane.unwrap_or(selected.loaded.scenario.spec.cluster.lane))?;
    let here = |source| RunError::Write { path: PathBuf::from("the program's own directory"), source };
    let program = program();
    let flags = lane.map_or_else(String::new, |lane| format!(" --cluster {}", lane.as_str()));
    let options = campaign::Options {
        seeds: job.seeds.clone(),
        only: job.only.clone(),
        parallel: job.running.parallel,
        directory: folder,
        context: Context::of_this_program(lane).map_err(here)?,
        clusters,
        replay: format!("{program} replay{flags}"),
        replay_target: selected.path.display().to_string(),
        fail_fast: job.fail_fast,
        judge: lanes.judge()?,
        pick: None,
        build: !job.running.no_build,
        events: events.clone(),
        cancel: cancel.clone(),
    };
    campaign(&selected.loaded, &options).await
}

fn exit_of(error: &RunError) -> Exit {
    match error {
        RunError::Scenario(_)
        | RunError::Predicate(_)
        | RunError::Cluster(ClusterError::NotOwned { .. } | ClusterError::NoContext { .. }) => Exit::Usage,
        RunError::NoSuchRun { .. } => Exit::Nothing,
        RunError::NoPods(_) => Exit::Inconclusive,
        RunError::Interrupted => Exit::Interrupted,
        _ => Exit::Environment,
    }
}

/// How this program can be called again from the present directory.
fn program() -> String {
    let Ok(path) = std::env::current_exe() else { return "reconverge".into() };
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(&here).unwrap_or(&path).display().to_string()
}

/// A new directory named by the time, and `latest` pointing at it.
fn new_run_directory(parent: &Path) -> std::io::Result<PathBuf> {
    std::fs::create_dir_all(parent)?;
    let stamp = clock::wall().strftime("%Y%m%dT%H%M%SZ").to_string();
    let mut name = format!("{stamp}-{}", std::process::id());
    let mut ordinal = 1;
    while parent.join(&name).exists() {
        ordinal += 1;
        name = format!("{stamp}-{}-{ordinal}", std::process::id());
    }
    let directory = parent.join(&name);
    std::fs::create_dir(&directory)?;
    // Replaced by rename, so that a reader never finds it missing.
    let link = parent.join(format!(".latest-{name}"));
    std::os::unix::fs::symlink(&name, &link)?;
    std::fs::rename(&link, parent.join("latest"))?;
    Ok(directory)
}
