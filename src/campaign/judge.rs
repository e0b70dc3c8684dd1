//! The judge: what the embedded lane finds, and a sample of what it passes, is run again on a real API server.
//!
//! # Guarantees
//! Nothing that was found is lost when the real server cannot be had: the finding then says that nobody confirmed it.

use std::{path::Path, sync::Arc};

use super::{Options, chain, explore};
use crate::{
    cluster::Provider,
    event::Event,
    scenario::{
        format::Lane,
        resolve::{Context, Loaded},
    },
    seed::Seed,
    verdict::{Outcome, ScenarioVerdict, confirm},
};

/// Passes that are run again, too: enough to notice a model that is too kind, cheap enough to do always.
const PASSES: usize = 2;

/// Who is asked.
#[derive(Clone)]
pub enum Judge {
    /// Only about failures when `passes` is false.
    Lane { lane: Lane, clusters: Arc<dyn Provider>, passes: bool },
    /// Nobody, and why.
    Missing(String),
}

/// Asks the judge, and writes what it says into the verdict.
pub(super) async fn confirm(loaded: &Loaded, options: &Options, verdict: &mut ScenarioVerdict) {
    let (lane, clusters, passes) = match &options.judge {
        Some(_) if options.clusters.lane() != Lane::Embedded => return,
        None => return,
        Some(Judge::Missing(why)) => return confirm::without(verdict, why),
        Some(Judge::Lane { lane, clusters, passes }) => (*lane, clusters, *passes),
    };
    let picked = confirm::to_ask(verdict, if passes { PASSES } else { 0 });
    let broken = verdict.references.iter().any(|case| case.outcome == Outcome::Fail);
    if (picked.is_empty() && !broken) || options.cancel.is_cancelled() {
        return;
    }
    let there = Options {
        context: Context { lane: Some(lane), ..options.context.clone() },
        clusters: Arc::clone(clusters),
        directory: options.directory.join("judge"),
        replay: on_lane(&options.replay, lane),
        seeds: seeds(&picked, options),
        only: Vec::new(),
        pick: Some(picked.iter().map(|(seed, name)| (Seed(*seed), name.clone())).collect()),
        judge: None,
        fail_fast: false,
        ..options.clone()
    };
    let runs = loaded.scenario.spec.references as usize;
    options.events.send(Event::Judging { lane: lane.as_str().to_owned(), runs });
    match explore_in(&there.directory, loaded, &there).await {
        Ok(real) => confirm::confirm(verdict, &real),
        Err(why) => confirm::without(verdict, &format!("the {} lane gave no verdict: {why}", lane.as_str())),
    }
}

async fn explore_in(directory: &Path, loaded: &Loaded, options: &Options) -> Result<ScenarioVerdict, String> {
    std::fs::create_dir_all(directory).map_err(|error| format!("could not make {}: {error}", directory.display()))?;
    explore(loaded, options).await.map_err(|error| chain(&error))
}

fn seeds(picked: &[(u64, String)], options: &Options) -> Vec<Seed> {
    let mut seeds: Vec<Seed> = picked.iter().map(|(seed, _)| Seed(*seed)).collect();
    seeds.sort_by_key(|seed| seed.0);
    seeds.dedup();
    if seeds.is_empty() { options.seeds.iter().take(1).copied().collect() } else { seeds }
}

/// The replay line of the real run names its lane.
fn on_lane(replay: &str, lane: Lane) -> String {
    let words: Vec<&str> = replay.split(" --cluster ").collect();
    let program = words.first().copied().unwrap_or(replay);
    format!("{program} --cluster {}", lane.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_line_is_moved_to_another_lane() {
        assert_eq!(on_lane("reconverge replay", Lane::Envtest), "reconverge replay --cluster envtest");
        let moved = on_lane("reconverge replay --cluster embedded", Lane::K3s);
        assert_eq!(moved, "reconverge replay --cluster k3s");
    }
}
