//! A control plane: etcd, kube-apiserver and, where there is one, kube-controller-manager.
//!
//! # Guarantees
//! [`Plane::start`] returns when the API is ready, the namespace `default` has its ServiceAccount and root certificate,
//! the simulated node is there, and nobody writes any more. Dropping a plane kills its programs and removes its folder.
//!
//! # Not done
//! No kube-scheduler: pods are bound by the controllers of the embedded lane, which also play the node.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, TcpListener},
    path::Path,
    sync::Arc,
    time::Duration,
};

use http::Request;
use reconverge_apiserver::{
    clock::SystemClock,
    controllers::{
        self,
        kubelet::Timing,
        remote::{self, RemoteControllers},
    },
    server::local_objects,
};
use serde_json::Value;

use super::{
    EnvtestError,
    arguments::{Layout, lost_port, token_line},
    baseline::{Baseline, fingerprint},
    binaries::Binaries,
    certificates,
    etcd::{Etcd, Part},
    leftovers::Folder,
    process::Program,
    settings::Settings,
    transport::Connected,
    wipe,
};
use crate::{
    clock::{RunClock, pause, wall},
    cluster::{Endpoint, client, kubeconfig},
    seed::Seed,
};

/// How often a wait for the start looks again.
const LOOK: Duration = Duration::from_millis(25);
/// Nobody may write for so long before the baseline is taken.
const QUIET: Duration = Duration::from_millis(300);
/// Controllers of kube-controller-manager that retry leave longer pauses.
const QUIET_WITH_MANAGER: Duration = Duration::from_millis(1500);
/// How often a port is lost to another program until that is an error.
const STARTS: usize = 3;

/// A running control plane. Fields are dropped in this order: programs before their folder.
pub(super) struct Plane {
    programs: Vec<Program>,
    folder: Folder,
    pub etcd: Etcd,
    /// The harness's own.
    pub client: kube::Client,
    /// For questions that may well be answered with an error: it neither repeats nor logs.
    plain: kube::Client,
    pub endpoint: Endpoint,
    pub token: String,
    /// As in `1.34.4`.
    pub version: String,
    pub baseline: Baseline,
    /// Storage folder -> path of the list, for what the API server had from the start.
    pub paths: BTreeMap<String, String>,
    has_manager: bool,
}

impl Plane {
    /// Starts one with its controllers.
    pub(super) async fn start(
        binaries: &Binaries,
        settings: Settings,
        seed: Seed,
    ) -> Result<(Self, RemoteControllers), EnvtestError> {
        let mut tries = 1;
        loop {
            match Self::try_start(binaries, settings, seed).await {
                Err(EnvtestError::Ended { program, tail, .. }) if lost_port(&tail) && tries < STARTS => {
                    tries += 1;
                    tracing::warn!(program, "another program was faster with a port; starting again");
                }
                done => return done,
            }
        }
    }

    async fn try_start(
        binaries: &Binaries,
        settings: Settings,
        seed: Seed,
    ) -> Result<(Self, RemoteControllers), EnvtestError> {
        let folder = Folder::create().map_err(EnvtestError::io("make a folder for a control plane"))?;
        let [etcd_port, peer_port, api_port] =
            free_ports().map_err(EnvtestError::io("find free ports on 127.0.0.1"))?;
        let layout = Layout { folder: folder.path().to_owned(), etcd_port, peer_port, api_port };
        let certificates = certificates::make().map_err(EnvtestError::Certificates)?;
        let token = certificates::token().map_err(EnvtestError::Certificates)?;
        let manager_token = certificates::token().map_err(EnvtestError::Certificates)?;
        let endpoint = Endpoint { url: layout.api_url(), ca_pem: certificates.authority.clone() };
        let users = token_line(&token, "reconverge", "system:masters")
            + &token_line(&manager_token, "system:kube-controller-manager", "system:authenticated");
        for (name, text) in [
            ("ca.crt", &certificates.authority),
            ("apiserver.crt", &(certificates.serving + &certificates.authority)),
            ("apiserver.key", &certificates.serving_key),
            ("accounts.key", &certificates.accounts_key),
            ("accounts.pub", &certificates.accounts_public),
            ("tokens.csv", &users),
            ("controller-manager.kubeconfig", &kubeconfig(&endpoint, &manager_token, "")),
            ("admin.kubeconfig", &kubeconfig(&endpoint, &token, "default")),
        ] {
            write(&layout.file(name), text)?;
        }
        let (client, plain) = clients(&layout.file("admin.kubeconfig")).await?;
        let mut plane = Self {
            programs: Vec::new(),
            folder,
            etcd: Etcd::new(layout.etcd_url()),
            client,
            plain,
            endpoint,
            token,
            version: String::new(),
            baseline: Baseline::default(),
            paths: BTreeMap::new(),
            has_manager: binaries.has_controller_manager(),
        };
        let controllers = plane.bring_up(binaries, &layout, settings, seed).await?;
        Ok((plane, controllers))
    }

    async fn bring_up(
        &mut self,
        binaries: &Binaries,
        layout: &Layout,
        settings: Settings,
        seed: Seed,
    ) -> Result<RemoteControllers, EnvtestError> {
        let clock = RunClock::start();
        self.launch(binaries, "etcd", &layout.etcd(), settings)?;
        self.launch(binaries, "kube-apiserver", &layout.apiserver(), settings)?;
        self.answers("/readyz", clock, settings).await?;
        if self.has_manager {
            self.launch(binaries, "kube-controller-manager", &layout.controller_manager(), settings)?;
        }
        for object in local_objects(wall()) {
            self.create(&object).await?;
        }
        let controllers = self.run_controllers(seed).await?;
        self.answers("/api/v1/namespaces/default/serviceaccounts/default", clock, settings).await?;
        self.answers("/api/v1/namespaces/default/configmaps/kube-root-ca.crt", clock, settings).await?;
        let version = self.client.apiserver_version().await.map_err(EnvtestError::request("ask for the version"))?;
        version.git_version.trim_start_matches('v').clone_into(&mut self.version);
        self.paths = wipe::paths(&self.client).await?;
        self.take_baseline(clock, settings).await?;
        tracing::debug!(keys = self.baseline.len(), ms = clock.now_ms(), "a control plane is up");
        Ok(controllers)
    }

