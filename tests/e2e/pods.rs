//! The specimen in a pod, on a node with real pods: the correct one and the buggy ones.
//!
//! A few nodes serve all trials in turn, and are emptied between runs as in an invocation of the program. Skipped unless
//! `RECONVERGE_TIERS` names `k3s`; published operators from package registries have a tier of their own.

use std::{
    path::Path,
    process::Command,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use libtest_mimic::{Failed, Trial};
use reconverge::{
    cluster::{self, LaneOptions, Provider},
    scenario::{
        format::Lane,
        resolve::{Context, Loaded},
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

/// Scenarios of many runs, and those of them that are made here: pods take their time.
const CHOSEN: &[(&str, &[&str])] = &[
    ("quickstart", &["force-reapply", "pod-kill", "pod-kill-2", "conflict", "latency"]),
    ("quickstart-broken", &["crash-after-write-4"]),
    ("random-name-on-create", &["crash-after-write-6", "crash-after-write-7"]),
];

pub fn trials() -> Vec<Trial> {
    let reason = k3s::reason_to_skip();
    let trial =
        |(name, loaded)| scenarios::trial_unless(reason.clone(), format!("{TIER}::{name}"), move || on_a_node(&loaded));
    scenarios::without_a_tier().into_iter().map(trial).collect()
}

/// On a node that is idle; on the first, as soon as it is, where all are at work.
fn on_a_node(loaded: &Loaded) -> Result<(), Failed> {
    let idle = NODES.iter().find_map(|node| node.try_lock().ok());
    let mut node = match idle {
        Some(node) => node,
        None => NODES[0].lock().unwrap_or_else(PoisonError::into_inner),
    };
    let (runtime, clusters) = match &mut *node {
        Some(node) => node,
        none => none.insert(start().map_err(|error| Failed::from(error.to_string()))?),
    };
    let name = loaded.scenario.metadata.name.as_str();
    let only = CHOSEN.iter().find(|(chosen, _)| *chosen == name).map_or(&[][..], |(_, only)| *only);
    let how = How { runtime, clusters: Arc::clone(clusters), lane: Some(Lane::K3s), judge: None, only };
    let verdict = scenarios::check(loaded, how)?;
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

/// As many trials run at the same time; each node starts with its first.
static NODES: [Mutex<Option<Node>>; 3] = [const { Mutex::new(None) }; 3];
static IMAGE: OnceLock<Result<(), String>> = OnceLock::new();

/// Where a node comes from; the specimen's image is there.
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
    for node in &NODES {
        if let Some((runtime, clusters)) = &*node.lock().unwrap_or_else(PoisonError::into_inner) {
            runtime.block_on(clusters.close(false));
        }
    }
}
