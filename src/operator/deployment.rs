//! The operator in the cluster: its Deployment applied, its pods followed, stopped and killed.
//!
//! # Guarantees
//! Every start and end of a container is recorded, with whether the harness asked for it; its log goes, redacted, to
//! the run's directory. [`Deployed::kill`] returns when the processes are dead; [`Deployed::stop`] when no pod is left.
//!
//! # Deliberately not done
//! A killed container is started again by the kubelet, not by us, with the kubelet's own delays.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    OperatorError, Supervision,
    pods::{self, Seen},
    redirect::{Front, redirected},
};
use crate::{
    clock::pause,
    cluster::{
        Cluster, ClusterError, Containers,
        tester::{Tester, USER_MANAGER},
    },
    history::Recorder,
    observe::record::OperatorExit,
    scenario::{format::ObjectRef, plan::OperatorPlan},
};

/// How often a wait for pods looks again.
const LOOK: Duration = Duration::from_millis(50);
/// How long the cluster may take to remove what was deleted by force.
const FORCED: Duration = Duration::from_secs(30);

/// A Deployment under the harness's control.
pub struct Deployed {
    tester: Tester,
    pods: Api<Pod>,
    selector: String,
    target: ObjectRef,
    replicas: i64,
    stop_timeout: Duration,
    containers: Option<Arc<dyn Containers>>,
    seen: Arc<Seen>,
    recorder: Recorder,
    _following: DropGuard,
}

