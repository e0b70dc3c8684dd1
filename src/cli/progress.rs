//! Progress on stderr: a bar on a terminal, one line per change of state elsewhere.

use std::{collections::BTreeMap, io::IsTerminal as _, time::Duration};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::{sync::mpsc::UnboundedReceiver, task::JoinHandle};

use super::{
    arguments::{Global, Progress},
    output,
};
use crate::{clock::pause, event::Event};

/// In a CI log, silence for longer looks like a hang.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// Shows what the events say until their sender is gone.
pub fn show(events: UnboundedReceiver<Event>, global: &Global) -> JoinHandle<()> {
    let ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false");
    let terminal = std::io::stderr().is_terminal() && !ci;
    let kind = match global.progress {
        _ if global.quiet => Progress::None,
        Progress::Auto if terminal => Progress::Bar,
        Progress::Auto => Progress::Lines,
        other => other,
    };
    tokio::spawn(async move {
        match kind {
            Progress::Bar => bar(events).await,
            Progress::None => drain(events).await,
            Progress::Lines | Progress::Auto => lines(events).await,
        }
    })
}

async fn drain(mut events: UnboundedReceiver<Event>) {
    while events.recv().await.is_some() {}
}

async fn bar(mut events: UnboundedReceiver<Event>) {
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix} {wide_bar} {pos}/{len} {elapsed} {msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(120));
    let mut running = BTreeMap::new();
    while let Some(event) = events.recv().await {
        match event {
            Event::ScenarioStarted { scenario, runs } => {
                bar.reset();
                bar.set_prefix(scenario);
                bar.set_length(runs as u64);
            }
            Event::RunsAdded { runs } | Event::Judging { runs, .. } => bar.inc_length(runs as u64),
            Event::Building { command } => bar.set_message(format!("building: {command}")),
            Event::RunStarted { run } => {
                running.insert(run, "starts".to_owned());
            }
            Event::PhaseEntered { run, phase } => {
                running.insert(run, format!("{phase:?}").to_lowercase());
            }
            Event::StepStarted { run, step } => {
                running.insert(run, step);
            }
            Event::RunEnded { run } => {
                running.remove(&run);
                bar.inc(1);
            }
            Event::RunJudged { run, outcome, why, .. } => {
                if outcome != "pass" {
                    bar.println(format!("{outcome}: {run}: {why}"));
                }
            }
            Event::ScenarioFinished { .. } => {}
        }
        if let Some((run, what)) = running.first_key_value() {
            let more = if running.len() > 1 { format!(" (+{})", running.len() - 1) } else { String::new() };
            bar.set_message(format!("{run}: {what}{more}"));
        }
    }
    bar.finish_and_clear();
}

async fn lines(mut events: UnboundedReceiver<Event>) {
    let mut last = String::from("nothing yet");
    loop {
        let event = tokio::select! {
            event = events.recv() => event,
            () = pause(HEARTBEAT) => {
                output::note(&format!("  still running; last: {last}"));
                continue;
            }
        };
        match event {
            None => return,
            Some(Event::ScenarioStarted { scenario, runs }) => {
                output::note(&format!("{scenario}: {runs} fault-free runs first"));
            }
            Some(Event::Building { command }) => output::note(&format!("  build: {command}")),
            Some(Event::Judging { lane, runs }) => {
                output::note(&format!("  asks {lane} to confirm: {runs} fault-free runs first"));
            }
            Some(Event::RunsAdded { runs }) => output::note(&format!("  {runs} perturbed runs")),
            Some(Event::RunJudged { run, outcome, why, duration_ms }) => {
                let seconds = f64::from(u32::try_from(duration_ms).unwrap_or(u32::MAX)) / 1000.0;
                let why = if why.is_empty() { String::new() } else { format!(": {why}") };
                output::note(&format!("  {outcome:<12} {run} ({seconds:.1} s){why}"));
            }
            Some(Event::PhaseEntered { run, phase }) => {
                last = format!("{run}: {}", format!("{phase:?}").to_lowercase())
            }
            Some(Event::StepStarted { run, step }) => last = format!("{run}: {step}"),
            Some(Event::RunStarted { run }) => last = format!("{run}: starts"),
            Some(Event::RunEnded { .. } | Event::ScenarioFinished { .. }) => {}
        }
    }
}
