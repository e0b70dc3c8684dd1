//! Follows every resource of a cluster.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use futures::StreamExt as _;
use kube::{
    Client, Resource as _,
    api::{Api, DynamicObject, ListParams, Request},
    discovery::{ApiResource, Discovery, verbs},
    runtime::watcher::{self, Event},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::task::JoinSet;

use super::record::{Snapshot, SnapshotLabel};
use crate::{
    cluster::tester::{set_type, typed},
    event::{Actor, Change, ChangeKind, Phase},
    history::Recorder,
    object::{ObjectKey, metadata},
    redact::redact,
};

/// Why the cluster could not be observed.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    #[error("could not read the cluster's discovery")]
    Discovery(#[source] Box<kube::Error>),
    #[error("could not list {resource}")]
    List {
        resource: String,
        #[source]
        source: Box<kube::Error>,
    },
}

/// uid and resourceVersion of what was there before the scenario began.
type Baseline = BTreeMap<String, String>;

#[derive(Debug, Default)]
struct Shared {
    /// The newest state of each object, as the watches saw it; unredacted, for predicates.
    cache: Mutex<BTreeMap<ObjectKey, Value>>,
    /// Watches that broke beyond repair, in words.
    broken: Mutex<Vec<String>>,
}

/// Follows a cluster until it is stopped.
pub struct Observer {
    client: Client,
    resources: Vec<ApiResource>,
    baseline: Arc<Baseline>,
    shared: Arc<Shared>,
    recorder: Recorder,
    tasks: JoinSet<()>,
}

impl Observer {
    /// Notes what a fresh cluster holds, so that it can be told from what the scenario makes.
    ///
    /// # Errors
    /// When discovery or a list fails.
    pub async fn baseline(client: &Client) -> Result<BTreeMap<String, String>, ObserveError> {
        let mut baseline = Baseline::new();
        for resource in watchable(client).await? {
            let states: Listed<State> = parse(&list(client, &resource).await?, &resource)?;
            baseline
                .extend(states.items.into_iter().map(|state| (state.metadata.uid, state.metadata.resource_version)));
        }
        Ok(baseline)
    }

    /// Starts to follow every resource that is served now; install CRDs first.
    ///
    /// # Errors
    /// When discovery fails.
    pub async fn start(client: Client, baseline: Baseline, recorder: Recorder) -> Result<Self, ObserveError> {
        let resources = watchable(&client).await?;
        let mut observer = Self {
            client,
            resources,
            baseline: Arc::new(baseline),
            shared: Arc::default(),
            recorder,
            tasks: JoinSet::new(),
        };
        for resource in observer.resources.clone() {
            let follow = Follow {
                client: observer.client.clone(),
                resource,
                baseline: Arc::clone(&observer.baseline),
                shared: Arc::clone(&observer.shared),
                recorder: observer.recorder.clone(),
            };
            observer.tasks.spawn(follow.run());
        }
        Ok(observer)
    }

    /// The objects of the cache that `wanted` picks.
    pub fn select(&self, wanted: impl Fn(&ObjectKey, &Value) -> bool) -> Vec<Value> {
        let cache = self.shared.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.iter().filter(|(key, object)| wanted(key, object)).map(|(_, object)| object.clone()).collect()
    }

    /// Watches that ended for good, in words; anything here makes the run inconclusive.
    #[must_use]
    pub fn broken(&self) -> Vec<String> {
        self.shared.broken.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Lists everything now, redacted, without what was there before and is unchanged.
    ///
    /// # Errors
    /// When a list fails.
    pub async fn snapshot(&self, label: SnapshotLabel) -> Result<Snapshot, ObserveError> {
        let at_ms = self.recorder.clock.now_ms();
        let mut objects = BTreeMap::new();
        for resource in &self.resources {
            let text = list(&self.client, resource).await?;
            // Most lists hold nothing but what was there before; to see that is a fraction of reading them.
            let states: Listed<State> = parse(&text, resource)?;
            if states.items.iter().all(|state| is_known(&self.baseline, &state.metadata)) {
                continue;
            }
            let all: Listed<Value> = parse(&text, resource)?;
            for mut object in all.items {
                if is_untouched(&self.baseline, &object) {
                    continue;
                }
                set_type(&mut object, (&resource.api_version, &resource.kind));
                redact(&mut object);
                if let Some(key) = ObjectKey::of(&object) {
                    objects.insert(key, object);
                }
            }
        }
        Ok(Snapshot { label, at_ms, objects: objects.into_values().collect() })
    }

    /// Ends every watch.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
    }
}

/// One resource being followed.
struct Follow {
    client: Client,
    resource: ApiResource,
    baseline: Arc<Baseline>,
    shared: Arc<Shared>,
    recorder: Recorder,
}

impl Follow {
    async fn run(self) {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &self.resource);
        let mut events = watcher::watcher(api, watcher::Config::default()).boxed();
        let mut initial = false;
        let mut failures = 0_u32;
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => initial = true,
                Ok(Event::InitDone) => initial = false,
                Ok(Event::InitApply(object)) => self.seen(&object, initial),
                Ok(Event::Apply(object)) => {
                    failures = 0;
                    self.seen(&object, initial);
                }
                Ok(Event::Delete(object)) => self.gone(&object),
                Err(error) => {
                    // The watcher itself tries again; only a watch that never comes back matters.
                    failures += 1;
                    if failures > 10 {
                        let text = format!("the watch of {} broke: {error}", self.resource.plural);
                        self.shared.broken.lock().unwrap_or_else(PoisonError::into_inner).push(text);
                        return;
                    }
                }
            }
        }
    }

    fn seen(&self, object: &DynamicObject, initial: bool) {
        let value = typed(object, (&self.resource.api_version, &self.resource.kind));
        let Some(key) = ObjectKey::of(&value) else { return };
        if is_untouched(&self.baseline, &value) {
            return;
        }
        let known = {
            let mut cache = self.shared.cache.lock().unwrap_or_else(PoisonError::into_inner);
            cache.insert(key.clone(), value.clone())
        };
        let same =
            known.as_ref().is_some_and(|old| metadata(old, "resourceVersion") == metadata(&value, "resourceVersion"));
        if initial && same {
            return;
        }
        let kind = match &known {
            Some(old) if metadata(old, "uid") == metadata(&value, "uid") => ChangeKind::Modified,
            _ => ChangeKind::Added,
        };
        self.record(kind, key, value);
    }

    fn gone(&self, object: &DynamicObject) {
        let value = typed(object, (&self.resource.api_version, &self.resource.kind));
        let Some(key) = ObjectKey::of(&value) else { return };
        self.shared.cache.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
        self.record(ChangeKind::Deleted, key, value);
    }

    fn record(&self, kind: ChangeKind, key: ObjectKey, mut object: Value) {
        redact(&mut object);
        let change = Change {
            at_ms: self.recorder.clock.now_ms(),
            phase: Phase::Install,
            kind,
            key,
            uid: metadata(&object, "uid").to_owned(),
            resource_version: metadata(&object, "resourceVersion").to_owned(),
            generation: object.pointer("/metadata/generation").and_then(Value::as_i64),
            actor: last_writer(&object),
            object,
        };
        self.recorder.change(change);
    }
}

