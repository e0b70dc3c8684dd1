//! The history of a run while it is made: one recorder that the proxy and the observer both write to.
//!
//! # Guarantees
//! Entries are kept in the order in which they were recorded, and are written to `history.jsonl` as they come, so
//! that a killed run leaves what it saw. `seq` and `write_ordinal` are given here, under one lock.

use std::{
    fs::File,
    io::Write as _,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::{
    clock::{Pulse, RunClock},
    event::{Actor, Change, FaultRecord, Mark, MarkName, Phase, Request},
};

/// Everything that happened in one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    pub requests: Vec<Request>,
    pub changes: Vec<Change>,
    pub marks: Vec<Mark>,
    pub faults: Vec<FaultRecord>,
}

impl History {
    /// The operator's committed-or-attempted writes, in order.
    pub fn writes(&self) -> impl DoubleEndedIterator<Item = &Request> {
        self.requests.iter().filter(|request| request.actor == Actor::Operator && request.is_write())
    }

    /// The first mark of that name.
    #[must_use]
    pub fn mark(&self, name: MarkName) -> Option<&Mark> {
        self.marks.iter().find(|mark| mark.name == name)
    }

    /// The last mark of that name.
    #[must_use]
    pub fn last_mark(&self, name: MarkName) -> Option<&Mark> {
        self.marks.iter().rev().find(|mark| mark.name == name)
    }
}

/// One line of `history.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Entry {
    Request(Box<Request>),
    Change(Box<Change>),
    Mark(Mark),
    Fault(FaultRecord),
}

