//! Tables of objects, one per group and resource, under one revision counter.

use std::sync::Arc;

use serde_json::Value;

use super::{Event, EventKind};

/// The objects of one table by key, in the order of a list.
pub type Objects = imbl::OrdMap<String, Arc<Value>>;

/// Events that are kept per table. A watch or a list that starts before them is answered with 410, as by a server
/// whose watch cache no longer reaches that far back.
const RING: usize = 4096;

/// A fresh server has already written its own objects, so real revisions never start at 1.
const FIRST_REVISION: u64 = 1;

/// The revision asked for is older than the history that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expired {
    pub oldest: u64,
}

#[derive(Debug, Clone, Default)]
struct Table {
    objects: Objects,
    ring: imbl::Vector<Event>,
    /// The last revision that was dropped from the ring: history after it is complete.
    dropped: u64,
    /// The last event that was dropped: `dropped`, or less after a compaction.
    lost: u64,
    /// The objects right after `dropped`.
    base: Objects,
}

/// All tables.
#[derive(Debug, Clone)]
pub struct Store {
    revision: u64,
    tables: imbl::OrdMap<String, Table>,
}

impl Default for Store {
    fn default() -> Self {
        Self { revision: FIRST_REVISION, tables: imbl::OrdMap::new() }
    }
}

impl Store {
    /// The revision of the last write.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    #[must_use]
    pub fn get(&self, table: &str, key: &str) -> Option<Arc<Value>> {
        self.tables.get(table)?.objects.get(key).cloned()
    }

    /// All objects of a table now.
    #[must_use]
    pub fn objects(&self, table: &str) -> Objects {
        self.tables.get(table).map(|t| t.objects.clone()).unwrap_or_default()
    }

    /// All objects of a table as they were at `revision`.
    ///
    /// # Errors
    /// When the history no longer reaches back to it.
    pub fn objects_at(&self, table: &str, revision: u64) -> Result<Objects, Expired> {
        let Some(t) = self.tables.get(table) else { return Ok(Objects::new()) };
        if revision >= t.ring.back().map_or(t.dropped, |last| last.revision) {
            return Ok(t.objects.clone());
        }
        if revision < t.dropped {
            return Err(Expired { oldest: t.dropped });
        }
        let later = first_after(&t.ring, revision);
        let before = later.checked_sub(1).and_then(|at| t.ring.get(at));
        Ok(before.map_or_else(|| t.base.clone(), |event| event.after.clone()))
    }

    /// The events of a table after `revision`, oldest first.
    ///
    /// # Errors
    /// When some of them are no longer kept.
    pub fn events_after(&self, table: &str, revision: u64) -> Result<Vec<Event>, Expired> {
        let Some(t) = self.tables.get(table) else { return Ok(Vec::new()) };
        if revision < t.dropped {
            return Err(Expired { oldest: t.dropped });
        }
        Ok(t.ring.iter().skip(first_after(&t.ring, revision)).cloned().collect())
    }

    /// [`Store::events_after`] for a watch that has followed the table up to `revision`: a compaction does not end it
    /// when nothing happened to the table meanwhile.
    ///
    /// # Errors
    /// When some of them are no longer kept.
    pub fn events_followed(&self, table: &str, revision: u64) -> Result<Vec<Event>, Expired> {
        let revision =
            self.tables.get(table).filter(|t| t.lost <= revision).map_or(revision, |t| revision.max(t.dropped));
        self.events_after(table, revision)
    }

    /// Writes an object and gives it the new revision.
    pub fn put(&mut self, table: &str, key: &str, object: Value) -> Event {
        let previous = self.get(table, key);
        let kind = if previous.is_some() { EventKind::Modified } else { EventKind::Added };
        self.append(table, key, kind, object, previous)
    }

    /// Removes an object; `last` is its final state.
    pub fn remove(&mut self, table: &str, key: &str, last: Value) -> Event {
        let previous = self.get(table, key);
        self.append(table, key, EventKind::Deleted, last, previous)
    }

