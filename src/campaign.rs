//! Many runs of one scenario: the reference, then every perturbation under every seed, each judged as it ends.
//!
//! # Guarantees
//! A run that is finished is on disk before the next verdict needs it. A run that cannot be carried out makes its
//! own case inconclusive and leaves the others alone.

mod archive;
mod judge;

use std::{path::PathBuf, sync::Arc};

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::{
    cluster::Provider,
    event::{Event, EventSink, Phase},
    faults::{
        self, Gate, Rule,
        crash_point::{CrashPoint, Side},
    },
    history::History,
    observe::record::RunRecord,
    operator::process,
    run::{self, RunError, Setup, write_json},
    scenario::{
        format::Perturbation,
        plan::{Plan, PlannedPerturbation},
        resolve::{self, Context, Loaded},
    },
    seed::Seed,
    verdict::{self, CaseVerdict, Outcome, Reference, ScenarioVerdict},
};

pub use archive::{ReadError, analyze};

pub use crate::run::chain;
pub use judge::Judge;

use crate::scenario::resolve::REFERENCE;

/// What a campaign is asked for.
#[derive(Clone)]
pub struct Options {
    pub seeds: Vec<Seed>,
    /// Only the runs with these names; empty: all.
    pub only: Vec<String>,
    /// Runs at a time.
    pub parallel: usize,
    /// Where this scenario's runs go; exists.
    pub directory: PathBuf,
    pub context: Context,
    /// Where every run's cluster comes from.
    pub clusters: Arc<dyn Provider>,
    /// Program and arguments before `--seed`, for the replay line.
    pub replay: String,
    /// What stands after them: the scenario's path.
    pub replay_target: String,
    pub fail_fast: bool,
    /// Who confirms what the embedded lane finds; `None`: nobody is asked.
    pub judge: Option<Judge>,
    /// Only these runs, by seed and name; `None`: all. References are run anyway.
    pub pick: Option<Vec<(Seed, String)>>,
    /// Whether to run the operator's build command.
    pub build: bool,
    pub events: EventSink,
    pub cancel: CancellationToken,
}

/// Runs one scenario.
///
/// # Errors
/// When the operator cannot be built or no reference run can be carried out.
pub async fn campaign(loaded: &Loaded, options: &Options) -> Result<ScenarioVerdict, RunError> {
    let first = options.seeds.first().copied().unwrap_or(Seed(1));
    let spec = &loaded.scenario.spec;
    let name = loaded.scenario.metadata.name.clone();
    options.events.send(Event::ScenarioStarted { scenario: name.clone(), runs: spec.references as usize });
    // The build command needs no manifest; those that it makes are read after it.
    let unbuilt = resolve::plan(loaded, first, None, &options.context)?;
    if unbuilt.operator.deployment.is_some() && !options.clusters.in_cluster() {
        return Err(RunError::NoPods(unbuilt.lane.as_str()));
    }
    build(&unbuilt, options).await?;
    let loaded = &resolve::prepare(loaded, &options.context)?;
    let mut verdict = explore(loaded, options).await?;
    judge::confirm(loaded, options, &mut verdict).await;
    options.events.send(Event::ScenarioFinished { scenario: name });
    Ok(verdict)
}

/// The reference, then every perturbation under every seed, on one lane.
async fn explore(loaded: &Loaded, options: &Options) -> Result<ScenarioVerdict, RunError> {
    let entries = resolve::perturbations(loaded);
    let first = options.seeds.first().copied().unwrap_or(Seed(1));
    let reference_plan = resolve::plan(loaded, first, None, &options.context)?;
    let most = if reference_plan.operator.exclusive { 1 } else { options.clusters.most().unwrap_or(usize::MAX) };
    let slots = Arc::new(Semaphore::new(options.parallel.clamp(1, most.max(1))));

    let (references, judged) = run_references(&reference_plan, options, &slots).await?;
    let reference = verdict::learn_reference(&references);
    let judged: Vec<CaseVerdict> =
        judged.into_iter().map(|case| announce(options, with_replay(case, options))).collect();
    let sound = judged.iter().all(|case| case.outcome == Outcome::Pass);
    let mut cases = Vec::new();
    // Against a reference that is itself wrong, every perturbed run would be noise.
    if sound && !options.cancel.is_cancelled() {
        let planned = plan_runs(loaded, options, &entries, &references)?;
        options.events.send(Event::RunsAdded { runs: planned.len() });
        cases = run_perturbed(planned, options, &slots, &reference).await;
    }
    Ok(verdict::scenario_verdict(&references, &reference, judged, cases))
}

