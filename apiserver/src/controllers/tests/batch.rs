//! Jobs and CronJobs.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Cluster, condition_of, workload};
use crate::controllers::{
    kinds,
    object::{int, label, list, name, text},
};

fn job(spec: Value) -> Value {
    let mut job = workload("Job", "work", json!({}));
    job["spec"].as_object_mut().unwrap().remove("selector");
    job["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    for (key, value) in spec.as_object().unwrap() {
        job["spec"][key.as_str()] = value.clone();
    }
    job
}

#[test]
fn a_job_completes_once() {
    let mut cluster = Cluster::start();
    cluster.create(job(json!({"completions": 3, "parallelism": 2})));
    cluster.settle_watched(|api| {
        use crate::controllers::Client as _;
        let all = api.list(&kinds::pods(), None).unwrap();
        assert!(all.iter().filter(|p| crate::controllers::pods::is_active(p)).count() <= 2);
    });
    let job = cluster.get(&kinds::jobs(), "work").unwrap();
    assert_eq!(int(&job, "/status/succeeded"), 3);
    assert_eq!(condition_of(&job, "SuccessCriteriaMet"), ("True".into(), "CompletionsReached".into()));
    assert_eq!(condition_of(&job, "Complete"), ("True".into(), "CompletionsReached".into()));
    assert!(!text(&job, "/status/completionTime").is_empty());
    let pods = cluster.list(&kinds::pods());
    assert_eq!(pods.len(), 3);
    for pod in &pods {
        assert_eq!(label(pod, "job-name"), "work");
        assert_eq!(label(pod, "batch.kubernetes.io/controller-uid"), text(&job, "/metadata/uid"));
        assert!(list(pod, "/metadata/finalizers").is_empty(), "counted pods are released");
    }
    // The count must survive its pods: a controller that counts live pods would run the Job again.
    for pod in pods {
        cluster.delete(&kinds::pods(), name(&pod), json!({}));
    }
    cluster.settle();
    assert!(cluster.list(&kinds::pods()).is_empty());
}

#[test]
fn a_job_fails_at_its_backoff_limit() {
    let mut cluster = Cluster::start();
    let mut object = job(json!({"completions": 1, "backoffLimit": 1}));
    object["spec"]["template"]["metadata"]["annotations"] = json!({"reconverge.dev/pod": "fail"});
    cluster.create(object);
    cluster.settle();
    let job = cluster.get(&kinds::jobs(), "work").unwrap();
    assert_eq!(int(&job, "/status/failed"), 2);
    assert_eq!(condition_of(&job, "Failed"), ("True".into(), "BackoffLimitExceeded".into()));
}

#[test]
fn a_job_past_its_deadline_is_stopped() {
    let mut cluster = Cluster::start();
    let mut object = job(json!({"activeDeadlineSeconds": 120}));
    object["spec"]["template"]["metadata"]["annotations"] = json!({"reconverge.dev/pod": "run"});
    cluster.create(object);
    cluster.settle();
    assert_eq!(int(&cluster.get(&kinds::jobs(), "work").unwrap(), "/status/active"), 1);
    cluster.advance(Duration::from_secs(121));
    cluster.settle();
    let job = cluster.get(&kinds::jobs(), "work").unwrap();
    assert_eq!(condition_of(&job, "Failed"), ("True".into(), "DeadlineExceeded".into()));
    assert_eq!(int(&job, "/status/active"), 0);
}

#[test]
fn a_suspended_job_has_no_pods() {
    let mut cluster = Cluster::start();
    cluster.create(job(json!({"suspend": true})));
    cluster.settle();
    assert!(cluster.list(&kinds::pods()).is_empty());
    assert_eq!(condition_of(&cluster.get(&kinds::jobs(), "work").unwrap(), "Suspended").0, "True");
    cluster.patch(&kinds::jobs(), "work", json!({"spec": {"suspend": false}}));
    cluster.settle();
    assert_eq!(condition_of(&cluster.get(&kinds::jobs(), "work").unwrap(), "Suspended").0, "False");
    assert_eq!(int(&cluster.get(&kinds::jobs(), "work").unwrap(), "/status/succeeded"), 1);
}

#[test]
fn an_indexed_job_runs_every_index() {
    let mut cluster = Cluster::start();
    cluster.create(job(json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed"})));
    cluster.settle();
    let job = cluster.get(&kinds::jobs(), "work").unwrap();
    assert_eq!(text(&job, "/status/completedIndexes"), "0-2");
    assert_eq!(int(&job, "/status/succeeded"), 3);
}

#[test]
fn a_finished_job_expires() {
    let mut cluster = Cluster::start();
    cluster.create(job(json!({"ttlSecondsAfterFinished": 100})));
    cluster.settle();
    assert!(cluster.get(&kinds::jobs(), "work").is_some());
    cluster.advance(Duration::from_secs(101));
    cluster.settle();
    assert!(cluster.get(&kinds::jobs(), "work").is_none());
    assert!(cluster.list(&kinds::pods()).is_empty());
}

#[test]
fn deleting_a_running_job_leaves_no_pod_behind() {
    let mut cluster = Cluster::start();
    let mut object = job(json!({}));
    object["spec"]["template"]["metadata"]["annotations"] = json!({"reconverge.dev/pod": "run"});
    for policy in ["Background", "Foreground"] {
        cluster.create(object.clone());
        cluster.settle();
        assert_eq!(cluster.list(&kinds::pods()).len(), 1);
        cluster.delete(&kinds::jobs(), "work", json!({"propagationPolicy": policy}));
        cluster.settle();
        // The tracking finalizer would hold the pod for ever if nobody took it off.
        assert!(cluster.list(&kinds::pods()).is_empty(), "{policy}");
        assert!(cluster.list(&kinds::jobs()).is_empty(), "{policy}");
    }
}

#[test]
fn a_cron_job_starts_on_time_and_keeps_a_short_history() {
    let mut cluster = Cluster::start();
    let template = job(json!({}))["spec"].clone();
    cluster.create(json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick", "namespace": "default"},
        "spec": {"schedule": "*/10 * * * *", "successfulJobsHistoryLimit": 2, "jobTemplate": {"spec": template}},
    }));
    cluster.settle();
    assert!(cluster.list(&kinds::jobs()).is_empty(), "not due yet");
    for _ in 0..4 {
        cluster.advance(Duration::from_secs(600));
        cluster.settle();
    }
    assert_eq!(cluster.list(&kinds::jobs()).len(), 2);
    let cron = cluster.get(&kinds::cron_jobs(), "tick").unwrap();
    assert_eq!(text(&cron, "/status/lastScheduleTime"), "2026-01-01T00:40:00Z");
    assert!(!text(&cron, "/status/lastSuccessfulTime").is_empty());
}
