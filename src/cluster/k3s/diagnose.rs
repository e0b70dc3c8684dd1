//! Looks for what this lane needs, and says what to do about what is missing.
//!
//! # Guarantees
//! Containers are started only from an image that is here, and are removed again.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use tokio::net::TcpListener;

use super::{
    engine::{self, Engine},
    image::{self, Choice},
    start,
};

/// A kubelet, containerd and their containers watch many files; with fewer, pods fail in odd ways.
const INOTIFY_INSTANCES: u64 = 512;
const INOTIFY_FILE: &str = "/proc/sys/fs/inotify/max_user_instances";
/// For a connection from the container to this process.
const REACHED_WITHIN: Duration = Duration::from_secs(15);
/// From this minor version on, a kubelet refuses to run on cgroup v1 unless told otherwise.
const FIRST_WITHOUT_CGROUP_1: u32 = 35;

/// One thing that was looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub name: &'static str,
    pub state: State,
    /// What was found.
    pub found: String,
    /// What to do; empty when nothing is.
    pub advice: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Ok,
    Missing,
    /// The lane works, but not all of it.
    Limited,
    /// Something that it depends on is missing.
    NotTried,
}

impl Check {
    #[must_use]
    pub fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, state: State::Ok, found: found.into(), advice: String::new() }
    }

    #[must_use]
    pub fn missing(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { name, state: State::Missing, found: found.into(), advice: advice.into() }
    }

    fn limited(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { state: State::Limited, ..Self::missing(name, found, advice) }
    }

    fn not_tried(name: &'static str, found: impl Into<String>) -> Self {
        Self { state: State::NotTried, ..Self::ok(name, found) }
    }
}

/// Every check of this lane, in the order in which a start would need them.
pub async fn diagnose(wanted: Option<&str>) -> Vec<Check> {
    let engine = match Engine::connect().await {
        Ok(engine) => engine,
        Err(error) => {
            let why = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            let advice = "start a container engine, or point DOCKER_HOST at one";
            return vec![Check::missing("container engine", why, advice)];
        }
    };
    let mut checks = vec![Check::ok("container engine", format!("version {}", engine.version))];
    let image = image_of(&engine, wanted).await;
    let version = image.as_ref().ok().and_then(|image| minor_version(image::split(image).1));
    checks.push(cgroups(engine.cgroup_version().await.as_deref(), version));
    checks.push(inotify(std::fs::read_to_string(INOTIFY_FILE).ok().as_deref()));
    match image {
        Ok(image) => {
            checks.push(Check::ok("node image", image.clone()));
            checks.extend(probe(&engine, image).await);
        }
        Err(missing) => {
            checks.push(missing);
            checks.push(Check::not_tried("rights of the node", "there is no image to start"));
            checks.push(Check::not_tried("way to this machine", "there is no image to start"));
        }
    }
    checks
}

async fn image_of(engine: &Engine, wanted: Option<&str>) -> Result<String, Check> {
    let images = engine.images().await.unwrap_or_default();
    let choice = image::choose(wanted, &images);
    match &choice {
        Choice::Local(image) => Ok(image.clone()),
        Choice::Pull(image) if matches!(engine.image_id(image).await, Ok(Some(_))) => Ok(image.clone()),
        Choice::Pull(image) => {
            let found = format!("{image} is not here; a run tries to pull it");
            let advice = format!("docker pull {image}; or, without a registry, k3s/build.sh");
            Err(Check::missing("node image", found, advice))
        }
    }
}

fn cgroups(version: Option<&str>, minor: Option<u32>) -> Check {
    const NAME: &str = "cgroups";
    match (version, minor) {
        (None, _) => Check::not_tried(NAME, "the engine does not say"),
        (Some("1"), Some(minor)) if minor >= FIRST_WITHOUT_CGROUP_1 => Check::missing(
            NAME,
            format!("version 1, which Kubernetes 1.{minor} refuses"),
            "use a machine with cgroup version 2, or a node image of an older Kubernetes",
        ),
        (Some(version), _) => Check::ok(NAME, format!("version {version}")),
    }
}

fn inotify(file: Option<&str>) -> Check {
    const NAME: &str = "inotify";
    match file.and_then(|text| text.trim().parse::<u64>().ok()) {
        None => Check::not_tried(NAME, "this machine has no such limit to read"),
        Some(most) if most >= INOTIFY_INSTANCES => Check::ok(NAME, format!("{most} instances for each user")),
        Some(most) => Check::limited(
            NAME,
            format!("{most} instances for each user"),
            format!("sysctl -w fs.inotify.max_user_instances={INOTIFY_INSTANCES}"),
        ),
    }
}

