//! Perturbations that are done to the system at rest. Faults of the API traffic act during the workload instead.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::Value;

use super::{Outcome, RunError, Stage};
use crate::{
    cluster::{
        ClusterError,
        tester::{FOREIGN_MANAGER, USER_MANAGER},
    },
    event::{FaultRecord, Hit},
    faults::PartitionRule,
    object::metadata,
    observe::record::SnapshotLabel,
    scenario::{
        format::{ForceReapply, KillTarget, ObjectRef, Perturbation, PodKill},
        plan::PlannedPerturbation,
    },
};

/// What a perturbation did to the operator's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OperatorWas {
    LeftAlone,
    Restarted,
}

impl Stage<'_> {
    /// Does it, and records what was done. What follows the last act belongs to recovery, and is not awaited here.
    pub(super) async fn perturb(
        &self,
        planned: &PlannedPerturbation,
        outcome: &mut Outcome,
    ) -> Result<OperatorWas, RunError> {
        if !is_fault(&planned.perturbation) {
            outcome.snapshots.push(self.observer.snapshot(SnapshotLabel::Settled).await?);
        }
        let mut hits = Vec::new();
        let mut operator = OperatorWas::LeftAlone;
        match &planned.perturbation {
            Perturbation::Quiet(quiet) => self.watch_quietly(quiet.duration.0, &mut hits).await?,
            Perturbation::ForceReapply(reapply) => self.force_reapply(reapply, &mut hits).await?,
            Perturbation::Restart(restart) => {
                operator = OperatorWas::Restarted;
                for round in 1..=restart.times {
                    self.operator.stop().await?;
                    let last = round == restart.times;
                    self.come_back("a restart of the operator", last, &mut hits).await?;
                }
            }
            Perturbation::Partition(partition) => self.cut_off(partition.duration.0, &mut hits).await?,
            Perturbation::ApiRestart(_) => {
                hits.push(self.hit("a kill of the API server".to_owned()));
                self.cluster.restart_api_server().await?;
            }
            Perturbation::PodKill(kill) if kill.target == KillTarget::Operator => {
                operator = OperatorWas::Restarted;
                for round in 1..=kill.times {
                    if kill.in_place {
                        self.operator.kill().await?;
                    } else {
                        self.operator.delete_pod(kill.grace_period_seconds).await?;
                    }
                    let last = round == kill.times;
                    self.come_back("a kill of the operator", last, &mut hits).await?;
                }
            }
            Perturbation::PodKill(kill) => self.kill_pods(kill, &mut hits).await?,
            Perturbation::CrashAfterWrite(_)
            | Perturbation::Conflict(_)
            | Perturbation::Latency(_)
            | Perturbation::ApiError(_)
            | Perturbation::LostReply(_) => return Ok(operator),
        }
        let fired = hits.len() as u64;
        self.recorder.fault(FaultRecord {
            id: planned.perturbation.id().to_owned(),
            matched: fired,
            fired,
            legal_because: legal_because(&planned.perturbation).to_owned(),
            hits,
        });
        Ok(operator)
    }

    async fn watch_quietly(&self, duration: Duration, hits: &mut Vec<Hit>) -> Result<(), RunError> {
        hits.push(self.hit(format!("{} s of rest", duration.as_secs())));
        // The wait's condition never holds: the time itself is what is wanted.
        self.wait(duration, |_| Err(String::new())).await?;
        Ok(())
    }

    /// Nothing of the operator gets through for so long.
    async fn cut_off(&self, duration: Duration, hits: &mut Vec<Hit>) -> Result<(), RunError> {
        let guard = self.proxy.install(Arc::new(PartitionRule::default()));
        hits.push(self.hit(format!("a network partition of {} ms", duration.as_millis())));
        self.proxy.drop_connections();
        // The wait's condition never holds: the time itself is what is wanted.
        self.wait(duration, |_| Err(String::new())).await?;
        let reset = guard.heal().fired;
        if reset > 0 {
            hits.push(self.hit(format!("{reset} requests reset")));
        }
        Ok(())
    }

    async fn force_reapply(&self, reapply: &ForceReapply, hits: &mut Vec<Hit>) -> Result<(), RunError> {
        for round in 1..=reapply.times {
            let manager = if round % 2 == 1 { FOREIGN_MANAGER } else { USER_MANAGER };
            self.reapply_inputs(manager, Some(round)).await?;
            hits.push(self.hit(format!("a forced apply of every input as {manager}")));
            self.quiet(self.plan().deadline.0).await?;
        }
        // Both managers give up the nonce, so that the inputs are what they were.
        self.reapply_inputs(FOREIGN_MANAGER, None).await?;
        self.reapply_inputs(USER_MANAGER, None).await
    }

    async fn kill_pods(&self, kill: &PodKill, hits: &mut Vec<Hit>) -> Result<(), RunError> {
        let pods = ObjectRef {
            api_version: "v1".into(),
            kind: "Pod".into(),
            name: None,
            namespace: None,
            selector: kill.selector.clone(),
        };
        for round in 1..=kill.times {
            let mut alive: Vec<Value> = self.tester.find(&pods).await?;
            alive.retain(|pod| metadata(pod, "deletionTimestamp").is_empty());
            if !kill.all {
                alive.truncate(1);
            }
            for pod in &alive {
                let name = metadata(pod, "name");
                if kill.in_place {
                    let containers = self.cluster.containers();
                    let containers = containers.ok_or(ClusterError::Unsupported("containers to kill"))?;
                    containers.kill(metadata(pod, "namespace"), name).await?;
                    hits.push(self.hit(format!("a kill of the containers of Pod {name}")));
                    continue;
                }
                let one = ObjectRef { name: Some(name.to_owned()), selector: None, ..pods.clone() };
                self.tester.delete(&one, Some(kill.grace_period_seconds)).await?;
                hits.push(self.hit(format!("the deletion of Pod {name}")));
            }
            self.acted();
            if round < kill.times {
                self.quiet(self.plan().deadline.0).await?;
            }
        }
        Ok(())
    }

    async fn come_back(&self, what: &str, last: bool, hits: &mut Vec<Hit>) -> Result<(), RunError> {
        hits.push(self.hit(what.to_owned()));
        self.proxy.drop_connections();
        let before = self.recorder.activity().requests;
        self.operator.start_again().await?;
        if !last {
            self.await_return(before).await?;
            self.quiet(self.plan().deadline.0).await?;
        }
        Ok(())
    }

    /// The workload; when the crash point is reached meanwhile, the operator is killed there and started again.
    pub(super) async fn workload_with_crash(&self) -> Result<(), RunError> {
        let Some(gate) = &self.setup.crash else { return self.carry_out_workload().await };
        let reached = AtomicBool::new(false);
        let crash = async {
            gate.reached.notified().await;
            reached.store(true, Ordering::Relaxed);
            self.operator.kill().await?;
            gate.released.cancel();
            self.proxy.drop_connections();
            let before = self.recorder.activity().requests;
            self.operator.start_again().await?;
            self.await_return(before).await
        };
        let workload = self.carry_out_workload();
        tokio::pin!(crash, workload);
        tokio::select! {
            done = &mut workload => {
                done?;
                if !reached.load(Ordering::Relaxed) {
                    return Ok(());
                }
                crash.await?;
            }
            crashed = &mut crash => {
                crashed?;
                workload.await?;
            }
        }
        // The operator may have come back only after the last step's wait was over.
        self.quiet(self.plan().deadline.0).await?;
        Ok(())
    }

    fn hit(&self, what: String) -> Hit {
        Hit { at_ms: self.recorder.clock.now_ms(), what }
    }
}

/// Whether it bends the API traffic, by a rule of the proxy.
fn is_fault(perturbation: &Perturbation) -> bool {
    matches!(
        perturbation,
        Perturbation::CrashAfterWrite(_)
            | Perturbation::Conflict(_)
            | Perturbation::Latency(_)
            | Perturbation::ApiError(_)
            | Perturbation::LostReply(_)
    )
}

fn legal_because(perturbation: &Perturbation) -> &'static str {
    match perturbation {
        Perturbation::Quiet(_) => "nothing is disturbed",
        Perturbation::ForceReapply(_) => "any user may apply the same input again, with force",
        Perturbation::Restart(_) => "an operator is restarted at every upgrade and node drain",
        Perturbation::PodKill(_) => "a pod may be evicted or killed at any time",
        Perturbation::Partition(_) => "networks break, and API servers are out of reach while they are upgraded",
        Perturbation::ApiRestart(_) => "control planes are upgraded and moved while operators run",
        _ => "",
    }
}
