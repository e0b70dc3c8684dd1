//! From an image to a running container.
//!
//! # Flow
//! [`Order`] -> the container's command line, rights, mounts and labels -> testcontainers, which starts it.
//!
//! # Guarantees
//! Nothing of the engine's machine is mounted, so that a remote engine works, too. Every path that a node writes to is
//! a volume with our labels. A container that could not be started is removed.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, TcpListener},
    time::Duration,
};

use testcontainers::{
    ContainerAsync, ContainerRequest, GenericImage, ImageExt as _,
    bollard::models::{HostConfig, Mount, MountType, MountVolumeOptions, PortBinding},
    core::IntoContainerPort as _,
    runners::AsyncRunner as _,
};

use super::{K3sError, engine::Engine, image};
use crate::cluster::owner::Owner;

/// Where the API server listens in the container.
pub const API_PORT: u16 = 6443;
/// Where the audit log of the API server lies in the container.
pub const AUDIT_LOG: &str = "/var/log/reconverge-audit.log";
const AUDIT_POLICY: &str = "/etc/reconverge/audit-policy.yaml";
/// Writes alone, and neither bodies nor what the node says about itself all the time.
const POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: None
    verbs: [get, list, watch]
  - level: None
    resources:
      - {group: coordination.k8s.io, resources: [leases]}
      - {group: '', resources: [events]}
      - {group: events.k8s.io, resources: [events]}
      - {group: authentication.k8s.io}
      - {group: authorization.k8s.io}
  - level: Metadata
";
/// A node writes here; on an overlay of an overlay that would fail.
const VOLUMES: &[&str] = &["/var/lib/rancher/k3s", "/var/lib/kubelet", "/var/lib/cni", "/var/log"];
/// Creating a container unpacks nothing, but a busy engine may take its time.
const START_WITHIN: Duration = Duration::from_secs(120);

/// What shall be started.
#[derive(Debug, Clone)]
pub struct Order {
    pub name: String,
    pub image: String,
    pub host: Host,
}

/// How this process reaches ports that the engine publishes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    pub address: String,
    /// Ports are published at this address alone; `None`: at every address, for an engine elsewhere.
    bind: Option<IpAddr>,
}

/// The ways to give a container what a node needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    Privileged,
    /// For machines that themselves lack a capability, on which an engine refuses `privileged`.
    Listed,
}

impl Host {
    /// By the engine's address; beside a local engine in a container, the gateway of its network.
    #[must_use]
    pub fn of(docker_host: Option<&str>, in_container: bool, bridge: Option<IpAddr>) -> Self {
        let remote = docker_host.and_then(|url| {
            let (scheme, rest) = url.split_once("://")?;
            let authority = rest.split('/').next()?;
            let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
            (scheme != "unix" && !host.is_empty()).then(|| host.to_owned())
        });
        match (remote, bridge) {
            (Some(address), _) => Self { address, bind: None },
            (None, Some(gateway)) if in_container => Self { address: gateway.to_string(), bind: Some(gateway) },
            (None, _) => Self { address: Ipv4Addr::LOCALHOST.to_string(), bind: Some(Ipv4Addr::LOCALHOST.into()) },
        }
    }

    /// [`Host::of`] the environment of this process.
    pub async fn of_this_process(engine: &Engine) -> Self {
        let in_container = std::path::Path::new("/.dockerenv").exists();
        Self::of(std::env::var("DOCKER_HOST").ok().as_deref(), in_container, engine.bridge().await)
    }
}

/// Whether a listener of this process can have the address: only then can a pod reach it there.
#[must_use]
pub fn is_local(address: IpAddr) -> bool {
    TcpListener::bind((address, 0)).is_ok()
}

/// A container that was started, and how.
pub struct Started {
    pub container: ContainerAsync<GenericImage>,
    pub rights: Rights,
}

/// Starts the container, with `privileged` or, where that is refused, with the rights spelled out.
///
/// # Errors
/// When the engine refuses both.
pub async fn start(engine: &Engine, order: &Order) -> Result<Started, K3sError> {
    either(engine, order, |rights| request(order, rights, None).with_cmd(arguments(&order.host))).await
}

/// [`start`], but nothing runs in the container, and it ends by itself after two minutes.
///
/// # Errors
/// As [`start`].
pub async fn probe(engine: &Engine, order: &Order) -> Result<Started, K3sError> {
    either(engine, order, |rights| request(order, rights, Some("sleep")).with_cmd(["120"])).await
}

async fn either(
    engine: &Engine,
    order: &Order,
    request: impl Fn(Rights) -> ContainerRequest<GenericImage>,
) -> Result<Started, K3sError> {
    let privileged = match request(Rights::Privileged).start().await {
        Ok(container) => return Ok(Started { container, rights: Rights::Privileged }),
        Err(error) => error,
    };
    // testcontainers leaves behind what was created and then not started.
    engine.remove(&order.name).await?;
    match request(Rights::Listed).start().await {
        Ok(container) => {
            tracing::info!("`privileged` is refused here, the rights of the node are listed instead: {privileged}");
            Ok(Started { container, rights: Rights::Listed })
        }
        Err(listed) => {
            engine.remove(&order.name).await?;
            Err(K3sError::Refused { privileged: privileged.to_string(), listed: Box::new(listed) })
        }
    }
}

