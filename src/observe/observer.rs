//! Follows every resource of a cluster.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use futures::{StreamExt as _, TryStreamExt as _, stream::BoxStream};
use kube::{
    Client, Resource as _,
    api::{Api, DynamicObject, ListParams, Request},
    discovery::{ApiResource, Discovery, verbs},
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event},
    },
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::task::JoinSet;

use super::{
    own::Own,
    record::{Snapshot, SnapshotLabel},
};
use crate::{
    cluster::tester::{set_type, typed},
    event::{Actor, Change, ChangeKind, Phase},
    history::Recorder,
    object::{ObjectKey, metadata, owner_references},
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

/// Lists that are asked for at a time.
const AT_A_TIME: usize = 6;

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
    own: Option<Arc<Own>>,
    tasks: JoinSet<()>,
}

impl Observer {
    /// Notes what a fresh cluster holds, so that it can be told from what the scenario makes.
    ///
    /// # Errors
    /// When discovery or a list fails.
    pub async fn baseline(client: &Client) -> Result<BTreeMap<String, String>, ObserveError> {
        let mut baseline = Baseline::new();
        let resources = watchable(client).await?;
        let mut lists = list_all(client, &resources);
        while let Some((resource, text)) = lists.try_next().await? {
            let states: Listed<State> = parse(&text, resource)?;
            baseline
                .extend(states.items.into_iter().map(|state| (state.metadata.uid, state.metadata.resource_version)));
        }
        Ok(baseline)
    }

