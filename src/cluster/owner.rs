//! Which process a container, a folder or a process belongs to, and whether that process is still alive.
//!
//! # Guarantees
//! A process id alone would be taken for alive once it is used again: the start time and the machine's boot are part
//! of the identity. What another machine or another pid namespace started is never taken for dead.

use std::collections::BTreeMap;

use nix::{sys::signal::kill, unistd::Pid};
use serde::{Deserialize, Serialize};

/// On everything that this program makes in a container engine.
pub const LABEL: &str = "dev.reconverge";
const PID: &str = "dev.reconverge.owner-pid";
const START: &str = "dev.reconverge.owner-start";
const HOST: &str = "dev.reconverge.owner-host";

/// A process of some machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    pid: u32,
    /// Clock ticks from the machine's boot to the start of the process; empty where the system does not say.
    start: String,
    /// The boot and the pid namespace within which the pid means something.
    host: String,
}

/// What can be said about an owner from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    Alive,
    Dead,
    /// It does not run on this machine, or not in this pid namespace.
    Elsewhere,
}

impl Owner {
    /// This process.
    #[must_use]
    pub fn me() -> Self {
        Self::process(std::process::id())
    }

    /// Another process of this machine.
    #[must_use]
    pub fn process(pid: u32) -> Self {
        Self { pid, start: start_of(pid).unwrap_or_default(), host: host() }
    }

    /// What `labels` of a container or a volume say; `None` when they are not ours or are incomplete.
    #[must_use]
    pub fn of(labels: &BTreeMap<String, String>) -> Option<Self> {
        labels.get(LABEL)?;
        let pid = labels.get(PID)?.parse().ok()?;
        Some(Self { pid, start: labels.get(START)?.clone(), host: labels.get(HOST)?.clone() })
    }

    /// What [`Owner`] prints.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, ' ');
        let (pid, start, host) = (parts.next()?.parse().ok()?, parts.next()?.to_owned(), parts.next()?.to_owned());
        Some(Self { pid, start, host })
    }

    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    #[must_use]
    pub fn labels(&self) -> BTreeMap<String, String> {
        [(LABEL, "1"), (PID, &self.pid.to_string()), (START, &self.start), (HOST, &self.host)]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
    }

    #[must_use]
    pub fn liveness(&self) -> Liveness {
        // Without start times a number that is used again is taken for alive; nothing of the living is removed.
        let unknown = || (self.start.is_empty() && exists(self.pid)).then(String::new);
        self.judge(&host(), start_of(self.pid).or_else(unknown).as_deref())
    }

    fn judge(&self, here: &str, start_now: Option<&str>) -> Liveness {
        if self.host != here {
            Liveness::Elsewhere
        } else if start_now == Some(&self.start) {
            Liveness::Alive
        } else {
            Liveness::Dead
        }
    }
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.pid, self.start, self.host)
    }
}

/// The boot and the pid namespace of this process.
pub fn host() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{}/{}", boot.trim(), namespace.display())
}

fn exists(pid: u32) -> bool {
    i32::try_from(pid).is_ok_and(|pid| kill(Pid::from_raw(pid), None).is_ok())
}

fn start_of(pid: u32) -> Option<String> {
    parse_start(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Field 22 of `/proc/PID/stat`. The second field is the program's name and may hold spaces and brackets.
fn parse_start(stat: &str) -> Option<String> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace();
    // A process that has ended and was not waited for yet owns nothing any more.
    let state = fields.next()?;
    (state != "Z").then_some(())?;
    fields.nth(18).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(state: &str) -> String {
        format!("42 (a (b) c) {state} 1 42 42 0 -1 4194304 100 0 0 0 1 2 0 0 20 0 1 0 987654 1000 100")
    }

    #[test]
    fn the_start_is_found_behind_an_odd_name() {
        assert_eq!(parse_start(&stat("S")).as_deref(), Some("987654"));
        assert_eq!(parse_start(&stat("Z")), None, "a zombie owns nothing");
        assert_eq!(parse_start("nonsense"), None);
    }

    #[test]
    fn this_process_is_alive_and_its_labels_say_who_it_is() {
        let me = Owner::me();
        assert_eq!(me.liveness(), Liveness::Alive);
        assert_eq!(Owner::of(&me.labels()).as_ref(), Some(&me));
        assert_eq!(Owner::parse(&me.to_string()), Some(me));
    }

    #[test]
    fn a_pid_that_is_used_again_is_another_process() {
        let owner = Owner { pid: 42, start: "1".into(), host: "here".into() };
        assert_eq!(owner.judge("here", Some("1")), Liveness::Alive);
        assert_eq!(owner.judge("here", Some("2")), Liveness::Dead);
        assert_eq!(owner.judge("here", None), Liveness::Dead);
        assert_eq!(owner.judge("another machine", None), Liveness::Elsewhere);
    }

    #[test]
    fn what_is_not_labelled_is_not_ours() {
        assert_eq!(Owner::of(&BTreeMap::new()), None);
        let mut labels = Owner::me().labels();
        labels.remove(LABEL);
        assert_eq!(Owner::of(&labels), None);
    }
}
