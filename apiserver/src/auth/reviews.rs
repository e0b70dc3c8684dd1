//! The review kinds: questions about access and identity that are answered, not stored.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Identity;
use super::rbac::{Attributes, RbacSource, decide, rules_for};
use super::rules::text;
use super::tokens::{API_AUDIENCE, ServiceAccount, TokenAuthority};
use crate::clock::rfc3339_seconds;
use crate::status::{ApiError, Cause};

const AUTHORIZATION: &str = "authorization.k8s.io";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// Answers a review: the same object with its status.
///
/// Kinds: `SubjectAccessReview`, `LocalSubjectAccessReview`, `SelfSubjectAccessReview`, `SelfSubjectRulesReview`,
/// `TokenReview`, `SelfSubjectReview`. A local review needs `metadata.namespace`.
///
/// # Errors
/// 400 and 422 for a question that the real server rejects, 501 for another kind and for field or label selectors.
pub fn review(
    kind: &str,
    object: &Value,
    who: &Identity,
    source: &dyn RbacSource,
    tokens: &TokenAuthority,
    now: Timestamp,
) -> Result<Value, ApiError> {
    let status = match kind {
        "SubjectAccessReview" | "LocalSubjectAccessReview" => {
            validate_access(kind, object)?;
            if kind == "LocalSubjectAccessReview" {
                validate_local(object)?;
            }
            access(source, &subject(object), &object["spec"])?
        }
        "SelfSubjectAccessReview" => {
            validate_access(kind, object)?;
            access(source, who, &object["spec"])?
        }
        "SelfSubjectRulesReview" => rules(source, who, text(object, "/spec/namespace"))?,
        "TokenReview" => token(object, tokens, now)?,
        "SelfSubjectReview" => json!({"userInfo": user_info(who)}),
        other => return Err(ApiError::unsupported(&format!("reviews of kind {other}"))),
    };
    let mut answer = object.clone();
    match answer.as_object_mut() {
        Some(fields) => fields.insert("status".into(), status),
        None => return Err(ApiError::bad_request("a review must be an object")),
    };
    Ok(answer)
}

/// Whether a spec has a field that is not null.
fn has(object: &Value, pointer: &str) -> bool {
    object.pointer(pointer).is_some_and(|v| !v.is_null())
}

fn validate_access(kind: &str, object: &Value) -> Result<(), ApiError> {
    let (resource, path) = (has(object, "/spec/resourceAttributes"), has(object, "/spec/nonResourceAttributes"));
    let mut causes = Vec::new();
    if resource && path {
        let why = "cannot be specified in combination with resourceAttributes";
        causes.push(Cause::invalid("spec.nonResourceAttributes", &object["spec"]["nonResourceAttributes"], why));
    }
    if !resource && !path {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        causes.push(Cause::invalid("spec.resourceAttributes", &Value::Null, why));
    }
    let groups = object.pointer("/spec/groups").and_then(Value::as_array).is_some_and(|g| !g.is_empty());
    if kind != "SelfSubjectAccessReview" && text(object, "/spec/user").is_empty() && !groups {
        let why = "at least one of user or group must be specified";
        causes.push(Cause::invalid("spec.user", &json!(""), why));
    }
    if causes.is_empty() { Ok(()) } else { Err(ApiError::invalid(AUTHORIZATION, kind, "", causes)) }
}

fn validate_local(object: &Value) -> Result<(), ApiError> {
    if has(object, "/spec/nonResourceAttributes") {
        let why = "disallowed on this kind of request";
        let cause = Cause::invalid("spec.nonResourceAttributes", &object["spec"]["nonResourceAttributes"], why);
        return Err(ApiError::invalid(AUTHORIZATION, "LocalSubjectAccessReview", "", vec![cause]));
    }
    let namespace = text(object, "/metadata/namespace");
    if text(object, "/spec/resourceAttributes/namespace") != namespace {
        let message = format!("spec.resourceAttributes.namespace must match namespace: {namespace}");
        return Err(ApiError::bad_request(message));
    }
    Ok(())
}

