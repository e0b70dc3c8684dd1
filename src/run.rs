//! One run, from plan to record: the whole flow on one page.
//!
//! # Flow
//! cluster -> install -> observer -> proxy -> operator -> workload -> perturb -> heal -> recover -> probe -> rest
//! -> delete -> tear down. What is seen on the way goes to the history; judging comes later and needs no cluster.
//!
//! # Guarantees
//! Whatever happens, the operator is ended, every watch and port is closed, and what was recorded is kept.

mod await_state;
mod inputs;
mod perturb;
mod workload;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use crate::{
    clock::RunClock,
    cluster::{self, Cluster, ClusterError, Provider, tester::Tester},
    event::{Event, EventSink, MarkName, Phase},
    faults::{
        Gate, Rule,
        proxy::{Guard, Listen, Proxy, ProxyError, Upstream},
    },
    history::{History, Recorder},
    observe::{
        ObserveError, Observer, Own,
        record::{RunRecord, Snapshot, SnapshotLabel},
    },
    operator::{
        Operator, OperatorError, Supervision,
        deployment::Deployed,
        install,
        process::{self, Launch, Supervised},
        redirect::Front,
    },
    scenario::{plan::Plan, predicate::Predicate},
};

pub use crate::cluster::in_a_line as chain;
pub use await_state::Reached;
use perturb::OperatorWas;

