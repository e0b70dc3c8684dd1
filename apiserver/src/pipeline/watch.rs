//! Watches: the events of one table, filtered, from some revision on.
//!
//! # Guarantees
//! Events come in commit order, each once. An object that leaves the selector is DELETED, one that enters it ADDED.
//! Dropping a watcher ends it; it owns no task.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::{
    status::ApiError,
    store::{Event, EventKind, Expired},
};

use super::{
    answer::present, call::Call, cluster::Cluster, list, negotiate::Form, selectors::Selector, table, target::Query,
};

/// How often an idle watch says how far it has come, when the client allows bookmarks.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

/// The shortest time after which a server ends a watch that names no timeout.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1800);

/// A running watch; [`Watcher::next`] gives its frames.
pub struct Watcher {
    cluster: Arc<Cluster>,
    call: Call,
    selector: Selector,
    form: Form,
    /// Events up to this revision have been looked at.
    cursor: u64,
    /// Whether the cursor is this watch's own, and not one that the client came with.
    following: bool,
    bookmarks: bool,
    /// The columns of a table were sent.
    columns_sent: bool,
    pending: VecDeque<Bytes>,
    ended: bool,
    revisions: watch::Receiver<u64>,
    timeout: BoxFuture<'static, ()>,
    bookmark: BoxFuture<'static, ()>,
}

impl std::fmt::Debug for Watcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watcher").field("resource", &self.call.kind.gvr).field("cursor", &self.cursor).finish()
    }
}

impl Watcher {
    /// Starts a watch as the query asks.
    ///
    /// # Errors
    /// For bad options only: a revision that is too old is told by an ERROR event.
    pub(crate) fn start(cluster: &Arc<Cluster>, mut call: Call, query: &Query, form: Form) -> Result<Self, ApiError> {
        list::check_options(query)?;
        let mut fields = query.get("fieldSelector").to_owned();
        if !call.name.is_empty() {
            // A watch of one object, by its URL.
            fields = format!("metadata.name={}", std::mem::take(&mut call.name));
        }
        let selector = Selector::parse(query.get("labelSelector"), &fields, &call.kind)?;
        let asked = list::parse_revision(query.get("resourceVersion"))?;
        let initial = if query.has("sendInitialEvents") { query.flag("sendInitialEvents") } else { asked == 0 };
        let timeout = query.number("timeoutSeconds").filter(|s| *s > 0).map_or(DEFAULT_TIMEOUT, Duration::from_secs);
        let mut watcher = Self {
            revisions: cluster.revisions(&call.kind.table),
            timeout: cluster.clock.sleep(timeout),
            bookmark: cluster.clock.sleep(BOOKMARK_EVERY),
            cluster: Arc::clone(cluster),
            selector,
            form,
            cursor: asked,
            following: false,
            bookmarks: query.flag("allowWatchBookmarks"),
            columns_sent: false,
            pending: VecDeque::new(),
            ended: false,
            call,
        };
        watcher.begin(asked, initial, query.flag("sendInitialEvents"))?;
        Ok(watcher)
    }

    fn begin(&mut self, asked: u64, initial: bool, announce_end: bool) -> Result<(), ApiError> {
        let cluster = Arc::clone(&self.cluster);
        let now = cluster.clock.now();
        let (objects, revision) =
            cluster.read(|state| (state.store.objects(&self.call.kind.table), state.store.revision()));
        if initial && asked > revision {
            return Err(cluster.read(|s| list::not_from_the_future(s, &asked.to_string())).err().unwrap_or_else(
                || {
                    // The revision was reached between the two looks.
                    ApiError::new(504, "Timeout", "the resource version was not reached in time")
                },
            ));
        }
        if initial {
            for (_, object) in list::in_namespace(&objects, &self.call.clone()) {
                if self.selector.matches(object) {
                    self.push("ADDED", object, now);
                }
            }
        }
        if initial || asked == 0 {
            self.cursor = revision;
        }
        if announce_end && self.bookmarks {
            self.push_bookmark(true);
        }
        Ok(())
    }

