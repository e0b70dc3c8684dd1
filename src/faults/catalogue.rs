//! What each perturbation does, for `reconverge explain`.

/// The text about one perturbation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultDoc {
    /// As it stands in scenario files.
    pub id: &'static str,
    pub title: &'static str,
    pub what: &'static str,
    /// Why a real cluster may do this to an operator.
    pub legal: &'static str,
    /// Name and meaning of each option.
    pub options: &'static [(&'static str, &'static str)],
}

const REQUESTS: (&str, &str) = (
    "requests",
    "Which requests: verbs, apiGroups, resources, subresources, namespaces, names, userAgent. Leases, events, reviews, \
     discovery and health are left alone unless includeBackground is true.",
);
const TRIGGER: (&str, &str) = (
    "trigger",
    "When: nth (only the n-th matching request), every (each k-th), probability (drawn from the seed), max (at most so \
     many times). With none of the first three, the seed picks one of the matching requests of the reference run.",
);

/// Every perturbation that can be used, in the order in which they are best tried.
pub const CATALOGUE: &[FaultDoc] = &[
    FaultDoc {
        id: "quiet",
        title: "Leave it alone",
        what: "Does nothing, and watches the operator at rest for longer. Hot loops, values that change with the clock \
               and random orders show only over many passes.",
        legal: "Most of an operator's life is spent with nothing to do.",
        options: &[("for", "How long to watch. Default 5s.")],
    },
    FaultDoc {
        id: "force-reapply",
        title: "Apply the same inputs again",
        what: "Applies every input of the workload again by server-side apply with force. Nothing that the user asked \
               for has changed, so the operator must write nothing.",
        legal: "Pipelines and GitOps tools apply the same manifests again and again.",
        options: &[("times", "How often. Default 3.")],
    },
    FaultDoc {
        id: "restart",
        title: "Stop and start the operator",
        what: "Stops the operator while all is at rest and starts it again. It must find its own work done.",
        legal: "Operators are restarted by upgrades, evictions and node drains.",
        options: &[("times", "How often. Default 2.")],
    },
    FaultDoc {
        id: "crash-after-write",
        title: "Kill the operator between two writes",
        what: "Kills the operator right after (or before) its k-th write, while further writes are held back, and starts \
               it again. Without `write`, every write of the reference run is taken in turn.",
        legal: "A process may be killed at any instant, between any two of its requests.",
        options: &[
            ("write", "Ordinal of the write, from 1. Default: each in turn."),
            ("before", "Kill before the write reaches the server instead of after it was committed. Default false."),
        ],
    },
    FaultDoc {
        id: "pod-kill",
        title: "Kill pods",
        what: "Kills the operator's process, or deletes pods in the scenario's namespace.",
        legal: "Pods are deleted by evictions, preemption, node failures and people.",
        options: &[
            ("target", "`operator` or `pods`. Default operator."),
            ("selector", "Label selector, with target pods. Default: all pods of the scenario's namespace."),
            ("times", "How often. Default 1."),
            ("all", "All matching pods at once instead of one at a time. Default false."),
            ("gracePeriodSeconds", "0 kills without grace. Default 0."),
            (
                "inPlace",
                "Kill the containers' processes at their node instead of deleting the pods. Needs real pods. Default \
                 false.",
            ),
        ],
    },
    FaultDoc {
        id: "partition",
        title: "Cut the operator off",
        what: "Cuts every connection of the operator at rest to its API server and refuses new ones for a while, leases \
               included. Back again, it must have missed nothing and write nothing.",
        legal: "Networks break, and API servers are out of reach while they are upgraded.",
        options: &[("for", "How long. Default 5s.")],
    },
    FaultDoc {
        id: "api-restart",
        title: "Kill the API server",
        what: "Kills the API server's process and waits until its supervisor has it back. Only on a lane whose API server \
               is a process of its own (`k3s` with the node image of `k3s/build.sh`).",
        legal: "Control planes are upgraded and moved while operators run.",
        options: &[],
    },
    FaultDoc {
        id: "conflict",
        title: "Refuse a write with 409",
        what: "Answers 409 Conflict to a write that carries a resourceVersion (update, patch, delete), as after a \
               parallel write, and to a create, as when the quota admission collides. The write does not reach the \
               server. Patches without resourceVersion of existing objects are never refused.",
        legal: "A write that carries a resourceVersion is refused when somebody else wrote the object in between; a \
                create is refused when the update of the namespace's ResourceQuota collides.",
        options: &[REQUESTS, TRIGGER],
    },
    FaultDoc {
        id: "latency",
        title: "Delay requests",
        what: "Keeps each matching request back for a while before it reaches the server.",
        legal: "The API promises no bound on how long a request takes.",
        options: &[
            REQUESTS,
            ("trigger", "As for the other faults; default: every matching request."),
            ("delay", "How long. Default 100ms."),
            ("jitter", "Added, from zero to this, drawn from the seed. Default 50ms."),
        ],
    },
    FaultDoc {
        id: "api-error",
        title: "Answer with a server error",
        what: "Answers with an error and a real Status body; the request does not reach the server. Many clients repeat \
               a request silently when the answer has a Retry-After header.",
        legal: "A busy server sheds load (429), a change of etcd's leader fails requests (500), a server that starts or \
                stops is unavailable (503), a slow request times out (504).",
        options: &[
            REQUESTS,
            TRIGGER,
            ("status", "429, 500, 503 or 504. Default 500."),
            ("retryAfter", "Sends a Retry-After header of so many whole seconds. Default: none."),
        ],
    },
    FaultDoc {
        id: "lost-reply",
        title: "Commit a write and lose its reply",
        what: "Lets the server carry the write out, then resets the client's stream instead of answering. The operator \
               must find out by itself what it already did.",
        legal: "A connection may break after the server committed a write and before its reply arrives.",
        options: &[REQUESTS, TRIGGER],
    },
];

/// The text about `id`.
#[must_use]
pub fn find(id: &str) -> Option<&'static FaultDoc> {
    CATALOGUE.iter().find(|doc| doc.id == id)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{faults::rule_for, scenario::format::Perturbation, seed::Seed};

    /// Fails when a perturbation is documented under a name that scenario files do not know, or is not documented.
    #[test]
    fn the_catalogue_is_what_scenario_files_accept() {
        for doc in CATALOGUE {
            let perturbation: Perturbation = serde_json::from_value(json!({ doc.id: {} })).unwrap();
            assert_eq!(perturbation.id(), doc.id);
            if let Some(rule) = rule_for(&perturbation, Seed(1), doc.id, 1) {
                assert_eq!(rule.id(), doc.id);
                assert_eq!(rule.record().id, doc.id);
            }
            let written = serde_json::to_value(&perturbation).unwrap();
            let mut known: Vec<_> = written[doc.id].as_object().unwrap().keys().cloned().collect();
            let mut told: Vec<_> = doc.options.iter().map(|(name, _)| (*name).to_owned()).collect();
            known.sort();
            told.sort();
            assert_eq!(known, told, "{}", doc.id);
        }
        let variants = serde_json::to_value(schemars::schema_for!(Perturbation)).unwrap();
        assert_eq!(variants["oneOf"].as_array().unwrap().len(), CATALOGUE.len());
        assert!(find("conflict").is_some() && find("nothing").is_none());
    }
}
