//! Policy rules: what one rule allows, what it covers, and how ClusterRoles aggregate.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::Value;

use super::rbac::Attributes;

/// The strings of a list field of a rule, empty when it is absent.
pub(super) fn strings<'a>(rule: &'a Value, field: &str) -> impl Iterator<Item = &'a str> + Clone {
    rule.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default().iter().filter_map(Value::as_str)
}

/// A text field, empty when it is absent.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The `rules` of a role.
pub(super) fn rules_of(role: &Value) -> &[Value] {
    role.get("rules").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Whether one rule allows a request.
pub(super) fn allows(rule: &Value, attrs: &Attributes<'_>) -> bool {
    let any = |field: &str, wanted: &str| strings(rule, field).any(|s| s == "*" || s == wanted);
    if !any("verbs", attrs.verb) {
        return false;
    }
    if !attrs.is_resource() {
        return strings(rule, "nonResourceURLs").any(|url| url_matches(url, attrs.path));
    }
    let mut names = strings(rule, "resourceNames").peekable();
    any("apiGroups", attrs.group)
        && strings(rule, "resources").any(|r| resource_matches(r, &attrs.full_resource(), attrs.subresource))
        && (names.peek().is_none() || names.any(|n| n == attrs.name))
}

/// `*`, the resource itself, or `*/scale` for the subresource of any.
fn resource_matches(rule: &str, full: &str, subresource: &str) -> bool {
    rule == "*" || rule == full || (!subresource.is_empty() && rule.strip_prefix("*/") == Some(subresource))
}

fn url_matches(rule: &str, path: &str) -> bool {
    rule == "*" || rule == path || (rule.ends_with('*') && path.starts_with(rule.trim_end_matches('*')))
}

/// Whether `owner` allows everything that the single-valued rule `part` allows.
pub(super) fn covers(owner: &Value, part: &Value) -> bool {
    let any = |field: &str, test: &dyn Fn(&str, &str) -> bool| {
        strings(part, field).all(|wanted| strings(owner, field).any(|held| test(held, wanted)))
    };
    let equal = |held: &str, wanted: &str| held == "*" || held == wanted;
    let resource = |held: &str, wanted: &str| {
        let subresource = wanted.split_once('/').map_or("", |(_, s)| s);
        resource_matches(held, wanted, subresource)
    };
    let narrowed = strings(owner, "resourceNames").next().is_some();
    let names = strings(part, "resourceNames").next().is_some();
    any("verbs", &equal)
        && any("apiGroups", &equal)
        && any("resources", &resource)
        && any("nonResourceURLs", &|held, wanted| url_matches(held, wanted))
        && (!narrowed || (names && any("resourceNames", &|held, wanted| held == wanted)))
}

/// The rules of a ClusterRole: its own, or those of the ClusterRoles that its aggregation rule selects.
///
/// This is what the aggregation controller would write, kept up to date by evaluation: roles in the order of
/// their names, each rule once, aggregated roles included.
#[must_use]
pub fn aggregate(role: &Value, all: &[Arc<Value>]) -> Vec<Value> {
    let mut visited = BTreeSet::new();
    collect(role, all, &mut visited)
}

fn collect(role: &Value, all: &[Arc<Value>], visited: &mut BTreeSet<String>) -> Vec<Value> {
    let Some(selectors) = role.pointer("/aggregationRule/clusterRoleSelectors").and_then(Value::as_array) else {
        return rules_of(role).to_vec();
    };
    let own_name = text(role, "/metadata/name");
    // Roles may select each other; the second visit of one adds nothing.
    if !visited.insert(own_name.to_owned()) {
        return Vec::new();
    }
    let mut found: Vec<Value> = Vec::new();
    for selector in selectors {
        let mut chosen: Vec<&Arc<Value>> = all
            .iter()
            .filter(|r| text(r, "/metadata/name") != own_name && selects(selector, r.pointer("/metadata/labels")))
            .collect();
        chosen.sort_by_key(|r| text(r, "/metadata/name"));
        for other in chosen {
            for rule in collect(other, all, visited) {
                if !found.contains(&rule) {
                    found.push(rule);
                }
            }
        }
    }
    visited.remove(own_name);
    found
}

/// Whether a label selector matches. The empty selector matches everything.
fn selects(selector: &Value, labels: Option<&Value>) -> bool {
    let label = |key: &str| labels.and_then(|l| l.get(key)).and_then(Value::as_str);
    let wanted = selector.get("matchLabels").and_then(Value::as_object);
    let equal = wanted.into_iter().flatten().all(|(key, value)| label(key) == value.as_str());
    let requirements = selector.get("matchExpressions").and_then(Value::as_array);
    equal
        && requirements.into_iter().flatten().all(|requirement| {
            let held = label(text(requirement, "/key"));
            let mut values = strings(requirement, "values");
            match text(requirement, "/operator") {
                "In" => held.is_some_and(|h| values.any(|v| v == h)),
                "NotIn" => held.is_none_or(|h| values.all(|v| v != h)),
                "Exists" => held.is_some(),
                "DoesNotExist" => held.is_none(),
                _ => false,
            }
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn resource<'a>(verb: &'a str, group: &'a str, resource: &'a str, subresource: &'a str) -> Attributes<'a> {
        Attributes { verb, group, version: "v1", resource, subresource, name: "web", ..Attributes::default() }
    }

    #[test]
    fn a_rule_allows_exactly_what_it_names() {
        let rule = json!({"verbs": ["get"], "apiGroups": ["apps"], "resources": ["deployments", "*/scale"]});
        assert!(allows(&rule, &resource("get", "apps", "deployments", "")));
        assert!(allows(&rule, &resource("get", "apps", "statefulsets", "scale")));
        assert!(!allows(&rule, &resource("list", "apps", "deployments", "")));
        assert!(!allows(&rule, &resource("get", "", "deployments", "")));
        assert!(!allows(&rule, &resource("get", "apps", "deployments", "status")));
        let status = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["deployments/status"]});
        assert!(allows(&status, &resource("patch", "apps", "deployments", "status")));
        assert!(!allows(&status, &resource("patch", "apps", "deployments", "")));
        let everything = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
        assert!(allows(&everything, &resource("get", "apps", "deployments", "status")));
    }

    /// A list has no name, so that a rule with names never allows it.
    #[test]
    fn resource_names_narrow_a_rule() {
        let rule = json!({"verbs": ["*"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["web"]});
        assert!(allows(&rule, &resource("get", "", "secrets", "")));
        assert!(!allows(&rule, &Attributes { name: "", ..resource("list", "", "secrets", "") }));
        assert!(!allows(&rule, &Attributes { name: "other", ..resource("get", "", "secrets", "") }));
    }

    #[test]
    fn paths_match_by_prefix_where_a_star_ends_them() {
        let rule = json!({"verbs": ["get"], "nonResourceURLs": ["/version", "/openapi/*"]});
        let at = |path| Attributes { verb: "get", path, ..Attributes::default() };
        assert!(allows(&rule, &at("/version")));
        assert!(!allows(&rule, &at("/version/")));
        assert!(allows(&rule, &at("/openapi/v2")));
        assert!(!allows(&rule, &at("/openapi")));
        assert!(!allows(&rule, &resource("get", "", "pods", "")));
    }

    #[test]
    fn aggregation_is_transitive_and_survives_cycles() {
        let labelled = |name: &str, label: &str, body: Value| {
            let mut role = json!({"metadata": {"name": name, "labels": {label: "true"}}});
            role.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
            Arc::new(role)
        };
        let select =
            |label: &str| json!({"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]}});
        let rule = |verb: &str| json!({"verbs": [verb], "apiGroups": [""], "resources": ["pods"]});
        let all = [
            labelled("view", "to-edit", select("to-view")),
            labelled("b-leaf", "to-view", json!({"rules": [rule("list"), rule("get")]})),
            labelled("a-leaf", "to-view", json!({"rules": [rule("get")]})),
            labelled("edit", "to-view", select("to-edit")),
        ];
        assert_eq!(aggregate(&all[3], &all), [rule("get"), rule("list")]);
        assert_eq!(aggregate(&all[1], &all), [rule("list"), rule("get")]);
    }

    #[test]
    fn selectors_know_all_operators() {
        let labels = json!({"tier": "db"});
        let check = |operator: &str, key: &str, values: &[&str]| {
            let selector = json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
            selects(&selector, Some(&labels))
        };
        assert!(check("In", "tier", &["db", "web"]) && !check("In", "tier", &["web"]) && !check("In", "x", &["db"]));
        assert!(check("NotIn", "tier", &["web"]) && !check("NotIn", "tier", &["db"]) && check("NotIn", "x", &["db"]));
        assert!(check("Exists", "tier", &[]) && !check("Exists", "x", &[]));
        assert!(check("DoesNotExist", "x", &[]) && !check("DoesNotExist", "tier", &[]));
        assert!(!check("Near", "tier", &[]));
    }
}
