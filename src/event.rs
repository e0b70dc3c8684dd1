//! What is recorded of a run: requests, object changes, faults, phases. The ground types that every later stage reads.
//!
//! # Guarantees
//! Times are milliseconds since the run began. Bodies are redacted before they get here: values of Secrets are
//! replaced by their length and a keyed hash, bearer tokens never appear.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::object::ObjectKey;

/// Who sent a request or made a change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Actor {
    /// The operator under test: everything that came through its proxy.
    Operator,
    /// The harness itself, when it applies the workload or a perturbation.
    Tester,
    /// A controller of the cluster, by field manager.
    Controller(String),
    Kubelet,
    /// Anybody else, by field manager.
    Foreign(String),
}

/// The verb of an API request, as audit logs name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
    /// `exec`, `attach`, `port-forward`, `proxy`.
    Connect,
    /// Not a resource request: discovery, health, version.
    Path,
}

impl Verb {
    /// Whether such a request may write.
    #[must_use]
    pub fn is_mutating(self) -> bool {
        matches!(self, Self::Create | Self::Update | Self::Patch | Self::Delete | Self::DeleteCollection)
    }
}

/// The part of a run in which something happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    Install,
    Workload,
    Perturb,
    Recover,
    Probe,
    /// At rest: nothing may be written.
    Rest,
    /// The workload is deleted; what is left is looked at.
    Delete,
    Teardown,
}

/// What a request is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Target {
    pub verb: Verb,
    pub group: String,
    pub version: String,
    /// The plural, empty for [`Verb::Path`].
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    /// Empty for collections; for creates the name in the body, where it has one.
    pub name: String,
    /// The URL path, only for [`Verb::Path`].
    pub path: String,
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let verb = format!("{:?}", self.verb).to_lowercase();
        if self.verb == Verb::Path {
            return write!(f, "{verb} {}", self.path);
        }
        write!(f, "{verb} {}", self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        if !self.subresource.is_empty() {
            write!(f, "/{}", self.subresource)?;
        }
        match (self.namespace.as_str(), self.name.as_str()) {
            ("", "") => Ok(()),
            ("", name) => write!(f, " {name}"),
            (namespace, "") => write!(f, " in {namespace}"),
            (namespace, name) => write!(f, " {namespace}/{name}"),
        }
    }
}

/// How a request ended, as the client saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// 0 when the client got no answer (reset, lost reply).
    pub status: u16,
    /// `reason` of a `Status` body.
    pub reason: String,
    pub message: String,
    /// Of the object in the answer, where there is one.
    pub resource_version: String,
}

/// One request of the operator, in the order in which its answer was decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    pub seq: u64,
    pub at_ms: u64,
    pub duration_ms: u64,
    pub phase: Phase,
    pub actor: Actor,
    /// Incarnation of the operator process: 1 for the first start, 2 after the first restart, ...
    pub incarnation: u32,
    pub user_agent: String,
    pub target: Target,
    pub content_type: String,
    pub field_manager: String,
    pub dry_run: bool,
    /// `resourceVersion` in the body or in the preconditions.
    pub precondition: String,
    /// Redacted body of a write (JSON bodies; null for others).
    pub body: Value,
    pub answer: Answer,
    /// Whether the server committed a change: a write that succeeded upstream and moved the object's
    /// resourceVersion. `None` where that cannot be told.
    pub committed: Option<bool>,
    /// Ordinal among the operator's committed writes of this run, from 1.
    pub write_ordinal: Option<u64>,
    /// Ids of the faults that touched this request.
    pub faults: Vec<String>,
}

impl Request {
    /// A mutating request that is not a dry run and not one of the kinds that faults leave alone by default.
    #[must_use]
    pub fn is_write(&self) -> bool {
        self.target.verb.is_mutating() && !self.dry_run && !is_background(&self.target)
    }
}