async fn build(plan: &Plan, options: &Options) -> Result<(), RunError> {
    if plan.operator.build.is_empty() || !options.build {
        return Ok(());
    }
    options.events.send(Event::Building { command: plan.operator.build.join(" ") });
    tokio::select! {
        built = process::build(&plan.operator) => Ok(built?),
        () = options.cancel.cancelled() => Err(RunError::Interrupted),
    }
}

/// The fault-free runs, judged. One that fails says enough: those that have not begun by then are left out.
async fn run_references(
    plan: &Plan,
    options: &Options,
    slots: &Semaphore,
) -> Result<(Vec<RunRecord>, Vec<CaseVerdict>), RunError> {
    let failed = CancellationToken::new();
    let runs = (1..=plan.references).map(|ordinal| {
        let failed = failed.clone();
        async move {
            let _slot = slots.acquire().await;
            if failed.is_cancelled() {
                return Ok(None);
            }
            let name = format!("{REFERENCE}-{ordinal}");
            let record = carry_out(&name, plan.clone(), Vec::new(), None, options).await?;
            let case = verdict::judge_against(None, &record);
            if case.outcome == Outcome::Fail {
                failed.cancel();
            }
            Ok(Some((record, case)))
        }
    });
    let done: Result<Vec<_>, RunError> = futures::future::join_all(runs).await.into_iter().collect();
    Ok(done?.into_iter().flatten().unzip())
}

/// One run to come.
struct Planned {
    name: String,
    entry: PlannedPerturbation,
    /// One of a sweep over all crash points.
    swept: bool,
    plan: Plan,
    rules: Vec<Arc<dyn Rule>>,
    crash: Option<Gate>,
}

fn plan_runs(
    loaded: &Loaded,
    options: &Options,
    entries: &[PlannedPerturbation],
    references: &[RunRecord],
) -> Result<Vec<Planned>, RunError> {
    // Fault-free runs may differ in how many requests they took; what the shortest has, all have.
    let least = |count: &dyn Fn(&History) -> u64| references.iter().map(|run| count(&run.history)).min().unwrap_or(0);
    let writes = least(&crash_points);
    let mut planned = Vec::new();
    for seed in &options.seeds {
        let all = entries.iter().flat_map(|entry| {
            let points = resolve::expand_crash_points(entry, writes);
            let swept = points.first() != Some(entry);
            points.into_iter().map(move |point| (&entry.name, point, swept))
        });
        for (of, entry, swept) in all {
            if !options.only.is_empty() && !options.only.contains(of) && !options.only.contains(&entry.name) {
                continue;
            }
            if options.pick.as_ref().is_some_and(|pick| !pick.contains(&(*seed, entry.name.clone()))) {
                continue;
            }
            let plan = resolve::plan(loaded, *seed, Some(entry.clone()), &options.context)?;
            let (rules, crash) = rules_of(&entry, *seed, least(&|history| population(&entry, history)));
            let name = if options.seeds.len() > 1 { format!("{}@{seed}", entry.name) } else { entry.name.clone() };
            planned.push(Planned { name, entry, swept, plan, rules, crash });
        }
    }
    let wants_more = options.only.iter().find(|name| !name.starts_with(REFERENCE));
    match wants_more {
        Some(name) if planned.is_empty() => Err(RunError::NoSuchRun { name: name.clone(), writes }),
        _ => Ok(planned),
    }
}

/// Writes of the operator during the workload of a fault-free run: each is a crash point.
fn crash_points(history: &History) -> u64 {
    history.writes().filter(|write| write.phase == Phase::Workload).count() as u64
}

/// How many requests of a run's workload a fault could hit.
fn population(entry: &PlannedPerturbation, history: &History) -> u64 {
    let workload = history.requests.iter().filter(|request| request.phase == Phase::Workload);
    faults::population(&entry.perturbation, workload)
}

fn rules_of(entry: &PlannedPerturbation, seed: Seed, population: u64) -> (Vec<Arc<dyn Rule>>, Option<Gate>) {
    if let Perturbation::CrashAfterWrite(crash) = &entry.perturbation {
        let gate = Gate::default();
        let side = if crash.before { Side::BeforeCommit } else { Side::AfterCommit };
        let point = CrashPoint::new(crash.write.unwrap_or(1), side, gate.clone());
        return (vec![Arc::new(point)], Some(gate));
    }
    (faults::rule_for(&entry.perturbation, seed, &entry.name, population).into_iter().collect(), None)
}

