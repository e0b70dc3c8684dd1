//! Follows the pods of an operator: which containers start, how they end, what they print.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::{AsyncBufReadExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod};
use kube::{
    api::{Api, LogParams},
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event},
    },
};
use tokio::{io::AsyncWriteExt as _, task::JoinSet};

use super::process::TAIL_LINES;
use crate::{event::MarkName, history::Recorder, observe::record::OperatorExit, redact::redact_text};

/// What is known of an operator's containers.
#[derive(Default)]
pub struct Seen(Mutex<State>);

#[derive(Default)]
struct State {
    exits: Vec<OperatorExit>,
    tail: VecDeque<String>,
    /// Container ids with their incarnation.
    running: BTreeMap<String, u32>,
    ended: BTreeSet<String>,
    /// Uids of pods and ids of containers whose end the harness caused.
    asked: BTreeSet<String>,
    /// By name, the state of the pods that are there.
    pods: BTreeMap<String, String>,
}

impl Seen {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The harness is about to remove these pods.
    pub fn ask_for_pods(&self, pods: &[Pod]) {
        self.state().asked.extend(pods.iter().filter_map(|pod| pod.metadata.uid.clone()));
    }

    /// The harness is about to kill what runs in these pods now.
    pub fn ask_for_containers(&self, pods: &[Pod]) {
        let ids = pods.iter().flat_map(statuses).filter_map(|status| status.container_id.clone());
        self.state().asked.extend(ids);
    }

    #[must_use]
    pub fn exits(&self) -> Vec<OperatorExit> {
        self.state().exits.clone()
    }

    /// The last lines of output, and the states of the pods.
    #[must_use]
    pub fn log_tail(&self) -> String {
        let state = self.state();
        let pods = state.pods.iter().map(|(name, words)| format!("Pod {name}: {words}"));
        state.tail.iter().cloned().chain(pods).collect::<Vec<_>>().join("\n")
    }

    /// Notes a pod; gives the names of the containers that are running and were not known yet.
    fn note(&self, pod: &Pod, recorder: &Recorder) -> Vec<String> {
        let mut state = self.state();
        let name = pod.metadata.name.clone().unwrap_or_default();
        state.pods.insert(name, in_words(pod));
        let pod_asked = pod.metadata.uid.as_ref().is_some_and(|uid| state.asked.contains(uid));
        let mut new = Vec::new();
        for status in statuses(pod) {
            for terminated in [&status.last_state, &status.state].into_iter().flatten().flat_map(|s| &s.terminated) {
                state.end(terminated, pod_asked, recorder);
            }
            let running = status.state.as_ref().is_some_and(|state| state.running.is_some());
            let Some(id) = status.container_id.clone().filter(|_| running) else { continue };
            if !state.running.contains_key(&id) && !state.ended.contains(&id) {
                let incarnation = recorder.next_incarnation();
                recorder.mark(MarkName::OperatorStarted, format!("incarnation {incarnation}"));
                state.running.insert(id, incarnation);
                new.push(status.name.clone());
            }
        }
        new
    }

    /// A pod that went without a word took its containers with it.
    fn gone(&self, pod: &Pod, recorder: &Recorder) {
        self.note(pod, recorder);
        let mut state = self.state();
        state.pods.remove(pod.metadata.name.as_deref().unwrap_or_default());
        let pod_asked = pod.metadata.uid.as_ref().is_some_and(|uid| state.asked.contains(uid));
        for id in statuses(pod).filter_map(|status| status.container_id.clone()) {
            state.ended("pod deleted".into(), &id, pod_asked, recorder);
        }
    }

    fn line(&self, line: String) {
        let mut state = self.state();
        if state.tail.len() == TAIL_LINES {
            state.tail.pop_front();
        }
        state.tail.push_back(line);
    }
}

impl State {
    fn end(&mut self, terminated: &ContainerStateTerminated, pod_asked: bool, recorder: &Recorder) {
        let Some(id) = terminated.container_id.clone() else { return };
        let how = match (terminated.signal, terminated.exit_code) {
            (Some(signal), _) if signal != 0 => format!("signal {signal}"),
            // What a shell would say of a signal.
            (_, code @ 129..=159) => format!("signal {}", code - 128),
            (_, code) => format!("exit code {code}"),
        };
        self.ended(how, &id, pod_asked, recorder);
    }

    fn ended(&mut self, how: String, id: &str, pod_asked: bool, recorder: &Recorder) {
        let Some(incarnation) = self.running.remove(id) else { return };
        self.ended.insert(id.to_owned());
        recorder.mark(MarkName::OperatorExited, how.clone());
        self.exits.push(OperatorExit {
            at_ms: recorder.clock.now_ms(),
            incarnation,
            how,
            asked: pod_asked || self.asked.contains(id),
            log_tail: self.tail.iter().cloned().collect::<Vec<_>>().join("\n"),
        });
    }
}

fn statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten())
}

