//! The selector that a Job gets for its own pods.

use serde_json::{Value, json};

use super::super::meta;

/// Gives a new Job the selector and the labels that only its pods have, unless it brings its own.
pub(crate) fn select(job: &mut Value) {
    if job.pointer("/spec/manualSelector").and_then(Value::as_bool).unwrap_or(false) {
        return;
    }
    let (uid, name) = (meta::text(job, "uid").to_owned(), meta::name(job).to_owned());
    let spec = meta::map_at(job, "spec");
    let template = meta::as_map(spec.entry("template").or_insert_with(|| json!({})));
    let metadata = meta::as_map(template.entry("metadata").or_insert_with(|| json!({})));
    let labels = meta::as_map(metadata.entry("labels").or_insert_with(|| json!({})));
    // The names without a prefix are from before label prefixes, and kept for clients that know only them.
    for (key, value) in [("controller-uid", &uid), ("job-name", &name)] {
        labels.insert(key.into(), value.as_str().into());
        labels.insert(format!("batch.kubernetes.io/{key}"), value.as_str().into());
    }
    let labels = Value::Object(labels.clone());
    let selector = meta::as_map(spec.entry("selector").or_insert_with(|| json!({})));
    let wanted = meta::as_map(selector.entry("matchLabels").or_insert_with(|| json!({})));
    wanted.insert("batch.kubernetes.io/controller-uid".into(), uid.into());
    if meta::field(job, "labels").is_none_or(|l| l.as_object().is_none_or(serde_json::Map::is_empty)) {
        meta::set(job, "labels", labels);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_selects_by_its_own_uid_unless_told_otherwise() {
        let mut job = json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"template": {}}});
        select(&mut job);
        assert_eq!(job["spec"]["selector"]["matchLabels"], json!({"batch.kubernetes.io/controller-uid": "u"}));
        assert_eq!(job["spec"]["template"]["metadata"]["labels"]["job-name"], "j");
        let mut manual = json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"manualSelector": true}});
        select(&mut manual);
        assert!(manual["spec"].get("selector").is_none());
    }
}
