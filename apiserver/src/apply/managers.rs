//! The entries of `metadata.managedFields`.
//!
//! In and out: that list. Guaranteed: one entry for each manager, operation, subresource and, for updates, version;
//! entries without fields are dropped; applies come first, then by time and name. Deliberately not done: fields types
//! other than `FieldsV1`, which make the list unreadable as a whole, as on the real server.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{
    Writer,
    fieldset::{FieldSet, FieldSetError},
};
use crate::clock::rfc3339_seconds;

/// With more updaters than this the oldest are folded into one entry.
const UPDATERS_MAX: usize = 10;
const FOLDED_MANAGER: &str = "ancient-changes";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn text(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// What tells entries apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ManagerId {
    pub(super) manager: String,
    pub(super) operation: Operation,
    /// Empty for applies: an applier keeps its one entry when it moves to another version.
    pub(super) api_version: String,
    pub(super) subresource: String,
}

impl ManagerId {
    pub(super) fn of(writer: &Writer<'_>, operation: Operation) -> Self {
        let manager = if writer.manager.is_empty() { "unknown" } else { writer.manager };
        Self::new(manager, operation, writer.api_version, writer.subresource)
    }

    fn new(manager: &str, operation: Operation, api_version: &str, subresource: &str) -> Self {
        let api_version = if operation == Operation::Apply { "" } else { api_version };
        Self {
            manager: manager.to_owned(),
            operation,
            api_version: api_version.to_owned(),
            subresource: subresource.to_owned(),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) set: FieldSet,
    pub(super) api_version: String,
    /// RFC 3339 in UTC with whole seconds; an apply that changed nothing creates an entry without.
    pub(super) time: Option<String>,
}

impl Entry {
    fn seconds(&self) -> i64 {
        self.time.as_deref().and_then(|t| t.parse::<Timestamp>().ok()).map_or(0, |t| t.as_second())
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Managers(pub(super) BTreeMap<ManagerId, Entry>);

/// Why `managedFields` cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ManagersError {
    #[error("managed fields are not a list of entries")]
    NotEntries,
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    #[error("apiVersion must not be empty")]
    NoVersion,
    #[error("missing fieldsType in managed fields entry {0}")]
    NoFieldsType(usize),
    #[error("invalid fieldsType \"{1}\" in managed fields entry {0}")]
    FieldsType(usize, String),
    #[error("managed fields entry {0} has an invalid time")]
    Time(usize),
    #[error("error decoding set: {0}")]
    Set(#[from] FieldSetError),
}

impl Managers {
    /// The entries of an object; none if it has no `managedFields`.
    pub(super) fn of_object(object: &Value) -> Result<Self, ManagersError> {
        let list = match object.pointer("/metadata/managedFields") {
            None | Some(Value::Null) => return Ok(Self::default()),
            Some(list) => list.as_array().ok_or(ManagersError::NotEntries)?,
        };
        let entries = list.iter().enumerate().map(|(i, entry)| decode(i, entry));
        Ok(Self(entries.collect::<Result<_, _>>()?))
    }

    /// Writes the entries into an object; without entries the field goes.
    pub(super) fn store(&self, object: &mut Value) {
        let mut order: Vec<(&ManagerId, &Entry)> = self.0.iter().collect();
        order.sort_by_cached_key(|(id, entry)| {
            let (manager, subresource) = (id.manager.clone(), id.subresource.clone());
            (id.operation, entry.seconds(), manager, entry.api_version.clone(), subresource)
        });
        let list: Vec<Value> = order.into_iter().map(|(id, entry)| encode(id, entry)).collect();
        let Some(root) = object.as_object_mut() else { return };
        let metadata = root.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        if let Some(fields) = metadata.as_object_mut() {
            fields.remove("managedFields");
            if !list.is_empty() {
                fields.insert("managedFields".to_owned(), Value::Array(list));
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn drop_empty(&mut self) {
        self.0.retain(|_, entry| !entry.set.is_empty());
    }

    /// Everything that anyone owns.
    pub(super) fn owned(&self) -> FieldSet {
        self.0.values().fold(FieldSet::default(), |all, entry| all.union(&entry.set))
    }

    /// Adds fields to a manager's own, as of `now`.
    pub(super) fn credit(&mut self, id: ManagerId, set: &FieldSet, api_version: &str, now: Timestamp) {
        let entry = self.0.entry(id).or_default();
        entry.set = entry.set.union(set);
        entry.api_version = api_version.to_owned();
        entry.time = Some(rfc3339_seconds(now));
    }

    /// Folds the oldest updaters of each version into one entry until few enough are left.
    pub(super) fn fold_oldest(&mut self) {
        let updates = self.0.iter().filter(|(id, _)| id.operation == Operation::Update);
        let mut updaters: Vec<(i64, ManagerId)> = updates.map(|(id, e)| (e.seconds(), id.clone())).collect();
        updaters.sort();
        let mut left = updaters.len();
        let mut first_of_version: BTreeMap<String, ManagerId> = BTreeMap::new();
        for (_, id) in updaters {
            if left <= UPDATERS_MAX {
                break;
            }
            let version = id.api_version.clone();
            let Some(first) = first_of_version.get(&version) else {
                first_of_version.insert(version, id);
                continue;
            };
            let bucket = ManagerId::new(FOLDED_MANAGER, Operation::Update, &version, "");
            let known = self.0.remove(&bucket).or_else(|| self.0.remove(first));
            let (known, entry) = (known.unwrap_or_default(), self.0.remove(&id).unwrap_or_default());
            let set = entry.set.union(&known.set);
            self.0.insert(bucket, Entry { set, api_version: version, time: entry.time });
            left -= 1;
        }
    }
}

fn decode(index: usize, entry: &Value) -> Result<(ManagerId, Entry), ManagersError> {
    let fields = entry.as_object().ok_or(ManagersError::NotEntries)?;
    let text = |key: &str| fields.get(key).and_then(Value::as_str).unwrap_or_default();
    let operation = match text("operation") {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return Err(ManagersError::Operation),
    };
    if text("apiVersion").is_empty() {
        return Err(ManagersError::NoVersion);
    }
    match text("fieldsType") {
        "FieldsV1" => {}
        "" => return Err(ManagersError::NoFieldsType(index)),
        other => return Err(ManagersError::FieldsType(index, other.to_owned())),
    }
    let set = match fields.get("fieldsV1") {
        None | Some(Value::Null) => FieldSet::default(),
        Some(document) => FieldSet::from_json(document)?,
    };
    let time = match fields.get("time") {
        None | Some(Value::Null) => None,
        Some(time) => {
            let at: Option<Timestamp> = time.as_str().and_then(|t| t.parse().ok());
            Some(rfc3339_seconds(at.ok_or(ManagersError::Time(index))?))
        }
    };
    let id = ManagerId::new(text("manager"), operation, text("apiVersion"), text("subresource"));
    Ok((id, Entry { set, api_version: text("apiVersion").to_owned(), time }))
}

fn encode(id: &ManagerId, entry: &Entry) -> Value {
    let mut out = json!({"operation": id.operation.text(), "apiVersion": entry.api_version, "fieldsType": "FieldsV1",
        "fieldsV1": entry.set.to_json()});
    for (key, text) in [("manager", &id.manager), ("subresource", &id.subresource)] {
        if !text.is_empty() {
            out[key] = text.as_str().into();
        }
    }
    if let Some(time) = &entry.time {
        out["time"] = time.as_str().into();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manager: &str, operation: &str, time: &str) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "v1", "time": time, "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {}}})
    }

    #[test]
    fn entries_are_sorted_by_operation_time_and_name() {
        let list = json!([
            entry("b", "Update", "2024-01-01T00:00:00Z"),
            entry("a", "Update", "2024-01-01T00:00:00Z"),
            entry("c", "Update", "2023-01-01T00:00:00+01:00"),
            entry("z", "Apply", "2025-01-01T00:00:00Z")
        ]);
        let mut object = json!({"metadata": {"managedFields": list}});
        Managers::of_object(&object).unwrap().store(&mut object);
        let names: Vec<&str> =
            (0..4).map(|i| object["metadata"]["managedFields"][i]["manager"].as_str().unwrap()).collect();
        assert_eq!(names, ["z", "c", "a", "b"]);
        assert_eq!(object["metadata"]["managedFields"][1]["time"], "2022-12-31T23:00:00Z");
    }

    #[test]
    fn unreadable_entries_are_errors() {
        for (key, value) in [
            ("operation", json!("Patch")),
            ("apiVersion", json!("")),
            ("fieldsType", json!("FieldsV2")),
            ("fieldsType", json!("")),
            ("time", json!("yesterday")),
            ("fieldsV1", json!({"x": {}})),
        ] {
            let mut bad = entry("a", "Update", "2024-01-01T00:00:00Z");
            bad[key] = value;
            assert!(Managers::of_object(&json!({"metadata": {"managedFields": [bad]}})).is_err(), "{key}");
        }
    }

    #[test]
    fn the_oldest_of_too_many_updaters_are_folded() {
        let list: Vec<Value> = (10..22)
            .map(|i| {
                let mut one = entry(&format!("m{i}"), "Update", &format!("2024-01-{i}T00:00:00Z"));
                one["fieldsV1"] = json!({format!("f:x{i}"): {}});
                one
            })
            .collect();
        let mut managers = Managers::of_object(&json!({"metadata": {"managedFields": list}})).unwrap();
        managers.fold_oldest();
        assert_eq!(managers.0.len(), 10);
        let folded = managers.0.iter().find(|(id, _)| id.manager == FOLDED_MANAGER).unwrap().1;
        assert_eq!(folded.set.to_json(), json!({"f:x10": {}, "f:x11": {}, "f:x12": {}}));
        assert_eq!(folded.time.as_deref(), Some("2024-01-12T00:00:00Z"));
    }
}
