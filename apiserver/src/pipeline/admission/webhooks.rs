//! Admission webhooks and policies: stored, not called; a request that one of them matches is refused.

use serde_json::Value;

use crate::status::ApiError;

use super::super::{call::Call, cluster::Tx, meta};

/// Both kinds of webhook configuration.
const CONFIGURATIONS: [&str; 2] = [
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
];

const POLICY_BINDINGS: &str = "validatingadmissionpolicybindings.admissionregistration.k8s.io";
const POLICIES: &str = "validatingadmissionpolicies.admissionregistration.k8s.io";

/// Refuses an operation (`CREATE`, `UPDATE`, `DELETE`) that would have to be admitted by somebody else.
pub(crate) fn check(tx: &Tx<'_>, call: &Call, operation: &str, object: &Value) -> Result<(), ApiError> {
    if call.gvr().group == "admissionregistration.k8s.io" {
        // Never subject to webhooks, so that a broken one can be removed.
        return Ok(());
    }
    for table in CONFIGURATIONS {
        for configuration in tx.state.store.objects(table).values() {
            for webhook in list(configuration, "/webhooks") {
                if concerns(tx, call, operation, object, webhook, "/rules") {
                    let name = webhook["name"].as_str().unwrap_or_default();
                    return Err(ApiError::unsupported(&format!("calling the admission webhook {name}")));
                }
            }
        }
    }
    let bindings = tx.state.store.objects(POLICY_BINDINGS);
    if bindings.is_empty() {
        return Ok(());
    }
    for policy in tx.state.store.objects(POLICIES).values() {
        let name = meta::name(policy);
        let bound = bindings.values().any(|b| b.pointer("/spec/policyName").and_then(Value::as_str) == Some(name));
        let constraints = policy.pointer("/spec/matchConstraints").unwrap_or(&Value::Null);
        if bound && concerns(tx, call, operation, object, constraints, "/resourceRules") {
            return Err(ApiError::unsupported(&format!("the admission policy {name}")));
        }
    }
    Ok(())
}

fn concerns(tx: &Tx<'_>, call: &Call, operation: &str, object: &Value, matcher: &Value, rules: &str) -> bool {
    list(matcher, rules).iter().any(|rule| rule_matches(rule, call, operation))
        && selected(matcher.get("objectSelector"), meta::field(object, "labels"))
        && namespace_selected(tx, call, object, matcher.get("namespaceSelector"))
}

fn namespace_selected(tx: &Tx<'_>, call: &Call, object: &Value, selector: Option<&Value>) -> bool {
    if call.kind.table == "namespaces" {
        return selected(selector, meta::field(object, "labels"));
    }
    if !call.kind.namespaced {
        return true;
    }
    let namespace = tx.lookup("namespaces", &call.namespace);
    selected(selector, namespace.as_deref().and_then(|n| meta::field(n, "labels")))
}

fn rule_matches(rule: &Value, call: &Call, operation: &str) -> bool {
    let any = |path: &str, wanted: &str| list(rule, path).iter().any(|v| v == "*" || v == wanted);
    let scope = match rule["scope"].as_str() {
        Some("Namespaced") => call.kind.namespaced,
        Some("Cluster") => !call.kind.namespaced,
        _ => true,
    };
    let resource = &call.gvr().resource;
    let named = list(rule, "/resources").iter().filter_map(Value::as_str).any(|pattern| {
        let (want, want_sub) = pattern.split_once('/').unwrap_or((pattern, ""));
        let sub = want_sub == call.subresource || want_sub == "*" || pattern == "*/*";
        (want == "*" || want == resource) && sub
    });
    // Equivalent versions match as well; comparing the group alone errs on the side of refusing.
    scope && named && any("/operations", operation) && any("/apiGroups", &call.gvr().group)
}

/// A `metav1.LabelSelector`; an absent one selects everything.
pub(crate) fn selected(selector: Option<&Value>, labels: Option<&Value>) -> bool {
    let Some(selector) = selector else { return true };
    let get = |key: &str| labels.and_then(|l| l.get(key)).and_then(Value::as_str);
    let equal = selector.get("matchLabels").and_then(Value::as_object);
    let equal = equal.is_none_or(|all| all.iter().all(|(k, v)| get(k) == v.as_str()));
    equal
        && list(selector, "/matchExpressions").iter().all(|e| {
            let value = get(e["key"].as_str().unwrap_or_default());
            let listed = value.is_some_and(|v| list(e, "/values").iter().any(|x| x == v));
            match e["operator"].as_str() {
                Some("In") => listed,
                Some("NotIn") => !listed,
                Some("Exists") => value.is_some(),
                Some("DoesNotExist") => value.is_none(),
                _ => true,
            }
        })
}

fn list<'a>(node: &'a Value, path: &str) -> &'a [Value] {
    node.pointer(path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}
