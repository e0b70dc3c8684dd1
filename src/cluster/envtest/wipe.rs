//! Brings a used control plane back to its baseline, without starting anything again.
//!
//! # Flow
//! compare what etcd holds with the baseline -> undo the difference in one transaction -> wait until the API server's
//! caches have seen it and deleted CRDs are served no more -> compare again, twice, for controllers that were still at
//! work.
//!
//! # Guarantees
//! On success two looks in a row found nothing but the baseline, and every list and watch shows that. What cannot be
//! shown to be clean is an error, and the caller starts a new control plane instead.

use std::{collections::BTreeMap, time::Duration};

use kube::{Resource as _, api::DynamicObject, discovery::Discovery};

use super::{
    EnvtestError,
    baseline::{self, Difference},
    etcd::Part,
    plane::{Plane, get},
};
use crate::clock::{Deadline, RunClock, pause};

/// A wipe that takes longer is slower than a new control plane.
const WITHIN: Duration = Duration::from_secs(10);
/// Between the last two looks; controllers that were at work write within it.
const BETWEEN: Duration = Duration::from_millis(40);
/// How often a wait looks again.
const LOOK: Duration = Duration::from_millis(5);

/// See the module.
pub(super) async fn wipe(plane: &mut Plane) -> Result<(), EnvtestError> {
    let clock = RunClock::start();
    let deadline = clock.deadline(WITHIN);
    let mut clean_looks = 0;
    let mut rounds = 0;
    while clean_looks < 2 {
        plane.is_alive()?;
        let now = plane.etcd.read(Part::Keys).await?;
        let difference = plane.baseline.difference(&now);
        if difference.is_empty() {
            clean_looks += 1;
            if clean_looks < 2 {
                pause(BETWEEN).await;
            }
            continue;
        }
        if deadline.passed(clock) {
            return Err(not_clean(&difference));
        }
        clean_looks = 0;
        rounds += 1;
        tracing::debug!(rounds, keys = difference.in_words(), "undoing what a run left");
        let revision = plane.etcd.change(&difference.delete, &difference.restore).await?;
        plane.baseline.restored(&difference, revision);
        await_caches(plane, &difference, revision).await?;
        await_definitions(plane, &difference, clock, deadline).await?;
    }
    tracing::debug!(rounds, ms = clock.now_ms(), "a control plane is wiped");
    Ok(())
}

fn not_clean(difference: &Difference) -> EnvtestError {
    EnvtestError::NotClean { within_s: WITHIN.as_secs(), last: difference.in_words() }
}

/// A list that must not be older than the wipe is answered when the cache has come so far.
async fn await_caches(plane: &Plane, difference: &Difference, revision: i64) -> Result<(), EnvtestError> {
    let folders = baseline::folders(difference);
    let lists = folders.iter().filter_map(|folder| plane.paths.get(folder)).map(|path| async move {
        let path = format!("{path}?resourceVersion={revision}&resourceVersionMatch=NotOlderThan");
        get(&plane.client, &path).await.map_err(EnvtestError::request("wait for the caches of the API server"))
    });
    futures::future::try_join_all(lists).await.map(|_| ())
}

/// An API group whose CRDs are gone must not be served any more, or the next run's CRD would meet the old handler.
async fn await_definitions(
    plane: &Plane,
    difference: &Difference,
    clock: RunClock,
    deadline: Deadline,
) -> Result<(), EnvtestError> {
    for group in baseline::groups_of_definitions(difference) {
        let path = format!("/apis/{group}");
        loop {
            match get(&plane.client, &path).await {
                Err(kube::Error::Api(status)) if status.code == 404 => break,
                _ if deadline.passed(clock) => return Err(not_clean(difference)),
                _ => pause(LOOK).await,
            }
        }
    }
    Ok(())
}

/// Where the lists of the API server's own resources are, by the folder of etcd in which it stores them.
pub(super) async fn paths(client: &kube::Client) -> Result<BTreeMap<String, String>, EnvtestError> {
    let discovery = Discovery::new(client.clone()).run_aggregated().await;
    let discovery = discovery.map_err(EnvtestError::request("ask for the resources of the API server"))?;
    let mut paths = BTreeMap::new();
    for group in discovery.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            if capabilities.supports_operation(kube::discovery::verbs::LIST) && resource.plural != "events" {
                paths.insert(folder(&resource.group, &resource.plural), DynamicObject::url_path(&resource, None));
            }
        }
    }
    Ok(paths)
}

/// Where objects of a resource are stored: a few have the names of long ago.
fn folder(group: &str, plural: &str) -> String {
    match (group, plural) {
        ("", "nodes") => "minions".into(),
        ("", "services") => "services/specs".into(),
        ("", "endpoints") => "services/endpoints".into(),
        ("", "replicationcontrollers") => "controllers".into(),
        ("networking.k8s.io", "ingresses") => "ingress".into(),
        ("apiextensions.k8s.io" | "apiregistration.k8s.io", _) => format!("{group}/{plural}"),
        _ => plural.to_owned(),
    }
}
