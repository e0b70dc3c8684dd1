//! Brings a used cluster back to what it held before: through its API alone.
//!
//! # Flow
//! [`Baseline::take`] when the cluster is handed out first; [`wipe`] before it is handed out again: list everything,
//! delete what is not of the baseline, look again, until nothing is left of it.
//!
//! # Guarantees
//! - Webhooks and admission policies go first, so that those of a dead operator refuse nothing; CRDs go after their
//!   objects; a pod is gone when its kubelet says so, not when its deletion was asked for.
//! - A finalizer that nobody is left to remove is removed, and told.
//! - A wait that takes too long ends with what is still there.
//!
//! # Deliberately not done
//! Objects of the baseline that were modified are not put back, and what was deleted of it is not made again: a
//! scenario that edits the cluster's own objects needs a cluster of its own. Nodes, events and what the cluster makes
//! by itself for other objects are left alone.

mod order;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures::{StreamExt as _, TryStreamExt as _};
use kube::{
    Api, Client,
    api::{
        ApiResource, DeleteParams, DynamicObject, ListParams, ObjectList, ObjectMeta, PartialObjectMeta, Patch,
        PatchParams,
    },
    discovery::{Discovery, verbs},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::ClusterError;
use crate::clock::{RunClock, pause};
use order::{due_rank, is_stuck, is_undeleted, rank};

/// Pods end within a second, but namespaces and volumes have controllers with rate limits.
const WITHIN: Duration = Duration::from_secs(180);
/// Between two looks, so that the server is not kept busy with lists.
const LOOK: Duration = Duration::from_millis(150);
/// Requests at a time.
const AT_A_TIME: usize = 8;
/// A workload that is thrown away needs no time to end in order; zero would mean "forget it while it still runs".
const GRACE_SECONDS: u32 = 1;

/// What a cluster held before anybody used it, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Baseline(BTreeSet<Identity>);

/// An object by kind and name; its API version does not matter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Identity {
    pub group: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

/// What a wipe has done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wiped {
    pub removed: usize,
    /// Objects that only went when their finalizers were taken from them.
    pub stuck: Vec<String>,
}

/// An object as a list of metadata shows it.
#[derive(Debug, Clone)]
struct Found {
    identity: Identity,
    resource: ApiResource,
    metadata: ObjectMeta,
}

impl Baseline {
    /// What is there now.
    ///
    /// # Errors
    /// When discovery or a list fails.
    pub async fn take(client: &Client) -> Result<Self, ClusterError> {
        let Listing { objects, unlisted, .. } = list_all(client).await?;
        match unlisted.into_iter().next() {
            Some((doing, source)) => Err(ClusterError::Request { doing, source: Box::new(source) }),
            None => Ok(Self(objects.into_iter().map(|found| found.identity).collect())),
        }
    }

    /// [`Baseline::take`] once nothing has come or gone for `still`: a cluster that has just started still fills.
    ///
    /// # Errors
    /// Also when that takes longer than `within`.
    pub async fn take_when_still(client: &Client, still: Duration, within: Duration) -> Result<Self, ClusterError> {
        let clock = RunClock::start();
        let (deadline, still) = (clock.deadline(within), millis(still));
        let (mut last, mut since) = (Self::take(client).await?, clock.now_ms());
        while clock.now_ms() < since + still {
            pause(LOOK).await;
            let now = Self::take(client).await?;
            if now != last {
                if deadline.passed(clock) {
                    let change = now.0.symmetric_difference(&last.0).next().map(Identity::to_string);
                    let last = change.unwrap_or_default();
                    let doing = "the fresh cluster's own objects being complete".into();
                    return Err(ClusterError::Timeout { doing, within_ms: millis(within), last });
                }
                (last, since) = (now, clock.now_ms());
            }
        }
        Ok(last)
    }
}

/// Deletes everything that is not of the baseline, and waits until it is gone.
///
/// # Errors
/// When the cluster does not answer, or something is still there when the time is up.
pub async fn wipe(client: &Client, baseline: &Baseline) -> Result<Wiped, ClusterError> {
    let mut work = Work { client, clock: RunClock::start(), seen: BTreeMap::new(), done: Wiped::default() };
    let deadline = work.clock.deadline(WITHIN);
    loop {
        let listing = list_all(client).await?;
        let left = extras(&listing.objects, baseline);
        // A server that still knows a definition which is gone would give the next one of this name to its old handler.
        let is_served = work.seen.keys().any(|gone| is_definition_of(gone, &listing.resources));
        if left.is_empty() && listing.unlisted.is_empty() && !is_served {
            work.done.removed = work.seen.len();
            return Ok(work.done);
        }
        if deadline.passed(work.clock) {
            let doing = "emptying the cluster".into();
            return Err(ClusterError::Timeout { doing, within_ms: millis(WITHIN), last: in_words(&left, &listing) });
        }
        tracing::debug!("to be removed: {}", in_words(&left, &listing));
        work.advance(&left).await?;
        pause(LOOK).await;
    }
}

