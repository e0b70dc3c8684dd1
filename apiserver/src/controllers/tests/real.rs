//! The controllers over the real pipeline: defaulting, validation and admission included.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::{fake::FakeClock, pod_template, workload};
use crate::{
    ApiServer, Options,
    controllers::{
        Change, Client,
        driver::{Driver, step_all},
        kinds,
        kubelet::Timing,
        object::{int, name, text},
        pods, standard,
    },
    resource::Gvr,
};

/// More steps than the test needs: beyond, something loops.
const STEPS_MAX: usize = 1_000;

struct Real {
    server: ApiServer,
    clock: Arc<FakeClock>,
    admin: Arc<dyn Client>,
    driver: Driver,
    changes: tokio::sync::mpsc::UnboundedReceiver<Change>,
}

impl Real {
    fn start() -> Self {
        let clock = Arc::new(FakeClock::default());
        let server = ApiServer::new(Options { clock: Arc::clone(&clock) as _, seed: 3 });
        let admin = server.client_for("system:admin", "tester");
        let changes = server.changes();
        let driver = Self::driver(&server, &clock);
        let mut real = Self { server, clock, admin, driver, changes };
        real.settle();
        real
    }

    fn driver(server: &ApiServer, clock: &Arc<FakeClock>) -> Driver {
        let mut driver =
            Driver::new(&server.client_factory(), standard("PEM", Timing::default()), Arc::clone(clock) as _);
        driver.start();
        driver
    }

    fn create(&self, gvr: &Gvr, object: Value) {
        let namespace = text(&object, "/metadata/namespace").to_owned();
        self.admin.create(gvr, &namespace, &object).unwrap();
    }

    fn get(&self, gvr: &Gvr, name: &str) -> Value {
        self.admin.get(gvr, "default", name).unwrap()
    }

    /// Runs until nothing is due within a minute; gives what was written meanwhile.
    fn run_to_rest(&mut self) -> Vec<String> {
        let changes = &mut self.changes;
        let mut written: Vec<String> = Vec::new();
        let mut drain = || {
            let new: Vec<Change> = std::iter::from_fn(|| changes.try_recv().ok()).collect();
            written.extend(new.iter().map(|c| c.object.to_string()));
            new
        };
        let mut steps = 0;
        while steps < STEPS_MAX {
            steps += 1 + step_all(&mut self.driver, &mut drain, STEPS_MAX);
            match self.driver.next_due() {
                Some(due) if due <= self.clock.get() + Duration::from_secs(60) => self.clock.set(due),
                _ => {
                    assert_eq!(self.driver.state(0).retrying, 0, "{:?}", self.driver);
                    return written;
                }
            }
        }
        panic!("no rest; last writes: {:#?}", &written[written.len().saturating_sub(6)..]);
    }

    /// Runs to rest; a restart of all controllers must then write nothing.
    fn settle(&mut self) {
        self.run_to_rest();
        let before = self.server.revision();
        self.driver = Self::driver(&self.server, &self.clock);
        let written = self.run_to_rest();
        assert_eq!(self.server.revision(), before, "writes at rest: {written:#?}");
    }
}

fn everything() -> Vec<(Gvr, Value)> {
    let mut job = workload("Job", "work", json!({"completions": 2}));
    job["spec"].as_object_mut().unwrap().remove("selector");
    job["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    let mut job_spec = job["spec"].clone();
    job_spec["template"]["metadata"] = json!({});
    vec![
        (kinds::deployments(), workload("Deployment", "web", json!({"replicas": 2}))),
        (
            kinds::stateful_sets(),
            workload(
                "StatefulSet",
                "db",
                json!({"replicas": 2, "serviceName": "db",
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]}),
            ),
        ),
        (kinds::daemon_sets(), workload("DaemonSet", "agent", json!({}))),
        (kinds::jobs(), job),
        (
            kinds::cron_jobs(),
            json!({"apiVersion": "batch/v1", "kind": "CronJob",
            "metadata": {"name": "tick", "namespace": "default"},
            "spec": {"schedule": "0 * * * *", "jobTemplate": {"spec": job_spec}}}),
        ),
        (
            kinds::services(),
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]}}),
        ),
        (
            kinds::services(),
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "db", "namespace": "default"},
            "spec": {"clusterIP": "None", "selector": {"app": "db"}, "ports": [{"port": 80}]}}),
        ),
        (
            kinds::disruption_budgets(),
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}}),
        ),
        (
            kinds::pods(),
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bare", "namespace": "default"},
            "spec": pod_template("x")["spec"]}),
        ),
    ]
}

#[test]
fn everything_comes_to_rest_and_goes() {
    let mut real = Real::start();
    for (gvr, object) in everything() {
        real.create(&gvr, object);
        real.settle();
    }
    assert_eq!(int(&real.get(&kinds::deployments(), "web"), "/status/availableReplicas"), 2);
    assert_eq!(real.get(&kinds::deployments(), "web")["metadata"]["generation"], 1);
    assert_eq!(int(&real.get(&kinds::stateful_sets(), "db"), "/status/availableReplicas"), 2);
    assert_eq!(int(&real.get(&kinds::daemon_sets(), "agent"), "/status/numberReady"), 1);
    assert_eq!(int(&real.get(&kinds::jobs(), "work"), "/status/succeeded"), 2);
    assert_eq!(int(&real.get(&kinds::disruption_budgets(), "web"), "/status/disruptionsAllowed"), 1);
    assert!(pods::is_ready(&real.get(&kinds::pods(), "bare")));
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "app:2"}]}}}});
    for (gvr, own) in [(kinds::deployments(), "web"), (kinds::stateful_sets(), "db"), (kinds::daemon_sets(), "agent")] {
        real.admin.patch(&gvr, "", "default", own, &image).unwrap();
        real.settle();
    }
    let all = real.admin.list(&kinds::pods(), Some("default")).unwrap();
    let new = all.iter().filter(|p| text(p, "/spec/containers/0/image") == "app:2").count();
    assert_eq!(new, 5);
    real.clock.set(real.clock.get() + Duration::from_secs(3600));
    real.settle();
    assert!(!text(&real.get(&kinds::cron_jobs(), "tick"), "/status/lastSuccessfulTime").is_empty());
    for (policy, gvr, own) in [
        ("Foreground", kinds::deployments(), "web"),
        ("Background", kinds::stateful_sets(), "db"),
        ("Foreground", kinds::jobs(), "work"),
    ] {
        real.admin.delete(&gvr, "default", own, &json!({"propagationPolicy": policy})).unwrap();
        real.settle();
        let left = real.admin.list(&kinds::pods(), Some("default")).unwrap();
        let left: Vec<&str> = left.iter().map(name).filter(|n| n.starts_with(&format!("{own}-"))).collect();
        assert_eq!(left, Vec::<&str>::new());
    }
    real.create(&kinds::namespaces(), json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}));
    real.settle();
    for (gvr, mut object) in everything() {
        object["metadata"]["namespace"] = json!("n");
        real.create(&gvr, object);
    }
    real.run_to_rest();
    real.admin.delete(&kinds::namespaces(), "", "n", &json!({})).unwrap();
    real.settle();
    assert!(real.admin.get(&kinds::namespaces(), "", "n").is_err());
    for resource in real.admin.resources().into_iter().filter(|r| r.namespaced) {
        assert_eq!(real.admin.list(&resource.gvr, Some("n")).unwrap(), Vec::<Value>::new(), "{}", resource.gvr);
    }
}
