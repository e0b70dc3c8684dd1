//! The program as its users run it: arguments, exit codes, reports, signals.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::Duration,
};

use libtest_mimic::{Failed, Trial};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

type Check = fn(&Path) -> Result<(), Failed>;

/// One trial for each promise of the command line.
pub fn trials() -> Vec<Trial> {
    let all: [(&str, Check); 12] = [
        ("help_teaches", help_teaches),
        ("wrong_argument_is_64", wrong_argument_is_64),
        ("wrong_scenario_names_line_and_column", wrong_scenario_names_line_and_column),
        ("nothing_selected_is_4", nothing_selected_is_4),
        ("cluster_of_somebody_is_refused", cluster_of_somebody_is_refused),
        ("doctor_says_what_works", doctor_says_what_works),
        ("schema_and_explain_answer", schema_and_explain_answer),
        ("fault_that_cannot_fire_is_inconclusive", fault_that_cannot_fire_is_inconclusive),
        ("failing_reference_is_enough", failing_reference_is_enough),
        ("finding_has_diff_and_replay_that_reproduces", finding_has_diff_and_replay_that_reproduces),
        ("interrupt_leaves_a_report_and_no_process", interrupt_leaves_a_report_and_no_process),
        ("cluster_prints_a_kubeconfig_and_ends", cluster_prints_a_kubeconfig_and_ends),
    ];
    all.into_iter()
        .map(|(name, check)| {
            Trial::test(format!("program::{name}"), move || {
                let folder = tempfile::tempdir()?;
                check(folder.path())
            })
        })
        .collect()
}

pub fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reconverge"));
    command.args(arguments).env_remove("RECONVERGE_TIERS").env("NO_COLOR", "1");
    // cargo has built the specimen together with this test. People write 1 for true.
    command.env("RECONVERGE_NO_BUILD", "1");
    command
}

