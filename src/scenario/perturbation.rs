//! The entries of `perturbations` as they stand in YAML: what a run does to the system, and when.
//!
//! A part of [`super::format`], which gives these types out; the doc comments are the descriptions in the published
//! JSON Schema.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::duration::Span;
use crate::event::Verb;

/// What a run does to the system beyond the workload; the key is the perturbation's id. `{}` takes the defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Perturbation {
    /// Nothing is disturbed; the operator is only watched for longer.
    Quiet(Quiet),
    /// Server-side apply of every input with force, several times.
    ForceReapply(ForceReapply),
    /// Stop and start the operator at rest.
    Restart(Restart),
    /// Kill the operator right after (or before) its k-th committed write.
    CrashAfterWrite(CrashAfterWrite),
    /// Kill the operator's process, or delete pods.
    PodKill(PodKill),
    /// Cut the operator off from its API server for a while.
    Partition(Partition),
    /// Kill the API server itself, and let it come back.
    ApiRestart(ApiRestart),
    /// 409 on writes.
    Conflict(Conflict),
    /// Delay requests.
    Latency(Latency),
    /// Answer with an error instead of forwarding.
    ApiError(ApiErrorFault),
    /// The write commits and its reply is lost.
    LostReply(LostReply),
}

impl Perturbation {
    /// Whether the seed picks which of the matching requests is hit.
    #[must_use]
    pub fn draws_its_ordinal(&self) -> bool {
        let trigger = match self {
            Self::Conflict(fault) => &fault.trigger,
            Self::Latency(fault) => &fault.trigger,
            Self::ApiError(fault) => &fault.trigger,
            Self::LostReply(fault) => &fault.trigger,
            Self::Quiet(_)
            | Self::ForceReapply(_)
            | Self::Restart(_)
            | Self::CrashAfterWrite(_)
            | Self::PodKill(_)
            | Self::Partition(_)
            | Self::ApiRestart(_) => return false,
        };
        trigger.nth.is_none() && trigger.every.is_none() && trigger.probability.is_none()
    }

    /// The id, as it stands in files and reports.
    #[must_use]
    pub fn id(&self) -> &'static str {
        match self {
            Self::Quiet(_) => "quiet",
            Self::ForceReapply(_) => "force-reapply",
            Self::Restart(_) => "restart",
            Self::CrashAfterWrite(_) => "crash-after-write",
            Self::PodKill(_) => "pod-kill",
            Self::Partition(_) => "partition",
            Self::ApiRestart(_) => "api-restart",
            Self::Conflict(_) => "conflict",
            Self::Latency(_) => "latency",
            Self::ApiError(_) => "api-error",
            Self::LostReply(_) => "lost-reply",
        }
    }
}

/// Watches the operator at rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Quiet {
    #[serde(rename = "for")]
    pub duration: Span,
}

impl Default for Quiet {
    fn default() -> Self {
        Self { duration: Span::from_secs(5) }
    }
}

/// Re-applies the inputs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ForceReapply {
    pub times: u32,
}

impl Default for ForceReapply {
    fn default() -> Self {
        Self { times: 3 }
    }
}

/// Stops and starts the operator at rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Restart {
    pub times: u32,
}

impl Default for Restart {
    fn default() -> Self {
        Self { times: 2 }
    }
}

/// Crash points.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CrashAfterWrite {
    /// Ordinal of the write, from 1. Without it every write of the reference run is taken in turn.
    pub write: Option<u64>,
    /// Kill before the write reaches the server instead of after it was committed.
    pub before: bool,
}

/// Kills pods, or the operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PodKill {
    /// `operator`, or pods that it manages.
    pub target: KillTarget,
    /// Label selector of the pods, with target `pods`; without it: all pods of the scenario's namespace.
    pub selector: Option<String>,
    pub times: u32,
    /// All matching pods at once instead of one at a time.
    pub all: bool,
    /// 0 kills without grace.
    pub grace_period_seconds: u32,
    /// Kill the containers' processes at their node, so that the pods stay and their kubelet starts them again, instead
    /// of deleting the pods. Only on a lane with real pods.
    pub in_place: bool,
}

impl Default for PodKill {
    fn default() -> Self {
        Self {
            target: KillTarget::Operator,
            selector: None,
            times: 1,
            all: false,
            grace_period_seconds: 0,
            in_place: false,
        }
    }
}

/// Cuts the network between operator and API server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Partition {
    #[serde(rename = "for")]
    pub duration: Span,
}

impl Default for Partition {
    fn default() -> Self {
        Self { duration: Span::from_secs(5) }
    }
}

/// Kills the API server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ApiRestart {}

/// Whose pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KillTarget {
    Operator,
    Pods,
}

/// Which requests a fault concerns. Empty lists match everything that is not excluded by default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Selector {
    pub verbs: Vec<Verb>,
    /// `""` is the core group.
    pub api_groups: Vec<String>,
    /// Plurals.
    pub resources: Vec<String>,
    /// `""` is the object itself. Default: all.
    pub subresources: Option<Vec<String>>,
    pub namespaces: Vec<String>,
    pub names: Vec<String>,
    /// Substring of the User-Agent.
    pub user_agent: Option<String>,
    /// Also leases, events, reviews, discovery and health, which faults leave alone by default.
    pub include_background: bool,
}

/// When a fault fires among the requests that match. With none of `nth`, `every`, `probability`, the seed picks one
/// ordinal among the matching requests that the reference run sent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Trigger {
    /// Only the n-th matching request, from 1.
    pub nth: Option<u64>,
    /// Every k-th.
    pub every: Option<u64>,
    /// Each with this probability, drawn from the plan's seed.
    pub probability: Option<f64>,
    /// At most so many times. Default: once for `nth` and a seeded ordinal, else unlimited until healed.
    pub max: Option<u64>,
}

/// 409 `Conflict` on update, patch and delete with a precondition, or on create (its quota's update collided).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Conflict {
    pub requests: Selector,
    pub trigger: Trigger,
}

/// Delay with jitter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Latency {
    pub requests: Selector,
    pub trigger: Trigger,
    pub delay: Span,
    /// Added, uniformly from zero to this.
    pub jitter: Span,
}

impl Default for Latency {
    fn default() -> Self {
        Self {
            requests: Selector::default(),
            trigger: Trigger { every: Some(1), ..Trigger::default() },
            delay: Span::from_millis(100),
            jitter: Span::from_millis(50),
        }
    }
}

/// An error answer; the request does not reach the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ApiErrorFault {
    pub requests: Selector,
    pub trigger: Trigger,
    /// 429, 500, 503 or 504.
    pub status: u16,
    /// Whole seconds of a `Retry-After` header; without it none is sent.
    pub retry_after: Option<Span>,
}

impl Default for ApiErrorFault {
    fn default() -> Self {
        Self { requests: Selector::default(), trigger: Trigger::default(), status: 500, retry_after: None }
    }
}

/// The server commits, the client's connection is reset.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct LostReply {
    pub requests: Selector,
    pub trigger: Trigger,
}
