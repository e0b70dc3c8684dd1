//! Starts a CronJob's Jobs on schedule, and keeps their history short.
//!
//! # Guarantees
//! A Job's name comes from its scheduled minute, so that no minute is started twice. `concurrencyPolicy`,
//! `startingDeadlineSeconds`, `suspend` and the history limits are respected.
//!
//! # Not done
//! Time zones other than UTC are refused with 501. When several starts were missed only the latest is made up for.

mod schedule;

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use self::schedule::Schedule;
use super::{
    Change, Client, Controller, Key, Outcome, condition, kinds,
    object::{
        controller_key, controller_ref, delete, flag, get, is_controlled_by, is_terminating, key, list, name,
        namespace, opt_int, status_of, text, time, uid, write_status,
    },
};
use crate::{clock::rfc3339_seconds, status::ApiError};

/// See the module.
#[derive(Debug, Default)]
pub struct CronJobController;

impl Controller for CronJobController {
    fn name(&self) -> &'static str {
        "cronjob-controller"
    }

    fn keys(&self, change: &Change, _client: &dyn Client) -> Vec<Key> {
        if kinds::is(&change.gvr, &kinds::cron_jobs()) {
            return vec![key(&change.object)];
        }
        if kinds::is(&change.gvr, &kinds::jobs()) {
            return controller_key(&change.object, "batch", "CronJob").into_iter().collect();
        }
        Vec::new()
    }

    fn reconcile(&self, client: &dyn Client, key: &Key) -> Result<Outcome, ApiError> {
        let gvr = kinds::cron_jobs();
        let Some(cron) = get(client, &gvr, key)? else { return Ok(Outcome::default()) };
        if is_terminating(&cron) {
            return Ok(Outcome::default());
        }
        let zone = text(&cron, "/spec/timeZone");
        if !matches!(zone, "" | "UTC" | "Etc/UTC") {
            return Err(ApiError::unsupported("CronJobs in time zones other than UTC"));
        }
        let Some(schedule) = Schedule::parse(text(&cron, "/spec/schedule")) else {
            return Err(ApiError::unsupported("CronJob schedules of this form"));
        };
        let all = client.list(&kinds::jobs(), Some(&key.namespace))?;
        let mut mine: Vec<Value> = all.into_iter().filter(|j| is_controlled_by(j, uid(&cron))).collect();
        let now = client.now();
        let mut status = status_of(&cron);
        let due = missed(&cron, &schedule, now);
        if let Some(due) = due
            && !flag(&cron, "/spec/suspend")
            && let Some(started) = start(client, &cron, &mut mine, due)?
        {
            status["lastScheduleTime"] = json!(rfc3339_seconds(due));
            mine.push(started);
        }
        trim(client, &cron, &mine)?;
        report(&mut status, &mine);
        write_status(client, &gvr, &cron, status)?;
        if flag(&cron, "/spec/suspend") {
            return Ok(Outcome::default());
        }
        let next = schedule.after(now);
        Ok(Outcome { requeue_after: next.and_then(|n| Duration::try_from(n.duration_since(now)).ok()) })
    }
}

/// The latest start that should have happened and has not.
fn missed(cron: &Value, schedule: &Schedule, now: Timestamp) -> Option<Timestamp> {
    let created = time(cron, "/metadata/creationTimestamp").unwrap_or(now);
    let mut since = time(cron, "/status/lastScheduleTime").unwrap_or(created);
    if let Some(seconds) = opt_int(cron, "/spec/startingDeadlineSeconds") {
        let horizon = now.checked_sub(Duration::from_secs(u64::try_from(seconds).unwrap_or(0))).ok()?;
        since = since.max(horizon);
    }
    schedule.latest(since, now)
}

fn is_done(job: &Value) -> bool {
    job.get("status").is_some_and(|s| condition::is_true(s, "Complete") || condition::is_true(s, "Failed"))
}

fn start(client: &dyn Client, cron: &Value, mine: &mut Vec<Value>, due: Timestamp) -> Result<Option<Value>, ApiError> {
    let gvr = kinds::jobs();
    let running: Vec<&Value> = mine.iter().filter(|j| !is_done(j)).collect();
    match text(cron, "/spec/concurrencyPolicy") {
        "Forbid" if !running.is_empty() => return Ok(None),
        "Replace" => {
            for job in running {
                delete(client, &gvr, job, Some("Background"))?;
            }
            mine.retain(is_done);
        }
        _ => {}
    }
    let own = format!("{}-{}", name(cron), due.as_second() / 60);
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": own, "namespace": namespace(cron),
            "annotations": {"batch.kubernetes.io/cronjob-scheduled-timestamp": rfc3339_seconds(due)},
            "ownerReferences": [controller_ref(cron, "batch/v1", "CronJob")],
        },
        "spec": cron.pointer("/spec/jobTemplate/spec").cloned().unwrap_or_else(|| json!({})),
    });
    for field in ["labels", "annotations"] {
        let from = super::object::map(cron, &format!("/spec/jobTemplate/metadata/{field}"));
        for (k, v) in from.into_iter().flatten() {
            job["metadata"][field][k.as_str()] = v.clone();
        }
    }
    match client.create(&gvr, namespace(cron), &job) {
        Ok(created) => Ok(Some(created)),
        Err(e) if e.reason == "AlreadyExists" => {
            // Made by a step that stopped before its status was written.
            let there = get(client, &gvr, &key(&job))?;
            Ok(there.filter(|j| is_controlled_by(j, uid(cron)) && !mine.iter().any(|m| uid(m) == uid(j))))
        }
        Err(e) => Err(e),
    }
}

fn trim(client: &dyn Client, cron: &Value, mine: &[Value]) -> Result<(), ApiError> {
    for (kind, field, default) in
        [("Complete", "successfulJobsHistoryLimit", 3), ("Failed", "failedJobsHistoryLimit", 1)]
    {
        let limit = opt_int(cron, &format!("/spec/{field}")).unwrap_or(default);
        let ended = |j: &&Value| j.get("status").is_some_and(|s| condition::is_true(s, kind)) && !is_terminating(j);
        let mut ended: Vec<&Value> = mine.iter().filter(ended).collect();
        ended.sort_by_key(|j| (time(j, "/status/startTime"), name(j).to_owned()));
        let surplus = ended.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        for job in &ended[..surplus] {
            delete(client, &kinds::jobs(), job, Some("Background"))?;
        }
    }
    Ok(())
}

fn report(status: &mut Value, mine: &[Value]) {
    let active: Vec<Value> = mine
        .iter()
        .filter(|j| !is_done(j))
        .map(|j| {
            json!({
                "apiVersion": "batch/v1", "kind": "Job", "name": name(j), "namespace": namespace(j), "uid": uid(j),
                "resourceVersion": old_version(status, j),
            })
        })
        .collect();
    if active.is_empty() {
        if let Some(fields) = status.as_object_mut() {
            fields.remove("active");
        }
    } else {
        status["active"] = json!(active);
    }
    let done = mine.iter().filter_map(|j| time(j, "/status/completionTime")).max();
    if let Some(done) = done
        && time(status, "/lastSuccessfulTime").is_none_or(|t| t < done)
    {
        status["lastSuccessfulTime"] = json!(rfc3339_seconds(done));
    }
}

/// The version under which a Job was first listed as active: it does not follow the Job's own changes.
fn old_version(status: &Value, job: &Value) -> String {
    let known = list(status, "/active").iter().find(|a| text(a, "/uid") == uid(job));
    text(known.unwrap_or(&job["metadata"]), "/resourceVersion").into()
}
