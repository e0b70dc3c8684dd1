//! When a fault fires among the requests that match.
//!
//! # Guarantees
//! Logical only: the n-th, every k-th, or a probability drawn from the plan's seed. The same plan and the same sequence
//! of matching requests give the same decisions.

use rand::Rng as _;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::{scenario::format::Trigger, seed::Seed};

/// A trigger with every choice made, as it stands in the plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedTrigger {
    pub when: When,
    /// At most so many times.
    pub max: Option<u64>,
}

/// Which of the matching requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum When {
    /// The n-th, from 1.
    Nth(u64),
    /// Every k-th.
    Every(u64),
    /// Each with this probability, drawn from this seed.
    Probability { p: f64, seed: Seed },
}

/// Makes the choices of a trigger. `part` names the fault within the plan; `population` is how many matching requests the
/// reference run sent, from which the seed picks one when the trigger says nothing.
#[must_use]
pub fn resolve(trigger: &Trigger, seed: Seed, part: &str, population: u64) -> ResolvedTrigger {
    let seed = seed.derive(&format!("trigger/{part}"));
    let when = if let Some(nth) = trigger.nth {
        When::Nth(nth.max(1))
    } else if let Some(every) = trigger.every {
        When::Every(every.max(1))
    } else if let Some(p) = trigger.probability {
        When::Probability { p, seed }
    } else {
        When::Nth(seed.rng().next_u64() % population.max(1) + 1)
    };
    let once = matches!(when, When::Nth(_)).then_some(1);
    ResolvedTrigger { when, max: trigger.max.or(once) }
}

/// A resolved trigger while it is used.
#[derive(Debug)]
pub struct Counter {
    trigger: ResolvedTrigger,
    chance: Option<ChaCha8Rng>,
    matched: u64,
    fired: u64,
}

impl Counter {
    #[must_use]
    pub fn new(trigger: ResolvedTrigger) -> Self {
        let chance = match &trigger.when {
            When::Probability { seed, .. } => Some(seed.rng()),
            _ => None,
        };
        Self { trigger, chance, matched: 0, fired: 0 }
    }

    /// Counts one more matching request and says whether the fault fires on it.
    pub fn count(&mut self) -> bool {
        self.matched += 1;
        let due = match (&self.trigger.when, &mut self.chance) {
            (When::Nth(n), _) => self.matched == *n,
            (When::Every(k), _) => self.matched.is_multiple_of(*k),
            // One draw per matching request, fired or not: a later draw never depends on `max`.
            (When::Probability { p, .. }, Some(rng)) => unit(rng) < *p,
            (When::Probability { .. }, None) => false,
        };
        let fires = due && self.trigger.max.is_none_or(|max| self.fired < max);
        self.fired += u64::from(fires);
        fires
    }

    #[must_use]
    pub fn matched(&self) -> u64 {
        self.matched
    }

    #[must_use]
    pub fn fired(&self) -> u64 {
        self.fired
    }
}

/// Uniform in [0, 1), with the 53 bits that an `f64` can hold.
#[expect(clippy::cast_precision_loss, reason = "53 bits fit an f64 exactly")]
fn unit(rng: &mut ChaCha8Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn firings(trigger: &Trigger, seed: u64, population: u64, requests: usize) -> Vec<usize> {
        let mut counter = Counter::new(resolve(trigger, Seed(seed), "conflict", population));
        (1..=requests).filter(|_| counter.count()).collect()
    }

    #[test]
    fn nth_and_every_count_matching_requests() {
        assert_eq!(firings(&Trigger { nth: Some(3), ..Trigger::default() }, 1, 9, 9), [3]);
        let every = Trigger { every: Some(2), max: Some(3), ..Trigger::default() };
        assert_eq!(firings(&every, 1, 9, 20), [2, 4, 6]);
    }

    #[test]
    fn the_seed_picks_one_ordinal_within_the_population() {
        let picked: Vec<_> = (0..200).map(|seed| firings(&Trigger::default(), seed, 5, 50)).collect();
        for n in 1..=5 {
            assert!(picked.contains(&vec![n]), "{n} is never picked");
        }
        assert!(picked.iter().all(|fired| fired.len() == 1 && fired[0] <= 5));
        assert_eq!(firings(&Trigger::default(), 7, 0, 5), [1], "an empty population means the first");
    }

    #[test]
    fn chance_repeats_with_the_seed_and_differs_between_parts() {
        let trigger = Trigger { probability: Some(0.3), ..Trigger::default() };
        let once = firings(&trigger, 1, 0, 200);
        assert_eq!(once, firings(&trigger, 1, 0, 200));
        assert_ne!(once, firings(&trigger, 2, 0, 200));
        assert!((30..90).contains(&once.len()), "{}", once.len());
        assert_ne!(resolve(&trigger, Seed(1), "a", 0), resolve(&trigger, Seed(1), "b", 0));
    }

    #[test]
    fn a_resolved_trigger_survives_the_plan() {
        for trigger in [Trigger::default(), Trigger { probability: Some(0.25), ..Trigger::default() }] {
            let resolved = resolve(&trigger, Seed(3), "x", 4);
            let text = serde_json::to_string(&resolved).unwrap();
            assert_eq!(serde_json::from_str::<ResolvedTrigger>(&text).unwrap(), resolved);
        }
    }
}
