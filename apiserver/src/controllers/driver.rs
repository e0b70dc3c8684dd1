//! The work queue that turns changes into controller steps.
//!
//! # Flow
//! [`Change`] -> [`Controller::keys`] -> queue of (controller, key) ordered by due time -> [`Controller::reconcile`].
//!
//! # Guarantees
//! A key is queued at most once per controller, at its earliest due time. All changes known are taken in before a
//! step runs, and steps run one after the other, so that the order of steps depends on the order of changes only.
//! A conflict is retried at once (a few times), any other error after 5 ms, doubling up to 10 s. Time comes from
//! the injected clock.
//!
//! # Not done
//! No parallel workers and no leader election. Dropping the future of [`Driver::run`] between two steps loses the
//! queue only; a new driver rebuilds it from the cluster's state.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use tokio::sync::{mpsc::UnboundedReceiver, watch};
use tokio_util::sync::CancellationToken;

use super::{Change, Client, Controller, Key};
use crate::{clock::SharedClock, status::ApiError};

/// Makes the client of one controller, from its user and its field manager.
pub type ClientFactory = Box<dyn Fn(&str, &str) -> Arc<dyn Client> + Send + Sync>;

/// The first delay after an error; each further failure of the same key doubles it.
const FIRST_DELAY: Duration = Duration::from_millis(5);
/// The longest delay between two tries.
const LAST_DELAY: Duration = Duration::from_secs(10);
/// So many conflicts in a row are retried at once; then they count as other errors do.
const CONFLICT_RETRIES: u32 = 5;
/// Who lists the existing objects at the start.
const LISTER: &str = "system:kube-controller-manager";

/// How far the driver has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct State {
    /// Changes received but not looked at, plus steps that are due now.
    pub pending: usize,
    /// Steps that failed and wait for their next try.
    pub retrying: usize,
    /// When the next delayed step is due (retries, kubelet stages, deadlines).
    pub next_due: Option<Timestamp>,
    /// Changes looked at since the start, for callers that count what they sent.
    pub seen: u64,
    /// Whether the objects that existed at the start were taken in.
    pub started: bool,
}

impl State {
    /// Nothing to do now, nothing failing, and nothing due before `horizon` has passed.
    #[must_use]
    pub fn is_idle(&self, now: Timestamp, horizon: Duration) -> bool {
        self.started
            && self.pending == 0
            && self.retrying == 0
            && self.next_due.is_none_or(|due| due > after(now, horizon))
    }
}

/// A view of a running driver, to await quiescence with.
#[derive(Debug, Clone)]
pub struct Progress(watch::Receiver<State>);

impl Progress {
    /// The last state that the driver told.
    #[must_use]
    pub fn state(&self) -> State {
        *self.0.borrow()
    }

    /// Waits for the next state; `None` when the driver has ended.
    ///
    /// # Cancellation
    /// Safe: no state is lost, the newest is always to be had from [`Progress::state`].
    pub async fn changed(&mut self) -> Option<State> {
        self.0.changed().await.ok()?;
        Some(*self.0.borrow_and_update())
    }
}

type Item = (usize, Key);

/// Work by due time, each item once.
#[derive(Debug, Default)]
struct Queue {
    by_time: BTreeMap<(Timestamp, u64), Item>,
    by_item: BTreeMap<Item, (Timestamp, u64)>,
    failures: BTreeMap<Item, u32>,
    next: u64,
}

impl Queue {
    /// Adds an item, or moves it forward; never back.
    fn add(&mut self, item: Item, due: Timestamp) {
        if let Some(at) = self.by_item.get(&item).copied() {
            if at.0 <= due {
                return;
            }
            self.by_time.remove(&at);
        }
        let at = (due, self.next);
        self.next += 1;
        self.by_time.insert(at, item.clone());
        self.by_item.insert(item, at);
    }

    fn pop(&mut self, now: Timestamp) -> Option<Item> {
        let (&at, _) = self.by_time.first_key_value()?;
        if at.0 > now {
            return None;
        }
        let item = self.by_time.remove(&at)?;
        self.by_item.remove(&item);
        Some(item)
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.by_time.first_key_value().map(|(at, _)| at.0)
    }

    fn state(&self, now: Timestamp) -> State {
        let pending = self.by_time.keys().take_while(|at| at.0 <= now).count();
        let later = self.by_time.keys().map(|at| at.0).find(|due| *due > now);
        State { pending, retrying: self.failures.len(), next_due: later, ..State::default() }
    }

