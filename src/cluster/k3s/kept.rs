//! What outlives an invocation: the name of a node, held by one process at a time, and the record of a kept one.
//!
//! # Guarantees
//! A name belongs to whoever holds the lock of its file; the lock ends with its process, however that ends. Names
//! differ between machines and between folders of locks, so that nobody takes the node of a process whose lock it
//! cannot see for a leftover.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::K3sError;
use crate::cluster::owner;
use crate::{cluster::wipe::Baseline, scenario::resolve::cache_dir};

/// Before every name of a node.
pub const PREFIX: &str = "reconverge-k3s-";

/// A name that this process holds.
#[derive(Debug)]
pub struct Slot {
    pub name: String,
    directory: PathBuf,
    /// Holds the lock as long as it is open.
    _lock: File,
}

/// What the next process needs to know about a kept node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub image: String,
    pub baseline: Baseline,
}

/// The name that nodes of an image have on this machine, where locks lie in `directory`.
#[must_use]
pub fn name_for(directory: &Path, image_id: &str, arguments: &[String]) -> String {
    let mut hash = Sha256::new();
    let place = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    let parts = [image_id, &owner::host(), &place.to_string_lossy()].map(str::to_owned);
    for part in parts.iter().chain(arguments) {
        hash.update(part);
        hash.update([0]);
    }
    let digest: String = hash.finalize().iter().take(5).map(|byte| format!("{byte:02x}")).collect();
    format!("{PREFIX}{digest}")
}

/// A name for one more node, that nobody else uses.
#[must_use]
pub fn name_apart(name: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    format!("{name}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Where locks and records lie.
#[must_use]
pub fn directory() -> PathBuf {
    cache_dir().join("clusters")
}

impl Slot {
    /// The name, unless another process holds it.
    ///
    /// # Errors
    /// When there is no place for the lock.
    pub fn claim(directory: &Path, name: &str) -> Result<Option<Self>, K3sError> {
        let path = directory.join(format!("{name}.lock"));
        let failed = |source| K3sError::State { path: path.clone(), source };
        fs::create_dir_all(directory).map_err(failed)?;
        let lock = File::options().create(true).truncate(false).write(true).open(&path).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(Self { name: name.to_owned(), directory: directory.to_owned(), _lock: lock })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    /// What an earlier process kept under this name; nothing when that cannot be read.
    #[must_use]
    pub fn record(&self) -> Option<Record> {
        serde_json::from_slice(&fs::read(self.record_path()).ok()?).ok()
    }

    /// Keeps the node for the next process; gives the file of its kubeconfig.
    ///
    /// # Errors
    /// When the files cannot be written.
    pub fn keep(&self, record: &Record, kubeconfig: &str) -> Result<PathBuf, K3sError> {
        let path = self.directory.join(format!("{}.kubeconfig", self.name));
        write_private(&path, kubeconfig.as_bytes()).map_err(|source| K3sError::State { path: path.clone(), source })?;
        let record_path = self.record_path();
        let failed = |source| K3sError::State { path: record_path.clone(), source };
        let text = serde_json::to_vec(record).map_err(|error| failed(error.into()))?;
        write_private(&record_path, &text).map_err(failed)?;
        Ok(path)
    }

    /// The node is kept no longer.
    pub fn forget(&self) {
        let _ = fs::remove_file(self.record_path());
        let _ = fs::remove_file(self.directory.join(format!("{}.kubeconfig", self.name)));
    }

    /// Whether the node of this name was kept.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.record_path().exists()
    }

    fn record_path(&self) -> PathBuf {
        self.directory.join(format!("{}.json", self.name))
    }
}

/// The file holds, or leads to, an administrator's key.
fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::{io::Write as _, os::unix::fs::OpenOptionsExt as _};
    let _ = fs::remove_file(path);
    File::options().create_new(true).write(true).mode(0o600).open(path)?.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_held_once_and_free_again_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        let claim = || Slot::claim(folder.path(), "a").unwrap();
        let held = claim();
        assert!(held.is_some());
        assert!(claim().is_none());
        drop(held);
        assert!(claim().is_some());
    }

    #[test]
    fn a_kept_node_is_found_until_it_is_forgotten() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let slot = Slot::claim(folder.path(), "a").unwrap().unwrap();
        assert_eq!(slot.record(), None);
        let baseline = serde_json::from_value(serde_json::json!([])).unwrap();
        let record = Record { image: "node:1".into(), baseline };
        let path = slot.keep(&record, "{}").unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        drop(slot);
        let slot = Slot::claim(folder.path(), "a").unwrap().unwrap();
        assert_eq!(slot.record(), Some(record));
        slot.forget();
        assert!(!slot.is_kept() && !path.exists());
    }

    #[test]
    fn another_image_or_other_arguments_are_another_node() {
        let name_for = |image, arguments: &[&str]| {
            let arguments: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
            name_for(Path::new("/cache"), image, &arguments)
        };
        let name = name_for("sha256:1", &["server"]);
        assert_eq!(name, name_for("sha256:1", &["server"]));
        assert_ne!(name, name_for("sha256:2", &["server"]));
        assert_ne!(name, name_for("sha256:1", &["server", "--debug"]));
    }

    /// Whoever starts a node under the name of another one removes that.
    #[test]
    fn nodes_of_one_process_have_names_of_their_own() {
        let names = [name_apart("a"), name_apart("a")];
        assert_ne!(names[0], names[1]);
        assert!(names.iter().all(|name| name.starts_with("a-")), "{names:?}");
    }

    /// Whoever cannot see the lock of a node would remove it under its process.
    #[test]
    fn where_locks_lie_elsewhere_nodes_have_other_names() {
        let name_for = |directory| name_for(Path::new(directory), "sha256:1", &[]);
        assert_ne!(name_for("/cache"), name_for("/other/cache"));
        let here = std::env::current_dir().unwrap().join("cache");
        assert_eq!(name_for("cache"), name_for(here.to_str().unwrap()), "it is the place that counts");
    }
}
