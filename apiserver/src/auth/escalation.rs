//! Nobody grants what he does not hold: the check on writes of roles and bindings.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::rbac::{Attributes, RbacSource, authorize, refused, role_rules, rules_for};
use super::rules::{covers, rules_of, strings, text};
use super::{Decision, Identity};
use crate::status::ApiError;

/// The group of roles and bindings.
const GROUP: &str = "rbac.authorization.k8s.io";

/// Checks a create or update (with `old`) of `roles`, `clusterroles`, `rolebindings` or `clusterrolebindings`.
///
/// # Errors
/// 403 when the object grants more than `who` holds, unless he holds `escalate` (roles) or `bind` (bindings); 404 when
/// a binding refers to a role that does not exist and `who` may not bind it unseen.
pub fn check_escalation(
    source: &dyn RbacSource,
    who: &Identity,
    resource: &str,
    object: &Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    let unchanged = |field: &str| old.is_some_and(|o| o.get(field) == object.get(field));
    let attrs = Attributes {
        group: GROUP,
        version: "v1",
        resource,
        namespace: text(object, "/metadata/namespace"),
        name: text(object, "/metadata/name"),
        ..Attributes::default()
    };
    match resource {
        "roles" | "clusterroles" => {
            let may = Attributes { verb: "escalate", ..attrs };
            if (unchanged("rules") && unchanged("aggregationRule")) || permitted(source, who, &may) {
                return Ok(());
            }
            let mut rules = rules_of(object).to_vec();
            if object.get("aggregationRule").is_some_and(|a| !a.is_null()) {
                // What will be aggregated is not known beforehand, so that it takes every right.
                rules.push(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
                rules.push(json!({"verbs": ["*"], "nonResourceURLs": ["*"]}));
            }
            confirm(source, who, &attrs, &rules)
        }
        "rolebindings" | "clusterrolebindings" => {
            let reference = &object["roleRef"];
            let bound = if text(reference, "/kind") == "Role" { "roles" } else { "clusterroles" };
            let may = Attributes { verb: "bind", resource: bound, name: text(reference, "/name"), ..attrs };
            if (unchanged("roleRef") && unchanged("subjects")) || permitted(source, who, &may) {
                return Ok(());
            }
            let rules = role_rules(source, reference, attrs.namespace)?;
            confirm(source, who, &attrs, &rules)
        }
        _ => Ok(()),
    }
}

fn permitted(source: &dyn RbacSource, who: &Identity, attrs: &Attributes<'_>) -> bool {
    who.is_privileged() || authorize(source, who, attrs) == Decision::Allow
}

fn confirm(source: &dyn RbacSource, who: &Identity, attrs: &Attributes<'_>, rules: &[Value]) -> Result<(), ApiError> {
    let (held, dangling) = rules_for(source, who, attrs.namespace);
    let missing: Vec<Value> =
        rules.iter().flat_map(single).filter(|part| !held.iter().any(|owner| covers(owner, part))).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let groups: Vec<String> = who.groups.iter().map(|g| format!("\"{g}\"")).collect();
    let mut why = format!(
        "user \"{}\" (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
        who.name,
        groups.join(" "),
        compact(&missing).into_iter().collect::<Vec<_>>().join("\n")
    );
    match dangling.as_slice() {
        [] => {}
        [one] => why = format!("{why}; resolution errors: [{one}]"),
        many => why = format!("{why}; resolution errors: [[{}]]", many.join(", ")),
    }
    Err(refused(attrs, &why))
}

/// A rule as rules with one verb, group, resource and name each.
fn single(rule: &Value) -> Vec<Value> {
    let mut parts = Vec::new();
    let names: Vec<&str> = strings(rule, "resourceNames").collect();
    for verb in strings(rule, "verbs") {
        for group in strings(rule, "apiGroups") {
            for resource in strings(rule, "resources") {
                let part = json!({"apiGroups": [group], "resources": [resource], "verbs": [verb]});
                if names.is_empty() {
                    parts.push(part);
                    continue;
                }
                for name in &names {
                    let mut part = part.clone();
                    part["resourceNames"] = json!([name]);
                    parts.push(part);
                }
            }
        }
        parts.extend(strings(rule, "nonResourceURLs").map(|url| json!({"nonResourceURLs": [url], "verbs": [verb]})));
    }
    parts
}

/// Single rules as text, the verbs of one resource together.
fn compact(parts: &[Value]) -> BTreeSet<String> {
    let mut verbs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for part in parts {
        let listed: Vec<String> = [
            ("APIGroups", "apiGroups"),
            ("Resources", "resources"),
            ("NonResourceURLs", "nonResourceURLs"),
            ("ResourceNames", "resourceNames"),
        ]
        .iter()
        .filter_map(|(label, field)| strings(part, field).next().map(|v| format!("{label}:[\"{v}\"], ")))
        .collect();
        let of_resource = verbs.entry(listed.concat()).or_default();
        for verb in strings(part, "verbs").map(|v| format!("\"{v}\"")) {
            if !of_resource.contains(&verb) {
                of_resource.push(verb);
            }
        }
    }
    verbs.into_iter().map(|(what, verbs)| format!("{{{what}Verbs:[{}]}}", verbs.join(" "))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::Roles;
    use super::*;

    fn operator() -> Identity {
        Identity::service_account("ns", "sa", "u")
    }

    fn held(rules: Value) -> Roles {
        Roles::default().cluster_role("held", rules).bind(
            "",
            "b",
            "ClusterRole",
            "held",
            json!([{"kind": "ServiceAccount", "name": "sa", "namespace": "ns"}]),
        )
    }

    fn role(rules: Value) -> Value {
        json!({"metadata": {"name": "r", "namespace": "a"}, "rules": rules})
    }

    fn pods(verbs: &[&str]) -> Value {
        json!({"verbs": verbs, "apiGroups": [""], "resources": ["pods"]})
    }

    #[test]
    fn a_role_may_hold_what_its_author_holds() {
        let source = held(json!([pods(&["get", "list"]), {"verbs": ["*"], "apiGroups": ["apps"], "resources": ["*"]}]));
        let apps = json!({"verbs": ["get", "patch"], "apiGroups": ["apps"], "resources": ["deployments", "a/scale"]});
        assert_eq!(
            check_escalation(&source, &operator(), "roles", &role(json!([pods(&["list"]), apps])), None),
            Ok(())
        );
    }

    #[test]
    fn a_role_may_not_hold_more() {
        let source = held(json!([pods(&["get"])]));
        let more = role(json!([pods(&["get", "watch", "list"])]));
        let error = check_escalation(&source, &operator(), "roles", &more, None).unwrap_err();
        assert_eq!(
            error.message,
            "roles.rbac.authorization.k8s.io \"r\" is forbidden: user \"system:serviceaccount:ns:sa\" \
             (groups=[\"system:serviceaccounts\" \"system:serviceaccounts:ns\" \"system:authenticated\"]) is attempting \
             to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"pods\"], \
             Verbs:[\"watch\" \"list\"]}"
        );
        assert_eq!(error.code, 403);
        // An update that leaves the rules alone grants nothing new.
        assert_eq!(check_escalation(&source, &operator(), "roles", &more, Some(&more)), Ok(()));
        assert_eq!(check_escalation(&source, &Identity::admin(), "roles", &more, None), Ok(()));
    }

    #[test]
    fn names_narrow_what_is_held() {
        let mut narrow = pods(&["get"]);
        narrow["resourceNames"] = json!(["web"]);
        let source = held(json!([narrow]));
        let may = |rules: Value| check_escalation(&source, &operator(), "roles", &role(rules), None).is_ok();
        assert!(may(json!([narrow])));
        assert!(!may(json!([pods(&["get"])])));
    }

    #[test]
    fn escalate_and_bind_lift_the_check() {
        let verbs =
            json!({"verbs": ["escalate", "bind"], "apiGroups": [GROUP], "resources": ["roles", "clusterroles"]});
        let source = held(json!([verbs])).role("a", "big", json!([pods(&["*"])]));
        let big = json!({
            "metadata": {"name": "b", "namespace": "a"},
            "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": "big"},
        });
        assert_eq!(check_escalation(&source, &operator(), "rolebindings", &big, None), Ok(()));
        assert_eq!(check_escalation(&source, &operator(), "roles", &role(json!([pods(&["*"])])), None), Ok(()));
        let source = held(json!([])).role("a", "big", json!([pods(&["*"])]));
        let error = check_escalation(&source, &operator(), "rolebindings", &big, None).unwrap_err();
        assert!(error.message.starts_with("rolebindings.rbac.authorization.k8s.io \"b\" is forbidden"), "{error}");
        let error = check_escalation(&held(json!([])), &operator(), "rolebindings", &big, None).unwrap_err();
        assert_eq!(error.code, 404);
    }

    #[test]
    fn an_aggregation_rule_takes_every_right() {
        let object = json!({"metadata": {"name": "r"}, "aggregationRule": {"clusterRoleSelectors": []}});
        let check = |rules: Value| check_escalation(&held(rules), &operator(), "clusterroles", &object, None);
        assert!(check(json!([pods(&["*"])])).is_err());
        let all = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
        assert_eq!(check(json!([all, {"verbs": ["*"], "nonResourceURLs": ["*"]}])), Ok(()));
    }
}
