//! The container engine, as far as a node needs it.
//!
//! # Guarantees
//! What is asked for and is not there is `None` or already done, not an error; everything else that the engine
//! answers is told with what was being done. Commands in a container come back with their exit code and output.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use bytes::Bytes;
use futures::{Stream, StreamExt as _, TryStreamExt as _};
use testcontainers::bollard::{
    Docker,
    container::LogOutput,
    errors::Error as BollardError,
    exec::StartExecResults,
    models::{ContainerInspectResponse, ExecConfig},
    query_parameters::{
        CreateImageOptionsBuilder, ListContainersOptionsBuilder, ListImagesOptions, ListVolumesOptionsBuilder,
        LogsOptionsBuilder, RemoveContainerOptionsBuilder, RemoveVolumeOptions,
    },
};
use tokio::io::AsyncWriteExt as _;

use super::K3sError;
use crate::{
    clock::{RunClock, pause},
    cluster::owner,
};

/// An engine that does not answer within this time is not there.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
/// A removal that is refused, because another one has begun, is tried again for so long.
const GONE_WITHIN: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(50);

/// A connection to the engine that the environment names; cheap to clone.
#[derive(Clone)]
pub struct Engine {
    docker: Docker,
    pub version: String,
}

/// A container as a list shows it.
#[derive(Debug, Clone)]
pub struct Listed {
    pub name: String,
    pub labels: BTreeMap<String, String>,
}

/// How a command in a container ended.
#[derive(Debug)]
pub struct Done {
    pub code: i64,
    pub stdout: String,
    pub stderr: String,
}

impl Engine {
    /// Connects and makes sure that somebody answers.
    ///
    /// # Errors
    /// When nobody does.
    pub async fn connect() -> Result<Self, K3sError> {
        let docker = testcontainers::core::client::docker_client_instance()
            .await
            .map_err(|error| K3sError::NoEngine(Box::new(error)))?;
        let version = tokio::time::timeout(ANSWERS_WITHIN, docker.version())
            .await
            .map_err(|_| K3sError::NoEngine("it does not answer".into()))?
            .map_err(|error| K3sError::NoEngine(Box::new(error)))?;
        let version = version.version.unwrap_or_else(|| "of an unknown version".into());
        Ok(Self { docker, version })
    }

    /// The version of cgroups on the engine's machine: `1` or `2`.
    pub async fn cgroup_version(&self) -> Option<String> {
        let info = self.docker.info().await.ok()?;
        info.cgroup_version.map(|version| version.to_string())
    }

    /// The address of the engine's machine in the default network; `None` where there is no such network.
    pub async fn bridge(&self) -> Option<IpAddr> {
        let network = self.docker.inspect_network("bridge", None).await.ok()?;
        let configs = network.ipam?.config?;
        configs.into_iter().find_map(|config| config.gateway?.parse().ok())
    }

    /// The names of all local images.
    ///
    /// # Errors
    /// When the engine does not say.
    pub async fn images(&self) -> Result<Vec<String>, K3sError> {
        let all = self.docker.list_images(None::<ListImagesOptions>).await;
        Ok(all.map_err(failed("list images"))?.into_iter().flat_map(|image| image.repo_tags).collect())
    }

    /// The id of a local image.
    ///
    /// # Errors
    /// When the engine does not say.
    pub async fn image_id(&self, image: &str) -> Result<Option<String>, K3sError> {
        let found =
            present(self.docker.inspect_image(image).await).map_err(failed(format!("look up image {image}")))?;
        Ok(found.and_then(|image| image.id))
    }

    /// Fetches an image from its registry.
    ///
    /// # Errors
    /// When that does not work, with the registry's words.
    pub async fn pull(&self, image: &str) -> Result<(), K3sError> {
        let (repository, tag) = super::image::split(image);
        let options = CreateImageOptionsBuilder::new().from_image(repository).tag(tag).build();
        let mut progress = self.docker.create_image(Some(options), None, None);
        while let Some(step) = progress.next().await {
            let step = step.map_err(failed(format!("pull {image}")))?;
            if let Some(error) = step.error_detail.and_then(|detail| detail.message) {
                return Err(failed(format!("pull {image}"))(BollardError::from(std::io::Error::other(error))));
            }
        }
        Ok(())
    }

