//! The kubeconfig lane: a cluster that the user already has, and says to own.
//!
//! # Flow
//! `KUBECONFIG` or the user's own file, and a context -> one cluster, used by one run at a time.
//!
//! # Guarantees
//! Without the user's word nothing is sent, and the refusal names the context and the server. What was there when the
//! first run began stays; everything else is removed between runs and at the end, see [`super::wipe`].
//!
//! # Deliberately not done
//! Operators inside of the cluster: its certificate authority cannot sign for the proxy, and its pods need not reach
//! this machine. Loading images.

use std::sync::Arc;

use futures::future::BoxFuture;
use kube::{Client, config::Kubeconfig};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};

use super::{
    Capabilities, Cluster, ClusterError, Endpoint, LaneOptions, Provider,
    access::{self, Access, AccessError},
    wipe::{Baseline, wipe},
};
use crate::{scenario::format::Lane, seed::Seed};

/// The user's cluster.
pub struct Existing {
    file: Kubeconfig,
    context: String,
    turns: Arc<Semaphore>,
    open: Mutex<Option<Arc<Opened>>>,
}

/// What is known about it since the first run.
struct Opened {
    access: Access,
    context: String,
    baseline: Baseline,
}

impl Existing {
    /// Reads the kubeconfig; nothing is sent.
    ///
    /// # Errors
    /// When there is none, it has no such context, or the user did not say that the cluster may be emptied.
    pub fn new(options: &LaneOptions) -> Result<Self, ClusterError> {
        let file = Kubeconfig::from_env().map_err(AccessError::from)?;
        let file = file.map_or_else(Kubeconfig::read, Ok).map_err(AccessError::from)?;
        Self::of(file, options)
    }

    fn of(file: Kubeconfig, options: &LaneOptions) -> Result<Self, ClusterError> {
        let context = options.context.clone().or_else(|| file.current_context.clone()).filter(|name| !name.is_empty());
        let context = context.ok_or(ClusterError::NoContext { wanted: String::new(), known: known(&file) })?;
        let Some(server) = server_of(&file, &context) else {
            return Err(ClusterError::NoContext { wanted: context, known: known(&file) });
        };
        if !options.owned {
            return Err(ClusterError::NotOwned { context, server });
        }
        Ok(Self { file, context, turns: Arc::new(Semaphore::new(1)), open: Mutex::new(None) })
    }

    /// The context and its server, for people.
    #[must_use]
    pub fn context(&self) -> String {
        let server = server_of(&self.file, &self.context).unwrap_or_default();
        format!("{} ({server})", self.context)
    }

    async fn fresh(&self) -> Result<Arc<Opened>, ClusterError> {
        let mut held = self.open.lock().await;
        if let Some(opened) = held.as_ref() {
            wipe(&opened.access.client, &opened.baseline).await?;
            return Ok(Arc::clone(opened));
        }
        let (endpoint, client) = access::connect(self.file.clone(), Some(self.context.clone())).await?;
        let access = Access::open(endpoint, client).await?;
        let baseline = Baseline::take(&access.client).await?;
        let opened = Arc::new(Opened { access, context: self.context.clone(), baseline });
        Ok(Arc::clone(held.insert(opened)))
    }
}

/// The server of a context, when the file has both.
fn server_of(file: &Kubeconfig, context: &str) -> Option<String> {
    let context = file.contexts.iter().find(|named| named.name == context)?.context.as_ref()?;
    let cluster = file.clusters.iter().find(|named| named.name == context.cluster)?;
    cluster.cluster.as_ref()?.server.clone()
}

fn known(file: &Kubeconfig) -> String {
    let names: Vec<&str> = file.contexts.iter().map(|named| named.name.as_str()).collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

impl Provider for Existing {
    fn lane(&self) -> Lane {
        Lane::Kubeconfig
    }

    fn most(&self) -> Option<usize> {
        Some(1)
    }

    fn provide(&self, _: Seed) -> BoxFuture<'_, Result<Box<dyn Cluster>, ClusterError>> {
        Box::pin(async move {
            let turn = Arc::clone(&self.turns).acquire_owned().await;
            let turn = turn.map_err(|_| ClusterError::Unsupported("cluster any more: it is closed"))?;
            let opened = self.fresh().await?;
            Ok(Box::new(Lease { opened, _turn: turn }) as Box<dyn Cluster>)
        })
    }

    fn close(&self, keep: bool) -> BoxFuture<'_, Vec<String>> {
        Box::pin(async move {
            let Some(opened) = self.open.lock().await.take() else { return Vec::new() };
            let context = &opened.context;
            if keep {
                return vec![format!("the cluster of context {context} still holds what the last run left")];
            }
            let mut told = Vec::new();
            match wipe(&opened.access.client, &opened.baseline).await {
                Ok(wiped) if wiped.stuck.is_empty() => {}
                Ok(wiped) => told.push(format!("finalizers were removed from: {}", wiped.stuck.join(", "))),
                Err(error) => told.push(format!("the cluster of context {context} could not be emptied: {error}")),
            }
            if let Err(error) = opened.access.close().await {
                told.push(format!("the cluster of context {context} keeps kube-system/reconverge-admin: {error}"));
            }
            told
        })
    }
}

