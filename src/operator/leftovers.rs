//! Operators whose harness was killed: a process outlives its parent.
//!
//! # Guarantees
//! Every operator, and what it starts, has a variable in its environment that says whose it is. Only processes of an
//! owner that is dead are killed.
//!
//! # Deliberately not done
//! Systems without `/proc`; there nothing is found.

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::cluster::owner::{Liveness, Owner};

/// The variable of an operator's environment.
pub const VARIABLE: &str = "RECONVERGE_OWNER";

/// Kills what dead processes have left; says what, one line each.
#[must_use]
pub fn clean() -> Vec<String> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    ids.filter_map(|id| {
        // Another user's environment cannot be read, and another user's process is not ours to kill.
        let environment = std::fs::read(format!("/proc/{id}/environ")).ok()?;
        (owner_in(&environment)?.liveness() == Liveness::Dead).then_some(())?;
        let name = std::fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
        kill(Pid::from_raw(id), Signal::SIGKILL).ok()?;
        Some(format!("process {id} ({})", name.trim()))
    })
    .collect()
}

fn owner_in(environment: &[u8]) -> Option<Owner> {
    let prefix = format!("{VARIABLE}=");
    let entry = environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(prefix.as_bytes()))?;
    Owner::parse(std::str::from_utf8(entry).ok()?)
}

#[cfg(test)]
mod tests {
    use std::{os::unix::process::CommandExt as _, process::Command, time::Duration};

    use super::*;
    use crate::clock::{RunClock, pause};

    #[test]
    fn the_owner_is_found_among_other_variables() {
        let text = format!("A=1\0{VARIABLE}={}\0B=2\0", Owner::me());
        assert_eq!(owner_in(text.as_bytes()), Some(Owner::me()));
        assert_eq!(owner_in(b"A=1\0B=2\0"), None);
        assert_eq!(owner_in(format!("{VARIABLE}=nonsense\0").as_bytes()), None);
    }

    /// One of a dead owner, one of this process: only the first may go.
    #[tokio::test]
    async fn only_what_belongs_to_nobody_is_killed() {
        let sleeper = |owner: &str| {
            let mut command = Command::new("sleep");
            command.arg("60").env(VARIABLE, owner).process_group(0);
            command.spawn().unwrap()
        };
        let dead = Owner::me().to_string().replacen(&std::process::id().to_string(), "4194305", 1);
        let (mut left, mut ours) = (sleeper(&dead), sleeper(&Owner::me().to_string()));
        // Another test may clean, too.
        let _ = clean();
        let clock = RunClock::start();
        let deadline = clock.deadline(Duration::from_secs(20));
        while left.try_wait().unwrap().is_none() {
            assert!(!deadline.passed(clock), "the leftover is still alive");
            let _ = clean();
            pause(Duration::from_millis(20)).await;
        }
        assert!(ours.try_wait().unwrap().is_none(), "an operator of a living harness was killed");
        ours.kill().unwrap();
        ours.wait().unwrap();
    }
}
