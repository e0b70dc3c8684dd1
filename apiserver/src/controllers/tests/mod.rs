//! The controllers together, over an in-memory API.
//!
//! Every test ends in [`Cluster::settle`], which checks that a restart of all controllers at rest writes nothing: this
//! fails whenever a controller writes the same thing twice or depends on memory that a restart loses.

mod fake;
mod running;
mod real;
mod workloads;
mod batch;
mod deletion;
mod storage;
mod network;
mod pod_life;

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};

use self::fake::{Fake, FakeClock};
use super::{
    Client,
    driver::{ClientFactory, Driver, step_all},
    kubelet::Timing,
    object::{name, text},
    pods, standard,
};
use crate::resource::Gvr;

/// More steps than any test needs: beyond, something loops.
const STEPS_MAX: usize = 3_000;
/// Waits longer than this (deadlines) do not keep a cluster from being at rest.
const HORIZON: Duration = Duration::from_secs(60);

struct Cluster {
    api: Arc<Fake>,
    clock: Arc<FakeClock>,
    driver: Driver,
}

impl Cluster {
    /// A cluster with a namespace `default`, at rest.
    fn start() -> Self {
        let clock = Arc::new(FakeClock::default());
        let api = Arc::new(Fake::new(Arc::clone(&clock)));
        let driver = Self::driver(&api, &clock);
        let mut cluster = Self { api, clock, driver };
        cluster.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}));
        cluster.settle();
        cluster
    }

    fn driver(api: &Arc<Fake>, clock: &Arc<FakeClock>) -> Driver {
        let mut driver = Driver::new(&factory(api), standard("PEM", Timing::default()), Arc::clone(clock) as _);
        driver.start();
        driver
    }

    fn create(&self, object: Value) -> Value {
        let gvr = self.api.gvr_of(&object);
        let namespace = text(&object, "/metadata/namespace").to_owned();
        self.api.create(&gvr, &namespace, &object).unwrap()
    }

    fn get(&self, gvr: &Gvr, name: &str) -> Option<Value> {
        let namespace = if self.api.is_namespaced(gvr) { "default" } else { "" };
        self.api.get(gvr, namespace, name).ok()
    }

    fn list(&self, gvr: &Gvr) -> Vec<Value> {
        self.api.list(gvr, None).unwrap()
    }

    fn names(&self, gvr: &Gvr) -> Vec<String> {
        self.list(gvr).iter().map(|o| name(o).to_owned()).collect()
    }

    fn patch(&self, gvr: &Gvr, name: &str, patch: Value) {
        self.api.patch(gvr, "", "default", name, &patch).unwrap();
    }

    fn delete(&self, gvr: &Gvr, name: &str, options: Value) {
        let namespace = if self.api.is_namespaced(gvr) { "default" } else { "" };
        self.api.delete(gvr, namespace, name, &options).unwrap();
    }

    /// Runs steps that are due now; `watch` sees the cluster after each.
    fn run_now(&mut self, mut watch: impl FnMut(&Fake)) -> usize {
        let api = Arc::clone(&self.api);
        for steps in 0..STEPS_MAX {
            if step_all(&mut self.driver, || api.drain(), 1) == 0 {
                return steps;
            }
            watch(&api);
        }
        panic!("no rest after {STEPS_MAX} steps; last writes: {:#?}", self.api.last_writes());
    }

    /// Runs until nothing is due within [`HORIZON`], moving the clock.
    fn run_to_rest(&mut self, mut watch: impl FnMut(&Fake)) {
        let mut steps = 0;
        while steps < STEPS_MAX {
            steps += 1 + self.run_now(&mut watch);
            match self.driver.next_due() {
                Some(due) if due <= self.clock.get() + HORIZON => self.clock.set(due),
                _ => return,
            }
        }
        panic!("always something due; last writes: {:#?}", self.api.last_writes());
    }

    /// Runs to rest, then restarts every controller and checks that none writes.
    fn settle(&mut self) {
        self.settle_watched(|_| {});
    }

    fn settle_watched(&mut self, watch: impl FnMut(&Fake)) {
        self.run_to_rest(watch);
        let before = self.api.write_count();
        self.driver = Self::driver(&self.api, &self.clock);
        self.run_to_rest(|_| {});
        let extra = self.api.write_count() - before;
        assert_eq!(extra, 0, "writes at rest after a restart: {:#?}", self.api.last_writes());
    }

    fn advance(&self, by: Duration) {
        self.clock.set(self.clock.get() + by);
    }
}

fn factory(api: &Arc<Fake>) -> ClientFactory {
    let client: Arc<dyn Client> = Arc::clone(api) as Arc<dyn Client>;
    Box::new(move |_, _| Arc::clone(&client))
}

fn pod_template(app: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{"name": "main", "image": "app:1", "ports": [{"name": "http", "containerPort": 8080}]}],
                 "restartPolicy": "Always"},
    })
}

fn workload(kind: &str, name: &str, spec: Value) -> Value {
    let group = if kind.ends_with("Job") { "batch" } else { "apps" };
    let mut object = json!({
        "apiVersion": format!("{group}/v1"), "kind": kind, "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": pod_template(name)},
    });
    for (key, value) in spec.as_object().unwrap() {
        object["spec"][key.as_str()] = value.clone();
    }
    object
}

fn ready_pods(api: &Fake) -> usize {
    api.list(&super::kinds::pods(), None).unwrap().iter().filter(|p| pods::is_ready(p)).count()
}

fn condition_of(object: &Value, kind: &str) -> (String, String) {
    let status = object.get("status").cloned().unwrap_or_default();
    let found = super::condition::find(&status, kind).cloned().unwrap_or_default();
    (text(&found, "/status").into(), text(&found, "/reason").into())
}