    /// Counts a failure and tells when to try again.
    fn failed(&mut self, item: &Item, conflict: bool) -> Duration {
        let count = self.failures.entry(item.clone()).or_insert(0);
        *count += 1;
        if conflict && *count <= CONFLICT_RETRIES {
            return Duration::ZERO;
        }
        let doublings = (*count - 1).min(11);
        (FIRST_DELAY * 2_u32.pow(doublings)).min(LAST_DELAY)
    }
}

struct Lane {
    controller: Box<dyn Controller>,
    client: Arc<dyn Client>,
}

/// The controllers with their clients and their queue.
pub struct Driver {
    lanes: Vec<Lane>,
    lister: Arc<dyn Client>,
    queue: Queue,
    clock: SharedClock,
    progress: watch::Sender<State>,
    seen: u64,
    started: bool,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.lanes.iter().map(|l| l.controller.name()).collect();
        f.debug_struct("Driver").field("controllers", &names).field("queue", &self.queue).finish_non_exhaustive()
    }
}

impl Driver {
    /// A driver that has not looked at the cluster yet.
    #[must_use]
    pub fn new(clients: &ClientFactory, controllers: Vec<Box<dyn Controller>>, clock: SharedClock) -> Self {
        let lanes = controllers
            .into_iter()
            .map(|controller| {
                let client = clients(&controller.user(), controller.field_manager());
                Lane { controller, client }
            })
            .collect();
        let lister = clients(LISTER, "kube-controller-manager");
        let progress = watch::Sender::new(State::default());
        Self { lanes, lister, queue: Queue::default(), clock, progress, seen: 0, started: false }
    }

    /// A view to await quiescence with.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress(self.progress.subscribe())
    }

    /// Takes in what exists already. To be called once, after the caller has subscribed to changes.
    pub fn start(&mut self) {
        let now = self.clock.now();
        for (index, lane) in self.lanes.iter().enumerate() {
            for key in lane.controller.first_keys() {
                self.queue.add((index, key), now);
            }
        }
        let lister = Arc::clone(&self.lister);
        for change in initial_changes(lister.as_ref()) {
            self.take_in(&change);
        }
        self.started = true;
    }

    /// Queues the keys that a change concerns.
    pub fn feed(&mut self, change: &Change) {
        self.seen += 1;
        self.take_in(change);
    }

    fn take_in(&mut self, change: &Change) {
        let now = self.clock.now();
        for (index, lane) in self.lanes.iter().enumerate() {
            for key in lane.controller.keys(change, lane.client.as_ref()) {
                self.queue.add((index, key), now);
            }
        }
    }

    /// Runs the first step that is due; tells whether there was one.
    pub fn step(&mut self) -> bool {
        let now = self.clock.now();
        let Some(item) = self.queue.pop(now) else { return false };
        let lane = &self.lanes[item.0];
        match lane.controller.reconcile(lane.client.as_ref(), &item.1) {
            Ok(outcome) => {
                self.queue.failures.remove(&item);
                if let Some(delay) = outcome.requeue_after {
                    self.queue.add(item, after(now, delay));
                }
            }
            Err(error) if is_namespace_ending(&error) => {
                // Nothing can be made there any more, and trying again would only keep the cluster from its rest.
                self.queue.failures.remove(&item);
            }
            Err(error) => {
                let delay = self.queue.failed(&item, error.reason == "Conflict");
                tracing::debug!(
                    controller = lane.controller.name(), namespace = item.1.namespace, name = item.1.name, %error,
                    ?delay, "step failed",
                );
                self.queue.add(item, after(now, delay));
            }
        }
        true
    }

    /// When the next step is due, which may be now.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        self.queue.next_due()
    }

    /// Where the driver stands, with `unseen` changes that wait in a channel.
    #[must_use]
    pub fn state(&self, unseen: usize) -> State {
        let mut state = self.queue.state(self.clock.now());
        state.pending += unseen;
        state.seen = self.seen;
        state.started = self.started;
        state
    }

    /// Steps until `shutdown`, or until the sender of `changes` is gone.
    ///
    /// # Cancellation
    /// May be dropped at any await: no step is cut in half, since steps are synchronous.
    pub async fn run(mut self, mut changes: UnboundedReceiver<Change>, shutdown: CancellationToken) {
        self.start();
        while !shutdown.is_cancelled() {
            while let Ok(change) = changes.try_recv() {
                self.feed(&change);
            }
            if self.step() {
                self.tell(changes.len());
                // Lets clients of the same runtime in between two steps.
                tokio::task::yield_now().await;
                continue;
            }
            self.tell(changes.len());
            let wait = self.next_due().map(|due| until(self.clock.now(), due));
            let clock = Arc::clone(&self.clock);
            let timer = async move {
                match wait {
                    Some(wait) => clock.sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                change = changes.recv() => match change {
                    Some(change) => self.feed(&change),
                    None => return,
                },
                () = timer => {}
            }
        }
    }

    fn tell(&self, unseen: usize) {
        let state = self.state(unseen);
        self.progress.send_if_modified(|old| std::mem::replace(old, state) != state);
    }
}

