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
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use serde::{Deserialize, Serialize};

use crate::{
    clock::{RunClock, pause},
    cluster::owner::{Liveness, Owner},
};

/// The folders of this process.
static FOLDERS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

const PREFIX: &str = "reconverge-envtest-";
const OWNER: &str = "owner.json";
/// How long a killed process may take to be gone.
const GONE_WITHIN: Duration = Duration::from_secs(5);

#[derive(Debug, Serialize, Deserialize)]
struct Record {
    owner: Owner,
    programs: Vec<Owner>,
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
        let pid = std::process::id();
        loop {
            let path = parent.join(format!("{PREFIX}{pid}-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                // Left by an earlier process with our number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(()) => {
                    let folder = Self { path, record: Record { owner: Owner::me(), programs: Vec::new() } };
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
    pub(super) fn note(&mut self, pid: u32) -> io::Result<()> {
        self.record.programs.push(Owner::process(pid));
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

/// Ends what is left of control planes whose harness is dead; says what was removed, one line for each.
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
        // Without a record it died before it wrote one, or is about to write it.
        let owner = match (&record, pid.parse()) {
            (Some(record), _) => record.owner.liveness(),
            (None, Ok(pid)) => Owner::process(pid).liveness(),
            (None, Err(_)) => continue,
        };
        if owner != Liveness::Dead {
            continue;
        }
        let mut alive = record.map(|record| record.programs).unwrap_or_default();
        alive.retain(|program| program.liveness() == Liveness::Alive);
        for group in alive.iter().filter_map(|program| i32::try_from(program.pid()).ok()) {
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
        let clock = RunClock::start();
        let deadline = clock.deadline(GONE_WITHIN);
        while alive.iter().any(|program| program.liveness() == Liveness::Alive) && !deadline.passed(clock) {
            pause(Duration::from_millis(20)).await;
        }
        let path = entry.path();
        let shown = path.display();
        match std::fs::remove_dir_all(&path) {
            Ok(()) => told.push(format!("control plane {shown} of process {pid}, {} programs", alive.len())),
            Err(error) => tracing::warn!(%error, "cannot remove {shown}"),
        }
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
        let owner = dead.id();
        let record = Record { owner: Owner::process(owner), programs: vec![Owner::process(left.id())] };
        let folder = parent.path().join(format!("{PREFIX}{owner}-1"));
        std::fs::create_dir(&folder).unwrap();
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
