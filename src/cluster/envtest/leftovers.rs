//! The folder of a control plane, and what is left of those whose harness died.
//!
//! # Guarantees
//! A folder says which process owns it and which processes belong to it, each with its start time, so that a number
//! that was given to somebody else is never mistaken. It is removed when its [`Folder`] is dropped.

use std::{
    collections::BTreeSet,
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};
use serde::{Deserialize, Serialize};

use crate::clock::{RunClock, pause};

/// The folders of this process.
static FOLDERS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

const PREFIX: &str = "reconverge-envtest-";
const OWNER: &str = "owner.json";
/// How long a killed process may take to be gone.
const GONE_WITHIN: Duration = Duration::from_secs(5);

/// A process that cannot be mistaken for a later one with its number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Process {
    pid: i32,
    /// In clock ticks since the machine started; 0 where the system does not say.
    started: u64,
}

impl Process {
    fn of(pid: i32) -> Self {
        Self { pid, started: start_of(pid).unwrap_or_default() }
    }

    fn is_alive(&self) -> bool {
        if Path::new("/proc/self/stat").exists() {
            return start_of(self.pid) == Some(self.started);
        }
        kill(Pid::from_raw(self.pid), None).is_ok()
    }
}

/// When a process started; `None` when it is dead, or only waits for its parent to hear of its end.
fn start_of(pid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in brackets may have spaces and brackets itself; the state is the first field after it, the start the
    // twentieth.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let is_dead = matches!(*fields.first()?, "Z" | "X");
    if is_dead { None } else { fields.get(19)?.parse().ok() }
}

#[derive(Debug, Serialize, Deserialize)]
struct Record {
    owner: Process,
    programs: Vec<Process>,
}

/// A folder that only this user may read; it is removed with everything in it when this is dropped.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    record: Record,
}

impl Folder {
    pub(super) fn create() -> io::Result<Self> {
        Self::create_in(&std::env::temp_dir())
    }

    fn create_in(parent: &Path) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let pid = i32::try_from(std::process::id()).map_err(io::Error::other)?;
        loop {
            let path = parent.join(format!("{PREFIX}{pid}-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                // Left by an earlier process with our number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(()) => {
                    let folder = Self { path, record: Record { owner: Process::of(pid), programs: Vec::new() } };
                    FOLDERS.lock().unwrap_or_else(PoisonError::into_inner).insert(folder.path.clone());
                    folder.write()?;
                    return Ok(folder);
                }
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Notes that a program belongs to it.
    pub(super) fn note(&mut self, pid: i32) -> io::Result<()> {
        self.record.programs.push(Process::of(pid));
        self.write()
    }

    fn write(&self) -> io::Result<()> {
        std::fs::write(self.path.join(OWNER), serde_json::to_vec(&self.record)?)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
        FOLDERS.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.path);
    }
}

/// For an abort: programs that are just being killed may still write, and what they leave is for [`clean`].
pub(super) fn remove_own_folders() {
    for folder in FOLDERS.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        let _ = std::fs::remove_dir_all(folder);
    }
}

/// Ends what is left of control planes whose harness is dead; gives one line for each. Nothing left gives none.
pub async fn clean() -> Vec<String> {
    clean_in(&std::env::temp_dir()).await
}

async fn clean_in(parent: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(parent) else { return Vec::new() };
    let mut told = Vec::new();
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some((pid, _)) = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-')) else { continue };
        let record = read(&entry.path());
        let is_owned = match (&record, pid.parse()) {
            (Some(record), _) => record.owner.is_alive(),
            // It died before it wrote the record, or is about to write it.
            (None, Ok(pid)) => start_of(pid).is_some(),
            (None, Err(_)) => true,
        };
        if is_owned {
            continue;
        }
        let programs = record.map(|record| record.programs).unwrap_or_default();
        let alive: Vec<&Process> = programs.iter().filter(|program| program.is_alive()).collect();
        for program in &alive {
            let _ = killpg(Pid::from_raw(program.pid), Signal::SIGKILL);
        }
        let clock = RunClock::start();
        let deadline = clock.deadline(GONE_WITHIN);
        while alive.iter().any(|program| program.is_alive()) && !deadline.passed(clock) {
            pause(Duration::from_millis(20)).await;
        }
        let path = entry.path();
        let shown = path.display();
        told.push(match std::fs::remove_dir_all(&path) {
            Ok(()) => format!("removed the control plane {shown} of process {pid}, {} programs", alive.len()),
            Err(error) => format!("could not remove {shown}: {error}"),
        });
    }
    told
}

fn read(folder: &Path) -> Option<Record> {
    serde_json::from_slice(&std::fs::read(folder.join(OWNER)).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[tokio::test]
    async fn what_has_a_living_owner_stays() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::create_in(parent.path()).unwrap();
        assert_eq!(clean_in(parent.path()).await, [""; 0]);
        let path = folder.path().to_owned();
        drop(folder);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn what_a_dead_owner_left_is_ended_and_removed() {
        let parent = tempfile::tempdir().unwrap();
        let mut dead = Command::new("true").spawn().unwrap();
        let mut left =
            std::os::unix::process::CommandExt::process_group(Command::new("sleep").arg("600"), 0).spawn().unwrap();
        let (owner, program) = (i32::try_from(dead.id()).unwrap(), i32::try_from(left.id()).unwrap());
        let folder = parent.path().join(format!("{PREFIX}{owner}-1"));
        std::fs::create_dir(&folder).unwrap();
        // The start time is another one, as when its number was given to somebody else.
        let record = Record { owner: Process { pid: owner, started: 1 }, programs: vec![Process::of(program)] };
        std::fs::write(folder.join(OWNER), serde_json::to_vec(&record).unwrap()).unwrap();
        dead.wait().unwrap();
        let told = clean_in(parent.path()).await;
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("1 programs"), "{told:?}");
        assert!(!folder.exists());
        assert!(!left.wait().unwrap().success());
        assert_eq!(clean_in(parent.path()).await, [""; 0]);
    }
}
