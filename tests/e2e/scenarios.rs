//! Each folder under `scenarios/` is a test: run on its lane, its verdict compared with the expected one.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use libtest_mimic::{Failed, Trial};
use reconverge::{
    campaign::{self, Judge, Options},
    cluster::{self, LaneOptions, Provider},
    event::EventSink,
    report,
    scenario::{
        format::Lane,
        resolve::{self, Context, Loaded},
    },
    seed::Seed,
    verdict::ScenarioVerdict,
};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::expected::{self, Expected};

/// One trial for each scenario folder.
pub fn trials() -> Vec<Trial> {
    let all = resolve::discover(&[PathBuf::from("scenarios")]).expect("the folder of scenarios");
    all.into_iter().map(trial).collect()
}

fn trial(path: PathBuf) -> Trial {
    let name = name_of(&path);
    let loaded = match resolve::load(&path) {
        Ok(loaded) => loaded,
        Err(error) => {
            return Trial::test(format!("scenario::{name}"), move || Err(Failed::from(format!("{error}"))));
        }
    };
    let tier = loaded.scenario.metadata.labels.get("tier").map_or("scenario", String::as_str);
    let name = format!("{tier}::{name}");
    trial_unless(reason_to_skip(&loaded), name, move || {
        let clusters = cluster::provider(loaded.scenario.spec.cluster.lane, &LaneOptions::default())?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let how = How { runtime: &runtime, clusters: Arc::clone(&clusters), lane: None, judge: None, only: &[] };
        let checked = check(&loaded, how);
        runtime.block_on(clusters.close(false));
        checked.map(drop)
    })
}

/// The scenarios that need nothing from a package registry, by their folders below `scenarios/`.
pub fn without_a_tier() -> Vec<(String, Loaded)> {
    let all = resolve::discover(&[PathBuf::from("scenarios")]).expect("the folder of scenarios");
    let loaded = all.iter().filter_map(|path| Some((name_of(path), resolve::load(path).ok()?)));
    loaded.filter(|(_, loaded)| !loaded.scenario.metadata.labels.contains_key("tier")).collect()
}

/// A trial that is shown as skipped, or where nothing may be skipped fails, when there is a reason for that.
pub fn trial_unless(
    reason: Option<String>,
    name: String,
    run: impl FnOnce() -> Result<(), Failed> + Send + 'static,
) -> Trial {
    match reason {
        Some(reason) if required() => {
            Trial::test(name, move || Err(Failed::from(format!("skipped where nothing may be: {reason}"))))
        }
        Some(reason) => Trial::test(name, || Ok(())).with_kind(format!("skipped: {reason}")).with_ignored_flag(true),
        None => Trial::test(name, run),
    }
}

/// The scenario's folder below `scenarios/`.
pub fn name_of(path: &Path) -> String {
    let folder = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
    folder.strip_prefix("scenarios").unwrap_or(folder).display().to_string()
}

fn required() -> bool {
    std::env::var("RECONVERGE_REQUIRE_ALL").is_ok_and(|value| value == "1")
}

fn reason_to_skip(loaded: &Loaded) -> Option<String> {
    let tier = loaded.scenario.metadata.labels.get("tier")?;
    (!is_wanted(tier)).then(|| format!("set RECONVERGE_TIERS={tier} to install it from a package registry"))
}

/// Whether `RECONVERGE_TIERS` names it.
pub fn is_wanted(tier: &str) -> bool {
    let wanted = std::env::var("RECONVERGE_TIERS").unwrap_or_default();
    wanted.split(',').any(|name| name == tier)
}

/// How a scenario is run.
pub struct How<'a> {
    pub runtime: &'a Runtime,
    pub clusters: Arc<dyn Provider>,
    /// Instead of the scenario's own.
    pub lane: Option<Lane>,
    pub judge: Option<Judge>,
    /// Only these perturbations; empty: all.
    pub only: &'a [&'a str],
}

/// Runs a scenario and compares its verdict with the expected one.
pub fn check(loaded: &Loaded, how: How<'_>) -> Result<ScenarioVerdict, Failed> {
    let name = &loaded.scenario.metadata.name;
    let wanted = expected::of(name).ok_or_else(|| format!("tests/operators/expected.rs does not name {name}"))?;
    let verdict = run(loaded, how)?;
    compare(&verdict, wanted)
        .map_err(|why| Failed::from(format!("{why}\n{}", report::terminal::scenario(&verdict, false))))?;
    Ok(verdict)
}

fn run(loaded: &Loaded, how: How<'_>) -> Result<ScenarioVerdict, Failed> {
    let directory = tempfile::tempdir()?;
    let options = Options {
        seeds: vec![Seed(1)],
        only: how.only.iter().map(|&name| name.to_owned()).collect(),
        parallel: 4,
        directory: directory.path().to_owned(),
        context: Context::of_this_program(how.lane)?,
        clusters: how.clusters,
        replay: "reconverge replay".into(),
        replay_target: loaded.scenario.metadata.name.clone(),
        fail_fast: false,
        judge: how.judge,
        pick: None,
        // cargo has built the specimen together with this test, with features that a build of its own would not have.
        build: loaded.scenario.metadata.labels.contains_key("tier"),
        events: EventSink::none(),
        cancel: CancellationToken::new(),
    };
    let done = how.runtime.block_on(campaign::campaign(loaded, &options));
    done.map_err(|error| Failed::from(campaign::chain(&error)))
}

fn compare(verdict: &ScenarioVerdict, wanted: &Expected) -> Result<(), String> {
    if verdict.outcome != wanted.outcome {
        return Err(format!("the verdict is {}, expected {}", verdict.outcome.as_str(), wanted.outcome.as_str()));
    }
    let findings = verdict.cases.iter().flat_map(|case| &case.findings);
    let found: Vec<&str> = findings.map(|finding| finding.oracle.as_str()).collect();
    if let Some(surprise) = found.iter().find(|oracle| !wanted.oracles.contains(oracle)) {
        return Err(format!("the oracle `{surprise}` has a finding; expected only {:?}", wanted.oracles));
    }
    Ok(())
}
