//! What one run leaves behind: the input of every judge and every report.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{history::History, object::ObjectKey, scenario::plan::Plan};

/// All objects at an instant, redacted like the history.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    pub label: SnapshotLabel,
    pub at_ms: u64,
    /// Sorted by key.
    pub objects: Vec<Value>,
}

impl Snapshot {
    /// The objects by key.
    #[must_use]
    pub fn by_key(&self) -> BTreeMap<ObjectKey, &Value> {
        self.objects.iter().filter_map(|object| Some((ObjectKey::of(object)?, object))).collect()
    }
}

/// Which instant of the run a snapshot shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SnapshotLabel {
    /// Before the workload: what install left.
    Installed,
    /// At rest after the workload, before a perturbation at rest.
    Settled,
    /// At rest after healing and recovery; the state that is compared across runs.
    #[default]
    Final,
    /// At rest again, after the rest phase (a forced no-op re-apply and a restart) that must change nothing.
    Rested,
    /// After the workload was deleted.
    Deleted,
}

/// How an operator process ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorExit {
    pub at_ms: u64,
    pub incarnation: u32,
    /// `exit code 1`, `signal 9`.
    pub how: String,
    /// Whether the harness made it exit.
    pub asked: bool,
    /// The last lines of its output, redacted.
    pub log_tail: String,
}

/// One run, as it is judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// `reference-1`, or the perturbation's name.
    pub name: String,
    pub plan: Plan,
    pub history: History,
    pub snapshots: Vec<Snapshot>,
    pub exits: Vec<OperatorExit>,
    /// Such as `embedded (kube-apiserver 1.34.4 subset)`.
    pub cluster: String,
    /// Why nothing can be said about this run, beside what oracles find: a refused request, no request seen at the
    /// proxy after the perturbation, an interrupted run.
    pub inconclusive: Vec<String>,
    pub duration_ms: u64,
}

impl RunRecord {
    #[must_use]
    pub fn snapshot(&self, label: SnapshotLabel) -> Option<&Snapshot> {
        self.snapshots.iter().find(|snapshot| snapshot.label == label)
    }
}