/// An [`Entry`] that is written without a copy.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Line<'a> {
    Request(&'a Request),
    Change(&'a Change),
    Mark(&'a Mark),
    Fault(&'a FaultRecord),
}

/// Counters for waiting: what the operator did up to now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Activity {
    /// All requests of the operator, background ones included.
    pub requests: u64,
    /// Its writes that count (see [`Request::is_write`]).
    pub writes: u64,
    /// Its writes that the server committed.
    pub committed: u64,
    /// When the last counted write ended, in time of the recorder's pulse.
    pub last_write_ms: u64,
    /// When the last object change was seen, by whomever, in time of the recorder's pulse.
    pub last_change_ms: u64,
    /// Requests that the embedded server refused as unsupported (501).
    pub refused: u64,
}

#[derive(Debug)]
struct Inner {
    history: History,
    activity: Activity,
    phase: Phase,
    incarnation: u32,
    file: Option<File>,
    /// The first error of writing the file; reported once at the end.
    file_error: Option<std::io::Error>,
}

/// A shared handle; cheap to clone.
#[derive(Debug, Clone)]
pub struct Recorder {
    inner: Arc<Mutex<Inner>>,
    activity: watch::Sender<Activity>,
    pub clock: RunClock,
    pub pulse: Pulse,
}

impl Recorder {
    /// A recorder that also writes to `file`, when given.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub fn new(clock: RunClock, file: Option<&Path>) -> std::io::Result<Self> {
        let file = file.map(File::create).transpose()?;
        let inner = Inner {
            history: History::default(),
            activity: Activity::default(),
            phase: Phase::Install,
            incarnation: 0,
            file,
            file_error: None,
        };
        Ok(Self {
            inner: Arc::new(Mutex::new(inner)),
            activity: watch::Sender::new(Activity::default()),
            clock,
            pulse: Pulse::default(),
        })
    }

    /// Takes a request; fills in `seq`, `phase`, `incarnation` and `write_ordinal`.
    pub fn request(&self, mut request: Request) {
        let mut inner = self.lock();
        request.seq = inner.history.requests.len() as u64 + 1;
        request.phase = inner.phase;
        request.incarnation = inner.incarnation;
        if request.actor == Actor::Operator {
            inner.activity.requests += 1;
            if request.answer.status == 501 {
                inner.activity.refused += 1;
            }
            if request.is_write() {
                inner.activity.writes += 1;
                inner.activity.last_write_ms = self.pulse.now_ms();
                if request.committed == Some(true) {
                    inner.activity.committed += 1;
                    request.write_ordinal = Some(inner.activity.committed);
                }
            }
        }
        inner.write(&Line::Request(&request));
        inner.history.requests.push(request);
        self.publish(&inner);
    }

    /// Takes a change that the observer saw; fills in `phase`.
    pub fn change(&self, mut change: Change) {
        let mut inner = self.lock();
        change.phase = inner.phase;
        inner.activity.last_change_ms = self.pulse.now_ms();
        inner.write(&Line::Change(&change));
        inner.history.changes.push(change);
        self.publish(&inner);
    }

    /// Marks the present instant.
    pub fn mark(&self, name: MarkName, detail: impl Into<String>) {
        let mark = Mark { at_ms: self.clock.now_ms(), name, detail: detail.into() };
        let mut inner = self.lock();
        inner.write(&Line::Mark(&mark));
        inner.history.marks.push(mark);
    }

    /// Takes the final account of one fault.
    pub fn fault(&self, fault: FaultRecord) {
        let mut inner = self.lock();
        inner.write(&Line::Fault(&fault));
        inner.history.faults.push(fault);
    }

    /// Everything recorded from now on belongs to `phase`.
    pub fn enter(&self, phase: Phase) {
        self.lock().phase = phase;
    }

    #[must_use]
    pub fn phase(&self) -> Phase {
        self.lock().phase
    }

    /// The operator was started again.
    pub fn next_incarnation(&self) -> u32 {
        let mut inner = self.lock();
        inner.incarnation += 1;
        inner.incarnation
    }

    #[must_use]
    pub fn activity(&self) -> Activity {
        *self.activity.borrow()
    }

    /// Wakes its receiver at every entry.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Activity> {
        self.activity.subscribe()
    }

    /// Reads what was recorded up to now, without a copy.
    pub fn read<T>(&self, look: impl FnOnce(&History) -> T) -> T {
        look(&self.lock().history)
    }

    /// A copy of what was recorded up to now.
    #[must_use]
    pub fn history(&self) -> History {
        self.lock().history.clone()
    }

    /// Everything that was recorded, once the file is known to hold it, too.
    ///
    /// # Errors
    /// The first error met while writing it.
    pub fn finish(&self) -> std::io::Result<History> {
        let mut inner = self.lock();
        if let Some(error) = inner.file_error.take() {
            return Err(error);
        }
        Ok(inner.history.clone())
    }

    fn publish(&self, inner: &Inner) {
        self.activity.send_replace(inner.activity);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn write(&mut self, line: &Line<'_>) {
        let Some(file) = &mut self.file else { return };
        let text = serde_json::to_vec(line).map_err(std::io::Error::from);
        let done = text.and_then(|mut text| {
            text.push(b'\n');
            file.write_all(&text)
        });
        if let Err(error) = done {
            self.file_error.get_or_insert(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{event::Verb, verdict::sample::Sample};

    /// A committed create by the operator.
    fn write() -> Request {
        let mut request = Sample::reference().build().history.requests[0].clone();
        (request.seq, request.write_ordinal, request.committed) = (0, None, Some(true));
        request
    }

    fn recorder() -> Recorder {
        Recorder::new(RunClock::start(), None).unwrap()
    }

    /// Crash points count committed writes, so neither reads nor refused writes may take a number.
    #[test]
    fn only_committed_writes_of_the_operator_are_numbered() {
        let recorder = recorder();
        let mut read = write();
        read.target.verb = Verb::Get;
        let mut lease = write();
        (lease.target.group, lease.target.resource) = ("coordination.k8s.io".into(), "leases".into());
        let refused = Request { committed: Some(false), ..write() };
        let unknown = Request { committed: None, ..write() };
        let dry = Request { dry_run: true, ..write() };
        let own = Request { actor: Actor::Tester, ..write() };
        for request in [write(), read, lease, refused, unknown, dry, own, write()] {
            recorder.request(request);
        }
        let history = recorder.finish().unwrap();
        let ordinals: Vec<_> = history.requests.iter().map(|request| request.write_ordinal).collect();
        assert_eq!(ordinals, [Some(1), None, None, None, None, None, None, Some(2)]);
        assert!(history.requests.iter().map(|request| request.seq).eq(1..=8));
        let activity = recorder.activity();
        assert_eq!((activity.requests, activity.writes, activity.committed), (7, 4, 2), "not the tester's own");
    }

    #[test]
    fn entries_carry_the_phase_and_the_incarnation_of_their_moment() {
        let recorder = recorder();
        recorder.next_incarnation();
        recorder.request(write());
        recorder.enter(Phase::Rest);
        recorder.next_incarnation();
        recorder.request(write());
        recorder.change(Sample::reference().build().history.changes[0].clone());
        recorder.read(|history| {
            let moments: Vec<_> = history.requests.iter().map(|request| (request.phase, request.incarnation)).collect();
            assert_eq!(moments, [(Phase::Install, 1), (Phase::Rest, 2)]);
            assert_eq!(history.changes[0].phase, Phase::Rest);
        });
    }

    #[test]
    fn waits_see_when_something_last_moved() {
        let recorder = recorder();
        let seen = recorder.subscribe();
        recorder.pulse.advance(Duration::from_millis(40));
        recorder.request(write());
        assert!(seen.has_changed().unwrap());
        recorder.pulse.advance(Duration::from_millis(10));
        recorder.change(Sample::reference().build().history.changes[0].clone());
        let mut refused = write();
        (refused.answer.status, refused.target.verb) = (501, Verb::Get);
        recorder.request(refused);
        let activity = recorder.activity();
        assert_eq!((activity.last_write_ms, activity.last_change_ms, activity.refused), (40, 50, 1));
    }

    #[test]
    fn marks_are_found_from_both_ends() {
        let recorder = recorder();
        for detail in ["first", "second"] {
            recorder.mark(MarkName::Converged, detail);
        }
        let history = recorder.history();
        let detail = |mark: Option<&Mark>| mark.map(|mark| mark.detail.clone());
        assert_eq!(detail(history.mark(MarkName::Converged)).as_deref(), Some("first"));
        assert_eq!(detail(history.last_mark(MarkName::Converged)).as_deref(), Some("second"));
        assert_eq!(history.mark(MarkName::Healed), None);
    }

    /// Read before `finish`: a run that is killed leaves what it saw, in the order in which it saw it.
    #[test]
    fn the_file_holds_every_entry_as_it_comes() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("history.jsonl");
        let recorder = Recorder::new(RunClock::start(), Some(&file)).unwrap();
        let sample = Sample::perturbed().build().history;
        recorder.mark(MarkName::OperatorStarted, "");
        recorder.request(write());
        recorder.change(sample.changes[0].clone());
        recorder.fault(sample.faults[0].clone());
        recorder.mark(MarkName::Healed, "");
        let text = std::fs::read_to_string(&file).unwrap();
        let entries: Vec<Entry> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let History { mut requests, mut changes, marks, faults } = recorder.finish().unwrap();
        let expected = [
            Entry::Mark(marks[0].clone()),
            Entry::Request(Box::new(requests.remove(0))),
            Entry::Change(Box::new(changes.remove(0))),
            Entry::Fault(faults[0].clone()),
            Entry::Mark(marks[1].clone()),
        ];
        assert_eq!(entries, expected);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_an_error_at_the_end() {
        let missing = Path::new("no such folder/history.jsonl");
        assert!(Recorder::new(RunClock::start(), Some(missing)).is_err());
        // The device that is always full.
        let recorder = Recorder::new(RunClock::start(), Some(Path::new("/dev/full"))).unwrap();
        recorder.mark(MarkName::Healed, "");
        assert_eq!(recorder.finish().unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    }
}
