//! One cluster: its state behind one lock, its clock, chance and tokens.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use crate::{
    auth::{Identity, TokenAuthority},
    clock::SharedClock,
    controllers::{Change, Client, ResourceInfo},
    discovery::{self, ResourceType},
    entropy::Entropy,
    resource::Gvr,
    status::ApiError,
    store::{Event, EventKind, Store},
};

use super::{
    client::{InProcessClient, identity_of},
    customs,
};

/// What a fork copies.
#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    pub store: Store,
    /// The served versions of all CRDs.
    pub customs: imbl::OrdMap<Gvr, Arc<ResourceType>>,
}

impl State {
    /// The type that a URL names.
    pub fn resource(&self, gvr: &Gvr) -> Option<Arc<ResourceType>> {
        discovery::builtin(gvr).or_else(|| self.customs.get(gvr).cloned())
    }

    /// Whether the account behind an identity still is the one that it was issued for. Others than accounts always live.
    pub fn account_lives(&self, who: &Identity) -> bool {
        let Some(rest) = who.name.strip_prefix("system:serviceaccount:") else { return true };
        let key = rest.replacen(':', "/", 1);
        let account = self.store.get("serviceaccounts", &key);
        account.is_some_and(|a| super::meta::text(&a, "uid") == who.uid)
    }

    /// Every resource that can be listed and deleted, each table once, in the version that discovery prefers.
    pub fn preferred_resources(&self) -> Vec<ResourceInfo> {
        let mut out: BTreeMap<&str, &ResourceType> = BTreeMap::new();
        let listed = discovery::builtins().values().chain(self.customs.values());
        for kind in listed.filter(|k| k.has_verb("list") && k.has_verb("delete")) {
            let slot = out.entry(&kind.table).or_insert(kind);
            // The storage version stands for an alias such as the events of two groups.
            if kind.storage_version == kind.kind.api_version() {
                *slot = kind;
            }
        }
        let info =
            |k: &ResourceType| ResourceInfo { gvr: k.gvr.clone(), kind: k.kind.kind.clone(), namespaced: k.namespaced };
        out.into_values().map(info).collect()
    }

    pub fn custom_list(&self) -> Vec<Arc<ResourceType>> {
        self.customs.values().cloned().collect()
    }
}

/// A cluster in this process. Every request holds the lock for its whole duration, which makes each one atomic.
#[derive(Debug)]
pub struct Cluster {
    pub(crate) clock: SharedClock,
    pub(crate) entropy: Entropy,
    pub(crate) tokens: TokenAuthority,
    state: Mutex<State>,
    /// The revision of each table's last write, once somebody watches it: a write wakes the watches of its own table
    /// only.
    revisions: Mutex<BTreeMap<String, watch::Sender<u64>>>,
    feed: Mutex<Vec<mpsc::UnboundedSender<Change>>>,
}

impl Cluster {
    /// An empty cluster: not even namespaces.
    #[must_use]
    pub(crate) fn new(clock: SharedClock, entropy: Entropy) -> Self {
        let tokens = TokenAuthority::new(&entropy);
        Self::with(clock, entropy, tokens, State::default())
    }

    fn with(clock: SharedClock, entropy: Entropy, tokens: TokenAuthority, state: State) -> Self {
        Self { clock, entropy, tokens, state: Mutex::new(state), revisions: Mutex::default(), feed: Mutex::default() }
    }

