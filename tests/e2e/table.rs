//! What the lanes say of the same scenarios, side by side, for the end of the output.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

/// Columns, in order.
pub const LANES: [&str; 3] = ["embedded", "envtest", "k3s"];

/// Verdicts by scenario and lane.
static VERDICTS: Mutex<BTreeMap<String, BTreeMap<&'static str, String>>> = Mutex::new(BTreeMap::new());

/// Notes a verdict.
pub fn note(scenario: &str, lane: &'static str, verdict: String) {
    let mut verdicts = VERDICTS.lock().unwrap_or_else(PoisonError::into_inner);
    verdicts.entry(scenario.to_owned()).or_default().insert(lane, verdict);
}

/// Prints what was noted, where a lane other than the embedded one was asked.
pub fn print() {
    let verdicts = VERDICTS.lock().unwrap_or_else(PoisonError::into_inner);
    if verdicts.is_empty() {
        return;
    }
    println!("\n{:<28} {:<14} {:<14} {}", "scenario", LANES[0], LANES[1], LANES[2]);
    for (scenario, by_lane) in verdicts.iter() {
        let cell = |lane| by_lane.get(lane).map_or("-", String::as_str);
        println!("{scenario:<28} {:<14} {:<14} {}", cell(LANES[0]), cell(LANES[1]), cell(LANES[2]));
    }
    println!();
}