fn request(order: &Order, rights: Rights, instead: Option<&str>) -> ContainerRequest<GenericImage> {
    let (repository, tag) = image::split(&order.image);
    let labels = Owner::me().labels();
    let bind = order.host.bind;
    let mounts = volumes(&labels);
    let mut image = GenericImage::new(repository, tag).with_exposed_port(API_PORT.tcp());
    if let Some(program) = instead {
        image = image.with_entrypoint(program);
    }
    let request = image
        .with_container_name(&order.name)
        .with_labels(labels)
        .with_startup_timeout(START_WITHIN)
        .with_copy_to(AUDIT_POLICY, POLICY.as_bytes().to_vec())
        .with_host_config_modifier(move |host| configure(host, rights, bind, &mounts));
    match rights {
        Rights::Privileged => request.with_privileged(true),
        // Those of `privileged`, but for the one that may be missing on the machine itself.
        Rights::Listed => request
            .with_cap_add("ALL")
            .with_cap_drop("SYS_RESOURCE")
            .with_security_opt("seccomp=unconfined")
            .with_security_opt("apparmor=unconfined"),
    }
}

/// The node's command line.
pub fn arguments(host: &Host) -> Vec<String> {
    let mut arguments: Vec<String> = [
        "server",
        // What a test of an operator has no use for.
        "--disable=traefik,servicelb,metrics-server,local-storage",
        "--disable-network-policy",
        // Logs and exec of pods go straight to the kubelet; the tunnel refuses both for a while after the start.
        "--egress-selector-mode=disabled",
    ]
    .map(Into::into)
    .into();
    arguments.push(format!("--tls-san={}", host.address));
    arguments.push(format!("--kube-apiserver-arg=audit-policy-file={AUDIT_POLICY}"));
    arguments.push(format!("--kube-apiserver-arg=audit-log-path={AUDIT_LOG}"));
    arguments
}

fn volumes(labels: &BTreeMap<String, String>) -> Vec<Mount> {
    let volume = |path: &&str| Mount {
        target: Some((*path).to_owned()),
        typ: Some(MountType::VOLUME),
        volume_options: Some(MountVolumeOptions {
            labels: Some(labels.clone().into_iter().collect()),
            ..MountVolumeOptions::default()
        }),
        ..Mount::default()
    };
    VOLUMES.iter().map(volume).collect()
}

fn configure(host: &mut HostConfig, rights: Rights, bind: Option<IpAddr>, mounts: &[Mount]) {
    if rights == Rights::Listed {
        // A kubelet writes to /proc/sys.
        host.masked_paths = Some(Vec::new());
        host.readonly_paths = Some(Vec::new());
    }
    host.mounts = Some(mounts.to_vec());
    host.tmpfs = Some([("/run".to_owned(), String::new())].into_iter().collect());
    host.publish_all_ports = Some(false);
    let binding = PortBinding { host_ip: bind.map(|address| address.to_string()), host_port: None };
    host.port_bindings = Some([(format!("{API_PORT}/tcp"), Some(vec![binding]))].into_iter().collect());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_looked_for_where_the_engine_is() {
        let bridge = Some(IpAddr::from([172, 17, 0, 1]));
        let local = |docker_host| Host::of(docker_host, false, bridge);
        assert_eq!(local(None).address, "127.0.0.1");
        assert_eq!(local(Some("unix:///run/podman.sock")).address, "127.0.0.1");
        assert_eq!(local(Some("unix:///run/podman.sock")).bind, Some(Ipv4Addr::LOCALHOST.into()));
        let remote = local(Some("tcp://engine.test:2375"));
        assert_eq!((remote.address.as_str(), remote.bind), ("engine.test", None));
        // A container that is given the engine's socket.
        assert_eq!(Host::of(None, true, bridge).address, "172.17.0.1");
        assert_eq!(Host::of(Some("tcp://docker:2376"), true, bridge).address, "docker");
        assert_eq!(Host::of(None, true, None).address, "127.0.0.1");
    }

    #[test]
    fn the_server_certificate_names_the_address_that_is_used() {
        let host = Host::of(Some("tcp://engine.test:2375"), false, None);
        assert!(arguments(&host).contains(&"--tls-san=engine.test".to_owned()));
    }

    #[test]
    fn every_volume_can_be_found_again() {
        let labels = Owner::me().labels();
        for mount in volumes(&labels) {
            let on_it: BTreeMap<_, _> = mount.volume_options.unwrap().labels.unwrap().into_iter().collect();
            assert_eq!(Owner::of(&on_it), Some(Owner::me()));
            assert_eq!(mount.source, None, "an anonymous volume goes with its container");
        }
    }

    #[test]
    fn an_address_of_elsewhere_is_not_local() {
        assert!(is_local(Ipv4Addr::LOCALHOST.into()));
        // Reserved for documentation.
        assert!(!is_local(Ipv4Addr::new(192, 0, 2, 1).into()));
    }
}
