//! `conflict`: 409 instead of a write.
//!
//! # Guarantees
//! Only where a real server may answer so:
//! - update, and patch or delete with a resourceVersion precondition: `Conflict`, as after a parallel write;
//! - create, and a server-side apply that creates, in a namespace: `Conflict` from the quota admission, which gives up
//!   when its own update of the ResourceQuota collides too often.
//!
//! # Deliberately not done
//! A patch without precondition of an existing object is never refused: the server repeats it itself. An
//! `AlreadyExists` is not made up for an object that does not exist.

use http::StatusCode;
use serde_json::json;

use crate::{
    event::{FaultRecord, Verb},
    faults::{Decision, Rule, Seen, selector::DefaultVerbs, status, tally::Tally, trigger},
    scenario::format::Conflict,
    seed::Seed,
};

const LEGAL: &str = "a write that carries a resourceVersion is refused when somebody else wrote the object in between, \
                     and a create is refused when the update of the namespace's ResourceQuota collides";
const MODIFIED: &str = "the object has been modified; please apply your changes to the latest version and try again";

/// The rule; see the module.
#[derive(Debug)]
pub struct ConflictRule {
    tally: Tally,
}

/// Who else may have written.
enum Collision {
    Object,
    Quota,
}

impl ConflictRule {
    #[must_use]
    pub fn new(fault: &Conflict, seed: Seed, name: &str, population: u64) -> Self {
        let trigger = trigger::resolve(&fault.trigger, seed, name, population);
        Self { tally: Tally::new(&fault.requests, DefaultVerbs::Writes, trigger) }
    }
}

fn collision(seen: &Seen) -> Option<Collision> {
    let target = &seen.target;
    let quota = !target.namespace.is_empty() && target.subresource.is_empty();
    match target.verb {
        Verb::Create if quota => Some(Collision::Quota),
        Verb::Patch if seen.creates && quota => Some(Collision::Quota),
        Verb::Update | Verb::Patch | Verb::Delete if !seen.precondition.is_empty() => Some(Collision::Object),
        _ => None,
    }
}

impl Rule for ConflictRule {
    fn id(&self) -> &'static str {
        "conflict"
    }

    fn decide(&self, seen: &Seen) -> Decision {
        if seen.dry_run || !self.tally.concerns(seen) {
            return Decision::Forward;
        }
        let Some(collision) = collision(seen) else { return Decision::Forward };
        if !self.tally.fires(seen, || "409 Conflict".to_owned()) {
            return Decision::Forward;
        }
        let (message, details) = match collision {
            Collision::Object => {
                let resource = status::qualified(&seen.target);
                let message =
                    format!("Operation cannot be fulfilled on {resource} \"{}\": {MODIFIED}", seen.target.name);
                (message, status::details(&seen.target))
            }
            // The name of the quota; every namespace may have one of that name.
            Collision::Quota => (
                format!("Operation cannot be fulfilled on resourcequotas \"default\": {MODIFIED}"),
                json!({ "name": "default", "kind": "resourcequotas" }),
            ),
        };
        let body = status::failure(StatusCode::CONFLICT, "Conflict", &message, details);
        status::respond(StatusCode::CONFLICT, None, body)
    }

    fn record(&self) -> FaultRecord {
        self.tally.record(self.id(), LEGAL)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::{faults::fixture::seen, scenario::format::Trigger};

    fn always() -> ConflictRule {
        let trigger = Trigger { every: Some(1), ..Trigger::default() };
        ConflictRule::new(&Conflict { trigger, ..Conflict::default() }, Seed(1), "conflict", 1)
    }

    fn answer(seen: &Seen) -> Option<Value> {
        match always().decide(seen) {
            Decision::Respond { status, body, .. } => {
                assert_eq!(status, StatusCode::CONFLICT);
                Some(body)
            }
            _ => None,
        }
    }

    #[test]
    fn an_update_gets_the_servers_own_words() {
        let mut update = seen(Verb::Update, "deployments", "web");
        update.target.group = "apps".into();
        update.precondition = "7".into();
        let body = answer(&update).unwrap();
        assert_eq!(body["reason"], "Conflict");
        assert_eq!(body["code"], 409);
        assert_eq!(body["details"], json!({"kind": "deployments", "group": "apps", "name": "web"}));
        assert!(
            body["message"].as_str().unwrap().contains("on deployments.apps \"web\": the object has been modified")
        );
    }

    #[test]
    fn only_where_a_server_may_refuse() {
        assert!(answer(&seen(Verb::Patch, "pods", "a")).is_none(), "patch without precondition");
        assert!(answer(&seen(Verb::Update, "pods", "a")).is_none(), "unconditional update");
        assert!(answer(&seen(Verb::Delete, "pods", "a")).is_none(), "delete without precondition");
        assert!(answer(&seen(Verb::Get, "pods", "a")).is_none());
        let mut patch = seen(Verb::Patch, "pods", "a");
        patch.precondition = "7".into();
        assert!(answer(&patch).is_some());
        patch.dry_run = true;
        assert!(answer(&patch).is_none());
        let mut apply = seen(Verb::Patch, "pods", "a");
        apply.creates = true;
        assert_eq!(answer(&apply).unwrap()["details"]["kind"], "resourcequotas");
        let mut cluster = seen(Verb::Create, "namespaces", "a");
        cluster.target.namespace = String::new();
        assert!(answer(&cluster).is_none(), "no quota outside of namespaces");
    }

    #[test]
    fn counts_what_may_collide_only() {
        let rule = ConflictRule::new(&Conflict::default(), Seed(1), "conflict", 1);
        rule.decide(&seen(Verb::Patch, "pods", "a"));
        assert_eq!(rule.record().matched, 0);
        rule.decide(&seen(Verb::Create, "pods", "a"));
        rule.decide(&seen(Verb::Create, "pods", "b"));
        let record = rule.record();
        assert_eq!((record.matched, record.fired), (2, 1));
        assert_eq!(record.hits[0].what, "409 Conflict on create pods demo/a");
    }
}
