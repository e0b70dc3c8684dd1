//! The same object in another version: requests and answers are in the URL's version, the store in one of them.

use serde_json::{Map, Value};

use crate::{discovery::ResourceType, status::ApiError};

use super::meta;

/// Names of an event's fields in `events.k8s.io` and in the core group.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

/// Whether objects of this type need no conversion.
pub(crate) fn is_identity(kind: &ResourceType) -> bool {
    kind.storage_version == kind.kind.api_version()
}

/// Refuses versions that cannot be converted.
pub(crate) fn check(kind: &ResourceType) -> Result<(), ApiError> {
    let supported = is_identity(kind) || kind.custom.is_some() || kind.table == "events";
    if supported {
        Ok(())
    } else {
        Err(ApiError::unsupported(&format!("{} in version {}", kind.table, kind.gvr.version)))
    }
}

/// A stored object in the version of `kind`.
pub(crate) fn from_storage(kind: &ResourceType, object: &Value) -> Value {
    let mut out = object.clone();
    if !is_identity(kind) {
        rewrite(kind, &mut out, &kind.kind.api_version(), |(request, stored)| (stored, request));
    }
    out
}

/// An object in the version of `kind` as it is stored.
pub(crate) fn to_storage(kind: &ResourceType, mut object: Value) -> Value {
    if !is_identity(kind) {
        rewrite(kind, &mut object, &kind.storage_version, |pair| pair);
    }
    object
}

type Pair = (&'static str, &'static str);

fn rewrite(kind: &ResourceType, object: &mut Value, api_version: &str, direction: impl Fn(Pair) -> Pair) {
    let map: &mut Map<String, Value> = meta::as_map(object);
    map.insert("apiVersion".into(), api_version.into());
    if kind.table == "events" {
        for pair in EVENT_FIELDS {
            let (from, to) = direction(pair);
            if let Some(value) = map.remove(from) {
                map.insert(to.into(), value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{discovery::builtin, resource::Gvr};

    #[test]
    fn events_change_their_names_both_ways() {
        let kind = builtin(&Gvr::new("events.k8s.io", "v1", "events")).unwrap();
        let given = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "note": "n", "regarding": {"name": "p"}});
        let stored = to_storage(&kind, given.clone());
        assert_eq!(stored["apiVersion"], "v1");
        assert_eq!(stored["message"], "n");
        assert_eq!(from_storage(&kind, &stored), given);
    }

    #[test]
    fn unknown_conversions_are_refused() {
        let kind = builtin(&Gvr::new("autoscaling", "v1", "horizontalpodautoscalers")).unwrap();
        assert_eq!(check(&kind).unwrap_err().code, 501);
    }
}