    /// Forgets the history up to the present, so that older watches and lists are answered with 410.
    pub fn compact(&mut self) {
        let revision = self.revision;
        let names: Vec<String> = self.tables.keys().cloned().collect();
        for name in names {
            if let Some(t) = self.tables.get_mut(&name) {
                t.lost = t.ring.back().map_or(t.lost, |last| last.revision);
                t.ring = imbl::Vector::new();
                t.dropped = revision;
                t.base = t.objects.clone();
            }
        }
    }

    fn append(
        &mut self,
        table: &str,
        key: &str,
        kind: EventKind,
        mut object: Value,
        previous: Option<Arc<Value>>,
    ) -> Event {
        self.revision += 1;
        if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            meta.insert("resourceVersion".into(), self.revision.to_string().into());
        }
        let object = Arc::new(object);
        let t = self.tables.entry(table.to_owned()).or_default();
        if kind == EventKind::Deleted {
            t.objects.remove(key);
        } else {
            t.objects.insert(key.to_owned(), Arc::clone(&object));
        }
        let event = Event { revision: self.revision, kind, object, previous, after: t.objects.clone() };
        t.ring.push_back(event.clone());
        if t.ring.len() > RING
            && let Some(old) = t.ring.pop_front()
        {
            t.dropped = old.revision;
            t.lost = old.revision;
            t.base = old.after;
        }
        event
    }
}

/// Index of the first event after `revision`; events are sorted by revision.
fn first_after(ring: &imbl::Vector<Event>, revision: u64) -> usize {
    ring.binary_search_by(
        |e| if e.revision <= revision { std::cmp::Ordering::Less } else { std::cmp::Ordering::Greater },
    )
    .unwrap_or_else(|at| at)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(n: u64) -> Value {
        json!({"metadata": {"name": "a"}, "n": n})
    }

    #[test]
    fn a_write_stamps_the_revision_and_old_lists_are_exact() {
        let mut store = Store::default();
        let first = store.put("pods", "x/a", object(1)).revision;
        let second = store.put("pods", "x/a", object(2)).revision;
        store.remove("pods", "x/a", object(2));
        assert_eq!(store.objects_at("pods", first).unwrap()["x/a"]["n"], 1);
        assert_eq!(store.objects_at("pods", second).unwrap()["x/a"]["metadata"]["resourceVersion"], second.to_string());
        assert!(store.objects("pods").is_empty());
        assert!(store.objects_at("pods", first - 1).unwrap().is_empty());
        let kinds: Vec<EventKind> = store.events_after("pods", first).unwrap().iter().map(|e| e.kind).collect();
        assert_eq!(kinds, [EventKind::Modified, EventKind::Deleted]);
    }

    #[test]
    fn a_fork_does_not_see_later_writes() {
        let mut store = Store::default();
        store.put("pods", "x/a", object(1));
        let fork = store.clone();
        store.put("pods", "x/b", object(2));
        assert_eq!(fork.objects("pods").len(), 1);
        assert_eq!(fork.revision() + 1, store.revision());
    }

    #[test]
    fn history_is_bounded() {
        let mut store = Store::default();
        let first = store.put("pods", "x/a", object(0)).revision;
        for n in 0..=RING as u64 {
            store.put("pods", "x/a", object(n));
        }
        assert!(store.events_after("pods", first - 1).is_err());
        assert!(store.objects_at("pods", first - 1).is_err());
        assert_eq!(store.events_after("pods", store.revision() - 1).unwrap().len(), 1);
        store.put("nodes", "n", object(1));
        store.compact();
        assert!(store.events_after("pods", store.revision() - 1).is_err());
        // The last revision was of another table: who followed this one has missed nothing.
        assert!(store.events_followed("pods", store.revision() - 1).unwrap().is_empty());
        assert!(store.events_followed("pods", store.revision() - 2).is_err());
        assert!(store.events_after("pods", store.revision()).unwrap().is_empty());
    }
}
