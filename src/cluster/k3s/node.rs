//! A running node, and the cluster that it is.
//!
//! # Guarantees
//! The node is removed with its volumes by [`Node::remove`], and by testcontainers when it is dropped within a runtime.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::future::BoxFuture;
use testcontainers::{ContainerAsync, GenericImage};
use tokio::sync::OwnedSemaphorePermit;

use super::{
    K3sError, audit,
    engine::{self, Engine},
    kept::{Record, Slot},
    pods, ready, restart, start,
};
use crate::cluster::{
    Capabilities, Cluster, ClusterError, Containers, Endpoint, Signer,
    access::{self, Access},
    busy::Busy,
    wipe::{self, Baseline, Wiped},
};

/// A fresh cluster is complete when nothing comes or goes for this long.
const STILL: Duration = Duration::from_secs(2);
const STILL_WITHIN: Duration = Duration::from_secs(120);
const TLS: &str = "/var/lib/rancher/k3s/server/tls";
/// What the children of this repository's specimens run: a name for the image that every node has for its sandboxes.
const PAUSE: &str = "docker.io/library/pause:3.10";
/// Lines of a failed command that an error shows.
const LINES: usize = 15;

/// Names of the nodes of this process that are alive now, for an abort that cannot wait for orderly ends.
static ALIVE: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Removes every node that this program started and does not keep. For the second Ctrl-C only.
pub async fn abandon_everything() {
    let names: Vec<String> = ALIVE.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect();
    if names.is_empty() {
        return;
    }
    if let Ok(engine) = Engine::connect().await {
        for name in names {
            if let Err(error) = engine.remove(&name).await {
                tracing::error!("{name} is left: {}", crate::cluster::in_a_line(&error));
            }
        }
    }
}

/// The container, and everything that was learned about it once.
pub struct Node {
    engine: Engine,
    pub name: String,
    image: String,
    kubeconfig: String,
    access: Access,
    signer: Signer,
    gateway: IpAddr,
    /// Whether the gateway is this machine, so that pods reach the proxy.
    reachable: bool,
    baseline: Baseline,
    /// Ids of the images that were loaded already; held while one is loaded.
    loaded: tokio::sync::Mutex<BTreeSet<String>>,
    guard: Guard,
    /// The name, where it can be kept for another process.
    slot: Option<Slot>,
}

/// Removes the container when it is dropped; none for a node that another process has started.
struct Guard(Option<ContainerAsync<GenericImage>>);

impl Drop for Guard {
    fn drop(&mut self) {
        // testcontainers needs a runtime to remove a container. Without one, `reconverge clean` does it.
        if tokio::runtime::Handle::try_current().is_err() {
            std::mem::forget(self.0.take());
        }
    }
}

impl Node {
    /// Starts a node and waits until it can be used.
    ///
    /// # Errors
    /// When it cannot be started, or does not become ready; it is removed then.
    pub async fn start(engine: Engine, order: start::Order, slot: Option<Slot>) -> Result<Self, ClusterError> {
        ALIVE.lock().unwrap_or_else(PoisonError::into_inner).insert(order.name.clone());
        let started = start::start(&engine, &order).await;
        let container = started.inspect_err(|_| forget_alive(&order.name))?.container;
        let done = Self::settle(engine.clone(), &order, Guard(Some(container)), slot, None).await;
        if done.is_err() {
            let _ = engine.remove(&order.name).await;
            forget_alive(&order.name);
        }
        done
    }

    /// Takes a node that another process has kept, and empties it.
    ///
    /// # Errors
    /// When it does not answer any more.
    pub async fn adopt(
        engine: Engine,
        order: &start::Order,
        slot: Slot,
        baseline: Baseline,
    ) -> Result<Self, ClusterError> {
        let node = Self::settle(engine, order, Guard(None), Some(slot), Some(baseline)).await?;
        node.wipe().await?;
        ALIVE.lock().unwrap_or_else(PoisonError::into_inner).insert(order.name.clone());
        Ok(node)
    }

