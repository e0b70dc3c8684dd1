//! What a real kube-apiserver published about itself, shipped inside the binary.
//!
//! # Flow
//! A path such as `apis/apps/v1.json` gives the recorded bytes, or the parsed JSON, which is kept per process.
//!
//! # Guarantees
//! Nothing is unpacked before it is asked for, so that a server starts in milliseconds although the OpenAPI files
//! have megabytes. The data are never edited here.

use std::{
    collections::BTreeMap,
    io::{Cursor, Read as _},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use serde_json::Value;
use zip::ZipArchive;

/// The minor version that was recorded, as in `kube-apiserver 1.34.4`.
pub const VERSION: &str = "1.34.4";

static BYTES: &[u8] = include_bytes!("../data/kube-apiserver-1.34.4.zip");

type Archive = ZipArchive<Cursor<&'static [u8]>>;

fn archive() -> Option<Archive> {
    static ARCHIVE: OnceLock<Option<Archive>> = OnceLock::new();
    // The clone shares the directory of entries; only the read position is its own.
    ARCHIVE.get_or_init(|| ZipArchive::new(Cursor::new(BYTES)).ok()).clone()
}

/// The recorded bytes of one file.
#[must_use]
pub fn file(path: &str) -> Option<Vec<u8>> {
    let mut archive = archive()?;
    let mut entry = archive.by_name(path).ok()?;
    let mut out = Vec::with_capacity(usize::try_from(entry.size()).unwrap_or_default());
    entry.read_to_end(&mut out).ok()?;
    Some(out)
}

/// The parsed JSON of one file, parsed once per process.
#[must_use]
pub fn json(path: &str) -> Option<Arc<Value>> {
    static CACHE: Mutex<BTreeMap<String, Arc<Value>>> = Mutex::new(BTreeMap::new());
    if let Some(known) = CACHE.lock().unwrap_or_else(PoisonError::into_inner).get(path) {
        return Some(Arc::clone(known));
    }
    // Parsed outside the lock: two threads may both do it, and neither waits for an unrelated file.
    let parsed: Arc<Value> = Arc::new(serde_json::from_slice(&file(path)?).ok()?);
    let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    Some(Arc::clone(cache.entry(path.to_owned()).or_insert(parsed)))
}

/// Names of the recorded files below a folder, in order.
#[must_use]
pub fn names(folder: &str) -> Vec<String> {
    let archive = archive();
    let all = archive.iter().flat_map(|a| a.file_names()).flatten();
    let mut names: Vec<String> = all.filter(|n| n.starts_with(folder)).map(|n| n.into_owned()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_holds_what_was_recorded() {
        assert_eq!(json("version.json").unwrap()["gitVersion"], "v1.34.4");
        assert!(file("openapi/v2.pb").unwrap().len() > 1_000_000);
        assert!(names("apis/").contains(&"apis/apps/v1.json".to_owned()));
        assert!(file("apis/absent.json").is_none());
        assert!(VERSION.starts_with("1.34"));
    }

    #[test]
    fn parsed_files_are_shared() {
        assert!(Arc::ptr_eq(&json("api/v1.json").unwrap(), &json("api/v1.json").unwrap()));
    }
}