fn subject(object: &Value) -> Identity {
    let groups = object.pointer("/spec/groups").and_then(Value::as_array);
    Identity {
        name: text(object, "/spec/user").into(),
        uid: text(object, "/spec/uid").into(),
        groups: groups.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect(),
    }
}

fn access(source: &dyn RbacSource, who: &Identity, spec: &Value) -> Result<Value, ApiError> {
    let attrs = match spec.get("resourceAttributes").filter(|a| !a.is_null()) {
        Some(asked) => {
            if has(asked, "/fieldSelector") || has(asked, "/labelSelector") {
                return Err(ApiError::unsupported("access reviews with a field or label selector"));
            }
            Attributes {
                verb: text(asked, "/verb"),
                group: text(asked, "/group"),
                version: text(asked, "/version"),
                resource: text(asked, "/resource"),
                subresource: text(asked, "/subresource"),
                namespace: text(asked, "/namespace"),
                name: text(asked, "/name"),
                path: "",
            }
        }
        None => Attributes {
            verb: text(spec, "/nonResourceAttributes/verb"),
            path: text(spec, "/nonResourceAttributes/path"),
            ..Attributes::default()
        },
    };
    let (allowed, reason) = match decide(source, who, &attrs) {
        Ok(reason) => (true, reason),
        Err(reason) => (false, reason),
    };
    let mut status = json!({"allowed": allowed});
    if !reason.is_empty() {
        status["reason"] = reason.into();
    }
    Ok(status)
}

fn rules(source: &dyn RbacSource, who: &Identity, namespace: &str) -> Result<Value, ApiError> {
    if namespace.is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    let (found, dangling) = rules_for(source, who, namespace);
    let picked = |marker: &str, fields: &[&str]| -> Vec<Value> {
        let marked = found.iter().filter(|r| r[marker].as_array().is_some_and(|list| !list.is_empty()));
        let pick = |rule: &Value| {
            let kept = fields.iter().filter(|f| has(rule, &format!("/{f}")));
            Value::Object(kept.map(|f| ((*f).to_owned(), rule[*f].clone())).collect())
        };
        marked.map(pick).collect()
    };
    let mut status = json!({
        "resourceRules": picked("resources", &["verbs", "apiGroups", "resources", "resourceNames"]),
        "nonResourceRules": picked("nonResourceURLs", &["verbs", "nonResourceURLs"]),
        "incomplete": !dangling.is_empty(),
    });
    if !dangling.is_empty() {
        status["evaluationError"] = dangling.join(", ").into();
    }
    Ok(status)
}

fn token(object: &Value, tokens: &TokenAuthority, now: Timestamp) -> Result<Value, ApiError> {
    let bearer = text(object, "/spec/token");
    if bearer.is_empty() {
        return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
    }
    let audiences = audiences(object);
    Ok(match tokens.identify_for(bearer, &audiences, now) {
        Some((who, audiences)) => {
            json!({"authenticated": true, "user": user_info(&who), "audiences": audiences})
        }
        None => json!({"user": {}, "error": "invalid bearer token"}),
    })
}

/// The audiences of a spec; without any, the API server's.
fn audiences(object: &Value) -> Vec<String> {
    let listed = object.pointer("/spec/audiences").and_then(Value::as_array);
    let listed: Vec<String> = listed.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    if listed.is_empty() { vec![API_AUDIENCE.to_owned()] } else { listed }
}

fn user_info(who: &Identity) -> Value {
    let mut info = json!({"username": who.name});
    if !who.uid.is_empty() {
        info["uid"] = who.uid.as_str().into();
    }
    if !who.groups.is_empty() {
        info["groups"] = json!(who.groups);
    }
    info
}

