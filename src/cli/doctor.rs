//! `doctor`: what each lane needs, and whether it is here.

use std::{fmt::Write as _, path::Path};

use serde_json::json;

use super::{
    arguments::{Doctor as Command, Format},
    exit::Exit,
    output,
};
use crate::{
    campaign,
    cluster::{
        Cluster as _,
        embedded::Embedded,
        envtest::{Binaries, EnvtestError},
        k3s::{self, Check, State},
    },
    scenario::{format::Lane, resolve::cache_dir},
    seed::Seed,
};

/// What a lane was found to have and to lack.
struct Report {
    lane: Lane,
    checks: Vec<Check>,
}

/// `reconverge doctor`.
pub async fn doctor(command: &Command) -> Exit {
    let mut reports = vec![
        Report { lane: Lane::Embedded, checks: vec![embedded().await, cache(&cache_dir())] },
        Report { lane: Lane::Envtest, checks: vec![envtest(Binaries::at_hand())] },
        Report { lane: Lane::K3s, checks: k3s::diagnose(command.k3s_image.as_deref()).await },
    ];
    let wanted = command.cluster.map(Lane::from);
    // A look at the user's own cluster is not asked for unless it is named.
    if wanted == Some(Lane::Kubeconfig) {
        reports.push(Report { lane: Lane::Kubeconfig, checks: vec![kubeconfig()] });
    }
    match command.output {
        Format::Text => output::result(&text(&reports)),
        Format::Json => output::result(&format!("{:#}", document(&reports))),
    }
    let works = |lane| reports.iter().any(|report| report.lane == lane && report.works());
    if works(Lane::Embedded) && wanted.is_none_or(works) { Exit::Pass } else { Exit::Environment }
}

impl Report {
    fn works(&self) -> bool {
        self.checks.iter().all(|check| matches!(check.state, State::Ok | State::Limited))
    }
}

async fn embedded() -> Check {
    match Embedded::start(Seed(1)).await {
        Ok(cluster) => {
            let found = format!("{} at {}", cluster.describe(), cluster.endpoint().url);
            Box::new(cluster).shutdown().await;
            Check::ok("API server", found)
        }
        Err(error) => Check::missing("API server", campaign::chain(&error), "let the program listen on 127.0.0.1"),
    }
}

fn cache(folder: &Path) -> Check {
    const NAME: &str = "cache folder";
    let probe = folder.join(format!(".doctor-{}", std::process::id()));
    let done = std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&probe, ""))
        .and_then(|()| std::fs::remove_file(&probe));
    match done {
        Ok(()) => Check::ok(NAME, folder.display().to_string()),
        Err(error) => Check::missing(
            NAME,
            format!("{} cannot be written: {error}", folder.display()),
            "set RECONVERGE_CACHE to a folder that can",
        ),
    }
}

fn envtest(found: Result<Binaries, EnvtestError>) -> Check {
    const NAME: &str = "binaries";
    match found {
        Ok(binaries) => Check::ok(NAME, binaries.folder().display().to_string()),
        Err(error) => {
            Check::missing(NAME, campaign::chain(&error), "run `k3s/build.sh binaries`, or set KUBEBUILDER_ASSETS")
        }
    }
}

fn kubeconfig() -> Check {
    let options = crate::cluster::LaneOptions { owned: true, ..crate::cluster::LaneOptions::default() };
    match crate::cluster::kubeconfig::Existing::new(&options) {
        Ok(existing) => Check::ok("context", existing.context()),
        Err(error) => Check::missing("context", campaign::chain(&error), "set KUBECONFIG, or name a context"),
    }
}

fn word(state: State) -> &'static str {
    match state {
        State::Ok => "ok",
        State::Missing => "missing",
        State::Limited => "limited",
        State::NotTried => "not tried",
    }
}

fn text(reports: &[Report]) -> String {
    let mut text = String::new();
    for report in reports {
        let works = if report.works() { "works" } else { "does not work here" };
        let _ = writeln!(text, "{} {works}", report.lane.as_str());
        for Check { name, state, found, advice } in &report.checks {
            let _ = writeln!(text, "  {:<10} {name}: {found}", word(*state));
            if !advice.is_empty() {
                let _ = writeln!(text, "  {:<10}   -> {advice}", "");
            }
        }
    }
    text
}

fn document(reports: &[Report]) -> serde_json::Value {
    let lanes = reports.iter().map(|report| {
        let checks = report.checks.iter().map(|check| {
            json!({"name": check.name, "state": word(check.state), "found": check.found, "advice": check.advice})
        });
        json!({"lane": report.lane.as_str(), "works": report.works(), "checks": checks.collect::<Vec<_>>()})
    });
    json!({"lanes": lanes.collect::<Vec<_>>()})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(states: &[State]) -> Report {
        let checks = states.iter().map(|state| Check { state: *state, ..Check::missing("a", "b", "c") });
        Report { lane: Lane::K3s, checks: checks.collect() }
    }

    #[test]
    fn a_lane_works_when_nothing_that_it_needs_is_missing() {
        assert!(report(&[State::Ok, State::Limited]).works());
        assert!(!report(&[State::Ok, State::Missing]).works());
        assert!(!report(&[State::Ok, State::NotTried]).works());
    }

    #[test]
    fn every_line_says_what_to_do() {
        let shown = text(&[report(&[State::Missing])]);
        assert_eq!(shown, "k3s does not work here\n  missing    a: b\n               -> c\n");
        let shown = document(&[report(&[State::Missing])]);
        assert_eq!(shown["lanes"][0]["checks"][0]["advice"], "c");
        assert_eq!(shown["lanes"][0]["works"], false);
    }

    #[test]
    fn missing_binaries_are_told_with_what_to_do() {
        let lacking = EnvtestError::Incomplete { folder: "/assets".into(), missing: "etcd" };
        let check = envtest(Err(lacking));
        assert_eq!(check.state, State::Missing);
        assert!(check.found.contains("no etcd"), "{}", check.found);
    }

    #[test]
    fn a_cache_that_cannot_be_written_is_told() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(cache(&folder.path().join("new")).state, State::Ok);
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert_eq!(cache(&file).state, State::Missing);
    }
}
