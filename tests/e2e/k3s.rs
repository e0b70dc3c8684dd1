//! The k3s lane as its users meet it: a node that goes when it should and stays when it should.
//!
//! Skipped unless `RECONVERGE_TIERS` names `k3s`, a container engine answers and a node image is at hand.

use std::{
    collections::BTreeSet,
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use libtest_mimic::{Failed, Trial};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use reconverge::cluster::{k3s, owner};
use testcontainers::bollard::{
    Docker,
    query_parameters::{ListContainersOptionsBuilder, ListVolumesOptionsBuilder},
};
use tokio::runtime::Runtime;

use crate::{
    program::{children_of, expect, expect_exit, program, run, text, wait_for},
    scenarios,
};

const TIER: &str = "k3s";
/// A node on a busy machine with two cores.
const STARTED_WITHIN: Duration = Duration::from_secs(300);
const GONE_WITHIN: Duration = Duration::from_secs(60);

/// The container engine, asked beside the program.
struct Engine {
    runtime: Runtime,
    docker: Docker,
}

type Check = fn(&Engine, &Path) -> Result<(), Failed>;

/// One trial for each promise of the lane.
pub fn trials() -> Vec<Trial> {
    let all: [(&str, Check); 3] = [
        ("interrupt_removes_the_node", interrupt_removes_the_node),
        ("clean_after_a_kill_leaves_nothing", clean_after_a_kill_leaves_nothing),
        ("kept_node_is_used_again", kept_node_is_used_again),
    ];
    let reason = reason_to_skip();
    let trial = |(name, check): (&str, Check)| {
        scenarios::trial_unless(reason.clone(), format!("{TIER}::{name}"), move || {
            let folder = tempfile::tempdir()?;
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            let docker = runtime.block_on(testcontainers::core::client::docker_client_instance())?;
            check(&Engine { runtime, docker }, folder.path())
        })
    };
    all.into_iter().map(trial).collect()
}

pub fn reason_to_skip() -> Option<String> {
    if !scenarios::is_wanted(TIER) {
        return Some(format!("set RECONVERGE_TIERS={TIER} to run it on a node in a container"));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().ok()?;
    runtime.block_on(k3s::is_at_hand(None)).err().map(|error| error.to_string())
}

impl Engine {
    /// Names of the containers, and how many volumes there are, that a process owns.
    fn owned_by(&self, pid: u32) -> Result<(BTreeSet<String>, usize), Failed> {
        self.runtime.block_on(self.look(pid))
    }

    fn has_nothing_of(&self, pid: u32) -> bool {
        self.owned_by(pid).is_ok_and(|(containers, volumes)| containers.is_empty() && volumes == 0)
    }

    async fn look(&self, pid: u32) -> Result<(BTreeSet<String>, usize), Failed> {
        let labels = vec![owner::LABEL.to_owned(), format!("{}.owner-pid={pid}", owner::LABEL)];
        let filters = [("label".to_owned(), labels)].into_iter().collect();
        let containers = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
        let volumes = ListVolumesOptionsBuilder::new().filters(&filters).build();
        let containers = self.docker.list_containers(Some(containers)).await?;
        let volumes = self.docker.list_volumes(Some(volumes)).await?;
        let names = containers.into_iter().flat_map(|container| container.names.unwrap_or_default());
        Ok((names.collect(), volumes.volumes.unwrap_or_default().len()))
    }

    /// Looks until that is so; false when the time is up.
    fn wait_until(&self, pid: u32, within: Duration, wanted: Wanted) -> bool {
        let look = async {
            loop {
                let (containers, volumes) = self.look(pid).await.unwrap_or_default();
                let reached = match wanted {
                    Wanted::Container => !containers.is_empty(),
                    Wanted::Nothing => containers.is_empty() && volumes == 0,
                };
                if reached {
                    return;
                }
                reconverge::clock::pause(Duration::from_millis(50)).await;
            }
        };
        self.runtime.block_on(async { tokio::time::timeout(within, look).await }).is_ok()
    }
}

#[derive(Clone, Copy)]
enum Wanted {
    Container,
    Nothing,
}

fn on_k3s<'a>(runs: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["run", "--cluster", TIER, "--judge", "off", "--runs-dir", runs], more].concat()
}

fn interrupt_removes_the_node(engine: &Engine, folder: &Path) -> Result<(), Failed> {
    let runs = folder.display().to_string();
    let scenario = beside_the_cluster(folder)?;
    let child = spawn(&mut program(&on_k3s(&runs, &[&scenario])))?;
    let id = child.id();
    // While the node is still coming up: nobody holds it yet.
    let started = engine.wait_until(id, STARTED_WITHIN, Wanted::Container);
    kill(pid_of(&child)?, Signal::SIGINT)?;
    let output = child.wait_with_output()?;
    expect(started, "the node was never started", &output)?;
    expect_exit(130, &output)?;
    expect(engine.has_nothing_of(id), "containers or volumes are left", &output)
}

fn clean_after_a_kill_leaves_nothing(engine: &Engine, folder: &Path) -> Result<(), Failed> {
    let runs = folder.display().to_string();
    let scenario = beside_the_cluster(folder)?;
    let child = spawn(&mut program(&on_k3s(&runs, &[&scenario])))?;
    let (id, pid) = (child.id(), pid_of(&child)?);
    let started = wait_for(STARTED_WITHIN, || !children_of(pid, "widget-operator").is_empty());
    let operators = children_of(pid, "widget-operator");
    kill(pid, Signal::SIGKILL)?;
    let output = child.wait_with_output()?;
    expect(started, "the operator never ran", &output)?;
    expect(!engine.has_nothing_of(id), "nothing was left to be cleaned", &output)?;

    let cleaned = run(&["clean"])?;
    expect_exit(0, &cleaned)?;
    expect(text(&cleaned.stdout).contains("removed container"), "it does not say what it removed", &cleaned)?;
    let gone = engine.wait_until(id, GONE_WITHIN, Wanted::Nothing);
    expect(gone, "containers or volumes are left", &cleaned)?;
    let alive: Vec<_> = operators.iter().filter(|id| Path::new(&format!("/proc/{id}/exe")).exists()).collect();
    expect(alive.is_empty(), &format!("operators are left: {alive:?}"), &cleaned)?;
    let again = run(&["clean"])?;
    expect_exit(0, &again)?;
    expect(!text(&again.stdout).contains("removed container"), "there was something left to remove", &again)
}

fn kept_node_is_used_again(engine: &Engine, folder: &Path) -> Result<(), Failed> {
    let runs = folder.display().to_string();
    // Apart from the nodes that this machine's user has kept.
    let cache = folder.join("cache");
    let scenario = beside_the_cluster(folder)?;
    let once = |keep: &str| -> Result<(u32, Output), Failed> {
        let arguments = on_k3s(&runs, &["--keep", keep, "--perturbation", "conflict", &scenario]);
        let child = spawn(program(&arguments).env("RECONVERGE_CACHE", &cache))?;
        Ok((child.id(), child.wait_with_output()?))
    };
    let (first, output) = once("always")?;
    expect_exit(0, &output)?;
    let told = text(&output.stderr);
    let kubeconfig = told.lines().find_map(|line| line.strip_prefix("cluster kept: export KUBECONFIG="));
    expect(kubeconfig.is_some_and(|path| Path::new(path).exists()), "no kubeconfig of the kept node", &output)?;
    let (kept, _) = engine.owned_by(first)?;
    expect(kept.len() == 1, &format!("one node was to be kept: {kept:?}"), &output)?;
    let untouched = program(&["clean"]).env("RECONVERGE_CACHE", &cache).output()?;
    expect(engine.owned_by(first)?.0 == kept, "clean has removed a kept node", &untouched)?;

    // It starts no container of its own, and removes the one that it was given.
    let (second, output) = once("never")?;
    expect_exit(0, &output)?;
    expect(engine.has_nothing_of(second), "another node was started", &output)?;
    expect(engine.has_nothing_of(first), "the kept node is left", &output)
}

fn spawn(command: &mut Command) -> Result<Child, Failed> {
    Ok(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)
}

fn pid_of(child: &Child) -> Result<Pid, Failed> {
    Ok(Pid::from_raw(i32::try_from(child.id())?))
}

/// The quickstart with its operator as a process, which is what a kill can leave behind.
fn beside_the_cluster(folder: &Path) -> Result<String, Failed> {
    let home = std::env::current_dir()?.join("scenarios");
    let text = std::fs::read_to_string(home.join("quickstart/scenario.yaml"))?;
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.iter().position(|line| *line == "    deployment:").ok_or("the quickstart has no deployment")?;
    let until = lines.iter().skip(from + 1).position(|line| !line.starts_with("      ")).unwrap_or_default() + from + 1;
    let kept = [&lines[..from], &lines[until..]].concat().join("\n");
    std::fs::copy(home.join("quickstart/widget.yaml"), folder.join("widget.yaml"))?;
    let path = folder.join("scenario.yaml");
    std::fs::write(&path, kept.replace("../", &format!("{}/", home.display())))?;
    Ok(path.display().to_string())
}