async fn run_perturbed(
    planned: Vec<Planned>,
    options: &Options,
    slots: &Semaphore,
    reference: &Reference,
) -> Vec<CaseVerdict> {
    let stop = CancellationToken::new();
    let runs = planned.into_iter().map(|planned| {
        let stop = stop.clone();
        async move {
            let _slot = slots.acquire().await;
            if options.cancel.is_cancelled() || stop.is_cancelled() {
                return None;
            }
            let case = one_case(planned, options, reference).await?;
            if options.fail_fast && case.outcome == Outcome::Fail {
                stop.cancel();
            }
            Some(announce(options, case))
        }
    });
    futures::future::join_all(runs).await.into_iter().flatten().collect()
}

/// `None` for a point of a sweep that this run never came to.
async fn one_case(planned: Planned, options: &Options, reference: &Reference) -> Option<CaseVerdict> {
    let Planned { name, entry, swept, plan, rules, crash } = planned;
    let mut done = carry_out(&name, plan.clone(), rules, crash, options).await;
    if let Some(matched) = done.as_ref().ok().and_then(missed) {
        if swept {
            let why = format!("this run made only {matched} writes");
            options.events.send(Event::RunJudged {
                run: name.clone(),
                outcome: "left out".into(),
                why,
                duration_ms: 0,
            });
            let _ = std::fs::remove_dir_all(options.directory.join(&name));
            return None;
        }
        if entry.perturbation.draws_its_ordinal() {
            // Drawn again, among as many as there were this time.
            let (rules, crash) = rules_of(&entry, plan.seed, matched);
            done = carry_out(&name, plan.clone(), rules, crash, options).await;
        }
    }
    let case = match done {
        Ok(record) => verdict::judge_against(Some(reference), &record),
        Err(error) => CaseVerdict::not_run(&name, &plan, chain(&error)),
    };
    if options.seeds.len() > 1 && case.outcome == Outcome::Pass {
        // Thousands of passing runs say nothing that the verdict does not; a failed removal only costs space.
        let _ = std::fs::remove_dir_all(options.directory.join(&name));
    }
    Some(keep(with_replay(case, options), &name, options))
}

/// The number of requests that a fault matched without ever firing: its ordinal lay beyond what this run sent.
fn missed(record: &RunRecord) -> Option<u64> {
    let faults = &record.history.faults;
    let matched = faults.iter().map(|fault| fault.matched).sum();
    (record.inconclusive.is_empty() && matched > 0 && faults.iter().all(|fault| fault.fired == 0)).then_some(matched)
}

/// Keeps a judged run's verdict beside its record, so that a campaign that is cut short has lost nothing.
fn keep(case: CaseVerdict, name: &str, options: &Options) -> CaseVerdict {
    let folder = options.directory.join(name);
    if folder.is_dir()
        && let Err(error) = write_json(&folder.join("verdict.json"), &case)
    {
        tracing::warn!("{}", chain(&error));
    }
    case
}

async fn carry_out(
    name: &str,
    plan: Plan,
    rules: Vec<Arc<dyn Rule>>,
    crash: Option<Gate>,
    options: &Options,
) -> Result<RunRecord, RunError> {
    let directory = options.directory.join(name);
    std::fs::create_dir_all(&directory).map_err(|source| RunError::Write { path: directory.clone(), source })?;
    let setup = Setup {
        name: name.to_owned(),
        plan,
        clusters: Arc::clone(&options.clusters),
        directory: directory.clone(),
        rules,
        crash,
        events: options.events.clone(),
        cancel: options.cancel.clone(),
    };
    let done = run::run(setup).await;
    options.events.send(Event::RunEnded { run: name.to_owned() });
    let record = done?;
    let run = record.plan.perturbation.as_ref().map_or(REFERENCE, |entry| entry.name.as_str());
    archive::complete(&directory, &record, &replay_line(record.plan.seed.0, run, options))?;
    Ok(record)
}

fn replay_line(seed: u64, run: &str, options: &Options) -> String {
    format!("{} --seed {seed} --run {run} {}", options.replay, options.replay_target)
}

fn with_replay(mut case: CaseVerdict, options: &Options) -> CaseVerdict {
    let run = if case.perturbation.is_some() { case.name.as_str() } else { REFERENCE };
    case.replay = Some(replay_line(case.seed, run, options));
    case
}