/// Why a run could not be carried out; never a statement about the operator's convergence.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("the cluster failed")]
    Cluster(#[from] ClusterError),
    #[error("the operator could not be run")]
    Operator(#[from] OperatorError),
    #[error("the cluster could not be observed")]
    Observe(#[from] ObserveError),
    #[error("the fault proxy failed")]
    Proxy(#[from] ProxyError),
    #[error("the scenario cannot be used")]
    Scenario(#[from] crate::scenario::ScenarioError),
    #[error("could not write {path}")]
    Write {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("an expectation of the scenario is not usable")]
    Predicate(#[from] crate::scenario::predicate::PredicateError),
    #[error(
        "the operator is a Deployment alone, and the lane `{0}` runs none; use `--cluster k3s`, or give the scenario a \
         `process`, too"
    )]
    NoPods(&'static str),
    #[error("there is no run `{name}`: the operator made {writes} writes in the fault-free runs")]
    NoSuchRun { name: String, writes: u64 },
    #[error("interrupted")]
    Interrupted,
}

/// What a run needs beside its plan.
pub struct Setup {
    pub name: String,
    pub plan: Plan,
    /// Where its cluster comes from.
    pub clusters: Arc<dyn Provider>,
    /// Where the run's files go; exists.
    pub directory: PathBuf,
    /// The faults of the plan's perturbation, resolved against the reference.
    pub rules: Vec<Arc<dyn Rule>>,
    /// Where a crash point among the rules holds the operator's write; it is killed when that is reached.
    pub crash: Option<Gate>,
    pub events: EventSink,
    pub cancel: CancellationToken,
}

/// Carries out one plan on a fresh cluster.
///
/// # Errors
/// Only when the run could not be carried out; an operator that misbehaves gives a record.
///
/// # Cancellation
/// By `setup.cancel`: the run ends in order and its record says that it was interrupted.
pub async fn run(setup: Setup) -> Result<RunRecord, RunError> {
    let clock = RunClock::start();
    write_json(&setup.directory.join("plan.json"), &setup.plan)?;
    let history_file = setup.directory.join("history.jsonl");
    let recorder = Recorder::new(clock, Some(&history_file)).map_err(|source| write_error(&history_file, source))?;
    setup.events.send(Event::RunStarted { run: setup.name.clone() });
    let cluster = tokio::select! {
        cluster = setup.clusters.provide(setup.plan.seed) => cluster?,
        () = setup.cancel.cancelled() => return Err(RunError::Interrupted),
    };
    let description = cluster.describe();
    let done = tokio::select! {
        done = on_cluster(&setup, cluster.as_ref(), &recorder) => done,
        () = recorder.pulse.beat() => unreachable!("a pulse beats for ever"),
    };
    recorder.enter(Phase::Teardown);
    cluster.shutdown().await;
    let history = recorder.finish().map_err(|source| write_error(&history_file, source))?;
    let Outcome { snapshots, exits, inconclusive } = done?;
    for snapshot in &snapshots {
        write_json(&setup.directory.join("snapshots").join(file_name(snapshot)), snapshot)?;
    }
    Ok(RunRecord {
        name: setup.name,
        plan: setup.plan,
        history,
        snapshots,
        exits,
        cluster: description,
        inconclusive,
        duration_ms: clock.now_ms(),
    })
}

/// What the part of a run that has a cluster leaves.
#[derive(Default)]
struct Outcome {
    snapshots: Vec<Snapshot>,
    exits: Vec<crate::observe::record::OperatorExit>,
    inconclusive: Vec<String>,
}

/// Everything that is alive during a run.
pub(crate) struct Stage<'a> {
    setup: &'a Setup,
    cluster: &'a dyn Cluster,
    recorder: &'a Recorder,
    tester: Tester,
    observer: Observer,
    proxy: Proxy,
    operator: Operator,
    expect: Vec<Predicate>,
    /// When the harness last did something to the system, in time of the recorder's pulse.
    acted_ms: AtomicU64,
}

impl Stage<'_> {
    fn plan(&self) -> &Plan {
        &self.setup.plan
    }

    fn settle(&self) -> Duration {
        self.plan().settle.0
    }

    fn enter(&self, phase: Phase) {
        self.recorder.enter(phase);
        self.setup.events.send(Event::PhaseEntered { run: self.setup.name.clone(), phase });
    }
}

async fn on_cluster(setup: &Setup, cluster: &dyn Cluster, recorder: &Recorder) -> Result<Outcome, RunError> {
    let plan = &setup.plan;
    let tester = Tester::new(cluster.client(), &plan.namespace);
    let baseline = Observer::baseline(tester.client()).await?;
    install::install(plan, &tester, recorder.clock).await?;
    let own = plan.operator.deployment.as_ref().map(|own| Own::new(&own.namespace, &own.name));
    let observer = Observer::start(cluster.client(), baseline, own, recorder.clone()).await?;
    let upstream = Upstream { url: cluster.endpoint().url.clone(), ca_pem: cluster.endpoint().ca_pem.clone() };
    let proxy = Proxy::start_at(listen(plan, cluster), upstream, recorder.clone()).await?;
    let (operator, supervision) = start_operator(setup, cluster, &proxy, recorder).await?;
    let expect = plan.expect.iter().map(Predicate::compile).collect::<Result<Vec<_>, _>>()?;
    let acted_ms = AtomicU64::new(recorder.pulse.now_ms());
    let stage = Stage { setup, cluster, recorder, tester, observer, proxy, operator, expect, acted_ms };
    let mut outcome = Outcome::default();
    let done = stage.carry_out(&mut outcome).await;
    stage.enter(Phase::Teardown);
    stage.tear_down(supervision, &mut outcome).await;
    match done {
        Err(RunError::Interrupted) => {
            recorder.mark(MarkName::Interrupted, "");
            outcome.inconclusive.push("the run was interrupted".into());
            Ok(outcome)
        }
        Err(error) => Err(error),
        Ok(()) => Ok(outcome),
    }
}

/// On this machine alone, or where the pods of the cluster reach it.
fn listen(plan: &Plan, cluster: &dyn Cluster) -> Listen {
    match &plan.operator.deployment {
        None => Listen::default(),
        Some(deployment) => {
            Listen { address: cluster.proxy_address(), also_on_443: deployment.fixed_address, signer: cluster.signer() }
        }
    }
}

async fn start_operator(
    setup: &Setup,
    cluster: &dyn Cluster,
    proxy: &Proxy,
    recorder: &Recorder,
) -> Result<(Operator, Supervision), RunError> {
    let plan = &setup.plan;
    let log = setup.directory.join("operator.log");
    if plan.operator.deployment.is_some() {
        let authority_pem = cluster.signer().is_none().then(|| proxy.ca_pem().to_owned());
        let front = Front { address: proxy.address().ip(), port: proxy.address().port(), authority_pem };
        let (operator, supervision) = Deployed::start(cluster, &plan.operator, &front, recorder.clone(), &log).await?;
        return Ok((Operator::Deployment(Box::new(operator)), supervision));
    }
    let token = match &plan.operator.service_account {
        Some((namespace, name)) => cluster.service_account_token(namespace, name).await?,
        None => cluster.admin_token(),
    };
    let endpoint = cluster::Endpoint { url: proxy.url().to_owned(), ca_pem: proxy.ca_pem().to_owned() };
    let path = setup.directory.join("operator.kubeconfig");
    std::fs::write(&path, cluster::kubeconfig(&endpoint, &token, &plan.namespace))
        .map_err(|source| write_error(&path, source))?;
    // The operator has a working directory of its own.
    let path = path.canonicalize().map_err(|source| write_error(&path, source))?;
    // The token is of a cluster that ends with this run, but others shall not read it meanwhile.
    let _ = std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600));
    let port = process::free_port().map_err(|source| write_error(Path::new("a free TCP port"), source))?;
    let launch = Launch::new(&plan.operator, &path, port, &log);
    let (operator, supervision) = Supervised::start(launch, recorder.clone()).await?;
    Ok((Operator::Process(operator), supervision))
}

