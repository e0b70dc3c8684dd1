//! `lost-reply`: the write commits, and the client never learns of it.

use crate::{
    event::FaultRecord,
    faults::{Decision, Rule, Seen, selector::DefaultVerbs, tally::Tally, trigger},
    scenario::format::LostReply,
    seed::Seed,
};

const LEGAL: &str = "a connection may break after the server committed a write and before its reply arrives";

/// The rule; see the module. Reads can be named in `verbs`; their answer is lost likewise.
#[derive(Debug)]
pub struct LostReplyRule {
    tally: Tally,
}

impl LostReplyRule {
    #[must_use]
    pub fn new(fault: &LostReply, seed: Seed, name: &str, population: u64) -> Self {
        let trigger = trigger::resolve(&fault.trigger, seed, name, population);
        Self { tally: Tally::new(&fault.requests, DefaultVerbs::Writes, trigger) }
    }
}

impl Rule for LostReplyRule {
    fn id(&self) -> &'static str {
        "lost-reply"
    }

    fn decide(&self, seen: &Seen) -> Decision {
        let fires = !seen.dry_run && self.tally.concerns(seen) && self.tally.fires(seen, || "reply lost".to_owned());
        if fires { Decision::CommitThenLose } else { Decision::Forward }
    }

    fn record(&self) -> FaultRecord {
        self.tally.record(self.id(), LEGAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{event::Verb, faults::fixture::seen, scenario::format::Trigger};

    #[test]
    fn concerns_writes_that_are_no_dry_run() {
        let fault = LostReply { trigger: Trigger { nth: Some(2), ..Trigger::default() }, ..LostReply::default() };
        let rule = LostReplyRule::new(&fault, Seed(1), "lost-reply", 1);
        let mut dry = seen(Verb::Create, "pods", "a");
        dry.dry_run = true;
        let fired =
            [seen(Verb::Create, "pods", "a"), seen(Verb::Get, "pods", "a"), dry, seen(Verb::Patch, "pods", "a")]
                .map(|seen| matches!(rule.decide(&seen), Decision::CommitThenLose));
        assert_eq!(fired, [false, false, false, true]);
        assert_eq!(rule.record().hits[0].what, "reply lost on patch pods demo/a");
    }
}