    fn launch(
        &mut self,
        binaries: &Binaries,
        name: &'static str,
        arguments: &[String],
        settings: Settings,
    ) -> Result<(), EnvtestError> {
        let log = (!settings.attach).then(|| self.folder.path().join(format!("{name}.log")));
        let program = Program::start(name, &binaries.program(name), arguments, log)?;
        self.folder.note(program.id()).map_err(EnvtestError::io("note a program of a control plane"))?;
        self.programs.push(program);
        Ok(())
    }

    /// Waits until a GET succeeds.
    async fn answers(&mut self, path: &'static str, clock: RunClock, settings: Settings) -> Result<(), EnvtestError> {
        let deadline = clock.deadline(settings.start);
        loop {
            self.is_alive()?;
            let error = match get(&self.plain, path).await {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            if deadline.passed(clock) {
                return Err(self.late(path, settings, &error.to_string()));
            }
            pause(LOOK).await;
        }
    }

    fn late(&self, what: &str, settings: Settings, last: &str) -> EnvtestError {
        let logs: Vec<String> = self.programs.iter().map(Program::log_tail).collect();
        EnvtestError::NotReady {
            what: what.to_owned(),
            within_s: settings.start.as_secs(),
            last: last.to_owned(),
            logs: logs.join("\n"),
        }
    }

    /// Fails with the end of the first program that has ended.
    pub(super) fn is_alive(&mut self) -> Result<(), EnvtestError> {
        self.programs.iter_mut().find_map(Program::ended).map_or(Ok(()), Err)
    }

    async fn create(&self, object: &Value) -> Result<(), EnvtestError> {
        let path = match object["kind"].as_str() {
            Some("Node") => "/api/v1/nodes",
            _ => "/apis/storage.k8s.io/v1/storageclasses",
        };
        let request = Request::post(path)
            .header("content-type", "application/json")
            .body(object.to_string().into_bytes())
            .map_err(EnvtestError::http)?;
        let created = self.client.request::<Value>(request).await;
        created.map(|_| ()).map_err(EnvtestError::request("create the simulated node"))
    }

    /// The controllers that this control plane lacks, and the simulated kubelet.
    pub(super) async fn run_controllers(&self, seed: Seed) -> Result<RemoteControllers, EnvtestError> {
        let list = if self.has_manager {
            controllers::beside_a_controller_manager(Timing::default())
        } else {
            controllers::standard(&self.endpoint.ca_pem, Timing::default())
        };
        let transport = Arc::new(Connected(self.plain.clone()));
        Ok(remote::start(transport, list, Arc::new(SystemClock), seed.derive("cluster").0).await?)
    }

    /// How long nobody may write until the control plane counts as at rest.
    pub(super) fn quiet(&self) -> Duration {
        if self.has_manager { QUIET_WITH_MANAGER } else { QUIET }
    }

    async fn take_baseline(&mut self, clock: RunClock, settings: Settings) -> Result<(), EnvtestError> {
        let deadline = clock.deadline(settings.start);
        let mut last = self.etcd.read(Part::Keys).await?;
        let mut since = clock.now_ms();
        loop {
            pause(LOOK).await;
            let now = self.etcd.read(Part::Keys).await?;
            if fingerprint(&now) != fingerprint(&last) {
                since = clock.now_ms();
            }
            last = now;
            if u128::from(clock.now_ms() - since) >= self.quiet().as_millis() {
                break;
            }
            if deadline.passed(clock) {
                return Err(self.late("rest", settings, "the control plane's own programs keep writing"));
            }
        }
        self.baseline = Baseline::new(self.etcd.read(Part::Values).await?);
        Ok(())
    }

    /// Ends its programs, the one that was started last first.
    pub(super) async fn stop(mut self, settings: Settings) {
        while let Some(program) = self.programs.pop() {
            program.stop(settings.stop).await;
        }
    }
}

/// A GET whose answer is JSON or text.
pub(super) async fn get(client: &kube::Client, path: &str) -> Result<String, kube::Error> {
    let request = Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
    client.request_text(request).await
}

/// The one that tries again, and the one that does not.
async fn clients(path: &Path) -> Result<(kube::Client, kube::Client), EnvtestError> {
    let config = kube::config::Kubeconfig::read_from(path).map_err(EnvtestError::kubeconfig)?;
    let options = kube::config::KubeConfigOptions::default();
    let mut config = kube::Config::from_custom_kubeconfig(config, &options).await.map_err(EnvtestError::kubeconfig)?;
    // It is on this machine, whatever the environment says about the way out.
    config.proxy_url = None;
    let failed = || EnvtestError::request("connect to a control plane");
    Ok((client::persistent(&config).map_err(failed())?, client::plain(&config).map_err(failed())?))
}

fn write(path: &Path, text: &str) -> Result<(), EnvtestError> {
    std::fs::write(path, text).map_err(EnvtestError::io("write the files of a control plane"))
}

/// Three that were free a moment ago, and different.
fn free_ports() -> std::io::Result<[u16; 3]> {
    let bind = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let held = [bind()?, bind()?, bind()?];
    Ok([held[0].local_addr()?.port(), held[1].local_addr()?.port(), held[2].local_addr()?.port()])
}