impl Stage<'_> {
    /// The run proper; see the module's flow.
    async fn carry_out(&self, outcome: &mut Outcome) -> Result<(), RunError> {
        self.await_operator(0).await?;
        if self.plan().operator.deployment.is_some() {
            // What it makes at its start, whatever the workload, is not the workload's to leave behind; a pod takes its
            // time, and its first request says only that it has begun.
            self.quiet(self.plan().deadline.0).await?;
        }
        outcome.snapshots.push(self.observer.snapshot(SnapshotLabel::Installed).await?);

        self.enter(Phase::Workload);
        let guards: Vec<Guard> = self.setup.rules.iter().map(|rule| self.proxy.install(Arc::clone(rule))).collect();
        self.workload_with_crash().await?;
        self.recorder.mark(MarkName::WorkloadApplied, "");

        let before = self.recorder.activity().requests;
        let mut restarted = false;
        if let Some(planned) = &self.plan().perturbation {
            self.enter(Phase::Perturb);
            restarted = self.perturb(planned, outcome).await? == OperatorWas::Restarted;
        }
        for guard in guards {
            self.recorder.fault(guard.heal());
        }
        assert_eq!(self.proxy.installed(), 0, "every fault is healed before the recovery clock starts");
        if self.plan().perturbation.is_some() {
            self.acted();
        }
        self.recorder.mark(MarkName::Healed, "");

        self.enter(Phase::Recover);
        if restarted {
            self.await_return(before).await?;
        }
        // Longer than the bound, so that a slow recovery is seen as one and not as none at all.
        let patience = self.plan().recovery_within.0 + self.plan().deadline.0;
        let recovered = self.converge(patience).await?;
        let converged = self.mark_convergence(&recovered);
        self.probe().await?;
        outcome.snapshots.push(self.observer.snapshot(SnapshotLabel::Final).await?);

        if converged {
            self.rest(outcome).await?;
        }
        self.delete_workload(outcome).await
    }

    /// After a forced no-op re-apply and a restart nothing may change.
    async fn rest(&self, outcome: &mut Outcome) -> Result<(), RunError> {
        self.enter(Phase::Rest);
        self.recorder.mark(MarkName::RestBegan, "");
        self.reapply_inputs(crate::cluster::tester::USER_MANAGER, None).await?;
        self.quiet(self.plan().deadline.0).await?;
        self.operator.stop().await?;
        self.proxy.drop_connections();
        let before = self.recorder.activity().requests;
        self.operator.start_again().await?;
        self.await_return(before).await?;
        self.quiet(self.plan().deadline.0).await?;
        self.recorder.mark(MarkName::RestEnded, "");
        outcome.snapshots.push(self.observer.snapshot(SnapshotLabel::Rested).await?);
        Ok(())
    }

    /// Writes of the operator that did not come through the proxy: no fault could have reached them.
    async fn bypassed(&self) -> Option<String> {
        let users = operator_users(self.plan());
        let found = match self.cluster.direct_writes(&users).await {
            Ok(found) => found,
            Err(error) => return Some(format!("the cluster's audit log could not be read: {}", chain(&error))),
        };
        let first = found.first()?;
        Some(format!("{} writes of the operator by-passed the proxy; the first: {first}", found.len()))
    }

    async fn tear_down(self, supervision: Supervision, outcome: &mut Outcome) {
        let activity = self.recorder.activity();
        if activity.refused > 0 {
            let refused = refused_requests(&self.recorder.history());
            outcome
                .inconclusive
                .push(format!("the cluster refused {} requests as unsupported: {refused}", activity.refused));
        }
        outcome.inconclusive.extend(self.observer.broken());
        outcome.inconclusive.extend(self.bypassed().await);
        if let Err(error) = self.operator.stop().await {
            outcome.inconclusive.push(format!("the operator could not be stopped: {}", chain(&error)));
        }
        outcome.exits = self.operator.exits();
        drop(self.operator);
        supervision.join().await;
        self.observer.stop().await;
        self.proxy.shutdown().await;
    }
}

/// The users whose writes are the operator's: its ServiceAccount, or that of its pods.
fn operator_users(plan: &Plan) -> Vec<String> {
    let user = |namespace: &str, name: &str| format!("system:serviceaccount:{namespace}:{name}");
    let inside = plan.operator.deployment.as_ref().map(|own| {
        let account = own.object.pointer("/spec/template/spec/serviceAccountName").and_then(serde_json::Value::as_str);
        user(&own.namespace, account.unwrap_or("default"))
    });
    let beside = plan.operator.service_account.as_ref().map(|(namespace, name)| user(namespace, name));
    inside.or(beside).into_iter().collect()
}

fn refused_requests(history: &History) -> String {
    let mut words: Vec<String> = history
        .requests
        .iter()
        .filter(|request| request.answer.status == 501)
        .map(|request| format!("{} ({})", request.target, request.answer.message))
        .collect();
    words.sort();
    words.dedup();
    words.truncate(5);
    words.join("; ")
}

fn file_name(snapshot: &Snapshot) -> String {
    format!("{}.json", format!("{:?}", snapshot.label).to_lowercase())
}

/// Writes a file of the run directory, making its folder when needed.
///
/// # Errors
/// When the file cannot be written.
pub fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<(), RunError> {
    let failed = |source| write_error(path, source);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let text = serde_json::to_vec_pretty(value).map_err(|error| failed(error.into()))?;
    std::fs::write(path, text).map_err(failed)
}

fn write_error(path: &Path, source: std::io::Error) -> RunError {
    RunError::Write { path: path.to_owned(), source }
}