/// A wipe that is going on.
struct Work<'a> {
    client: &'a Client,
    clock: RunClock,
    /// When each object was first seen to be in the way.
    seen: BTreeMap<Identity, u64>,
    done: Wiped,
}

impl Work<'_> {
    /// Deletes what may go now, and frees what is stuck.
    async fn advance(&mut self, left: &[&Found]) -> Result<(), ClusterError> {
        let now = self.clock.now_ms();
        for found in left {
            self.seen.entry(found.identity.clone()).or_insert(now);
        }
        let client = self.client;
        let next = due_rank(left);
        let mut deletions = Vec::new();
        for &found in left {
            if Some(rank(found)) == next && is_undeleted(found) {
                deletions.push(delete(client.clone(), found.clone()));
            }
        }
        futures::stream::iter(deletions).buffer_unordered(AT_A_TIME).try_collect::<Vec<()>>().await?;
        for &found in left {
            let for_ms = now.saturating_sub(self.seen.get(&found.identity).copied().unwrap_or(now));
            if !is_stuck(found, for_ms) {
                continue;
            }
            release(client, found).await?;
            let name = found.identity.to_string();
            if !self.done.stuck.contains(&name) {
                tracing::info!("removed the finalizers of {name}: nobody is left to do it");
                self.done.stuck.push(name);
            }
        }
        Ok(())
    }
}

/// Whether a CRD defines one of the resources.
fn is_definition_of(identity: &Identity, resources: &[ApiResource]) -> bool {
    identity.kind == "CustomResourceDefinition"
        && resources.iter().any(|resource| identity.name == format!("{}.{}", resource.plural, resource.group))
}

/// What is not of the baseline and does not belong to something of the baseline, such as a pod of its Deployment.
fn extras<'a>(all: &'a [Found], baseline: &Baseline) -> Vec<&'a Found> {
    let by_uid: BTreeMap<&str, &Found> =
        all.iter().filter_map(|found| Some((found.metadata.uid.as_deref()?, found))).collect();
    let belongs = |found: &Found| {
        let mut at = found;
        // Owners of owners: no chain in Kubernetes is longer, and a circle ends.
        for _ in 0..8 {
            if baseline.0.contains(&at.identity) || is_of_the_cluster(at, baseline) {
                return true;
            }
            let owners = at.metadata.owner_references.as_deref().unwrap_or_default();
            let Some(owner) = owners.iter().find_map(|owner| by_uid.get(owner.uid.as_str())) else { return false };
            at = owner;
        }
        false
    };
    all.iter().filter(|found| !belongs(found)).collect()
}

/// What every cluster makes by itself, at any time.
fn is_of_the_cluster(found: &Found, baseline: &Baseline) -> bool {
    let Identity { group, kind, namespace, name } = &found.identity;
    let labelled = |label: &str| found.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(label));
    match (group.as_str(), kind.as_str()) {
        ("", "ConfigMap") => name == "kube-root-ca.crt",
        ("", "ServiceAccount") => name == "default",
        ("", "Endpoints") => {
            let service = Identity { kind: "Service".into(), ..found.identity.clone() };
            baseline.0.contains(&service)
        }
        ("apiregistration.k8s.io", _) => labelled("kube-aggregator.kubernetes.io/automanaged"),
        ("coordination.k8s.io", _) => namespace == "kube-node-lease" || namespace == "kube-system",
        ("", "Secret") => namespace == "kube-system" && name.ends_with(".node-password.k3s"),
        _ => false,
    }
}

/// Kinds that are not deleted: either nobody may, or the cluster would make them again at once.
fn is_left_alone(resource: &ApiResource) -> bool {
    matches!(
        (resource.group.as_str(), resource.plural.as_str()),
        ("" | "events.k8s.io", "events")
            | ("", "nodes" | "componentstatuses")
            | ("storage.k8s.io", "csinodes" | "csistoragecapacities")
            | ("networking.k8s.io", "ipaddresses" | "servicecidrs")
            | ("k3s.cattle.io" | "helm.cattle.io", _)
    )
}

async fn delete(client: Client, found: Found) -> Result<(), ClusterError> {
    let mut params = DeleteParams::background();
    if found.identity.kind == "Pod" {
        params = params.grace_period(GRACE_SECONDS);
    }
    let done = found.api(&client).delete(&found.identity.name, &params).await;
    settled(done.map(|_| ()), || format!("delete {}", found.identity))
}

