//! Completion indexes: on pods, and as the text `0-2,5` in the status.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::controllers::{
    object::{annotation, list},
    template,
};

const INDEX: &str = "batch.kubernetes.io/job-completion-index";

pub(super) fn of_pod(pod: &Value) -> Option<i64> {
    annotation(pod, INDEX)?.parse().ok()
}

pub(super) fn contains(indexes: &BTreeSet<i64>, index: i64) -> bool {
    indexes.contains(&index)
}

pub(super) fn count(indexes: &BTreeSet<i64>) -> i64 {
    i64::try_from(indexes.len()).unwrap_or(0)
}

pub(super) fn parse(text: &str) -> BTreeSet<i64> {
    let mut all = BTreeSet::new();
    for part in text.split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(low), Ok(high)) = (low.parse::<i64>(), high.parse::<i64>()) {
            all.extend(low..=high);
        }
    }
    all
}

pub(super) fn format(indexes: &BTreeSet<i64>) -> String {
    let mut runs: Vec<(i64, i64)> = Vec::new();
    for index in indexes {
        match runs.last_mut() {
            Some((_, high)) if *high + 1 == *index => *high = *index,
            _ => runs.push((*index, *index)),
        }
    }
    let parts = runs.into_iter().map(|(low, high)| match high - low {
        0 => low.to_string(),
        // Two neighbours are listed, three or more are a range.
        1 => format!("{low},{high}"),
        _ => format!("{low}-{high}"),
    });
    parts.collect::<Vec<_>>().join(",")
}

/// Gives a pod its index: name prefix, host name, label, annotation and environment.
pub(super) fn mark(pod: &mut Value, job: &str, index: i64) {
    let number = index.to_string();
    pod["metadata"]["generateName"] = json!(format!("{job}-{index}-"));
    if !pod["metadata"]["annotations"].is_object() {
        pod["metadata"]["annotations"] = json!({});
    }
    pod["metadata"]["annotations"][INDEX] = json!(number);
    template::add_labels(pod, &[(INDEX, &number)]);
    pod["spec"]["hostname"] = json!(format!("{job}-{index}"));
    let variable = json!({
        "name": "JOB_COMPLETION_INDEX",
        "valueFrom": {"fieldRef": {"fieldPath": format!("metadata.labels['{INDEX}']")}},
    });
    for field in ["initContainers", "containers"] {
        let Some(containers) = pod["spec"].get_mut(field).and_then(Value::as_array_mut) else { continue };
        for container in containers {
            let mut env = list(container, "/env").to_vec();
            if !env.iter().any(|e| e["name"] == "JOB_COMPLETION_INDEX") {
                env.push(variable.clone());
                container["env"] = json!(env);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{format, parse};

    #[test]
    fn ranges_round_trip() {
        for text in ["", "0", "0,1", "0-2", "0-2,5", "1,3-5,7,8"] {
            assert_eq!(format(&parse(text)), text);
        }
    }
}