/// The cluster in the hands of one run.
struct Lease {
    opened: Arc<Opened>,
    _turn: OwnedSemaphorePermit,
}

impl Cluster for Lease {
    fn endpoint(&self) -> &Endpoint {
        &self.opened.access.endpoint
    }

    fn client(&self) -> Client {
        self.opened.access.client.clone()
    }

    fn admin_token(&self) -> String {
        self.opened.access.admin_token.clone()
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

    fn describe(&self) -> String {
        format!("kubernetes {} (context {})", self.opened.access.version, self.opened.context)
    }

    fn service_account_token<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<String, ClusterError>> {
        Box::pin(access::token(&self.opened.access.client, namespace, name))
    }

    fn shutdown(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(drop(self)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::{
        embedded::Embedded,
        kubeconfig,
        tester::{Tester, USER_MANAGER},
    };

    fn options(context: Option<&str>, owned: bool) -> LaneOptions {
        LaneOptions { image: None, context: context.map(Into::into), owned }
    }

    fn file() -> Kubeconfig {
        let endpoint = Endpoint { url: "https://prod.test:6443".into(), ca_pem: "not used".into() };
        Kubeconfig::from_yaml(&kubeconfig(&endpoint, "token", "default")).unwrap()
    }

    /// The message must let the user see that it is the wrong cluster.
    #[test]
    fn a_cluster_is_refused_unless_it_is_owned() {
        let Err(error) = Existing::of(file(), &options(None, false)) else { panic!("not refused") };
        let message = error.to_string();
        for word in ["`reconverge`", "https://prod.test:6443", "--i-own-this-cluster"] {
            assert!(message.contains(word), "{message} lacks {word}");
        }
        assert!(Existing::of(file(), &options(None, true)).is_ok());
    }

    #[test]
    fn an_unknown_context_is_refused_with_those_that_there_are() {
        let Err(error) = Existing::of(file(), &options(Some("staging"), true)) else { panic!("not refused") };
        assert!(error.to_string().contains("staging") && error.to_string().contains("reconverge"), "{error}");
        let mut empty = file();
        empty.current_context = None;
        assert!(matches!(Existing::of(empty, &options(None, true)), Err(ClusterError::NoContext { .. })));
    }

    /// Two runs and the end: each finds what was there at first, and nothing of the harness is left.
    #[tokio::test(flavor = "multi_thread")]
    async fn what_runs_leave_is_removed_and_what_was_there_stays() {
        let server = Embedded::start(Seed(1)).await.unwrap();
        let mine = Tester::new(server.client(), "default");
        let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        mine.apply(&map("mine"), USER_MANAGER).await.unwrap();

        let text = kubeconfig(server.endpoint(), &server.admin_token(), "default");
        let existing = Existing::of(Kubeconfig::from_yaml(&text).unwrap(), &options(None, true)).unwrap();
        let first = existing.provide(Seed(1)).await.unwrap();
        assert!(first.describe().contains("context reconverge"), "{}", first.describe());
        Tester::new(first.client(), "default").apply(&map("left"), USER_MANAGER).await.unwrap();
        first.shutdown().await;
        let second = existing.provide(Seed(2)).await.unwrap();
        let tester = Tester::new(second.client(), "default");
        assert_eq!(tester.get(&map("left")).await.unwrap(), None);
        assert!(tester.get(&map("mine")).await.unwrap().is_some());
        tester.apply(&map("left"), USER_MANAGER).await.unwrap();
        second.shutdown().await;
        assert_eq!(existing.close(false).await, Vec::<String>::new());
        assert_eq!(mine.get(&map("left")).await.unwrap(), None);
        assert!(mine.get(&map("mine")).await.unwrap().is_some());
        let admin = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "reconverge-admin", "namespace": "kube-system"},
        });
        assert_eq!(mine.get(&admin).await.unwrap(), None);
        Box::new(server).shutdown().await;
    }
}