/// Runs all controllers over one change feed until `shutdown`; [`Driver`] gives more control.
pub async fn run(
    clients: ClientFactory,
    changes: UnboundedReceiver<Change>,
    controllers: Vec<Box<dyn Controller>>,
    clock: SharedClock,
    shutdown: CancellationToken,
) {
    Driver::new(&clients, controllers, clock).run(changes, shutdown).await;
}

/// Steps a driver without waiting until nothing is due now, or `limit` steps were run; returns their number.
///
/// `drain` gives the changes that have come in since it was called last.
pub fn step_all(driver: &mut Driver, mut drain: impl FnMut() -> Vec<Change>, limit: usize) -> usize {
    let mut steps = 0;
    loop {
        for change in drain() {
            driver.feed(&change);
        }
        if steps == limit || !driver.step() {
            return steps;
        }
        steps += 1;
    }
}

/// Every existing object, as if it had just been created. What cannot be listed is left out and logged.
pub fn initial_changes(client: &dyn Client) -> Vec<Change> {
    let mut changes = Vec::new();
    for resource in client.resources() {
        match client.list(&resource.gvr, None) {
            Ok(items) => changes.extend(items.into_iter().map(|object| Change {
                gvr: resource.gvr.clone(),
                object,
                deleted: false,
            })),
            Err(error) => tracing::warn!(resource = %resource.gvr, %error, "cannot list at the start"),
        }
    }
    changes
}

fn is_namespace_ending(error: &ApiError) -> bool {
    error.code == 403 && error.details.causes.iter().any(|c| c.reason == "NamespaceTerminating")
}

fn after(now: Timestamp, delay: Duration) -> Timestamp {
    now.checked_add(delay).unwrap_or(Timestamp::MAX)
}

fn until(now: Timestamp, due: Timestamp) -> Duration {
    Duration::try_from(due.duration_since(now)).unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str) -> Item {
        (0, Key { namespace: String::new(), name: name.into() })
    }

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(ms).unwrap()
    }

    #[test]
    fn a_key_is_queued_once_at_its_earliest_time() {
        let mut queue = Queue::default();
        queue.add(item("a"), at(50));
        queue.add(item("b"), at(20));
        queue.add(item("a"), at(10));
        queue.add(item("a"), at(90));
        assert_eq!(queue.pop(at(5)), None);
        assert_eq!(queue.pop(at(100)), Some(item("a")));
        assert_eq!(queue.pop(at(100)), Some(item("b")));
        assert_eq!(queue.pop(at(100)), None);
    }

    #[test]
    fn delays_grow_and_conflicts_are_retried_at_once() {
        let mut queue = Queue::default();
        let delays: Vec<u128> = (0..14).map(|_| queue.failed(&item("a"), false).as_millis()).collect();
        assert_eq!(delays[..4], [5, 10, 20, 40]);
        assert_eq!(delays[13], 10_000);
        assert!((0..5).all(|_| queue.failed(&item("c"), true).is_zero()));
        assert!(!queue.failed(&item("c"), true).is_zero());
    }

    #[test]
    fn idle_means_nothing_due_within_the_horizon() {
        let mut state = State { started: true, ..State::default() };
        assert!(state.is_idle(at(0), Duration::from_secs(1)));
        state.next_due = Some(at(500));
        assert!(!state.is_idle(at(0), Duration::from_secs(1)));
        assert!(state.is_idle(at(0), Duration::from_millis(100)));
    }
}
