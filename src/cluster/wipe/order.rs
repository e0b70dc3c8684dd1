//! What of a wipe is deleted when, and what is stuck.

use std::time::Duration;

use super::{Found, GRACE_SECONDS, millis};

/// How long a finalizer may take. Those of the operator have nobody left to remove them; those of Kubernetes have.
const FINALIZER_OF_OPERATOR: Duration = Duration::from_secs(1);
const FINALIZER_OF_KUBERNETES: Duration = Duration::from_secs(30);

/// The rank whose turn it is. Webhooks must be gone before anything else goes, and everything before definitions and
/// namespaces; between objects and what they own it is enough that the owner's deletion was asked for.
pub(super) fn due_rank(left: &[&Found]) -> Option<u8> {
    let next = left.iter().filter(|found| is_undeleted(found)).map(|found| rank(found)).min()?;
    let lowest = left.iter().map(|found| rank(found)).min()?;
    let waits = (next > FIRST && lowest == FIRST) || (next == LAST && lowest < LAST);
    (!waits).then_some(next)
}

pub(super) const FIRST: u8 = 0;
pub(super) const LAST: u8 = 3;

/// The order of deletion.
pub(super) fn rank(found: &Found) -> u8 {
    match (found.identity.group.as_str(), found.identity.kind.as_str()) {
        ("admissionregistration.k8s.io", _) | ("apiregistration.k8s.io", "APIService") => FIRST,
        // Namespaces after what is in them, so that pods there do not take their full grace.
        ("apiextensions.k8s.io", _) | ("", "Namespace") => LAST,
        // After what would make them again.
        _ if found.metadata.owner_references.as_ref().is_some_and(|owners| !owners.is_empty()) => 2,
        _ => 1,
    }
}

pub(super) fn is_undeleted(found: &Found) -> bool {
    let grace = found.metadata.deletion_grace_period_seconds.unwrap_or_default();
    let is_slow = found.identity.kind == "Pod" && grace > i64::from(GRACE_SECONDS);
    found.metadata.deletion_timestamp.is_none() || is_slow
}

pub(super) fn is_stuck(found: &Found, for_ms: u64) -> bool {
    let finalizers = found.metadata.finalizers.as_deref().unwrap_or_default();
    if finalizers.is_empty() || found.metadata.deletion_timestamp.is_none() {
        return false;
    }
    let of_kubernetes = |name: &String| {
        let domain = name.split_once('/').map_or("", |(domain, _)| domain);
        domain.is_empty()
            || domain == "kubernetes.io"
            || domain.ends_with(".kubernetes.io")
            || domain.ends_with("k8s.io")
    };
    let patience = if finalizers.iter().all(of_kubernetes) { FINALIZER_OF_KUBERNETES } else { FINALIZER_OF_OPERATOR };
    for_ms >= millis(patience)
}