/// Answers a `TokenRequest` on the `token` subresource of a ServiceAccount.
///
/// # Errors
/// 422 for a lifetime out of bounds, 501 for a token that is bound to an object.
pub fn request_token(
    object: &Value,
    account: ServiceAccount<'_>,
    tokens: &TokenAuthority,
    now: Timestamp,
) -> Result<Value, ApiError> {
    const DEFAULT_SECONDS: i64 = 3600;
    if has(object, "/spec/boundObjectRef") {
        return Err(ApiError::unsupported("tokens that are bound to an object"));
    }
    let seconds = match object.pointer("/spec/expirationSeconds").filter(|v| !v.is_null()) {
        None => DEFAULT_SECONDS,
        Some(value) => {
            value.as_i64().ok_or_else(|| ApiError::bad_request("spec.expirationSeconds must be a number"))?
        }
    };
    let problem = match seconds {
        ..600 => Some("may not specify a duration less than 10 minutes"),
        4_294_967_297.. => Some("may not specify a duration larger than 2^32 seconds"),
        _ => None,
    };
    if let Some(why) = problem {
        let cause = Cause::invalid("spec.expirationSeconds", &json!(seconds), why);
        return Err(ApiError::invalid(AUTHENTICATION, "TokenRequest", "", vec![cause]));
    }
    let audiences = audiences(object);
    let ttl = Duration::from_secs(seconds.unsigned_abs());
    let expires = now.checked_add(ttl).map_err(|_| ApiError::bad_request("the token would outlive the calendar"))?;
    let mut answer = object.clone();
    let Some(fields) = answer.as_object_mut() else {
        return Err(ApiError::bad_request("a TokenRequest must be an object"));
    };
    let token = tokens.issue_for(account, &audiences, now, ttl);
    let boundless = json!({"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": null});
    fields.insert("spec".into(), boundless);
    fields.insert("status".into(), json!({"token": token, "expirationTimestamp": rfc3339_seconds(expires)}));
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::Roles;
    use super::*;
    use crate::entropy::Entropy;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn operator() -> Identity {
        Identity::service_account("ns", "sa", "u")
    }

    fn roles() -> Roles {
        let rules = json!([
            {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["web"]},
            {"verbs": ["get"], "nonResourceURLs": ["/metrics"]},
        ]);
        let subjects = json!([{"kind": "User", "name": "system:serviceaccount:ns:sa"}]);
        Roles::default().cluster_role("reader", rules).bind("", "b", "ClusterRole", "reader", subjects)
    }

    fn ask(kind: &str, object: &Value, who: &Identity) -> Result<Value, ApiError> {
        review(kind, object, who, &roles(), &TokenAuthority::new(&Entropy::seeded(1)), at(1000))
    }

    fn get_pod(namespace: &str) -> Value {
        json!({"verb": "get", "resource": "pods", "name": "web", "namespace": namespace})
    }

    #[test]
    fn access_reviews_say_what_the_authoriser_says() {
        let granted = "RBAC: allowed by ClusterRoleBinding \"b\" of ClusterRole \"reader\" to User \
                       \"system:serviceaccount:ns:sa\"";
        let own = json!({"spec": {"resourceAttributes": get_pod("a")}});
        let answer = ask("SelfSubjectAccessReview", &own, &operator()).unwrap();
        assert_eq!(answer["status"], json!({"allowed": true, "reason": granted}));
        assert_eq!(answer["spec"], own["spec"]);
        assert_eq!(
            ask("SelfSubjectAccessReview", &own, &Identity::anonymous()).unwrap()["status"],
            json!({"allowed": false})
        );
        let other = json!({"spec": {
            "user": "system:serviceaccount:ns:sa", "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        }});
        let answer = ask("SubjectAccessReview", &other, &Identity::anonymous()).unwrap();
        assert_eq!(answer["status"]["allowed"], true);
        let masters = json!({"spec": {"groups": ["system:masters"], "resourceAttributes": {"verb": "delete", "resource": "nodes"}}});
        assert_eq!(ask("SubjectAccessReview", &masters, &operator()).unwrap()["status"], json!({"allowed": true}));
    }

    #[test]
    fn questions_without_a_subject_or_an_action_are_invalid() {
        let error = ask("SubjectAccessReview", &json!({"spec": {}}), &operator()).unwrap_err();
        let fields: Vec<&str> = error.details.causes.iter().map(|c| c.field.as_str()).collect();
        assert_eq!((error.code, fields), (422, vec!["spec.resourceAttributes", "spec.user"]));
        let both = json!({"spec": {"resourceAttributes": get_pod("a"), "nonResourceAttributes": {"path": "/"}}});
        assert_eq!(ask("SelfSubjectAccessReview", &both, &operator()).unwrap_err().code, 422);
        let selector =
            json!({"spec": {"resourceAttributes": {"verb": "list", "resource": "pods", "labelSelector": {}}}});
        assert_eq!(ask("SelfSubjectAccessReview", &selector, &operator()).unwrap_err().code, 501);
    }

    #[test]
    fn a_local_review_stays_in_its_namespace() {
        let ask_in = |namespace: &str| {
            let spec = json!({"user": "system:serviceaccount:ns:sa", "resourceAttributes": get_pod(namespace)});
            ask("LocalSubjectAccessReview", &json!({"metadata": {"namespace": "a"}, "spec": spec}), &operator())
        };
        assert_eq!(ask_in("a").unwrap()["status"]["allowed"], true);
        assert_eq!(ask_in("b").unwrap_err().message, "spec.resourceAttributes.namespace must match namespace: a");
    }

    #[test]
    fn a_rules_review_lists_both_kinds_of_rules() {
        let answer = ask("SelfSubjectRulesReview", &json!({"spec": {"namespace": "a"}}), &operator()).unwrap();
        let expected = json!({
            "resourceRules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["web"]}],
            "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/metrics"]}],
            "incomplete": false,
        });
        assert_eq!(answer["status"], expected);
        assert_eq!(ask("SelfSubjectRulesReview", &json!({"spec": {}}), &operator()).unwrap_err().code, 400);
    }

    #[test]
    fn a_requested_token_passes_its_review() {
        let tokens = TokenAuthority::new(&Entropy::seeded(1));
        let account = ServiceAccount { namespace: "ns", name: "sa", uid: "u" };
        let asked = json!({"spec": {"audiences": ["vault"], "expirationSeconds": 600}});
        let answer = request_token(&asked, account, &tokens, at(0)).unwrap();
        assert_eq!(answer["status"]["expirationTimestamp"], "1970-01-01T00:10:00Z");
        let token = &answer["status"]["token"];
        let check = |spec: Value, now| {
            review("TokenReview", &json!({"spec": spec}), &operator(), &roles(), &tokens, at(now)).unwrap()["status"]
                .clone()
        };
        let expected = json!({
            "authenticated": true, "audiences": ["vault"],
            "user": {"username": "system:serviceaccount:ns:sa", "uid": "u", "groups": operator().groups},
        });
        assert_eq!(check(json!({"token": token, "audiences": ["vault", "other"]}), 0), expected);
        let refused = json!({"user": {}, "error": "invalid bearer token"});
        assert_eq!(check(json!({"token": token}), 0), refused);
        assert_eq!(check(json!({"token": token, "audiences": ["vault"]}), 600), refused);
    }

    #[test]
    fn token_requests_have_bounds() {
        let tokens = TokenAuthority::new(&Entropy::seeded(1));
        let account = ServiceAccount { namespace: "ns", name: "sa", uid: "u" };
        let code =
            |spec: Value| request_token(&json!({"spec": spec}), account, &tokens, at(0)).map_err(|e| e.code).err();
        assert_eq!(code(json!({"expirationSeconds": 599})), Some(422));
        assert_eq!(code(json!({"expirationSeconds": 4_294_967_297_i64})), Some(422));
        assert_eq!(code(json!({"boundObjectRef": {"kind": "Pod"}})), Some(501));
        assert_eq!(code(json!({})), None);
    }

    #[test]
    fn a_self_review_tells_who_asks() {
        let answer = ask("SelfSubjectReview", &json!({"metadata": {}}), &operator()).unwrap();
        assert_eq!(answer["status"]["userInfo"]["username"], "system:serviceaccount:ns:sa");
        assert_eq!(ask("Widget", &json!({}), &operator()).unwrap_err().code, 501);
    }
}
