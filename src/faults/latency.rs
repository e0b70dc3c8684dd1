//! `latency`: a request reaches the server later.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use rand::Rng as _;
use rand_chacha::ChaCha8Rng;

use crate::{
    event::FaultRecord,
    faults::{Decision, Rule, Seen, selector::DefaultVerbs, tally::Tally, trigger},
    scenario::format::Latency,
    seed::Seed,
};

const LEGAL: &str = "the API promises no bound on how long a request takes";

/// The rule; see the module.
#[derive(Debug)]
pub struct LatencyRule {
    tally: Tally,
    delay: Duration,
    jitter: Duration,
    chance: Mutex<ChaCha8Rng>,
}

impl LatencyRule {
    #[must_use]
    pub fn new(fault: &Latency, seed: Seed, name: &str, population: u64) -> Self {
        let trigger = trigger::resolve(&fault.trigger, seed, name, population);
        Self {
            tally: Tally::new(&fault.requests, DefaultVerbs::All, trigger),
            delay: fault.delay.0,
            jitter: fault.jitter.0,
            chance: Mutex::new(seed.derive(&format!("jitter/{name}")).rng()),
        }
    }

    /// Uniform in whole milliseconds from zero to the jitter, inclusively.
    fn draw(&self) -> Duration {
        let span = u64::try_from(self.jitter.as_millis()).unwrap_or(u64::MAX);
        let mut chance = self.chance.lock().unwrap_or_else(PoisonError::into_inner);
        Duration::from_millis(chance.next_u64() % span.saturating_add(1))
    }
}

impl Rule for LatencyRule {
    fn id(&self) -> &'static str {
        "latency"
    }

    fn decide(&self, seen: &Seen) -> Decision {
        if !self.tally.concerns(seen) {
            return Decision::Forward;
        }
        let delay = self.delay.saturating_add(self.draw());
        if self.tally.fires(seen, || format!("{} ms later", delay.as_millis())) {
            Decision::Delay(delay)
        } else {
            Decision::Forward
        }
    }

    fn record(&self) -> FaultRecord {
        self.tally.record(self.id(), LEGAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{event::Verb, faults::fixture::seen};

    fn delays(seed: u64) -> Vec<u128> {
        let rule = LatencyRule::new(&Latency::default(), Seed(seed), "latency", 1);
        (0..50)
            .map(|_| match rule.decide(&seen(Verb::Get, "pods", "a")) {
                Decision::Delay(delay) => delay.as_millis(),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn the_delay_and_its_jitter_come_from_the_seed() {
        let once = delays(1);
        assert_eq!(once, delays(1));
        assert_ne!(once, delays(2));
        assert!(once.iter().all(|ms| (100..=150).contains(ms)));
        assert!(once.iter().any(|ms| *ms != once[0]), "there is jitter");
    }

    #[test]
    fn leases_are_not_delayed() {
        let rule = LatencyRule::new(&Latency::default(), Seed(1), "latency", 1);
        let mut lease = seen(Verb::Update, "leases", "l");
        lease.target.group = "coordination.k8s.io".into();
        assert!(matches!(rule.decide(&lease), Decision::Forward));
        assert_eq!(rule.record().matched, 0);
    }
}