pub fn run(arguments: &[&str]) -> Result<Output, Failed> {
    Ok(program(arguments).output()?)
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub fn expect(condition: bool, what: &str, output: &Output) -> Result<(), Failed> {
    if condition {
        return Ok(());
    }
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    Err(format!("{what}\nexit: {:?}\nstdout:\n{out}\nstderr:\n{err}", output.status.code()).into())
}

pub fn expect_exit(code: i32, output: &Output) -> Result<(), Failed> {
    expect(output.status.code() == Some(code), &format!("expected exit code {code}"), output)
}

fn help_teaches(_: &Path) -> Result<(), Failed> {
    let output = run(&["--help"])?;
    expect_exit(0, &output)?;
    let help = text(&output.stdout);
    for word in [
        "run",
        "replay",
        "lint",
        "explain",
        "schema",
        "analyze",
        "cluster",
        "clean",
        "doctor",
        "Exit codes",
        "inconclusive",
    ] {
        expect(help.contains(word), &format!("--help does not mention {word}"), &output)?;
    }
    Ok(())
}

fn wrong_argument_is_64(_: &Path) -> Result<(), Failed> {
    expect_exit(64, &run(&["run", "--no-such-flag"])?)
}

/// Copies the quickstart with its paths made absolute, and `change` applied to the text.
fn changed_quickstart(folder: &Path, from: &str, to: &str) -> Result<PathBuf, Failed> {
    let home = std::env::current_dir()?.join("scenarios/quickstart");
    let text = std::fs::read_to_string(home.join("scenario.yaml"))?;
    assert!(text.contains(from), "the quickstart has no `{from}` any more");
    let changed = text.replacen(from, to, 1).replace("../", &format!("{}/", home.parent().unwrap_or(&home).display()));
    for entry in std::fs::read_dir(&home)? {
        let path = entry?.path();
        if path.is_file() && !path.ends_with("scenario.yaml") {
            std::fs::copy(&path, folder.join(path.file_name().unwrap_or_default()))?;
        }
    }
    let path = folder.join("scenario.yaml");
    std::fs::write(&path, changed)?;
    Ok(path)
}

fn wrong_scenario_names_line_and_column(folder: &Path) -> Result<(), Failed> {
    let path = changed_quickstart(folder, "\n  perturbations:", "\n  pertubations:")?;
    let line =
        std::fs::read_to_string(&path)?.lines().position(|l| l.contains("pertubations:")).unwrap_or_default() + 1;
    let output = run(&["lint", &path.display().to_string()])?;
    expect_exit(64, &output)?;
    let message = text(&output.stderr);
    expect(message.contains(&format!("scenario.yaml:{line}:3")), "line and column are missing", &output)?;
    expect(message.contains("perturbations"), "the suggestion is missing", &output)
}

fn nothing_selected_is_4(_: &Path) -> Result<(), Failed> {
    expect_exit(4, &run(&["run", "--filter", "^no-such-scenario$", "scenarios/quickstart"])?)
}

/// Whoever has a cluster at work in their kubeconfig must not lose it by a word on the command line.
fn cluster_of_somebody_is_refused(folder: &Path) -> Result<(), Failed> {
    let runs = folder.display().to_string();
    let endpoint =
        reconverge::cluster::Endpoint { url: "https://prod.invalid:6443".into(), ca_pem: "not looked at".into() };
    let config = folder.join("config");
    std::fs::write(&config, reconverge::cluster::kubeconfig(&endpoint, "token", "default"))?;
    let by_flag = ["run", "--cluster", "kubeconfig", "--runs-dir", &runs, "scenarios/quickstart"];
    let by_variable = ["run", "--runs-dir", &runs, "scenarios/quickstart"];
    for (arguments, existing) in [(&by_flag[..], "false"), (&by_variable[..], "true")] {
        let mut command = program(arguments);
        let output = command.env("KUBECONFIG", &config).env("USE_EXISTING_CLUSTER", existing).output()?;
        expect_exit(64, &output)?;
        let message = text(&output.stderr);
        expect(message.contains("https://prod.invalid:6443"), "the server is not named", &output)?;
        expect(message.contains("--i-own-this-cluster"), "the way out is not named", &output)?;
    }
    Ok(())
}

fn doctor_says_what_works(folder: &Path) -> Result<(), Failed> {
    // No engine listens there.
    let nowhere = format!("unix://{}", folder.join("no.sock").display());
    let mut command = program(&["doctor", "-o", "json"]);
    let output = command.env("DOCKER_HOST", &nowhere).env_remove("KUBEBUILDER_ASSETS").output()?;
    expect_exit(0, &output)?;
    let document: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let lanes = document.pointer("/lanes").and_then(serde_json::Value::as_array).cloned().unwrap_or_default();
    let works = |name: &str| lanes.iter().find(|lane| lane["lane"] == name).map(|lane| lane["works"] == true);
    expect(works("embedded") == Some(true) && works("k3s") == Some(false), "wrong lanes work", &output)?;
    let wanted = program(&["doctor", "--cluster", "k3s"]).env("DOCKER_HOST", &nowhere).output()?;
    expect_exit(3, &wanted)?;
    expect(text(&wanted.stdout).contains("DOCKER_HOST"), "it does not say what to do", &wanted)
}

fn schema_and_explain_answer(_: &Path) -> Result<(), Failed> {
    let schema = run(&["schema"])?;
    expect_exit(0, &schema)?;
    let value: serde_json::Value = serde_json::from_slice(&schema.stdout)?;
    expect(value.pointer("/properties/spec").is_some(), "not the schema of a scenario", &schema)?;
    for id in ["conflict", "same-state", "managed-fields", "defaults"] {
        expect_exit(0, &run(&["explain", id])?)?;
    }
    let unknown = run(&["explain", "conflcit"])?;
    expect_exit(64, &unknown)?;
    expect(text(&unknown.stderr).contains("conflict"), "no suggestion", &unknown)
}

fn fault_that_cannot_fire_is_inconclusive(folder: &Path) -> Result<(), Failed> {
    let vacuous = "- conflict: {requests: {resources: [nosuchthings]}, trigger: {nth: 1}}\n";
    let path = changed_quickstart(folder, "\n  perturbations:\n", &format!("\n  perturbations:\n    {vacuous}"))?;
    let runs = folder.join("runs").display().to_string();
    let output = run(&["run", "--perturbation", "conflict", "--runs-dir", &runs, &path.display().to_string()])?;
    expect_exit(2, &output)?;
    expect(text(&output.stdout).contains("never fired"), "the reason is missing", &output)
}

fn finding_has_diff_and_replay_that_reproduces(folder: &Path) -> Result<(), Failed> {
    let runs = folder.display().to_string();
    let output = run(&["run", "--runs-dir", &runs, "scenarios/quickstart-broken"])?;
    expect_exit(1, &output)?;
    let report = text(&output.stdout);
    let replay = report.lines().find_map(|line| line.trim_start().strip_prefix("replay: "));
    let Some(replay) = replay else { return expect(false, "no replay line", &output) };
    let again = Command::new("bash")
        .args(["-c", replay])
        .env("RECONVERGE_RUNS", &runs)
        .env("RECONVERGE_NO_BUILD", "true")
        .output()?;
    expect_exit(1, &again)?;
    let judged = run(&["analyze", &folder.join("latest").display().to_string()])?;
    expect_exit(1, &judged)?;
    let junit = std::fs::read_to_string(folder.join("latest/report/junit_reconverge.xml"))?;
    expect(junit.contains("<failure message="), "JUnit has no failure", &output)
}

/// Where fault-free runs come one after the other, the first that fails has the last word.
fn failing_reference_is_enough(folder: &Path) -> Result<(), Failed> {
    let runs = folder.display().to_string();
    let output =
        run(&["run", "--parallel", "1", "--judge", "off", "--runs-dir", &runs, "scenarios/specimens/orphan-left"])?;
    expect_exit(1, &output)?;
    let shown = text(&output.stdout);
    expect(shown.contains("FAIL reference-1"), "the first reference has not failed", &output)?;
    expect(!shown.contains("reference-2"), "another reference was run", &output)
}

fn interrupt_leaves_a_report_and_no_process(folder: &Path) -> Result<(), Failed> {
    let runs = folder.display().to_string();
    let child = program(&["run", "--runs-dir", &runs, "scenarios/quickstart"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let pid = Pid::from_raw(i32::try_from(child.id())?);
    let started = wait_for(Duration::from_secs(120), || !children_of(pid, "widget-operator").is_empty());
    let operators = children_of(pid, "widget-operator");
    kill(pid, Signal::SIGINT)?;
    let output = child.wait_with_output()?;
    expect(started, "the operator never ran", &output)?;
    expect_exit(130, &output)?;
    let alive: Vec<_> = operators.iter().filter(|id| Path::new(&format!("/proc/{id}/exe")).exists()).collect();
    expect(alive.is_empty(), &format!("operators are left: {alive:?}"), &output)?;
    expect(folder.join("latest/verdict.json").exists(), "no partial verdict.json", &output)?;
    expect(folder.join("latest/report/junit_reconverge.xml").exists(), "no partial JUnit", &output)
}

fn cluster_prints_a_kubeconfig_and_ends(folder: &Path) -> Result<(), Failed> {
    let path = folder.join("kubeconfig");
    let child = program(&["cluster", "--kubeconfig", &path.display().to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let pid = Pid::from_raw(i32::try_from(child.id())?);
    let written = wait_for(Duration::from_secs(20), || path.exists());
    let answers = written && {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(namespaces(&path))? >= 4
    };
    kill(pid, Signal::SIGINT)?;
    let output = child.wait_with_output()?;
    expect(answers, "no kubeconfig, or the server behind it does not answer", &output)?;
    expect_exit(0, &output)
}

async fn namespaces(kubeconfig: &Path) -> Result<usize, Failed> {
    use k8s_openapi::api::core::v1::Namespace;
    let file = kube::config::Kubeconfig::read_from(kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(file, &kube::config::KubeConfigOptions::default()).await?;
    let api: kube::Api<Namespace> = kube::Api::all(kube::Client::try_from(config)?);
    Ok(api.list(&kube::api::ListParams::default()).await?.items.len())
}

/// Looks until the condition holds; false when the time is up.
pub fn wait_for(within: Duration, condition: impl Fn() -> bool) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        tokio::time::timeout(within, async {
            while !condition() {
                reconverge::clock::pause(Duration::from_millis(20)).await;
            }
        })
        .await
        .is_ok()
    })
}

/// Ids of the processes with that name whose parent is `parent`.
pub fn children_of(parent: Pid, name: &str) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let id: i32 = entry.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
            let (head, tail) = stat.rsplit_once(')')?;
            let ours = tail.split_whitespace().nth(1)? == parent.to_string();
            // The kernel cuts names at 15 characters.
            (ours && head.contains(&name[..name.len().min(15)])).then_some(id)
        })
        .collect()
}
