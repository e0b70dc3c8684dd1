//! The scenarios with a real kube-apiserver as the judge: what the embedded server finds it must find, too, and what
//! that passes it must pass.
//!
//! All trials share one pool of control planes, so that these are wiped and used again as in an invocation of the
//! program. Skipped unless `RECONVERGE_TIERS` names `envtest` and its programs are at hand.

use std::sync::{Arc, OnceLock};

use libtest_mimic::{Failed, Trial};
use reconverge::{
    campaign::Judge,
    cluster::{
        self, LaneOptions, Provider,
        envtest::{Binaries, EnvtestError},
    },
    scenario::{format::Lane, resolve::Loaded},
    verdict::Confirmation,
};
use tokio::runtime::Runtime;

use crate::{
    scenarios::{self, How},
    table,
};

const TIER: &str = "envtest";

/// One trial for each scenario that needs nothing from a package registry.
pub fn trials() -> Vec<Trial> {
    let reason = reason_to_skip();
    let trial = |(name, loaded)| {
        let run = move || {
            let (runtime, clusters) = shared()?;
            confirmed(&loaded, runtime, Arc::clone(clusters))
        };
        scenarios::trial_unless(reason.clone(), format!("{TIER}::{name}"), run)
    };
    scenarios::without_a_tier().into_iter().map(trial).collect()
}

/// Runs a scenario on the embedded lane, and has its findings and a sample of its passes confirmed.
fn confirmed(loaded: &Loaded, runtime: &Runtime, judges: Arc<dyn Provider>) -> Result<(), Failed> {
    let how = How {
        runtime,
        clusters: cluster::provider(Lane::Embedded, &LaneOptions::default())?,
        lane: Some(Lane::Embedded),
        judge: Some(Judge::Lane { lane: Lane::Envtest, clusters: judges, passes: true }),
        only: &[],
    };
    let verdict = scenarios::check(loaded, how)?;
    let name = &loaded.scenario.metadata.name;
    let asked: Vec<_> = verdict.all().filter_map(|case| Some((case, case.confirmation.as_ref()?))).collect();
    let doubtful = asked.iter().find(|(_, confirmation)| !matches!(confirmation, Confirmation::Confirmed { .. }));
    if let Some((case, confirmation)) = doubtful {
        return Err(format!("{}: {}", case.name, confirmation.in_words()).into());
    }
    if asked.is_empty() {
        return Err("nobody was asked".into());
    }
    // Confirmed means: the same there.
    for lane in [table::LANES[0], table::LANES[1]] {
        table::note(name, lane, verdict.outcome.as_str().to_owned());
    }
    Ok(())
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