    async fn settle(
        engine: Engine,
        order: &start::Order,
        guard: Guard,
        slot: Option<Slot>,
        known: Option<Baseline>,
    ) -> Result<Self, ClusterError> {
        let name = order.name.as_str();
        let written = ready::await_kubeconfig(&engine, name).await?;
        let container = engine.inspect(name).await?;
        let port = container.as_ref().and_then(|container| engine::mapped_port(container, start::API_PORT));
        let port = port.ok_or(K3sError::Unreachable("its port is not published"))?;
        let gateway = container.as_ref().and_then(engine::gateway).unwrap_or(Ipv4Addr::LOCALHOST.into());
        let url = format!("https://{}:{port}", order.host.address);
        let config = ready::rewritten(&written, &url).map_err(access::AccessError::from)?;
        let kubeconfig = serde_json::to_string_pretty(&config).unwrap_or_default();
        let (endpoint, client) = access::connect(config, None).await?;
        ready::await_cluster(&engine, name, &client).await?;
        alias_pause(&engine, name).await?;
        let access = Access::open(endpoint, client).await?;
        let signer = signer(&engine, name).await?;
        let baseline = match known {
            Some(baseline) => baseline,
            None => Baseline::take_when_still(&access.client, STILL, STILL_WITHIN).await?,
        };
        Ok(Self {
            engine,
            name: name.to_owned(),
            image: order.image.clone(),
            kubeconfig,
            access,
            signer,
            gateway,
            reachable: start::is_local(gateway) && !gateway.is_loopback(),
            baseline,
            loaded: tokio::sync::Mutex::default(),
            guard,
            slot,
        })
    }

    /// Brings the cluster back to what it held when it was new.
    ///
    /// # Errors
    /// When something does not go.
    pub async fn wipe(&self) -> Result<Wiped, ClusterError> {
        wipe::wipe(&self.access.client, &self.baseline).await
    }

    /// Ends the container and removes its volumes.
    ///
    /// # Errors
    /// When the engine cannot.
    pub async fn remove(mut self) -> Result<(), K3sError> {
        if let Some(slot) = &self.slot {
            slot.forget();
        }
        let by_testcontainers = match self.guard.0.take() {
            Some(container) => container.rm().await.is_ok(),
            None => false,
        };
        if !by_testcontainers {
            self.engine.remove(&self.name).await?;
        }
        forget_alive(&self.name);
        Ok(())
    }

    /// Leaves the container alive; says how to reach it and how to end it.
    ///
    /// # Errors
    /// When its kubeconfig cannot be written; it stays alive all the same.
    pub fn keep(mut self) -> Result<Vec<String>, K3sError> {
        forget_alive(&self.name);
        std::mem::forget(self.guard.0.take());
        let ending = format!("remove it with: reconverge clean --all (or: docker rm --force --volumes {})", self.name);
        let Some(slot) = &self.slot else {
            // Another process has the name that the next one would look for.
            let record = Slot::claim(&super::kept::directory(), &self.name)?;
            let Some(slot) = record else { return Ok(vec![ending]) };
            return self.record(&slot).map(|path| vec![kept_line(&path), ending]);
        };
        let path = self.record(slot)?;
        Ok(vec![kept_line(&path), format!("the next run on this lane empties it and uses it again; {ending}")])
    }

    fn record(&self, slot: &Slot) -> Result<std::path::PathBuf, K3sError> {
        let record = Record { image: self.image.clone(), baseline: self.baseline.clone() };
        slot.keep(&record, &self.kubeconfig)
    }

    async fn load(&self, image: &str) -> Result<(), K3sError> {
        let mut loaded = self.loaded.lock().await;
        let Some(id) = self.engine.image_id(image).await? else {
            return if self.has(image).await? { Ok(()) } else { Err(K3sError::UnknownImage(image.to_owned())) };
        };
        // The same image under another name is another entry on the node.
        let key = format!("{id} {image}");
        if loaded.contains(&key) {
            return Ok(());
        }
        let command = ["ctr", "-n", "k8s.io", "images", "import", "-"];
        let done = self.engine.exec_with(&self.name, &command, self.engine.export(image)).await?;
        succeeded(&command, &done)?;
        loaded.insert(key);
        Ok(())
    }

    async fn has(&self, image: &str) -> Result<bool, K3sError> {
        let names = images(&self.engine, &self.name).await?;
        Ok(names.iter().any(|name| name == image || name.ends_with(&format!("/{image}"))))
    }
}

fn kept_line(path: &std::path::Path) -> String {
    format!("cluster kept: export KUBECONFIG={}", path.display())
}

fn forget_alive(name: &str) {
    ALIVE.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
}

fn succeeded(command: &[&str], done: &engine::Done) -> Result<(), K3sError> {
    if done.code == 0 {
        return Ok(());
    }
    let text = format!("{}\n{}", done.stdout.trim(), done.stderr.trim());
    let lines: Vec<&str> = text.trim().lines().collect();
    let output = lines[lines.len().saturating_sub(LINES)..].join("\n");
    Err(K3sError::Command { command: command.join(" "), code: done.code, output })
}

