//! Names, labels and claims of a StatefulSet's pod.

use serde_json::{Value, json};

use super::REVISION_LABEL;
use crate::controllers::{
    claim::Owner,
    object::{list, map, name, namespace, text},
    revision, template,
};

/// The ordinal in a pod's name, if the name is one of this set.
pub(super) fn ordinal(set: &Value, pod: &str) -> Option<i64> {
    let digits = pod.strip_prefix(name(set))?.strip_prefix('-')?;
    let canonical = digits == "0" || !digits.starts_with('0');
    let all_digits = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if canonical && all_digits { digits.parse().ok() } else { None }
}

pub(super) fn pod_name(set: &Value, ordinal: i64) -> String {
    format!("{}-{ordinal}", name(set))
}

/// The claim of one template for one pod.
pub(super) fn claim_name(claim_template: &Value, pod: &str) -> String {
    format!("{}-{pod}", name(claim_template))
}

/// The pod of an ordinal at a revision.
pub(super) fn pod(owner: Owner<'_>, ordinal: i64, revision: &Value) -> Value {
    let set = owner.object;
    let own_name = pod_name(set, ordinal);
    let mut pod = template::pod(&revision::template_of(revision), namespace(set), owner.reference());
    pod["metadata"]["name"] = json!(own_name);
    template::add_labels(
        &mut pod,
        &[
            ("statefulset.kubernetes.io/pod-name", &own_name),
            ("apps.kubernetes.io/pod-index", &ordinal.to_string()),
            (REVISION_LABEL, name(revision)),
        ],
    );
    pod["spec"]["hostname"] = json!(own_name);
    let service = text(set, "/spec/serviceName");
    if !service.is_empty() {
        pod["spec"]["subdomain"] = json!(service);
    }
    let templates = list(set, "/spec/volumeClaimTemplates");
    if !templates.is_empty() {
        let mut volumes: Vec<Value> = templates
            .iter()
            .map(|t| json!({"name": name(t), "persistentVolumeClaim": {"claimName": claim_name(t, &own_name)}}))
            .collect();
        // A claim replaces a volume of the same name in the pod template.
        let others = list(&pod, "/spec/volumes").iter();
        let kept: Vec<Value> =
            others.filter(|v| !templates.iter().any(|t| name(t) == text(v, "/name"))).cloned().collect();
        volumes.extend(kept);
        pod["spec"]["volumes"] = json!(volumes);
    }
    pod
}

/// The claim object of one template for one pod, without owner.
pub(super) fn claim(set: &Value, claim_template: &Value, pod: &str) -> Value {
    let mut claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": claim_name(claim_template, pod), "namespace": namespace(set)},
        "spec": claim_template.get("spec").cloned().unwrap_or_else(|| json!({})),
    });
    for field in ["labels", "annotations", "finalizers"] {
        if let Some(value) = claim_template.pointer(&format!("/metadata/{field}")) {
            claim["metadata"][field] = value.clone();
        }
    }
    for (k, v) in map(set, "/spec/selector/matchLabels").into_iter().flatten() {
        template::add_labels(&mut claim, &[(k, v.as_str().unwrap_or(""))]);
    }
    claim
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::ordinal;

    #[test]
    fn only_canonical_names_have_an_ordinal() {
        let set = json!({"metadata": {"name": "db"}});
        let cases =
            [("db-0", Some(0)), ("db-12", Some(12)), ("db-01", None), ("db-", None), ("db-a-1", None), ("x-1", None)];
        for (pod, expected) in cases {
            assert_eq!(ordinal(&set, pod), expected, "{pod}");
        }
    }
}
