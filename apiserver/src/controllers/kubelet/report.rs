//! The statuses that the simulated node writes.
//!
//! Each is computed from the pod and its present status, and equals it when nothing has happened.

use std::{collections::BTreeSet, fmt::Write as _};

use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{Behaviour, NODE_IP, draw, needs::Waiting};
use crate::{
    clock::rfc3339_seconds,
    controllers::{
        Client,
        condition::{self, Condition, Times},
        kinds,
        object::{flag, int, list, name, namespace, status_of, text, uid},
    },
    status::ApiError,
};

/// Addresses in 10.244.0.0/16 without the first and last of each block of 256.
const ADDRESSES: u64 = 256 * 254;

/// Containers wait to be created.
pub(super) fn waiting(pod: &Value, why: &Waiting, now: Timestamp) -> Value {
    let mut status = base(pod, "Pending", now);
    let inits: Vec<Value> =
        containers(pod, "initContainers").map(|c| wait_for(&c, &needless("PodInitializing"))).collect();
    if !inits.is_empty() {
        status["initContainerStatuses"] = json!(inits);
    }
    let statuses: Vec<Value> = containers(pod, "containers")
        .map(|c| match &why.container {
            Some(only) if only != text(&c, "/name") => wait_for(&c, &needless("ContainerCreating")),
            _ => wait_for(&c, why),
        })
        .collect();
    status["containerStatuses"] = json!(statuses);
    set(&mut status, "PodReadyToStartContainers", why.container.is_some(), ["", ""], now);
    set(&mut status, "Initialized", inits_done(pod), ["", ""], now);
    not_ready(&mut status, &unready(&statuses), now);
    set(&mut status, "PodScheduled", true, ["", ""], now);
    status
}

fn needless(reason: &'static str) -> Waiting {
    Waiting::everywhere(reason, String::new())
}

fn inits_done(pod: &Value) -> bool {
    list(pod, "/spec/initContainers").is_empty()
}

fn wait_for(container: &Value, why: &Waiting) -> Value {
    let mut state = json!({"reason": why.reason});
    if !why.message.is_empty() {
        state["message"] = json!(why.message);
    }
    json!({
        "name": container["name"], "image": container["image"], "imageID": "", "ready": false, "started": false,
        "restartCount": 0, "state": {"waiting": state}, "lastState": {},
    })
}

/// All containers run, as `behaviour` says.
pub(super) fn running(client: &dyn Client, pod: &Value, behaviour: Behaviour) -> Result<Value, ApiError> {
    let now = client.now();
    let mut status = base(pod, "Running", now);
    let address = address(client, pod)?;
    status["podIP"] = json!(address);
    status["podIPs"] = json!([{"ip": address}]);
    let inits: Vec<Value> = containers(pod, "initContainers").map(|c| init(pod, &c, now)).collect();
    if !inits.is_empty() {
        status["initContainerStatuses"] = json!(inits);
    }
    let statuses: Vec<Value> = containers(pod, "containers").map(|c| run(pod, &c, behaviour, now)).collect();
    status["containerStatuses"] = json!(statuses);
    set(&mut status, "PodReadyToStartContainers", true, ["", ""], now);
    set(&mut status, "Initialized", true, ["", ""], now);
    let unready = unready(&statuses);
    if unready.is_empty() {
        set(&mut status, "ContainersReady", true, ["", ""], now);
        let closed = closed_gates(pod);
        if closed.is_empty() {
            set(&mut status, "Ready", true, ["", ""], now);
        } else {
            set(&mut status, "Ready", false, ["ReadinessGatesNotReady", &closed], now);
        }
    } else {
        not_ready(&mut status, &unready, now);
    }
    set(&mut status, "PodScheduled", true, ["", ""], now);
    Ok(status)
}

/// All containers have ended.
pub(super) fn ended(pod: &Value, exit: i64, now: Timestamp) -> Value {
    let phase = if exit == 0 { "Succeeded" } else { "Failed" };
    let mut status = base(pod, phase, now);
    let statuses: Vec<Value> = containers(pod, "containers").map(|c| end(pod, &c, exit, now)).collect();
    status["containerStatuses"] = json!(statuses);
    let reason = if exit == 0 { "PodCompleted" } else { "PodFailed" };
    set(&mut status, "PodReadyToStartContainers", false, ["", ""], now);
    set(&mut status, "Initialized", true, [if exit == 0 { reason } else { "" }, ""], now);
    set(&mut status, "Ready", false, [reason, ""], now);
    set(&mut status, "ContainersReady", false, [reason, ""], now);
    set(&mut status, "PodScheduled", true, ["", ""], now);
    status
}

