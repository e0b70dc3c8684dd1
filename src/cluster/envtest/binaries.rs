//! Where the programs of a control plane are.
//!
//! `KUBEBUILDER_ASSETS` names their folder, as it does for envtest; without it the newest complete one of this
//! project's own builds is taken.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use super::EnvtestError;

/// A folder that has what a control plane needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binaries {
    folder: PathBuf,
    has_controller_manager: bool,
}

const NEEDED: [&str; 2] = ["kube-apiserver", "etcd"];
const CONTROLLER_MANAGER: &str = "kube-controller-manager";

impl Binaries {
    /// The programs at hand, by the environment.
    ///
    /// # Errors
    /// When there are none; the error says how to get them.
    pub fn at_hand() -> Result<Self, EnvtestError> {
        let assets = std::env::var_os("KUBEBUILDER_ASSETS").filter(|value| !value.is_empty());
        Self::find(assets, &crate::scenario::resolve::cache_dir())
    }

    fn find(assets: Option<OsString>, cache: &Path) -> Result<Self, EnvtestError> {
        if let Some(assets) = assets {
            return Self::in_folder(Path::new(&assets))
                .map_err(|missing| EnvtestError::Incomplete { folder: assets.display().to_string(), missing });
        }
        let built = newest_first(cache);
        let complete = built.iter().find_map(|folder| Self::in_folder(folder).ok());
        complete.ok_or_else(|| EnvtestError::NoBinaries { looked: cache.join("node-*/bin").display().to_string() })
    }

    fn in_folder(folder: &Path) -> Result<Self, &'static str> {
        let has = |name: &str| folder.join(name).is_file();
        if let Some(missing) = NEEDED.into_iter().find(|name| !has(name)) {
            return Err(missing);
        }
        Ok(Self { folder: folder.to_owned(), has_controller_manager: has(CONTROLLER_MANAGER) })
    }

    /// The folder, for whoever shows what was found.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn has_controller_manager(&self) -> bool {
        self.has_controller_manager
    }

    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// The `bin` folders of the builds in the cache.
fn newest_first(cache: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(cache) else { return Vec::new() };
    let mut found: Vec<_> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("node-"))
        .filter_map(|entry| {
            let folder = entry.path().join("bin");
            let changed = folder.metadata().and_then(|about| about.modified()).ok()?;
            Some((changed, folder))
        })
        .collect();
    found.sort();
    found.into_iter().rev().map(|(_, folder)| folder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(folder: &Path, names: &[&str]) {
        std::fs::create_dir_all(folder).unwrap();
        for name in names {
            std::fs::write(folder.join(name), "").unwrap();
        }
    }

    #[test]
    fn the_variable_wins_and_must_be_complete() {
        let cache = tempfile::tempdir().unwrap();
        put(&cache.path().join("node-1/bin"), &["etcd", "kube-apiserver"]);
        let assets = cache.path().join("assets");
        put(&assets, &["etcd"]);
        let error = Binaries::find(Some(assets.clone().into()), cache.path()).unwrap_err().to_string();
        assert!(error.contains("no kube-apiserver"), "{error}");
        put(&assets, &["kube-apiserver"]);
        assert_eq!(Binaries::find(Some(assets.clone().into()), cache.path()).unwrap().folder, assets);
    }

    #[test]
    fn an_incomplete_build_is_passed_over() {
        let cache = tempfile::tempdir().unwrap();
        let none = Binaries::find(None, cache.path()).unwrap_err().to_string();
        assert!(none.contains("KUBEBUILDER_ASSETS") && none.contains("k3s/build.sh binaries"), "{none}");
        put(&cache.path().join("node-2/bin"), &["etcd", "kube-apiserver", "kube-controller-manager"]);
        put(&cache.path().join("node-1/bin"), &["etcd"]);
        let found = Binaries::find(None, cache.path()).unwrap();
        assert_eq!(found.folder, cache.path().join("node-2/bin"));
        assert!(found.has_controller_manager());
    }
}