fn announce(options: &Options, case: CaseVerdict) -> CaseVerdict {
    options.events.send(Event::RunJudged {
        run: case.name.clone(),
        outcome: case.outcome.as_str().to_owned(),
        why: case.headline().to_owned(),
        duration_ms: case.duration_ms,
    });
    case
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::sample::Sample;

    fn options() -> Options {
        Options {
            seeds: vec![Seed(7), Seed(8)],
            only: vec![],
            parallel: 1,
            directory: PathBuf::new(),
            context: Context { target_dir: PathBuf::new(), cache: PathBuf::new(), lane: None },
            clusters: Arc::new(crate::cluster::embedded::Fresh),
            replay: "reconverge replay".into(),
            replay_target: "scenarios/demo".into(),
            fail_fast: false,
            judge: None,
            pick: None,
            build: false,
            events: EventSink::none(),
            cancel: CancellationToken::new(),
        }
    }

    /// `conflict@8` is the name of a directory; `replay --run` takes the name of a perturbation.
    #[test]
    fn replay_lines_name_the_perturbation_and_its_seed() {
        let mut plan = Sample::perturbed().build().plan;
        plan.seed = Seed(8);
        let case = with_replay(CaseVerdict::not_run("conflict@8", &plan, "no port".into()), &options());
        assert_eq!(case.replay.as_deref(), Some("reconverge replay --seed 8 --run conflict scenarios/demo"));
        let reference = Sample::reference().build().plan;
        let case = with_replay(CaseVerdict::not_run("reference-2", &reference, "no port".into()), &options());
        assert_eq!(case.replay.as_deref(), Some("reconverge replay --seed 42 --run reference scenarios/demo"));
    }

    fn quickstart() -> Loaded {
        resolve::load(std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/quickstart"))).unwrap()
    }

    fn planned(only: &[&str], references: &[RunRecord]) -> Result<Vec<String>, RunError> {
        let only = only.iter().map(|&name| name.to_owned()).collect();
        let options = Options { only, seeds: vec![Seed(7)], ..options() };
        let loaded = quickstart();
        let entries = resolve::perturbations(&loaded);
        Ok(plan_runs(&loaded, &options, &entries, references)?.into_iter().map(|planned| planned.name).collect())
    }

    /// The second run made one write more than the first: not every run comes to a third.
    #[test]
    fn a_sweep_goes_as_far_as_the_shortest_reference() {
        let write = |run: Sample| run.write(crate::event::Verb::Update, "configmaps", 300, Phase::Workload);
        let (short, long) = (Sample::reference().build(), write(Sample::reference()).build());
        let both = planned(&["crash-after-write"], &[long.clone(), short]).unwrap();
        assert_eq!(both, ["crash-after-write-1", "crash-after-write-2"]);
        let longer = planned(&["crash-after-write"], &[long]).unwrap();
        assert_eq!(longer.last().unwrap(), "crash-after-write-3");
    }

    #[test]
    fn a_run_that_the_reference_does_not_reach_is_refused() {
        let references = [Sample::reference().build()];
        assert_eq!(planned(&["crash-after-write-2"], &references).unwrap(), ["crash-after-write-2"]);
        let error = planned(&["crash-after-write-3"], &references).unwrap_err();
        assert!(matches!(&error, RunError::NoSuchRun { writes: 2, .. }), "{error}");
        assert!(planned(&["reference"], &references).unwrap().is_empty());
    }

    /// Two requests matched, and the ordinal lay beyond them; a fault that fired or was never near is another matter.
    #[test]
    fn an_ordinal_is_missed_when_requests_matched_and_none_was_hit() {
        let faults = |matched, fired| {
            let run = Sample::perturbed().change(|run| {
                run.history.faults.iter_mut().for_each(|fault| (fault.matched, fault.fired) = (matched, fired));
            });
            missed(&run.build())
        };
        assert_eq!((faults(2, 0), faults(2, 1), faults(0, 0)), (Some(2), None, None));
        let refused = Sample::perturbed().change(|run| {
            run.history.faults.iter_mut().for_each(|fault| (fault.matched, fault.fired) = (2, 0));
            run.inconclusive.push("the cluster refused a request".into());
        });
        assert_eq!(missed(&refused.build()), None);
    }

    #[test]
    fn crash_points_are_the_writes_of_the_workload() {
        let run = Sample::reference().write(crate::event::Verb::Update, "configmaps", 5_000, Phase::Delete).build();
        assert_eq!(crash_points(&run.history), 2);
    }

    #[test]
    fn a_chain_names_every_cause() {
        let source = std::io::Error::other("no space left");
        let error = RunError::Write { path: "plan.json".into(), source };
        assert_eq!(chain(&error), "could not write plan.json: no space left");
    }
}
