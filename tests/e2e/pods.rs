//! The specimen in a pod, on a node with real pods: the correct one and some of the buggy ones.
//!
//! One node serves all trials, and is emptied between runs as in an invocation of the program. Skipped unless
//! `RECONVERGE_TIERS` names `k3s`; published operators from package registries have a tier of their own.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, OnceLock},
};

use libtest_mimic::{Failed, Trial};
use reconverge::{
    cluster::{self, LaneOptions, Provider},
    scenario::{
        format::Lane,
        resolve::{self, Context},
    },
    verdict::ScenarioVerdict,
};
use tokio::runtime::Runtime;

use crate::{
    k3s,
    scenarios::{self, How},
    table,
};

const TIER: &str = "k3s";

/// Scenarios, and of their runs those that are made here; a node's pods take their time.
const CHOSEN: &[(&str, &[&str])] = &[
    ("quickstart", &["force-reapply", "pod-kill", "pod-kill-2", "conflict", "latency"]),
    ("specimens/conflict-swallowed", &[]),
    ("specimens/crash-leaves-half-state", &[]),
    ("specimens/finalizer-never-removed", &[]),
    ("specimens/orphan-left", &[]),
    ("specimens/panic-on-conflict", &[]),
];

pub fn trials() -> Vec<Trial> {
    let reason = k3s::reason_to_skip();
    CHOSEN
        .iter()
        .map(|(name, only)| scenarios::trial_unless(reason.clone(), format!("{TIER}::{name}"), move || one(name, only)))
        .collect()
}

fn one(name: &str, only: &[&str]) -> Result<(), Failed> {
    let loaded = resolve::load(&PathBuf::from("scenarios").join(name))?;
    let (runtime, clusters) = shared()?;
    let how = How { runtime, clusters: Arc::clone(clusters), lane: Some(Lane::K3s), judge: None, only };
    let verdict = scenarios::check(&loaded, how)?;
    for case in &verdict.cases {
        if case.metrics.faults_fired == 0 {
            return Err(format!("{} never fired", case.name).into());
        }
    }
    table::note(&verdict.scenario, TIER, in_words(&verdict));
    Ok(())
}

/// The verdict with the longest recovery.
fn in_words(verdict: &ScenarioVerdict) -> String {
    let slowest = verdict.cases.iter().filter_map(|case| case.metrics.recovery_ms).max();
    let recovery = slowest.map(|ms| format!(" (recovered within {}.{} s)", ms / 1_000, ms % 1_000 / 100));
    format!("{}{}", verdict.outcome.as_str(), recovery.unwrap_or_default())
}

type Shared = (Runtime, Arc<dyn Provider>);

static SHARED: OnceLock<Result<Shared, String>> = OnceLock::new();

fn shared() -> Result<&'static Shared, Failed> {
    let made = SHARED.get_or_init(|| make().map_err(|error| error.to_string()));
    made.as_ref().map_err(|why| Failed::from(why.as_str()))
}

/// The specimen's image, and where nodes come from.
fn make() -> Result<Shared, Box<dyn std::error::Error>> {
    let target = Context::of_this_program(None)?.target_dir;
    let script = Path::new("tests/operators/widget/image.sh");
    // cargo has built the program together with this test.
    let made = Command::new("bash").arg(script).arg(target).arg("dev").env("RECONVERGE_NO_BUILD", "1").output()?;
    if !made.status.success() {
        return Err(format!("{}: {}", script.display(), String::from_utf8_lossy(&made.stderr)).into());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    Ok((runtime, cluster::provider(Lane::K3s, &LaneOptions::default())?))
}

/// Removes the node after the last trial.
pub fn close() {
    if let Some(Ok((runtime, clusters))) = SHARED.get() {
        runtime.block_on(clusters.close(false));
    }
}