/// The minor version that a tag such as `v1.34.4-k3s1` names.
fn minor_version(tag: &str) -> Option<u32> {
    tag.trim_start_matches('v').split(['.', '-', '+']).nth(1)?.parse().ok()
}

/// Starts a container with the rights of a node, and lets it call this process.
async fn probe(engine: &Engine, image: String) -> Vec<Check> {
    const RIGHTS: &str = "rights of the node";
    const WAY: &str = "way to this machine";
    let name = format!("reconverge-doctor-{}", std::process::id());
    let host = start::Host::of_this_process(engine).await;
    let order = start::Order { name: name.clone(), image, host };
    let started = start::probe(engine, &order).await;
    let container = match started {
        Ok(container) => container,
        Err(error) => {
            let advice = "let the engine run privileged containers";
            return vec![
                Check::missing(RIGHTS, crate::cluster::in_a_line(&error), advice),
                Check::not_tried(WAY, "no container could be started"),
            ];
        }
    };
    let rights = match container.rights {
        start::Rights::Privileged => Check::ok(RIGHTS, "privileged"),
        start::Rights::Listed => Check::ok(RIGHTS, "privileged is refused, but its rights one by one are not"),
    };
    let way = match engine.inspect(&name).await {
        Ok(Some(found)) => way(engine, &name, engine::gateway(&found)).await,
        _ => Err("the container ended at once".to_owned()),
    };
    drop(container);
    let _ = engine.remove(&name).await;
    let way = match way {
        Ok(address) => Check::ok(WAY, format!("containers reach this process at {address}")),
        Err(why) => Check::limited(
            WAY,
            why,
            "operators beside the cluster work; for operators in it, use a local engine, and let the firewall pass \
             connections from its networks",
        ),
    };
    vec![rights, way]
}

/// Whether a container reaches a listener of this process at the gateway of its network.
async fn way(engine: &Engine, name: &str, gateway: Option<IpAddr>) -> Result<SocketAddr, String> {
    let gateway = gateway.unwrap_or(Ipv4Addr::LOCALHOST.into());
    let listener = TcpListener::bind((gateway, 0))
        .await
        .map_err(|error| format!("the gateway {gateway} of the container's network is not this machine: {error}"))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    // Which of these a node image has differs.
    let (ip, port) = (address.ip(), address.port());
    let call = format!(
        "nc -w 5 {ip} {port} </dev/null || wget -q -T 5 -O /dev/null http://{ip}:{port}/ || bash -c '</dev/tcp/{ip}/{port}'"
    );
    let command = ["sh", "-c", &call];
    let called = engine.exec(name, &command);
    let accepted = tokio::time::timeout(REACHED_WITHIN, async {
        tokio::pin!(called);
        tokio::select! {
            accepted = listener.accept() => accepted.map(|_| ()).map_err(|error| error.to_string()),
            done = &mut called => Err(match done {
                Ok(done) => done.stderr.trim().to_owned(),
                Err(error) => error.to_string(),
            }),
        }
    });
    match accepted.await {
        Ok(Ok(())) => Ok(address),
        Ok(Err(why)) => Err(format!("no connection from a container to {address}: {why}")),
        Err(_) => Err(format!("no connection from a container to {address} within {} s", REACHED_WITHIN.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_kubernetes_on_old_cgroups_is_told_beforehand() {
        assert_eq!(cgroups(Some("1"), Some(34)).state, State::Ok);
        assert_eq!(cgroups(Some("1"), Some(35)).state, State::Missing);
        assert_eq!(cgroups(Some("2"), Some(35)).state, State::Ok);
        assert_eq!(cgroups(Some("1"), None).state, State::Ok);
        assert_eq!(cgroups(None, Some(35)).state, State::NotTried);
    }

    #[test]
    fn the_version_is_read_from_the_tag() {
        assert_eq!(minor_version("v1.34.4-k3s1"), Some(34));
        assert_eq!(minor_version("v1.35.0+k3s1"), Some(35));
        assert_eq!(minor_version("latest"), None);
    }

    #[test]
    fn few_inotify_instances_are_told_with_the_remedy() {
        let few = inotify(Some("128\n"));
        assert_eq!(few.state, State::Limited);
        assert!(few.advice.contains("fs.inotify.max_user_instances=512"));
        assert_eq!(inotify(Some("8192\n")).state, State::Ok);
        assert_eq!(inotify(None).state, State::NotTried);
    }
}