    /// Starts to follow every resource that is served now; install CRDs first. What is `own` to the operator as a
    /// program in the cluster is left out.
    ///
    /// # Errors
    /// When discovery fails.
    pub async fn start(
        client: Client,
        baseline: Baseline,
        own: Option<Own>,
        recorder: Recorder,
    ) -> Result<Self, ObserveError> {
        let resources = watchable(&client).await?;
        let mut observer = Self {
            client,
            resources,
            baseline: Arc::new(baseline),
            shared: Arc::default(),
            recorder,
            own: own.map(Arc::new),
            tasks: JoinSet::new(),
        };
        for resource in observer.resources.clone() {
            let follow = Follow {
                client: observer.client.clone(),
                resource,
                baseline: Arc::clone(&observer.baseline),
                shared: Arc::clone(&observer.shared),
                recorder: observer.recorder.clone(),
                own: observer.own.clone(),
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

    /// An object whose owners are all gone: a garbage collector will take it, now or after its next look at the kinds.
    #[must_use]
    pub fn uncollected(&self) -> Option<ObjectKey> {
        let cache = self.shared.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let mut uids: Option<BTreeSet<&str>> = None;
        let found = cache.iter().find(|(_, object)| {
            let owners = owner_references(object);
            if owners.is_empty() || !metadata(object, "deletionTimestamp").is_empty() {
                return false;
            }
            let uids = uids.get_or_insert_with(|| cache.values().map(|object| metadata(object, "uid")).collect());
            let owner_uids = owners.iter().filter_map(|owner| owner.get("uid").and_then(Value::as_str));
            owner_uids.into_iter().all(|uid| !uids.contains(uid) && !self.baseline.contains_key(uid))
        });
        found.map(|(key, _)| key.clone())
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
        let mut lists = list_all(&self.client, &self.resources);
        while let Some((resource, text)) = lists.try_next().await? {
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
                if self.own.as_ref().is_some_and(|own| own.holds(&object)) {
                    continue;
                }
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
    own: Option<Arc<Own>>,
}

impl Follow {
    fn is_own(&self, object: &Value) -> bool {
        self.own.as_ref().is_some_and(|own| own.holds(object))
    }

    async fn run(self) {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &self.resource);
        let mut events = watcher::watcher(api, watcher::Config::default()).default_backoff().boxed();
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
        if is_untouched(&self.baseline, &value) || self.is_own(&value) {
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
        if self.is_own(&value) {
            return;
        }
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

type Lists<'a> = BoxStream<'a, Result<(&'a ApiResource, String), ObserveError>>;

/// The list of every resource as text, a few at a time and in their order.
fn list_all<'a>(client: &'a Client, resources: &'a [ApiResource]) -> Lists<'a> {
    let lists = resources.iter().map(move |resource| async move { Ok((resource, list(client, resource).await?)) });
    futures::stream::iter(lists).buffered(AT_A_TIME).boxed()
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::{
        clock::{RunClock, pause},
        cluster::{
            Cluster as _,
            embedded::Embedded,
            tester::{Tester, USER_MANAGER},
        },
        scenario::format::ObjectRef,
        seed::Seed,
    };

    struct Bench {
        cluster: Embedded,
        tester: Tester,
        recorder: Recorder,
        observer: Observer,
    }

    /// A cluster with one ConfigMap, `before`, that is there before the observer.
    async fn start() -> Bench {
        let cluster = Embedded::start(Seed(1)).await.unwrap();
        let tester = Tester::new(cluster.client(), "default");
        tester.apply(&map("before", "1"), USER_MANAGER).await.unwrap();
        let baseline = Observer::baseline(tester.client()).await.unwrap();
        let recorder = Recorder::new(RunClock::start(), None).unwrap();
        let observer = Observer::start(cluster.client(), baseline, None, recorder.clone()).await.unwrap();
        Bench { cluster, tester, recorder, observer }
    }

    impl Bench {
        fn changes(&self, name: &str) -> Vec<Change> {
            self.recorder.read(|history| history.changes.iter().filter(|c| c.key.name == name).cloned().collect())
        }

        async fn sees(&self, name: &str, changes: usize) -> Vec<Change> {
            let deadline = self.recorder.clock.deadline(Duration::from_secs(20));
            loop {
                let seen = self.changes(name);
                if seen.len() >= changes {
                    return seen;
                }
                assert!(!deadline.passed(self.recorder.clock), "{name}: {seen:?}");
                pause(Duration::from_millis(5)).await;
            }
        }

        async fn snapshot_of(&self, name: &str) -> Option<Value> {
            let snapshot = self.observer.snapshot(SnapshotLabel::Final).await.unwrap();
            snapshot.objects.into_iter().find(|object| metadata(object, "name") == name)
        }

        async fn end(self) {
            assert_eq!(self.observer.broken(), Vec::<String>::new());
            self.observer.stop().await;
            Box::new(self.cluster).shutdown().await;
        }
    }

    fn map(name: &str, value: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": value}})
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn every_change_is_seen_with_its_kind_and_its_writer() {
        let bench = start().await;
        bench.tester.apply(&map("one", "1"), USER_MANAGER).await.unwrap();
        bench.sees("one", 1).await;
        assert_eq!(bench.observer.select(|key, _| key.name == "one")[0]["data"]["a"], "1");
        bench.tester.apply(&map("one", "2"), "somebody").await.unwrap();
        bench.sees("one", 2).await;
        let target = ObjectRef {
            api_version: "v1".into(),
            kind: "ConfigMap".into(),
            name: Some("one".into()),
            namespace: None,
            selector: None,
        };
        bench.tester.delete(&target, None).await.unwrap();
        let seen = bench.sees("one", 3).await;
        let kinds: Vec<_> = seen.iter().map(|change| change.kind).collect();
        assert_eq!(kinds, [ChangeKind::Added, ChangeKind::Modified, ChangeKind::Deleted]);
        assert_eq!(seen[0].actor, Actor::Tester);
        assert_eq!(bench.observer.select(|key, _| key.name == "one"), Vec::<Value>::new());
        assert_eq!(bench.snapshot_of("one").await, None);
        // The same name again is another object.
        bench.tester.apply(&map("one", "3"), USER_MANAGER).await.unwrap();
        let seen = bench.sees("one", 4).await;
        assert_eq!(seen[3].kind, ChangeKind::Added);
        assert_ne!(seen[3].uid, seen[0].uid);
        bench.end().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_was_there_before_is_left_out_until_it_changes() {
        let bench = start().await;
        bench.tester.apply(&map("after", "1"), USER_MANAGER).await.unwrap();
        bench.sees("after", 1).await;
        assert_eq!(bench.changes("before"), vec![]);
        assert_eq!(bench.snapshot_of("before").await, None);
        assert!(bench.snapshot_of("after").await.is_some());
        bench.tester.apply(&map("before", "2"), USER_MANAGER).await.unwrap();
        bench.sees("before", 1).await;
        assert_eq!(bench.snapshot_of("before").await.unwrap()["data"]["a"], "2");
        bench.end().await;
    }

    /// Without it, a collector that is slow on a new kind would make orphans of what it takes a little later.
    #[tokio::test(flavor = "multi_thread")]
    async fn what_waits_for_the_garbage_collector_is_told() {
        let bench = start().await;
        let observer = &bench.observer;
        let owned = |name: &str, uid: &str| {
            let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "before", "uid": uid});
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name, "uid": name, "namespace": "default", "ownerReferences": [owner]},
            })
        };
        let put = |object: Value| {
            let key = ObjectKey::of(&object).unwrap();
            observer.shared.cache.lock().unwrap().insert(key, object);
        };
        let of_baseline = observer.baseline.keys().next().unwrap().clone();
        put(owned("child", &of_baseline));
        put(owned("grandchild", "child"));
        assert_eq!(observer.uncollected(), None);
        let mut going = owned("going", "gone");
        going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        put(going);
        assert_eq!(observer.uncollected(), None, "it was collected already");
        put(owned("left", "gone"));
        assert_eq!(observer.uncollected().map(|key| key.name), Some("left".into()));
        bench.end().await;
    }

    /// Predicates may look at a Secret's values; what is recorded must not hold them.
    #[tokio::test(flavor = "multi_thread")]
    async fn secrets_are_redacted_in_what_is_recorded() {
        let bench = start().await;
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "login"}, "stringData": {"password": "opensesame"},
        });
        bench.tester.apply(&secret, USER_MANAGER).await.unwrap();
        let seen = bench.sees("login", 1).await;
        // base64 of the password, as the server stores it.
        assert!(!seen[0].object.to_string().contains("b3BlbnNlc2FtZQ=="), "{}", seen[0].object);
        assert!(!bench.snapshot_of("login").await.unwrap().to_string().contains("b3BlbnNlc2FtZQ=="));
        assert_eq!(bench.observer.select(|key, _| key.name == "login")[0]["data"]["password"], "b3BlbnNlc2FtZQ==");
        bench.end().await;
    }

    #[test]
    fn the_newest_manager_is_the_writer() {
        let written = |entries: &[(&str, &str)]| {
            let entries: Vec<Value> =
                entries.iter().map(|(manager, time)| json!({"manager": manager, "time": time})).collect();
            last_writer(&json!({"metadata": {"managedFields": entries}}))
        };
        let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z");
        assert_eq!(written(&[("kubelet", late), ("demo", early)]), Actor::Kubelet);
        assert_eq!(written(&[("kubelet", early), ("demo", late)]), Actor::Foreign("demo".into()));
        assert_eq!(written(&[("job-controller", early)]), Actor::Controller("job-controller".into()));
        assert_eq!(written(&[("reconverge-foreign", early)]), Actor::Tester);
        assert_eq!(written(&[]), Actor::Foreign("unknown".into()));
    }
}