    /// A local image with its layers, as one archive.
    pub fn export(&self, image: &str) -> impl Stream<Item = Result<Bytes, BollardError>> + Send + use<> {
        self.docker.export_image(image)
    }

    /// A container by name, also one that is stopped.
    ///
    /// # Errors
    /// When the engine does not say.
    pub async fn inspect(&self, name: &str) -> Result<Option<ContainerInspectResponse>, K3sError> {
        present(self.docker.inspect_container(name, None).await).map_err(failed(format!("look up container {name}")))
    }

    /// Every container that this program has made.
    ///
    /// # Errors
    /// When the engine does not say.
    pub async fn containers(&self) -> Result<Vec<Listed>, K3sError> {
        let filters = [("label", vec![owner::LABEL])].into_iter().collect();
        let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
        let all = self.docker.list_containers(Some(options)).await.map_err(failed("list containers"))?;
        let listed = all.into_iter().map(|container| Listed {
            name: container.names.unwrap_or_default().concat().trim_start_matches('/').to_owned(),
            labels: container.labels.unwrap_or_default().into_iter().collect(),
        });
        Ok(listed.collect())
    }

    /// Every volume that this program has made, with its labels.
    ///
    /// # Errors
    /// When the engine does not say.
    pub async fn volumes(&self) -> Result<Vec<(String, BTreeMap<String, String>)>, K3sError> {
        let filters = [("label", vec![owner::LABEL])].into_iter().collect();
        let options = ListVolumesOptionsBuilder::new().filters(&filters).build();
        let all = self.docker.list_volumes(Some(options)).await.map_err(failed("list volumes"))?;
        let volumes = all.volumes.unwrap_or_default().into_iter();
        Ok(volumes.map(|volume| (volume.name, volume.labels.into_iter().collect())).collect())
    }

    /// Ends a container and removes it with its volumes. Where somebody else is doing that, it is waited for.
    ///
    /// # Errors
    /// When the engine cannot, for as long as that is tried.
    pub async fn remove(&self, name: &str) -> Result<(), K3sError> {
        let clock = RunClock::start();
        let deadline = clock.deadline(GONE_WITHIN);
        loop {
            let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
            let error = match self.docker.remove_container(name, Some(options)).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            match &error {
                BollardError::DockerResponseServerError { status_code: 404, .. } => return Ok(()),
                // Two that remove the same container get in each other's way: one finds it dead, or half gone.
                BollardError::DockerResponseServerError { .. } if !deadline.passed(clock) => pause(LOOK).await,
                _ => return Err(failed(format!("remove container {name}"))(error)),
            }
        }
    }

    /// # Errors
    /// When the engine cannot, such as while a container uses it.
    pub async fn remove_volume(&self, name: &str) -> Result<(), K3sError> {
        let done = self.docker.remove_volume(name, None::<RemoveVolumeOptions>).await;
        present(done).map(|_| ()).map_err(failed(format!("remove volume {name}")))
    }

    /// The last lines of what a container has printed; empty when it has gone.
    pub async fn log_tail(&self, name: &str, lines: usize) -> String {
        let options = LogsOptionsBuilder::new().stdout(true).stderr(true).tail(&lines.to_string()).build();
        let printed: Vec<String> = self
            .docker
            .logs(name, Some(options))
            .filter_map(async |part| part.ok().map(|part| part.to_string()))
            .collect()
            .await;
        printed.concat().trim_end().to_owned()
    }

    /// Runs a command in a container.
    ///
    /// # Errors
    /// When it cannot be run; a command that fails is no error.
    pub async fn exec(&self, name: &str, command: &[&str]) -> Result<Done, K3sError> {
        self.exec_with(name, command, futures::stream::empty()).await
    }

