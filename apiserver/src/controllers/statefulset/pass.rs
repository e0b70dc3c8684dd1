//! One pass over the pods of a StatefulSet.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{REVISION_LABEL, claims, first, identity, is_rolling, replicas};
use crate::{
    controllers::{
        Client,
        claim::Owner,
        kinds,
        object::{delete, get, int, is_terminating, key, label, name, namespace, text},
        pods::{self, Availability},
    },
    status::ApiError,
};

/// Whether a pass may go on to the next pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Go,
    Stop,
}

pub(super) struct Pass<'a> {
    client: &'a dyn Client,
    owner: Owner<'a>,
    pods: BTreeMap<i64, Value>,
    current: &'a Value,
    update: &'a Value,
    ordered: bool,
}

impl<'a> Pass<'a> {
    pub(super) fn new(
        client: &'a dyn Client,
        owner: Owner<'a>,
        mine: Vec<Value>,
        current: &'a Value,
        update: &'a Value,
    ) -> Self {
        let set = owner.object;
        let pods = mine.into_iter().filter_map(|p| Some((identity::ordinal(set, name(&p))?, p))).collect();
        let ordered = text(set, "/spec/podManagementPolicy") != "Parallel";
        Self { client, owner, pods, current, update, ordered }
    }

    /// The pods as they are after the pass.
    pub(super) fn into_pods(self) -> Vec<Value> {
        self.pods.into_values().collect()
    }

    pub(super) fn run(&mut self) -> Result<(), ApiError> {
        let start = first(self.owner.object);
        let wanted = start..start + replicas(self.owner.object);
        for ordinal in wanted.clone() {
            if self.bring_up(ordinal)? == Next::Stop {
                return Ok(());
            }
        }
        let surplus: Vec<i64> = self.pods.keys().rev().filter(|o| !wanted.contains(o)).copied().collect();
        let unhealthy = self.first_unhealthy(&wanted);
        for ordinal in surplus {
            if self.take_down(ordinal, unhealthy)? == Next::Stop {
                return Ok(());
            }
        }
        if is_rolling(self.owner.object) { self.roll(&wanted) } else { Ok(()) }
    }

    /// The unhealthy pod that a scale-down may remove although it is not ready.
    fn first_unhealthy(&self, wanted: &std::ops::Range<i64>) -> Option<i64> {
        let sick = |ordinal: &&i64| self.pods.get(*ordinal).is_some_and(|p| !is_healthy(p));
        let inside = self.pods.keys().filter(|o| wanted.contains(o)).find(sick);
        inside.or_else(|| self.pods.keys().filter(|o| !wanted.contains(o)).find(sick)).copied()
    }

    fn bring_up(&mut self, ordinal: i64) -> Result<Next, ApiError> {
        let blocked = if self.ordered { Next::Stop } else { Next::Go };
        if let Some(pod) = self.pods.get(&ordinal)
            && pods::is_finished(pod)
        {
            // A pod that ended is replaced under the same name.
            if !is_terminating(pod) {
                self.remove(ordinal)?;
            }
            return Ok(blocked);
        }
        let Some(pod) = self.pods.get(&ordinal) else {
            return self.create(ordinal).map(|()| blocked);
        };
        if is_terminating(pod) {
            return Ok(blocked);
        }
        if pods::phase(pod) == "Pending" {
            claims::ensure(self.client, self.owner, name(pod))?;
        }
        claims::settle_owners(self.client, self.owner, pod, false)?;
        let available = pods::availability(pod, int(self.owner.object, "/spec/minReadySeconds"), self.client.now());
        if !is_healthy(pod) || available != Availability::Available {
            return Ok(blocked);
        }
        Ok(Next::Go)
    }

    fn create(&mut self, ordinal: i64) -> Result<(), ApiError> {
        let set = self.owner.object;
        let revision = if self.keeps_current(ordinal) { self.current } else { self.update };
        let pod = identity::pod(self.owner, ordinal, revision);
        claims::ensure(self.client, self.owner, name(&pod))?;
        let created = self.client.create(&kinds::pods(), namespace(set), &pod)?;
        claims::settle_owners(self.client, self.owner, &created, false)?;
        self.pods.insert(ordinal, created);
        Ok(())
    }

    /// Whether a new pod of this ordinal still gets the current revision during an update.
    fn keeps_current(&self, ordinal: i64) -> bool {
        let set = self.owner.object;
        let start = first(set);
        match set.pointer("/spec/updateStrategy/rollingUpdate/partition").and_then(Value::as_i64) {
            _ if !is_rolling(set) => false,
            Some(partition) if partition > 0 => ordinal < start + partition,
            _ => {
                let current = int(set, "/status/currentReplicas");
                text(set, "/status/currentRevision") == name(self.current) && ordinal < start + current
            }
        }
    }

    fn take_down(&mut self, ordinal: i64, unhealthy: Option<i64>) -> Result<Next, ApiError> {
        let blocked = if self.ordered { Next::Stop } else { Next::Go };
        let Some(pod) = self.pods.get(&ordinal) else { return Ok(Next::Go) };
        if is_terminating(pod) {
            return Ok(blocked);
        }
        if self.ordered && !pods::is_ready(pod) && unhealthy != Some(ordinal) {
            return Ok(Next::Stop);
        }
        claims::settle_owners(self.client, self.owner, pod, true)?;
        self.remove(ordinal)?;
        Ok(blocked)
    }

    /// Replaces the highest outdated pod, when all above it are up to date and healthy.
    fn roll(&mut self, wanted: &std::ops::Range<i64>) -> Result<(), ApiError> {
        let partition = int(self.owner.object, "/spec/updateStrategy/rollingUpdate/partition");
        let lowest = wanted.start + partition;
        for ordinal in wanted.clone().rev().filter(|o| *o >= lowest) {
            let Some(pod) = self.pods.get(&ordinal) else { return Ok(()) };
            if label(pod, REVISION_LABEL) != name(self.update) && !is_terminating(pod) {
                return self.remove(ordinal);
            }
            if !is_healthy(pod) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Deletes a pod and keeps what is left of it in view, so that the status counts it.
    fn remove(&mut self, ordinal: i64) -> Result<(), ApiError> {
        let Some(pod) = self.pods.remove(&ordinal) else { return Ok(()) };
        delete(self.client, &kinds::pods(), &pod, None)?;
        if let Some(left) = get(self.client, &kinds::pods(), &key(&pod))? {
            self.pods.insert(ordinal, left);
        }
        Ok(())
    }
}

fn is_healthy(pod: &Value) -> bool {
    pods::phase(pod) == "Running" && pods::is_ready(pod) && !is_terminating(pod)
}