impl Deployed {
    /// Loads the images, and applies the Deployment with its requests sent to the proxy.
    ///
    /// # Errors
    /// When the cluster refuses an image or an object, or the plan is of an operator that is a process.
    pub async fn start(
        cluster: &dyn Cluster,
        operator: &OperatorPlan,
        front: &Front,
        recorder: Recorder,
        log: &std::path::Path,
    ) -> Result<(Self, Supervision), OperatorError> {
        let Some(plan) = &operator.deployment else {
            return Err(ClusterError::NotAnObject("the operator's Deployment".into()).into());
        };
        for image in &plan.images {
            cluster.load_image(image).await?;
        }
        let mut local = plan.images.clone();
        for image in images(&plan.object).filter(|image| !plan.images.contains(image)) {
            // What is not on this machine, the node pulls as it would anywhere.
            if cluster.load_image(&image).await.is_ok() {
                local.push(image);
            }
        }
        let tester = Tester::new(cluster.client(), &plan.namespace);
        for object in redirected(plan, &operator.env, &local, front) {
            tester.apply(&object, USER_MANAGER).await?;
        }
        let pods: Api<Pod> = Api::namespaced(cluster.client(), &plan.namespace);
        let selector = selector(&plan.object);
        let seen = Arc::<Seen>::default();
        let cancel = CancellationToken::new();
        let follow = pods::follow(pods.clone(), selector.clone(), Arc::clone(&seen), recorder.clone(), log.to_owned());
        let task = tokio::spawn({
            let cancel = cancel.clone();
            async move {
                tokio::select! {
                    () = cancel.cancelled() => {}
                    () = follow => {}
                }
            }
        });
        let operator = Self {
            tester,
            pods,
            selector,
            target: ObjectRef {
                api_version: "apps/v1".into(),
                kind: "Deployment".into(),
                name: Some(plan.name.clone()),
                namespace: Some(plan.namespace.clone()),
                selector: None,
            },
            replicas: plan.object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1),
            stop_timeout: operator.stop_timeout.0,
            containers: cluster.containers(),
            seen,
            recorder,
            _following: cancel.drop_guard(),
        };
        Ok((operator, Supervision(task)))
    }

    /// Scales it to nothing: SIGTERM, the pods' own grace period, and force after the stop timeout.
    ///
    /// # Errors
    /// When the cluster refuses, or a pod does not go.
    pub async fn stop(&self) -> Result<(), OperatorError> {
        self.scale(0).await?;
        let alive = self.alive().await?;
        self.seen.ask_for_pods(&alive);
        if self.await_gone(&alive, self.stop_timeout).await.is_err() {
            self.delete(&alive, 0).await?;
            self.await_gone(&alive, FORCED).await?;
        }
        Ok(())
    }

    /// Scales it to what it was.
    ///
    /// # Errors
    /// When the cluster refuses.
    pub async fn start_again(&self) -> Result<(), OperatorError> {
        self.scale(self.replicas).await
    }

    /// SIGKILL to every process of its pods; the pods stay. Where the lane cannot do that, the pods are deleted by force.
    ///
    /// # Errors
    /// When the node or the cluster refuses.
    pub async fn kill(&self) -> Result<(), OperatorError> {
        let alive = self.alive().await?;
        let Some(containers) = &self.containers else { return self.delete_pods(0).await };
        self.seen.ask_for_containers(&alive);
        for pod in &alive {
            let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
            containers.kill(namespace, pod.metadata.name.as_deref().unwrap_or_default()).await?;
        }
        Ok(())
    }

    /// Deletes its pods, as an eviction would, and waits until they are gone; the Deployment makes new ones.
    ///
    /// # Errors
    /// When the cluster refuses, or a pod does not go.
    pub async fn delete_pods(&self, grace_seconds: u32) -> Result<(), OperatorError> {
        let alive = self.alive().await?;
        self.seen.ask_for_pods(&alive);
        self.delete(&alive, grace_seconds).await?;
        self.await_gone(&alive, Duration::from_secs(grace_seconds.into()) + FORCED).await
    }

    /// How its containers ended up to now.
    #[must_use]
    pub fn exits(&self) -> Vec<OperatorExit> {
        self.seen.exits()
    }

    /// The last lines of its output, and what its pods wait for.
    #[must_use]
    pub fn log_tail(&self) -> String {
        self.seen.log_tail()
    }

    async fn scale(&self, replicas: i64) -> Result<(), OperatorError> {
        self.tester.merge(&self.target, &json!({"spec": {"replicas": replicas}})).await?;
        Ok(())
    }

    async fn alive(&self) -> Result<Vec<Pod>, OperatorError> {
        let found = self.pods.list(&ListParams::default().labels(&self.selector)).await;
        Ok(found.map_err(|source| request("list the operator's pods", source))?.items)
    }

    async fn delete(&self, pods: &[Pod], grace_seconds: u32) -> Result<(), OperatorError> {
        for pod in pods {
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            match self.pods.delete(name, &DeleteParams::default().grace_period(grace_seconds)).await {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                done => drop(done.map_err(|source| request(&format!("delete Pod {name}"), source))?),
            }
        }
        Ok(())
    }

    async fn await_gone(&self, pods: &[Pod], within: Duration) -> Result<(), OperatorError> {
        let deadline = self.recorder.clock.deadline(within);
        loop {
            let now = self.alive().await?;
            let left = now.iter().find(|pod| pods.iter().any(|old| old.metadata.uid == pod.metadata.uid));
            let Some(left) = left else { return Ok(()) };
            if deadline.passed(self.recorder.clock) {
                return Err(OperatorError::Install(ClusterError::Timeout {
                    doing: format!("the end of Pod {}", left.metadata.name.as_deref().unwrap_or_default()),
                    within_ms: u64::try_from(within.as_millis()).unwrap_or(u64::MAX),
                    last: pods::in_words(left),
                }));
            }
            pause(LOOK).await;
        }
    }
}

/// The images that its pods run.
fn images(deployment: &Value) -> impl Iterator<Item = String> {
    let of = |kind| deployment.pointer(&format!("/spec/template/spec/{kind}")).and_then(Value::as_array);
    let containers = ["initContainers", "containers"].into_iter().filter_map(of).flatten();
    containers.filter_map(|container| container.get("image")?.as_str()).map(str::to_owned)
}

fn request(doing: &str, source: kube::Error) -> OperatorError {
    OperatorError::Install(ClusterError::Request { doing: doing.into(), source: Box::new(source) })
}

/// The label selector of its pods.
fn selector(deployment: &Value) -> String {
    let labels = deployment.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
    let pairs = labels.into_iter().flatten();
    pairs.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect::<Vec<_>>().join(",")
}