fn base(pod: &Value, phase: &str, now: Timestamp) -> Value {
    let mut status = status_of(pod);
    status["phase"] = json!(phase);
    status["hostIP"] = json!(NODE_IP);
    status["hostIPs"] = json!([{"ip": NODE_IP}]);
    if text(&status, "/startTime").is_empty() {
        status["startTime"] = json!(rfc3339_seconds(now));
    }
    status
}

fn set(status: &mut Value, kind: &str, holds: bool, [reason, message]: [&str; 2], now: Timestamp) {
    let condition = Condition { kind, status: if holds { "True" } else { "False" }, reason, message };
    condition::set(status, &condition, Times::NullProbe, now);
}

fn not_ready(status: &mut Value, unready: &str, now: Timestamp) {
    let message = format!("containers with unready status: [{unready}]");
    for kind in ["Ready", "ContainersReady"] {
        set(status, kind, false, ["ContainersNotReady", &message], now);
    }
}

fn unready(statuses: &[Value]) -> String {
    let names: Vec<&str> = statuses.iter().filter(|s| !flag(s, "/ready")).map(|s| text(s, "/name")).collect();
    names.join(" ")
}

/// The readiness gates that are not open yet, as the message of `Ready`.
fn closed_gates(pod: &Value) -> String {
    let open = |gate: &str| pod.get("status").is_some_and(|s| condition::is_true(s, gate));
    let gates = list(pod, "/spec/readinessGates").iter().map(|g| text(g, "/conditionType"));
    let closed: Vec<String> = gates
        .filter(|g| !open(g))
        .map(|g| format!("corresponding condition of pod readiness gate \"{g}\" does not exist or is not true."))
        .collect();
    closed.join(" ")
}

fn containers(pod: &Value, field: &str) -> impl Iterator<Item = Value> {
    list(pod, &format!("/spec/{field}")).to_vec().into_iter()
}

fn known<'a>(pod: &'a Value, field: &str, container: &Value) -> Option<&'a Value> {
    list(pod, &format!("/status/{field}")).iter().find(|s| s["name"] == container["name"])
}

/// A container status without its state; a changed image means a new container.
fn skeleton(pod: &Value, container: &Value, restarts: i64) -> Value {
    let image = text(container, "/image");
    json!({
        "name": container["name"], "image": image, "imageID": format!("sha256:{}", digest(image)),
        "containerID": container_id(pod, container, restarts), "restartCount": restarts, "lastState": {},
    })
}

fn container_id(pod: &Value, container: &Value, restarts: i64) -> String {
    let seed = format!("{}/{}/{restarts}/{}", uid(pod), text(container, "/name"), text(container, "/image"));
    format!("simulated://{}", digest(&seed))
}

fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().fold(String::new(), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn run(pod: &Value, container: &Value, behaviour: Behaviour, now: Timestamp) -> Value {
    let old = known(pod, "containerStatuses", container);
    let restarts = old.map_or(0, |o| int(o, "/restartCount"));
    let replaced = old.is_some_and(|o| o["image"] != container["image"] && o.get("containerID").is_some());
    if behaviour == Behaviour::CrashLoop {
        return crashed(pod, container, old, now);
    }
    let was_running = old.is_some_and(|o| o["state"]["running"].is_object());
    let restarts = restarts + i64::from(replaced && was_running);
    let mut status = skeleton(pod, container, restarts);
    let since = old.filter(|_| was_running && !replaced).map(|o| text(o, "/state/running/startedAt").to_owned());
    status["state"] = json!({"running": {"startedAt": since.unwrap_or_else(|| rfc3339_seconds(now))}});
    status["started"] = json!(true);
    status["ready"] = json!(behaviour != Behaviour::NotReady);
    if let Some(old) = old {
        status["lastState"] = old["lastState"].clone();
    }
    status
}

/// Failed once and waiting: the count stands still, so that the pod is at rest.
fn crashed(pod: &Value, container: &Value, old: Option<&Value>, now: Timestamp) -> Value {
    if let Some(old) = old
        && text(old, "/state/waiting/reason") == "CrashLoopBackOff"
    {
        return old.clone();
    }
    let restarts = old.map_or(0, |o| int(o, "/restartCount")) + 1;
    let mut status = skeleton(pod, container, restarts);
    let at = rfc3339_seconds(now);
    let message = format!(
        "back-off 5m0s restarting failed container={} pod={}_{}({})",
        text(container, "/name"),
        name(pod),
        namespace(pod),
        uid(pod),
    );
    status["state"] = json!({"waiting": {"reason": "CrashLoopBackOff", "message": message}});
    status["lastState"] = json!({"terminated": {
        "exitCode": 1, "reason": "Error", "startedAt": at, "finishedAt": at,
        "containerID": container_id(pod, container, restarts),
    }});
    status["started"] = json!(false);
    status["ready"] = json!(false);
    status
}

/// An init container has done its work; one that restarts always (a sidecar) runs.
fn init(pod: &Value, container: &Value, now: Timestamp) -> Value {
    let old = known(pod, "initContainerStatuses", container);
    let at = rfc3339_seconds(now);
    if text(container, "/restartPolicy") == "Always" {
        if let Some(old) = old.filter(|o| o["state"]["running"].is_object()) {
            return old.clone();
        }
        let mut status = skeleton(pod, container, 0);
        status["state"] = json!({"running": {"startedAt": at}});
        status["started"] = json!(true);
        status["ready"] = json!(true);
        return status;
    }
    if let Some(old) = old.filter(|o| o["state"]["terminated"].is_object()) {
        return old.clone();
    }
    let mut status = skeleton(pod, container, 0);
    status["state"] = json!({"terminated": {
        "exitCode": 0, "reason": "Completed", "startedAt": at, "finishedAt": at, "containerID": status["containerID"],
    }});
    status["started"] = json!(false);
    status["ready"] = json!(true);
    status
}

fn end(pod: &Value, container: &Value, exit: i64, now: Timestamp) -> Value {
    let old = known(pod, "containerStatuses", container);
    if let Some(old) = old.filter(|o| o["state"]["terminated"].is_object()) {
        return old.clone();
    }
    let at = rfc3339_seconds(now);
    let since = old.map_or("", |o| text(o, "/state/running/startedAt"));
    let mut status = skeleton(pod, container, old.map_or(0, |o| int(o, "/restartCount")));
    status["state"] = json!({"terminated": {
        "exitCode": exit, "reason": if exit == 0 { "Completed" } else { "Error" },
        "startedAt": if since.is_empty() { &at } else { since }, "finishedAt": at,
        "containerID": status["containerID"],
    }});
    status["started"] = json!(false);
    status["ready"] = json!(false);
    status
}

/// The pod's address: the one it has, the node's, or a free one that its UID points to.
fn address(client: &dyn Client, pod: &Value) -> Result<String, ApiError> {
    let own = text(pod, "/status/podIP");
    if !own.is_empty() {
        return Ok(own.into());
    }
    if flag(pod, "/spec/hostNetwork") {
        return Ok(NODE_IP.into());
    }
    let all = client.list(&kinds::pods(), None)?;
    let taken: BTreeSet<&str> = all.iter().map(|p| text(p, "/status/podIP")).collect();
    let start = draw(uid(pod)) % ADDRESSES;
    let candidates = (0..ADDRESSES).map(|offset| {
        let n = (start + offset) % ADDRESSES;
        format!("10.244.{}.{}", n / 254, n % 254 + 1)
    });
    let free = candidates.into_iter().find(|ip| !taken.contains(ip.as_str()));
    free.ok_or_else(|| ApiError::new(500, "InternalError", "no pod address is free"))
}

/// The status of a healthy node.
pub(super) fn node(address: &str, now: Timestamp) -> Value {
    let at = rfc3339_seconds(now);
    let conditions = [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ];
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|(kind, status, reason, message)| {
            json!({
                "type": kind, "status": status, "reason": reason, "message": message,
                "lastHeartbeatTime": at, "lastTransitionTime": at,
            })
        })
        .collect();
    let size = json!({"cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "10000"});
    json!({
        "addresses": [
            {"type": "InternalIP", "address": address}, {"type": "Hostname", "address": super::NODE},
        ],
        "capacity": size, "allocatable": size, "conditions": conditions,
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "simulated://1", "kernelVersion": "",
            "kubeProxyVersion": "", "kubeletVersion": "v1.34.4", "machineID": "", "operatingSystem": "linux",
            "osImage": "simulated", "systemUUID": "",
        },
    })
}
