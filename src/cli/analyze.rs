//! `analyze`: judge finished runs again, without a cluster.

use std::path::{Path, PathBuf};

use super::{
    arguments::{Analyze, Global},
    exit::Exit,
    output, publish,
};
use crate::campaign;

/// `reconverge analyze`.
pub fn analyze(command: &Analyze, _: &Global) -> Exit {
    let mut verdicts = Vec::new();
    let mut exit = Exit::Pass;
    for folder in scenario_folders(&command.directory) {
        match campaign::analyze(&folder) {
            Ok(verdict) => {
                exit = exit.worst(Exit::of(verdict.outcome, command.allow_inconclusive));
                verdicts.push(verdict);
            }
            Err(error) => {
                output::error(&campaign::chain(&error));
                exit = exit.worst(Exit::Environment);
            }
        }
    }
    if verdicts.is_empty() && exit == Exit::Pass {
        output::error(&format!("{} holds no runs", command.directory.display()));
        return Exit::Nothing;
    }
    publish::print(&verdicts, None, command.output);
    exit
}

/// The folder itself when it is one scenario's, else every folder in it that is.
fn scenario_folders(directory: &Path) -> Vec<PathBuf> {
    if directory.join("reference-1").is_dir() {
        return vec![directory.to_owned()];
    }
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|p| p.join("reference-1").is_dir()).collect();
    found.sort();
    found
}