async fn release(client: &Client, found: &Found) -> Result<(), ClusterError> {
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let done = found.api(client).patch_metadata(&found.identity.name, &PatchParams::default(), &patch).await;
    settled(done.map(|_| ()), || format!("remove the finalizers of {}", found.identity))
}

/// Gone already, changed meanwhile or not served any more: the next look tells.
fn settled(done: Result<(), kube::Error>, doing: impl FnOnce() -> String) -> Result<(), ClusterError> {
    match done {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 405 | 409 | 422 | 429 | 500 | 503) => {
            tracing::debug!("{}: {}", doing(), status.message);
            Ok(())
        }
        Err(error) => Err(ClusterError::Request { doing: doing(), source: Box::new(error) }),
        Ok(()) => Ok(()),
    }
}

impl Found {
    fn api(&self, client: &Client) -> Api<DynamicObject> {
        if self.identity.namespace.is_empty() {
            Api::all_with(client.clone(), &self.resource)
        } else {
            Api::namespaced_with(client.clone(), &self.identity.namespace, &self.resource)
        }
    }
}

/// All objects, and the lists that could not be had for now.
struct Listing {
    resources: Vec<ApiResource>,
    objects: Vec<Found>,
    unlisted: Vec<(String, kube::Error)>,
}

async fn list_all(client: &Client) -> Result<Listing, ClusterError> {
    let failed =
        |source| ClusterError::Request { doing: "read the cluster's discovery".into(), source: Box::new(source) };
    let discovery = Discovery::new(client.clone()).run_aggregated().await.map_err(failed)?;
    let resources: Vec<ApiResource> = discovery
        .groups()
        .flat_map(kube::discovery::ApiGroup::recommended_resources)
        .filter(|(resource, capabilities)| {
            capabilities.supports_operation(verbs::LIST)
                && capabilities.supports_operation(verbs::DELETE)
                && !is_left_alone(resource)
        })
        .map(|(resource, _)| resource)
        .collect();
    let lists: Vec<_> = resources.iter().map(|resource| list(client.clone(), resource.clone())).collect();
    let mut listing = Listing { resources, objects: Vec::new(), unlisted: Vec::new() };
    let mut lists = futures::stream::iter(lists).buffer_unordered(AT_A_TIME);
    while let Some((list, resource)) = lists.next().await {
        match list {
            Ok(list) => listing.objects.extend(list.items.into_iter().map(|item| Found {
                identity: Identity {
                    group: resource.group.clone(),
                    kind: resource.kind.clone(),
                    namespace: item.metadata.namespace.clone().unwrap_or_default(),
                    name: item.metadata.name.clone().unwrap_or_default(),
                },
                resource: resource.clone(),
                metadata: item.metadata,
            })),
            // Its CRD went between discovery and list, or some resources have no list.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 405) => {}
            Err(error @ kube::Error::Api(_)) => listing.unlisted.push((format!("list {}", resource.plural), error)),
            Err(error) => {
                let doing = format!("list {}", resource.plural);
                return Err(ClusterError::Request { doing, source: Box::new(error) });
            }
        }
    }
    Ok(listing)
}

type List = ObjectList<PartialObjectMeta<DynamicObject>>;

async fn list(client: Client, resource: ApiResource) -> (Result<List, kube::Error>, ApiResource) {
    let api: Api<DynamicObject> = Api::all_with(client, &resource);
    (api.list_metadata(&ListParams::default()).await, resource)
}

fn in_words(left: &[&Found], listing: &Listing) -> String {
    const MOST: usize = 8;
    let mut words: Vec<String> = left.iter().take(MOST).map(|found| describe(found)).collect();
    if left.len() > MOST {
        words.push(format!("and {} more", left.len() - MOST));
    }
    if words.is_empty() && listing.unlisted.is_empty() {
        words.push("resources of CRDs that are gone are still served".into());
    }
    words.extend(listing.unlisted.iter().map(|(doing, error)| format!("could not {doing}: {error}")));
    words.join(", ")
}

fn describe(found: &Found) -> String {
    let deleted = if found.metadata.deletion_timestamp.is_some() { " (being deleted)" } else { "" };
    match found.metadata.finalizers.as_deref().unwrap_or_default() {
        [] => format!("{}{deleted}", found.identity),
        finalizers => format!("{}{deleted} with finalizers {}", found.identity, finalizers.join(", ")),
    }
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "{} {}", self.kind, self.name),
            namespace => write!(f, "{} {namespace}/{}", self.kind, self.name),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