/// The state of a pod, with what it waits for.
#[must_use]
pub fn in_words(pod: &Pod) -> String {
    let phase = pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_else(|| "unknown".into());
    let waiting = statuses(pod).filter_map(|status| {
        let waiting = status.state.as_ref()?.waiting.as_ref()?;
        let message = waiting.message.as_deref().map(|message| format!(" ({message})")).unwrap_or_default();
        Some(format!("{} waits: {}{message}", status.name, waiting.reason.as_deref().unwrap_or("unknown")))
    });
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let unmet = conditions.filter(|c| c.status == "False" && c.type_ == "PodScheduled");
    let unmet = unmet.map(|condition| condition.message.clone().unwrap_or_default());
    let ending = pod.metadata.deletion_timestamp.is_some().then(|| "is being deleted".to_owned());
    std::iter::once(phase).chain(waiting).chain(unmet).chain(ending).collect::<Vec<_>>().join(", ")
}

/// Follows the pods that a selector picks, until it is dropped.
pub async fn follow(pods: Api<Pod>, selector: String, seen: Arc<Seen>, recorder: Recorder, log: PathBuf) {
    let config = watcher::Config::default().labels(&selector);
    let mut events = watcher::watcher(pods.clone(), config).default_backoff().boxed();
    let mut logs = JoinSet::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(pod) | Event::InitApply(pod)) => {
                let name = pod.metadata.name.clone().unwrap_or_default();
                for container in seen.note(&pod, &recorder) {
                    logs.spawn(copy(pods.clone(), name.clone(), container, Arc::clone(&seen), log.clone()));
                }
            }
            Ok(Event::Delete(pod)) => seen.gone(&pod, &recorder),
            // The watcher begins again by itself; nothing is judged by it alone.
            Ok(Event::Init | Event::InitDone) | Err(_) => {}
        }
        while logs.try_join_next().is_some() {}
    }
}

/// Copies the output of one container, redacted, until it ends.
async fn copy(pods: Api<Pod>, pod: String, container: String, seen: Arc<Seen>, log: PathBuf) {
    let params = LogParams { follow: true, container: Some(container), ..LogParams::default() };
    let Ok(stream) = pods.log_stream(&pod, &params).await else { return };
    let mut file = tokio::fs::OpenOptions::new().create(true).append(true).open(&log).await.ok();
    let mut lines = stream.lines();
    while let Some(Ok(line)) = lines.next().await {
        let line = redact_text(&line);
        if let Some(file) = &mut file {
            let _ = file.write_all(format!("{line}\n").as_bytes()).await;
        }
        seen.line(line);
    }
    if let Some(file) = &mut file {
        let _ = file.flush().await;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::clock::RunClock;

    fn pod(uid: &str, containers: Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "op-1", "uid": uid},
            "status": {"phase": "Running", "containerStatuses": containers},
        }))
        .unwrap()
    }

    fn status(id: &str, state: Value, last: Value) -> Value {
        json!([{
            "name": "op", "image": "op", "imageID": "", "ready": true, "restartCount": 0,
            "containerID": id, "state": state, "lastState": last,
        }])
    }

    fn terminated(id: &str, code: i32) -> Value {
        json!({"terminated": {"containerID": id, "exitCode": code}})
    }

    fn recorder() -> Recorder {
        Recorder::new(RunClock::start(), None).unwrap()
    }

    #[test]
    fn a_crash_is_an_exit_that_nobody_asked_for() {
        let (seen, recorder) = (Seen::default(), recorder());
        let first = pod("u", status("c1", json!({"running": {}}), json!({})));
        assert_eq!(seen.note(&first, &recorder), ["op"]);
        assert!(seen.note(&first, &recorder).is_empty(), "it was known");
        let second = pod("u", status("c2", json!({"running": {}}), terminated("c1", 139)));
        assert_eq!(seen.note(&second, &recorder), ["op"]);
        let exits = seen.exits();
        assert_eq!(
            (exits.len(), exits[0].how.as_str(), exits[0].asked, exits[0].incarnation),
            (1, "signal 11", false, 1)
        );
    }

    #[test]
    fn what_the_harness_did_is_told_apart() {
        let (seen, recorder) = (Seen::default(), recorder());
        let running = pod("u", status("c1", json!({"running": {}}), json!({})));
        seen.note(&running, &recorder);
        seen.ask_for_containers(std::slice::from_ref(&running));
        let killed = pod("u", status("c2", json!({"running": {}}), terminated("c1", 137)));
        seen.note(&killed, &recorder);
        seen.ask_for_pods(std::slice::from_ref(&killed));
        seen.gone(&killed, &recorder);
        let exits: Vec<_> = seen.exits().into_iter().map(|exit| (exit.how, exit.asked)).collect();
        assert_eq!(exits, [("signal 9".to_owned(), true), ("pod deleted".to_owned(), true)]);
        let evicted = pod("v", status("c3", json!({"running": {}}), json!({})));
        seen.note(&evicted, &recorder);
        seen.gone(&evicted, &recorder);
        assert!(!seen.exits()[2].asked);
    }

    #[test]
    fn the_tail_says_what_a_pod_waits_for() {
        let (seen, recorder) = (Seen::default(), recorder());
        let waiting = json!({"waiting": {"reason": "ErrImagePull", "message": "no such host"}});
        seen.note(&pod("u", status("", waiting, json!({}))), &recorder);
        assert_eq!(seen.log_tail(), "Pod op-1: Running, op waits: ErrImagePull (no such host)");
    }
}
