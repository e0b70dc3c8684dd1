//! The ladder from a started container to a cluster that can be used.
//!
//! # Guarantees
//! Each rung has a deadline; an error says which rung was not reached, what was last seen there, and how the
//! container's log ends. A container that ends is not waited for.

use std::{fmt::Display, time::Duration};

use http::Request;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Node, ServiceAccount},
};
use kube::{
    Api, Client,
    api::ListParams,
    config::{Kubeconfig, KubeconfigError},
};

use super::{
    K3sError,
    engine::{self, Engine},
};
use crate::clock::{Deadline, RunClock, pause};

/// A node needs about ten seconds on an idle machine; two busy cores of a CI runner have been seen to need twenty
/// times that for the API server alone.
const API_WITHIN: Duration = Duration::from_secs(300);
/// From an API server that answers to a node that takes pods; images may have to be pulled.
const NODE_WITHIN: Duration = Duration::from_secs(300);
const LOOK: Duration = Duration::from_millis(200);
const LOG_LINES: usize = 25;
/// Where every k3s writes the kubeconfig of its administrator.
const KUBECONFIG: &str = "/etc/rancher/k3s/k3s.yaml";

/// A rung of the ladder, in words and as what is looked at.
#[derive(Debug, Clone, Copy)]
enum Rung {
    Api,
    Node,
    Account,
    RootCertificate,
    Dns,
}

const LADDER: [Rung; 5] = [Rung::Api, Rung::Node, Rung::Account, Rung::RootCertificate, Rung::Dns];

/// The administrator's kubeconfig as the node has written it.
///
/// # Errors
/// When it is not written in time.
pub async fn await_kubeconfig(engine: &Engine, name: &str) -> Result<String, K3sError> {
    let mut wait = Wait::new(engine, name, "kubeconfig", API_WITHIN);
    loop {
        let last = match engine.read(name, KUBECONFIG).await {
            Ok(Some(text)) if text.contains("client-certificate-data") => return Ok(text),
            Ok(_) => format!("{KUBECONFIG} is not there yet"),
            Err(error) => error.to_string(),
        };
        wait.again(last).await?;
    }
}

/// The node's kubeconfig with the address at which this process reaches it.
///
/// # Errors
/// When it is not a kubeconfig.
pub fn rewritten(text: &str, url: &str) -> Result<Kubeconfig, KubeconfigError> {
    let mut config = Kubeconfig::from_yaml(text)?;
    for cluster in config.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
        cluster.server = Some(url.to_owned());
    }
    Ok(config)
}

/// Waits until objects can be made, pods run and names are resolved.
///
/// # Errors
/// When a rung is not reached in time.
pub async fn await_cluster(engine: &Engine, name: &str, client: &Client) -> Result<(), K3sError> {
    for rung in LADDER {
        let mut wait =
            Wait::new(engine, name, rung.what(), if matches!(rung, Rung::Api) { API_WITHIN } else { NODE_WITHIN });
        while let Err(last) = rung.look(client).await {
            wait.again(last).await?;
        }
    }
    Ok(())
}

impl Rung {
    fn what(self) -> &'static str {
        match self {
            Self::Api => "API server that is ready",
            Self::Node => "node that is ready",
            Self::Account => "default ServiceAccount",
            Self::RootCertificate => "root certificate in a ConfigMap",
            Self::Dns => "CoreDNS that is available",
        }
    }

    /// What is missing, in words.
    async fn look(self, client: &Client) -> Result<(), String> {
        match self {
            Self::Api => readyz(client).await,
            Self::Node => node(client).await,
            Self::Account => {
                let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
                accounts.get("default").await.map(|_| ()).map_err(words)
            }
            Self::RootCertificate => {
                let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
                maps.get("kube-root-ca.crt").await.map(|_| ()).map_err(words)
            }
            Self::Dns => dns(client).await,
        }
    }
}

async fn readyz(client: &Client) -> Result<(), String> {
    let request = Request::get("/readyz?verbose").body(Vec::new()).map_err(words)?;
    // A server that is not ready lists what it waits for, one line each.
    client.request_text(request).await.map(|_| ()).map_err(|error| {
        let text = error.to_string();
        let failing: Vec<&str> = text.lines().filter(|line| line.starts_with("[-]")).collect();
        if failing.is_empty() { text } else { failing.join(", ") }
    })
}

async fn node(client: &Client) -> Result<(), String> {
    let nodes: Api<Node> = Api::all(client.clone());
    let all = nodes.list(&ListParams::default()).await.map_err(words)?;
    let Some(node) = all.items.into_iter().next() else { return Err("no node".into()) };
    let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
    match conditions.into_iter().find(|condition| condition.type_ == "Ready") {
        Some(ready) if ready.status == "True" => Ok(()),
        Some(ready) => Err(ready.message.unwrap_or_else(|| ready.status.clone())),
        None => Err("a node without the condition Ready".into()),
    }
}

async fn dns(client: &Client) -> Result<(), String> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "kube-system");
    let status = deployments.get("coredns").await.map_err(words)?.status.unwrap_or_default();
    match status.available_replicas {
        Some(available) if available > 0 => Ok(()),
        _ => Err(format!("Deployment coredns has {} replicas, none available", status.replicas.unwrap_or_default())),
    }
}

fn words(error: impl Display) -> String {
    error.to_string()
}

/// A bounded wait for one rung.
struct Wait<'a> {
    engine: &'a Engine,
    name: &'a str,
    what: &'static str,
    clock: RunClock,
    deadline: Deadline,
}

impl<'a> Wait<'a> {
    fn new(engine: &'a Engine, name: &'a str, what: &'static str, within: Duration) -> Self {
        let clock = RunClock::start();
        Self { engine, name, what, clock, deadline: clock.deadline(within) }
    }

    /// Until the next look; an error when there is no use in one.
    async fn again(&mut self, last: String) -> Result<(), K3sError> {
        let ended = engine::running(self.engine.inspect(self.name).await?.as_ref()).err();
        if ended.is_none() && !self.deadline.passed(self.clock) {
            pause(LOOK).await;
            return Ok(());
        }
        let log = self.engine.log_tail(self.name, LOG_LINES).await;
        let within_s = self.clock.now_ms() / 1000;
        Err(K3sError::NotReady { what: self.what, within_s, last: ended.unwrap_or(last), log })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_is_pointed_at_the_published_port() {
        let text = "
apiVersion: v1
kind: Config
clusters:
- name: default
  cluster: {server: 'https://127.0.0.1:6443', certificate-authority-data: Y2E=}
contexts:
- name: default
  context: {cluster: default, user: default}
current-context: default
users:
- name: default
  user: {client-certificate-data: YQ==, client-key-data: Yg==}
";
        let config = rewritten(text, "https://172.17.0.1:49153").unwrap();
        let cluster = config.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.server.as_deref(), Some("https://172.17.0.1:49153"));
        assert_eq!(cluster.certificate_authority_data.as_deref(), Some("Y2E="), "the authority stays");
        assert_eq!(config.current_context.as_deref(), Some("default"));
        assert!(rewritten("- no", "https://127.0.0.1:1").is_err());
    }
}