/// Leases, events, reviews, discovery and health: left alone by faults and not counted as writes of a reconcile.
#[must_use]
pub fn is_background(target: &Target) -> bool {
    target.verb == Verb::Path
        || matches!(
            (target.group.as_str(), target.resource.as_str()),
            ("coordination.k8s.io", "leases")
                | ("" | "events.k8s.io", "events")
                | ("authentication.k8s.io" | "authorization.k8s.io", _)
        )
        || (target.resource == "serviceaccounts" && target.subresource == "token")
}

/// What happened to an object, as the observer's own watch saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    Added,
    Modified,
    Deleted,
}

/// One watch event of the observer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    pub at_ms: u64,
    pub phase: Phase,
    pub kind: ChangeKind,
    pub key: ObjectKey,
    pub uid: String,
    pub resource_version: String,
    pub generation: Option<i64>,
    /// Who wrote last, by managedFields' newest entry.
    pub actor: Actor,
    /// Redacted.
    pub object: Value,
}

/// One fault or perturbation, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultRecord {
    /// Perturbation id, such as `conflict`.
    pub id: String,
    /// Requests that matched the selector.
    pub matched: u64,
    /// Times it was carried out.
    pub fired: u64,
    /// Why this is something a real cluster may do, in one sentence.
    pub legal_because: String,
    /// Each firing, in words with the request or process it hit.
    pub hits: Vec<Hit>,
}

/// One time that a fault was carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hit {
    pub at_ms: u64,
    /// Such as `409 on create daskworkergroups.kubernetes.dask.org default/simple-default`.
    pub what: String,
}

/// An instant of the run that oracles refer to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    pub at_ms: u64,
    pub name: MarkName,
    pub detail: String,
}

/// The named instants of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MarkName {
    OperatorStarted,
    OperatorExited,
    WorkloadApplied,
    /// All faults are healed: the recovery clock starts.
    Healed,
    /// Expectations hold and no mutating request for the settle window.
    Converged,
    /// The deadline passed first.
    NotConverged,
    ProbeApplied,
    ProbeSeen,
    ProbeMissed,
    RestBegan,
    RestEnded,
    Deleted,
    Gone,
    NotGone,
    Interrupted,
}

/// What a run tells whoever shows progress. The one closed enum that carries facts from runs to reporters.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A scenario begins: so many runs are planned for now; a crash sweep adds to them later.
    ScenarioStarted {
        scenario: String,
        runs: usize,
    },
    /// The operator's build command runs.
    Building {
        command: String,
    },
    /// A real lane is asked to confirm; its fault-free runs come first.
    Judging {
        lane: String,
        runs: usize,
    },
    /// More runs were planned.
    RunsAdded {
        runs: usize,
    },
    RunStarted {
        run: String,
    },
    PhaseEntered {
        run: String,
        phase: Phase,
    },
    StepStarted {
        run: String,
        step: String,
    },
    RunEnded {
        run: String,
    },
    /// A run was judged; the verdict in one word and, when it is not a pass, why.
    RunJudged {
        run: String,
        outcome: String,
        why: String,
        duration_ms: u64,
    },
    ScenarioFinished {
        scenario: String,
    },
}

/// Where events go; sending never blocks and never fails.
#[derive(Debug, Clone)]
pub struct EventSink(Option<tokio::sync::mpsc::UnboundedSender<Event>>);

impl EventSink {
    /// A sink and the receiver of what it takes.
    #[must_use]
    pub fn channel() -> (Self, tokio::sync::mpsc::UnboundedReceiver<Event>) {
        let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
        (Self(Some(sender)), receiver)
    }

    /// A sink that drops everything.
    #[must_use]
    pub fn none() -> Self {
        Self(None)
    }

    pub fn send(&self, event: Event) {
        if let Some(sender) = &self.0 {
            // The receiver may be gone when the program is ending; progress is not worth an error then.
            let _ = sender.send(event);
        }
    }
}
