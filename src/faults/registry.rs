//! Which rule carries out which perturbation: the one place that names them all.

use std::sync::Arc;

use super::{Rule, Seen, api_error, conflict, latency, lost_reply};
use crate::{
    event::{Actor, Request, Verb},
    scenario::format::Perturbation,
    seed::Seed,
};

/// The rule of a perturbation; `None` for those that are no fault of the API traffic (a crash point needs a gate: see
/// [`crate::faults::CrashPoint`]). `name` is the planned perturbation's, `population` what [`population`] counted.
#[must_use]
pub fn rule_for(perturbation: &Perturbation, seed: Seed, name: &str, population: u64) -> Option<Arc<dyn Rule>> {
    Some(match perturbation {
        Perturbation::Conflict(fault) => Arc::new(conflict::ConflictRule::new(fault, seed, name, population)),
        Perturbation::Latency(fault) => Arc::new(latency::LatencyRule::new(fault, seed, name, population)),
        Perturbation::ApiError(fault) => Arc::new(api_error::ApiErrorRule::new(fault, seed, name, population)),
        Perturbation::LostReply(fault) => Arc::new(lost_reply::LostReplyRule::new(fault, seed, name, population)),
        Perturbation::Quiet(_)
        | Perturbation::ForceReapply(_)
        | Perturbation::Restart(_)
        | Perturbation::CrashAfterWrite(_)
        | Perturbation::PodKill(_)
        | Perturbation::Partition(_)
        | Perturbation::ApiRestart(_) => return None,
    })
}

/// How many of these requests (those of a reference run, in the part of it in which the fault would be installed) the
/// perturbation's rule would have matched.
#[must_use]
pub fn population<'a>(perturbation: &Perturbation, requests: impl IntoIterator<Item = &'a Request>) -> u64 {
    let Some(rule) = rule_for(perturbation, Seed(0), "population", 1) else { return 0 };
    for request in requests.into_iter().filter(|request| request.actor == Actor::Operator) {
        rule.decide(&Seen::of(request));
    }
    rule.record().matched
}

impl Seen {
    /// A recorded request, seen again.
    #[must_use]
    pub fn of(request: &Request) -> Self {
        Self {
            target: request.target.clone(),
            user_agent: request.user_agent.clone(),
            content_type: request.content_type.clone(),
            precondition: request.precondition.clone(),
            creates: request.target.verb == Verb::Patch && request.answer.status == 201,
            dry_run: request.dry_run,
            ordinal: request.seq,
            at_ms: request.at_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        event::{Answer, Phase},
        faults::{Decision, fixture::seen},
    };

    fn recorded(seen: &Seen, actor: Actor) -> Request {
        Request {
            seq: 1,
            at_ms: 0,
            duration_ms: 0,
            phase: Phase::Workload,
            actor,
            incarnation: 1,
            user_agent: seen.user_agent.clone(),
            target: seen.target.clone(),
            content_type: String::new(),
            field_manager: String::new(),
            dry_run: false,
            precondition: seen.precondition.clone(),
            body: Value::Null,
            answer: Answer {
                status: if seen.creates { 201 } else { 200 },
                reason: String::new(),
                message: String::new(),
                resource_version: String::new(),
            },
            committed: None,
            write_ordinal: None,
            faults: Vec::new(),
        }
    }

    fn perturbation(value: Value) -> Perturbation {
        serde_json::from_value(value).unwrap()
    }

    /// The population and the live rule must count alike, or the seeded ordinal would never come up.
    #[test]
    fn the_population_is_what_the_rule_matches() {
        let mut update = seen(Verb::Update, "pods", "a");
        update.precondition = "7".into();
        let mut apply = seen(Verb::Patch, "pods", "a");
        apply.creates = true;
        let requests = [
            update,
            apply,
            seen(Verb::Patch, "pods", "a"),
            seen(Verb::Create, "pods", "b"),
            seen(Verb::Get, "pods", "a"),
        ];
        for (fault, expected) in [
            (json!({"conflict": {}}), 3),
            (json!({"lost-reply": {}}), 4),
            (json!({"latency": {}}), 5),
            (json!({"api-error": {"requests": {"verbs": ["get"]}}}), 1),
            (json!({"quiet": {}}), 0),
        ] {
            let fault = perturbation(fault);
            let history: Vec<_> = requests.iter().map(|seen| recorded(seen, Actor::Operator)).collect();
            assert_eq!(population(&fault, &history), expected, "{fault:?}");
            let tester: Vec<_> = requests.iter().map(|seen| recorded(seen, Actor::Tester)).collect();
            assert_eq!(population(&fault, &tester), 0);
        }
    }

    #[test]
    fn the_same_seed_hits_the_same_request() {
        let fault = perturbation(json!({"lost-reply": {}}));
        let hit = |seed: u64| {
            let rule = rule_for(&fault, Seed(seed), "lost-reply", 10).unwrap();
            (0..10)
                .find(|n| matches!(rule.decide(&seen(Verb::Create, "pods", &n.to_string())), Decision::CommitThenLose))
        };
        assert!((0..20).all(|seed| hit(seed).is_some() && hit(seed) == hit(seed)));
        assert!((0..20).any(|seed| hit(seed) != hit(0)));
    }
}
