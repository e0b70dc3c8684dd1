//! The status that the API server's own controllers give to a definition.

use serde_json::{Value, json};

/// Accepts the names, records the storage version and establishes the definition.
///
/// `lastTransitionTime` moves only when a condition's status does.
pub fn accept_crd_status(crd: &mut Value, now: jiff::Timestamp) {
    let names = crd["spec"]["names"].clone();
    let storage = storage_version(crd);
    if !crd["status"].is_object() {
        crd["status"] = json!({});
    }
    let status = &mut crd["status"];
    status["acceptedNames"] = names;
    let mut stored = status["storedVersions"].as_array().cloned().unwrap_or_default();
    if let Some(version) = storage.map(Value::from).filter(|v| !stored.contains(v)) {
        stored.push(version);
    }
    status["storedVersions"] = stored.into();
    let now = jiff::Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
    let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    for (kind, reason, message) in [
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    ] {
        match conditions.iter_mut().find(|c| c["type"] == kind) {
            Some(known) if known["status"] == "True" => {}
            Some(known) => *known = condition(kind, reason, message, &now),
            None => conditions.push(condition(kind, reason, message, &now)),
        }
    }
    status["conditions"] = conditions.into();
}

fn condition(kind: &str, reason: &str, message: &str, now: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now})
}

pub(super) fn storage_version(crd: &Value) -> Option<String> {
    let versions = crd["spec"]["versions"].as_array()?;
    versions.iter().find(|v| v["storage"] == true)?["name"].as_str().map(str::to_owned)
}
