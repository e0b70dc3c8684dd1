//! The specimen in a pod, on a node with real pods: the correct one and some of the buggy ones.
//!
//! Two nodes serve all trials in turn, and are emptied between runs as in an invocation of the program. Skipped unless
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
    let trial = |(ordinal, (name, only)): (usize, &'static (&str, &[&str]))| {
        let node = &NODES[ordinal % NODES.len()];
        scenarios::trial_unless(reason.clone(), format!("{TIER}::{name}"), move || one(name, only, node))
    };
    CHOSEN.iter().enumerate().map(trial).collect()
}

fn one(name: &str, only: &[&str], node: &'static OnceLock<Result<Node, String>>) -> Result<(), Failed> {
    let loaded = resolve::load(&PathBuf::from("scenarios").join(name))?;
    let started = node.get_or_init(|| start().map_err(|error| error.to_string()));
    let (runtime, clusters) = started.as_ref().map_err(|why| Failed::from(why.as_str()))?;
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

type Node = (Runtime, Arc<dyn Provider>);

/// What lets two trials run at the same time.
static NODES: [OnceLock<Result<Node, String>>; 2] = [const { OnceLock::new() }; 2];
static IMAGE: OnceLock<Result<(), String>> = OnceLock::new();

/// Where the nodes of some of the trials come from; the specimen's image is there.
fn start() -> Result<Node, Box<dyn std::error::Error>> {
    IMAGE.get_or_init(|| make_image().map_err(|error| error.to_string())).clone()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    Ok((runtime, cluster::provider(Lane::K3s, &LaneOptions::default())?))
}

fn make_image() -> Result<(), Box<dyn std::error::Error>> {
    let target = Context::of_this_program(None)?.target_dir;
    let script = Path::new("tests/operators/widget/image.sh");
    // cargo has built the program together with this test.
    let made = Command::new("bash").arg(script).arg(target).arg("dev").env("RECONVERGE_NO_BUILD", "1").output()?;
    if !made.status.success() {
        return Err(format!("{}: {}", script.display(), String::from_utf8_lossy(&made.stderr)).into());
    }
    Ok(())
}

/// Removes the nodes after the last trial.
pub fn close() {
    for (runtime, clusters) in NODES.iter().filter_map(|node| node.get()?.as_ref().ok()) {
        runtime.block_on(clusters.close(false));
    }
}
