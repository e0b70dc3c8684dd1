//! Label selectors of workloads and services, matched against an object's labels.

use serde_json::{Map, Value};

use super::object::{label, list, map, text};

/// Whether `object`'s labels satisfy a `metav1.LabelSelector`; an absent selector matches nothing, an empty one all.
pub(super) fn matches(selector: Option<&Value>, object: &Value) -> bool {
    let Some(selector) = selector.filter(|s| s.is_object()) else { return false };
    map(selector, "/matchLabels").is_none_or(|wanted| has_all(wanted, object))
        && list(selector, "/matchExpressions").iter().all(|e| satisfies(e, object))
}

/// Whether the selector names nothing, which a workload must not use.
pub(super) fn is_empty(selector: Option<&Value>) -> bool {
    selector.is_none_or(|s| map(s, "/matchLabels").is_none_or(Map::is_empty) && list(s, "/matchExpressions").is_empty())
}

/// Whether the object has all these labels (the form of a Service's selector).
pub(super) fn has_all(wanted: &Map<String, Value>, object: &Value) -> bool {
    wanted.iter().all(|(k, v)| object["metadata"]["labels"].get(k).is_some_and(|have| have == v))
}

fn satisfies(expression: &Value, object: &Value) -> bool {
    let key = text(expression, "/key");
    let present = object["metadata"]["labels"].get(key).is_some();
    let listed = || list(expression, "/values").iter().any(|v| v.as_str() == Some(label(object, key)));
    match text(expression, "/operator") {
        "In" => present && listed(),
        "NotIn" => !present || !listed(),
        "Exists" => present,
        "DoesNotExist" => !present,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::matches;

    #[test]
    fn selectors_follow_the_api() {
        let pod = json!({"metadata": {"labels": {"app": "a", "tier": "db"}}});
        let cases = [
            (json!({}), true),
            (json!({"matchLabels": {"app": "a"}}), true),
            (json!({"matchLabels": {"app": "b"}}), false),
            (json!({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["web", "db"]}]}), true),
            (json!({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["db"]}]}), false),
            (json!({"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["x"]}]}), true),
            (json!({"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]}), true),
            (json!({"matchLabels": {"app": "a"}, "matchExpressions": [{"key": "zone", "operator": "Exists"}]}), false),
        ];
        for (selector, expected) in cases {
            assert_eq!(matches(Some(&selector), &pod), expected, "{selector}");
        }
        assert!(!matches(None, &pod));
    }
}