async fn images(engine: &Engine, name: &str) -> Result<Vec<String>, K3sError> {
    let command = ["ctr", "-n", "k8s.io", "images", "ls", "-q"];
    let done = engine.exec(name, &command).await?;
    succeeded(&command, &done)?;
    Ok(done.stdout.lines().map(str::to_owned).collect())
}

/// Gives the node's own pause image the name that the specimens use.
async fn alias_pause(engine: &Engine, name: &str) -> Result<(), K3sError> {
    let all = images(engine, name).await?;
    let pause = all.iter().find(|image| image.contains("pause:") && !image.contains("@sha256"));
    match pause {
        Some(pause) if !all.iter().any(|image| image == PAUSE) => {
            let command = ["ctr", "-n", "k8s.io", "images", "tag", pause, PAUSE];
            succeeded(&command, &engine.exec(name, &command).await?)
        }
        _ => Ok(()),
    }
}

async fn signer(engine: &Engine, name: &str) -> Result<Signer, K3sError> {
    let read = async |file: &str| {
        let text = engine.read(name, &format!("{TLS}/{file}")).await?;
        text.ok_or(K3sError::Unreachable("its certificate authority is not where k3s keeps it"))
    };
    Ok(Signer { certificate_pem: read("server-ca.crt").await?, key_pem: read("server-ca.key").await? })
}

/// A node in the hands of one run.
pub struct Lease {
    // First, so that nobody holds the node any more when the next run has its turn.
    node: Arc<Node>,
    busy: Busy,
    /// Where the audit log stood when it was handed out.
    audited: u64,
    turn: OwnedSemaphorePermit,
}

impl Lease {
    /// # Errors
    /// When the node does not answer.
    pub async fn new(node: Arc<Node>, turn: OwnedSemaphorePermit) -> Result<Self, ClusterError> {
        let audited = audit::length(&node.engine, &node.name).await?;
        let busy = Busy::watch(&node.access.client);
        Ok(Self { node, busy, audited, turn })
    }
}

impl Cluster for Lease {
    fn endpoint(&self) -> &Endpoint {
        &self.node.access.endpoint
    }

    fn client(&self) -> kube::Client {
        self.node.access.client.clone()
    }

    fn admin_token(&self) -> String {
        self.node.access.admin_token.clone()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            real_api: true,
            real_pods: true,
            garbage_collection: true,
            rbac: true,
            webhooks: true,
            exec: true,
        }
    }

    fn is_idle(&self, _: Duration) -> bool {
        self.busy.is_idle()
    }

    fn describe(&self) -> String {
        format!("k3s {} ({})", self.node.access.version, self.node.image)
    }

    fn proxy_address(&self) -> IpAddr {
        // Where no pod reaches this process, an operator beside the cluster still does.
        if self.node.reachable { self.node.gateway } else { Ipv4Addr::LOCALHOST.into() }
    }

    fn signer(&self) -> Option<Signer> {
        Some(self.node.signer.clone())
    }

    fn containers(&self) -> Option<Arc<dyn Containers>> {
        let node = &self.node;
        Some(Arc::new(pods::Pods { engine: node.engine.clone(), node: node.name.clone() }))
    }

    fn restart_api_server(&self) -> BoxFuture<'_, Result<(), ClusterError>> {
        Box::pin(restart::restart_api_server(&self.node.engine, &self.node.name, &self.node.access.client))
    }

    fn direct_writes<'a>(&'a self, users: &'a [String]) -> BoxFuture<'a, Result<Vec<String>, ClusterError>> {
        Box::pin(async move {
            let log = audit::read(&self.node.engine, &self.node.name, self.audited).await?;
            Ok(audit::direct_writes(&log, users, self.node.gateway))
        })
    }

    fn load_image<'a>(&'a self, image: &'a str) -> BoxFuture<'a, Result<(), ClusterError>> {
        Box::pin(async move { Ok(self.node.load(image).await?) })
    }

    fn service_account_token<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<String, ClusterError>> {
        Box::pin(access::token(&self.node.access.client, namespace, name))
    }

    fn shutdown(self: Box<Self>) -> BoxFuture<'static, ()> {
        // The node goes back to its provider, which empties it before it is used again.
        Box::pin(async move {
            let Self { node, busy, turn, .. } = *self;
            busy.stop().await;
            drop((node, turn));
        })
    }
}
