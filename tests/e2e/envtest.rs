//! The scenarios on a real kube-apiserver: what the embedded server finds a real one must find, too.
//!
//! All trials share one pool of control planes, so that these are wiped and used again as in an invocation of the
//! program. Skipped unless `RECONVERGE_TIERS` names `envtest` and its programs are at hand.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use libtest_mimic::{Failed, Trial};
use reconverge::{
    cluster::{
        self, LaneOptions, Provider,
        envtest::{Binaries, EnvtestError},
    },
    scenario::{format::Lane, resolve},
};
use tokio::runtime::Runtime;

use crate::scenarios;

const TIER: &str = "envtest";

/// One trial for each scenario that needs nothing from a package registry.
pub fn trials() -> Vec<Trial> {
    let all = resolve::discover(&[PathBuf::from("scenarios")]).expect("the folder of scenarios");
    let loaded = all.iter().filter_map(|path| Some((scenarios::name_of(path), resolve::load(path).ok()?)));
    let ours = loaded.filter(|(_, loaded)| !loaded.scenario.metadata.labels.contains_key("tier"));
    let reason = reason_to_skip();
    ours.map(|(name, loaded)| {
        let run = move || {
            let (runtime, clusters) = shared()?;
            scenarios::check(&loaded, runtime, Arc::clone(clusters), Some(Lane::Envtest))
        };
        scenarios::trial_unless(reason.clone(), format!("{TIER}::{name}"), run)
    })
    .collect()
}

fn reason_to_skip() -> Option<String> {
    if !scenarios::is_wanted(TIER) {
        return Some(format!("set RECONVERGE_TIERS={TIER} to run it on a real kube-apiserver"));
    }
    Binaries::at_hand().err().map(|error: EnvtestError| error.to_string())
}

static SHARED: OnceLock<(Runtime, Arc<dyn Provider>)> = OnceLock::new();

fn shared() -> Result<&'static (Runtime, Arc<dyn Provider>), Failed> {
    if let Some(shared) = SHARED.get() {
        return Ok(shared);
    }
    let clusters = cluster::provider(Lane::Envtest, &LaneOptions::default())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // Of two trials at the same time one pool stays, and the other one has started nothing.
    Ok(SHARED.get_or_init(|| (runtime, clusters)))
}

/// Ends the control planes after the last trial.
pub fn close() {
    if let Some((runtime, clusters)) = SHARED.get() {
        runtime.block_on(clusters.close(false));
    }
}