    /// The next frame, or `None` when the watch has ended.
    ///
    /// # Cancellation
    /// No event is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.pending.pop_front() {
                return Some(frame);
            }
            if self.ended {
                return None;
            }
            // Marked as seen before looking, so that a write in between wakes the wait below.
            self.revisions.borrow_and_update();
            self.collect();
            if !self.pending.is_empty() || self.ended {
                continue;
            }
            tokio::select! {
                biased;
                changed = self.revisions.changed() => self.ended = changed.is_err(),
                () = &mut self.timeout => {
                    self.catch_up();
                    self.ended = true;
                }
                () = &mut self.bookmark => {
                    self.bookmark = self.cluster.clock.sleep(BOOKMARK_EVERY);
                    self.catch_up();
                }
            }
        }
    }

    /// Says how far the watch has come: writes to other tables move it on, too, but do not wake it.
    fn catch_up(&mut self) {
        if self.bookmarks {
            self.collect();
            if !self.ended {
                self.push_bookmark(false);
            }
        }
    }

    /// Turns the events since the cursor into frames.
    fn collect(&mut self) {
        let cluster = Arc::clone(&self.cluster);
        let cursor = self.cursor;
        let table = &self.call.kind.table;
        let (events, revision) = cluster.read(|state| {
            let store = &state.store;
            let events =
                if self.following { store.events_followed(table, cursor) } else { store.events_after(table, cursor) };
            (events, store.revision())
        });
        let now = cluster.clock.now();
        match events {
            Ok(events) => {
                self.following = true;
                for event in &events {
                    self.offer(event, now);
                }
                self.cursor = revision.max(cursor);
            }
            Err(Expired { oldest }) => {
                let status = ApiError::expired(format!("too old resource version: {cursor} ({oldest})")).to_status();
                self.push_raw("ERROR", &status);
                self.ended = true;
            }
        }
    }

    fn offer(&mut self, event: &Event, now: Timestamp) {
        if self.call.kind.namespaced
            && !self.call.namespace.is_empty()
            && super::meta::namespace(&event.object) != self.call.namespace
        {
            return;
        }
        let before = event.previous.as_ref().is_some_and(|old| self.selector.matches(old));
        let after = event.kind != EventKind::Deleted && self.selector.matches(&event.object);
        match (before, after) {
            (false, true) => self.push("ADDED", &event.object, now),
            (true, true) => self.push("MODIFIED", &event.object, now),
            (true, false) if event.kind == EventKind::Deleted => self.push("DELETED", &event.object, now),
            (true, false) => {
                // The client last saw the old state; it is gone from its view as of this revision.
                let mut gone = event.previous.as_deref().cloned().unwrap_or_default();
                super::meta::set(&mut gone, "resourceVersion", event.revision.to_string());
                self.push("DELETED", &gone, now);
            }
            (false, false) => {}
        }
    }

    fn push(&mut self, kind: &str, object: &Value, now: Timestamp) {
        let mut shown = present(self.form, &self.call.kind, object, now);
        if self.form == Form::Table {
            if self.columns_sent {
                table::without_columns(&mut shown);
            }
            self.columns_sent = true;
        }
        self.push_raw(kind, &shown);
    }

    fn push_bookmark(&mut self, initial_end: bool) {
        let (kind, api_version) = match self.form {
            Form::Partial => ("PartialObjectMetadata".to_owned(), "meta.k8s.io/v1".to_owned()),
            _ => (self.call.kind.kind.kind.clone(), self.call.kind.kind.api_version()),
        };
        let mut metadata = json!({"resourceVersion": self.cursor.to_string(), "creationTimestamp": null});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        self.push_raw("BOOKMARK", &json!({"kind": kind, "apiVersion": api_version, "metadata": metadata}));
    }

    fn push_raw(&mut self, kind: &str, object: &Value) {
        let mut frame = json!({"type": kind, "object": object}).to_string();
        frame.push('\n');
        self.pending.push_back(frame.into());
    }
}