    /// [`Engine::exec`] with `input` on the command's standard input.
    ///
    /// # Errors
    /// As [`Engine::exec`], or when the input breaks off.
    pub async fn exec_with(
        &self,
        name: &str,
        command: &[&str],
        input: impl Stream<Item = Result<Bytes, BollardError>> + Send,
    ) -> Result<Done, K3sError> {
        let doing = || failed(format!("run `{}` in {name}", command.join(" ")));
        let config = ExecConfig {
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            cmd: Some(command.iter().map(|&word| word.to_owned()).collect()),
            ..ExecConfig::default()
        };
        let exec = self.docker.create_exec(name, config).await.map_err(doing())?;
        let StartExecResults::Attached { output, input: mut stdin } =
            self.docker.start_exec(&exec.id, None).await.map_err(doing())?
        else {
            return Err(doing()(BollardError::from(std::io::Error::other("the engine did not attach to it"))));
        };
        let feed = async {
            let mut input = std::pin::pin!(input);
            while let Some(part) = input.try_next().await? {
                // A command that has ended reads no more; its exit code says why.
                if stdin.write_all(&part).await.is_err() {
                    break;
                }
            }
            let _ = stdin.shutdown().await;
            Ok::<_, BollardError>(())
        };
        let (fed, read) = tokio::join!(feed, gather(output));
        fed.map_err(doing())?;
        let (stdout, stderr) = read.map_err(doing())?;
        let ended = self.docker.inspect_exec(&exec.id).await.map_err(doing())?;
        Ok(Done { code: ended.exit_code.unwrap_or(-1), stdout, stderr })
    }

    /// A file of a running container; `None` when it is not there.
    ///
    /// # Errors
    /// When the engine cannot look.
    pub async fn read(&self, name: &str, path: &str) -> Result<Option<String>, K3sError> {
        let done = self.exec(name, &["cat", path]).await?;
        Ok((done.code == 0).then_some(done.stdout))
    }
}

/// The address of the engine's machine in the container's network, as containers see it.
#[must_use]
pub fn gateway(container: &ContainerInspectResponse) -> Option<IpAddr> {
    let networks = container.network_settings.as_ref()?.networks.as_ref()?;
    networks.values().filter_map(|network| network.gateway.as_ref()?.parse().ok()).next()
}

/// The port of the engine's machine that leads to a TCP port of the container.
#[must_use]
pub fn mapped_port(container: &ContainerInspectResponse, port: u16) -> Option<u16> {
    let ports = container.network_settings.as_ref()?.ports.as_ref()?;
    ports.get(&format!("{port}/tcp"))?.as_ref()?.iter().find_map(|binding| binding.host_port.as_ref()?.parse().ok())
}

/// Whether a container runs now, in words when it does not.
///
/// # Errors
/// The engine's word for its state.
pub fn running(container: Option<&ContainerInspectResponse>) -> Result<(), String> {
    let Some(container) = container else { return Err("the container is gone".into()) };
    let Some(state) = &container.state else { return Err("the container has no state".into()) };
    match state.running {
        Some(true) => Ok(()),
        _ => {
            let status = state.status.map(|status| status.to_string()).unwrap_or_default();
            Err(format!("the container is {status}, exit code {}", state.exit_code.unwrap_or_default()))
        }
    }
}

async fn gather(
    mut output: impl Stream<Item = Result<LogOutput, BollardError>> + Unpin,
) -> Result<(String, String), BollardError> {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    while let Some(part) = output.try_next().await? {
        match part {
            LogOutput::StdErr { message } => stderr.extend_from_slice(&message),
            part => stdout.extend_from_slice(&part.into_bytes()),
        }
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((text(&stdout), text(&stderr)))
}

/// Nothing where the engine answers that it does not have it.
fn present<T>(answer: Result<T, BollardError>) -> Result<Option<T>, BollardError> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(BollardError::DockerResponseServerError { status_code: 404, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn failed(doing: impl Into<String>) -> impl FnOnce(BollardError) -> K3sError {
    let doing = doing.into();
    move |source| K3sError::Engine { doing, source: Box::new(source) }
}