    /// An independent cluster with the same objects, history, tokens and chance, in constant time. Watches and
    /// subscribers stay with the original.
    #[must_use]
    pub(crate) fn fork(&self) -> Self {
        let state = self.lock().clone();
        Self::with(self.clock.clone(), self.entropy.fork(), self.tokens.clone(), state)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the state.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.lock())
    }

    /// Runs one request. Writes that it commits stay, also when it fails later.
    pub(crate) fn transact<T>(&self, run: impl FnOnce(&mut Tx<'_>) -> T) -> T {
        let mut state = self.lock();
        let mut tx = Tx { cluster: self, state: &mut state, now: self.clock.now(), written: BTreeSet::new() };
        let out = run(&mut tx);
        let written = tx.written;
        let after = state.store.revision();
        drop(state);
        if !written.is_empty() {
            let revisions = self.revisions.lock().unwrap_or_else(PoisonError::into_inner);
            for sender in written.iter().filter_map(|table| revisions.get(table)) {
                // `max`: another request may already have announced a later revision.
                sender.send_modify(|r| *r = after.max(*r));
            }
        }
        out
    }

    /// The revision of the last write.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.read(|s| s.store.revision())
    }

    /// Wakes whoever waits for a later write to a table.
    pub(crate) fn revisions(&self, table: &str) -> watch::Receiver<u64> {
        let mut revisions = self.revisions.lock().unwrap_or_else(PoisonError::into_inner);
        // A receiver that has not looked yet misses nothing: a watch reads the table before it waits.
        revisions.entry(table.to_owned()).or_default().subscribe()
    }

    /// Every change from now on, in commit order.
    #[must_use]
    pub fn changes(&self) -> mpsc::UnboundedReceiver<Change> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.feed.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        receiver
    }

    /// The bearer token of the tester.
    #[must_use]
    pub fn admin_token(&self) -> String {
        self.tokens.admin_token().to_owned()
    }

    /// A token of an existing ServiceAccount, valid for a day.
    ///
    /// # Errors
    /// When there is no such ServiceAccount.
    pub fn account_token(&self, namespace: &str, account: &str) -> Result<String, ApiError> {
        const DAY: Duration = Duration::from_secs(86_400);
        self.transact(|tx| {
            let found = tx.lookup("serviceaccounts", &format!("{namespace}/{account}"));
            let found = found.ok_or_else(|| ApiError::not_found(&Gvr::new("", "v1", "serviceaccounts"), account))?;
            Ok(self.tokens.issue(namespace, account, super::meta::text(&found, "uid"), tx.now, DAY))
        })
    }

    /// Who a bearer token belongs to.
    #[must_use]
    pub fn identify(&self, bearer: &str) -> Option<Identity> {
        let who = self.tokens.identify(bearer, self.clock.now())?;
        self.read(|state| state.account_lives(&who)).then_some(who)
    }

    /// A client for in-process callers.
    #[must_use]
    pub fn client_for(self: &Arc<Self>, user: &str, manager: &str) -> Arc<dyn Client> {
        Arc::new(InProcessClient::new(Arc::clone(self), identity_of(user), manager))
    }

    /// Whether requests for that resource are answered.
    #[must_use]
    pub fn serves(&self, gvr: &Gvr) -> bool {
        self.read(|state| state.resource(gvr).is_some())
    }

    /// Forgets all history.
    pub fn compact(&self) {
        self.lock().store.compact();
    }

    fn announce(&self, kind: &ResourceType, event: &Event) {
        let mut feed = self.feed.lock().unwrap_or_else(PoisonError::into_inner);
        if feed.is_empty() {
            return;
        }
        let deleted = event.kind == EventKind::Deleted;
        let change = Change { gvr: kind.storage_gvr(), object: (*event.object).clone(), deleted };
        feed.retain(|subscriber| subscriber.send(change.clone()).is_ok());
    }
}

/// One request's hold of the state.
pub(crate) struct Tx<'a> {
    pub cluster: &'a Cluster,
    pub state: &'a mut State,
    pub now: Timestamp,
    /// The tables that were written to.
    pub written: BTreeSet<String>,
}

impl Tx<'_> {
    pub fn get(&self, kind: &ResourceType, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.state.store.get(&kind.table, &kind.key(namespace, name))
    }

    /// A built-in object by its resource, for admission.
    pub fn lookup(&self, table: &str, key: &str) -> Option<Arc<Value>> {
        self.state.store.get(table, key)
    }

    /// Commits an object in its storage form.
    pub fn put(&mut self, kind: &ResourceType, key: &str, object: Value) -> Arc<Value> {
        let event = self.state.store.put(&kind.table, key, object);
        self.committed(kind, &event)
    }

    /// Commits the removal of an object.
    pub fn remove(&mut self, kind: &ResourceType, key: &str, last: Value) -> Arc<Value> {
        let event = self.state.store.remove(&kind.table, key, last);
        let object = self.committed(kind, &event);
        if kind.custom.is_some() {
            customs::finish(self, &kind.table);
        }
        object
    }

    fn committed(&mut self, kind: &ResourceType, event: &Event) -> Arc<Value> {
        if kind.table == customs::TABLE {
            customs::refresh(self.state, event);
        }
        self.written.insert(kind.table.clone());
        self.cluster.announce(kind, event);
        Arc::clone(&event.object)
    }
}