/// Who wrote last, by the newest entry of managedFields; the operator's own names are not known here.
fn last_writer(object: &Value) -> Actor {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    let newest = entries
        .into_iter()
        .flatten()
        .max_by_key(|entry| entry.get("time").and_then(Value::as_str).unwrap_or_default().to_owned());
    let manager = newest.and_then(|entry| entry.get("manager")).and_then(Value::as_str).unwrap_or_default();
    match manager {
        "" => Actor::Foreign("unknown".into()),
        "kubelet" => Actor::Kubelet,
        name if name.starts_with("reconverge-") => Actor::Tester,
        name if name.ends_with("-controller") || name == "kube-controller-manager" => {
            Actor::Controller(name.to_owned())
        }
        name => Actor::Foreign(name.to_owned()),
    }
}

/// What of a list's answer is read.
#[derive(Deserialize)]
struct Listed<T> {
    items: Vec<T>,
}

/// An object as far as it tells whether it has changed.
#[derive(Deserialize)]
struct State {
    metadata: StateMetadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StateMetadata {
    uid: String,
    resource_version: String,
}

fn is_known(baseline: &Baseline, state: &StateMetadata) -> bool {
    baseline.get(&state.uid).is_some_and(|version| *version == state.resource_version)
}

fn is_untouched(baseline: &Baseline, object: &Value) -> bool {
    baseline.get(metadata(object, "uid")).is_some_and(|version| version == metadata(object, "resourceVersion"))
}

/// Resources that never say anything about convergence, and are the busiest.
fn is_noise(resource: &ApiResource) -> bool {
    matches!(
        (resource.group.as_str(), resource.plural.as_str()),
        ("" | "events.k8s.io", "events") | ("coordination.k8s.io", "leases") | ("", "componentstatuses")
    )
}

async fn watchable(client: &Client) -> Result<Vec<ApiResource>, ObserveError> {
    let discovery = Discovery::new(client.clone())
        .run_aggregated()
        .await
        .map_err(|error| ObserveError::Discovery(Box::new(error)))?;
    let mut found = Vec::new();
    for group in discovery.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            if capabilities.supports_operation(verbs::LIST)
                && capabilities.supports_operation(verbs::WATCH)
                && !is_noise(&resource)
            {
                found.push(resource);
            }
        }
    }
    found.sort_by(|a, b| (&a.group, &a.plural).cmp(&(&b.group, &b.plural)));
    Ok(found)
}

/// The answer to a list of everything, as text.
async fn list(client: &Client, resource: &ApiResource) -> Result<String, ObserveError> {
    let failed = |error| ObserveError::List { resource: resource.plural.clone(), source: Box::new(error) };
    let request = Request::new(DynamicObject::url_path(resource, None))
        .list(&ListParams::default())
        .map_err(|error| failed(kube::Error::BuildRequest(error)))?;
    client.request_text(request).await.map_err(failed)
}

fn parse<T: DeserializeOwned>(text: &str, resource: &ApiResource) -> Result<T, ObserveError> {
    serde_json::from_str(text).map_err(|error| ObserveError::List {
        resource: resource.plural.clone(),
        source: Box::new(kube::Error::SerdeError(error)),
    })
}
