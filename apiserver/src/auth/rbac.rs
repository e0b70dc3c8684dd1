//! The RBAC authoriser: bindings to roles to rules, and the 403 of a request that none of them allows.

use std::sync::Arc;

use serde_json::Value;

use super::Identity;
use super::rules::{aggregate, allows, rules_of, text};
use crate::resource::Gvr;
use crate::status::{ApiError, Details};

/// Paths that are open to everyone, as by the default of the real server.
const OPEN_PATHS: [&str; 3] = ["/healthz", "/livez", "/readyz"];

/// Where roles and bindings are read from.
pub trait RbacSource {
    fn cluster_role(&self, name: &str) -> Option<Arc<Value>>;
    /// All ClusterRoles; asked for only where a role aggregates others.
    fn cluster_roles(&self) -> Vec<Arc<Value>>;
    fn role(&self, namespace: &str, name: &str) -> Option<Arc<Value>>;
    fn cluster_role_bindings(&self) -> Vec<Arc<Value>>;
    fn role_bindings(&self, namespace: &str) -> Vec<Arc<Value>>;
}

/// What a request asks for. Without a resource it is a request for `path`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Attributes<'a> {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`; the HTTP method in lower case
    /// for a path.
    pub verb: &'a str,
    pub group: &'a str,
    pub version: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    pub path: &'a str,
}

impl Attributes<'_> {
    #[must_use]
    pub fn is_resource(&self) -> bool {
        !self.resource.is_empty()
    }

    /// `deployments` or `deployments/scale`.
    #[must_use]
    pub fn full_resource(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.to_owned()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }
}

/// What the authoriser says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    Allow,
    /// No rule allows it. The reason names dangling role references, and is mostly empty.
    Deny {
        reason: String,
    },
}

/// Whether `who` may do what `attrs` say.
#[must_use]
pub fn authorize(source: &dyn RbacSource, who: &Identity, attrs: &Attributes<'_>) -> Decision {
    match decide(source, who, attrs) {
        Ok(_) => Decision::Allow,
        Err(reason) => Decision::Deny { reason },
    }
}

/// [`authorize`] as a result.
///
/// # Errors
/// The 403 of the real server.
pub fn check(source: &dyn RbacSource, who: &Identity, attrs: &Attributes<'_>) -> Result<(), ApiError> {
    decide(source, who, attrs).map(drop).map_err(|reason| forbidden_because(who, attrs, &reason))
}

/// The reason for allowing, or else the one for denying.
pub(super) fn decide(source: &dyn RbacSource, who: &Identity, attrs: &Attributes<'_>) -> Result<String, String> {
    if who.is_privileged() || (!attrs.is_resource() && OPEN_PATHS.contains(&attrs.path)) {
        return Ok(String::new());
    }
    let mut allowed = None;
    let dangling = visit(source, who, attrs.namespace, &mut |grant, rules| {
        if rules.iter().any(|rule| allows(rule, attrs)) {
            allowed = Some(grant.describe());
        }
        allowed.is_some()
    });
    match (allowed, dangling.as_slice()) {
        (Some(grant), _) => Ok(format!("RBAC: allowed by {grant}")),
        (None, []) => Err(String::new()),
        (None, [one]) => Err(format!("RBAC: {one}")),
        (None, many) => Err(format!("RBAC: [{}]", many.join(", "))),
    }
}

/// All rules that apply to `who` in a namespace, and what could not be resolved.
#[must_use]
pub fn rules_for(source: &dyn RbacSource, who: &Identity, namespace: &str) -> (Vec<Value>, Vec<String>) {
    let mut found = Vec::new();
    let dangling = visit(source, who, namespace, &mut |_, rules| {
        found.extend_from_slice(rules);
        false
    });
    (found, dangling)
}

/// A binding that has `who` among its subjects.
struct Grant<'a> {
    binding: &'a Value,
    subject: &'a Value,
}

impl Grant<'_> {
    fn describe(&self) -> String {
        let namespace = text(self.binding, "/metadata/namespace");
        let name = text(self.binding, "/metadata/name");
        let (role_kind, role) = (text(self.binding, "/roleRef/kind"), text(self.binding, "/roleRef/name"));
        let subject = describe_subject(self.subject, namespace);
        if namespace.is_empty() {
            format!("ClusterRoleBinding \"{name}\" of {role_kind} \"{role}\" to {subject}")
        } else {
            format!("RoleBinding \"{name}/{namespace}\" of {role_kind} \"{role}\" to {subject}")
        }
    }
}

fn describe_subject(subject: &Value, binding_namespace: &str) -> String {
    let (kind, name) = (text(subject, "/kind"), text(subject, "/name"));
    if kind == "ServiceAccount" {
        let own = text(subject, "/namespace");
        let namespace = if own.is_empty() { binding_namespace } else { own };
        return format!("{kind} \"{name}/{namespace}\"");
    }
    format!("{kind} \"{name}\"")
}

/// Shows every granted role's rules to `visitor` until it returns true; returns the references that dangle.
fn visit(
    source: &dyn RbacSource,
    who: &Identity,
    namespace: &str,
    visitor: &mut dyn FnMut(&Grant<'_>, &[Value]) -> bool,
) -> Vec<String> {
    let mut dangling = Vec::new();
    let mut bindings = source.cluster_role_bindings();
    if !namespace.is_empty() {
        bindings.extend(source.role_bindings(namespace));
    }
    for binding in &bindings {
        let own_namespace = text(binding, "/metadata/namespace");
        let subjects = binding.get("subjects").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let Some(subject) = subjects.iter().find(|s| applies(s, who, own_namespace)) else { continue };
        match role_rules(source, &binding["roleRef"], own_namespace) {
            Ok(rules) if visitor(&Grant { binding, subject }, &rules) => return dangling,
            Ok(_) => {}
            Err(error) if dangling.contains(&error.message) => {}
            Err(error) => dangling.push(error.message),
        }
    }
    dangling
}

fn applies(subject: &Value, who: &Identity, binding_namespace: &str) -> bool {
    let name = text(subject, "/name");
    match text(subject, "/kind") {
        "User" => who.name == name,
        "Group" => who.groups.iter().any(|g| g == name),
        "ServiceAccount" => {
            let own = text(subject, "/namespace");
            let namespace = if own.is_empty() { binding_namespace } else { own };
            let account = who.name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
            !namespace.is_empty() && account == Some((namespace, name))
        }
        _ => false,
    }
}

/// The rules of a `roleRef`, aggregated.
pub(super) fn role_rules(source: &dyn RbacSource, reference: &Value, namespace: &str) -> Result<Vec<Value>, ApiError> {
    let name = text(reference, "/name");
    let (resource, role) = match text(reference, "/kind") {
        "Role" => ("role", source.role(namespace, name)),
        "ClusterRole" => ("clusterrole", source.cluster_role(name)),
        other => return Err(ApiError::bad_request(format!("unsupported role reference kind: \"{other}\""))),
    };
    // The real resolver names the resource in the singular here.
    let missing = || ApiError::not_found(&Gvr::new("rbac.authorization.k8s.io", "v1", resource), name);
    let role = role.ok_or_else(missing)?;
    if role.get("aggregationRule").is_some_and(|a| !a.is_null()) {
        return Ok(aggregate(&role, &source.cluster_roles()));
    }
    Ok(rules_of(&role).to_vec())
}

/// The 403 of a request that nothing allows.
#[must_use]
pub fn forbidden(who: &Identity, attrs: &Attributes<'_>) -> ApiError {
    forbidden_because(who, attrs, "")
}

/// [`forbidden`] with the reason of a [`Decision::Deny`].
#[must_use]
pub fn forbidden_because(who: &Identity, attrs: &Attributes<'_>, reason: &str) -> ApiError {
    let (user, verb) = (&who.name, attrs.verb);
    let mut why = if !attrs.is_resource() {
        format!("User \"{user}\" cannot {verb} path \"{}\"", attrs.path)
    } else {
        let scope = match attrs.namespace {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace \"{namespace}\""),
        };
        let (resource, group) = (attrs.full_resource(), attrs.group);
        format!("User \"{user}\" cannot {verb} resource \"{resource}\" in API group \"{group}\" {scope}")
    };
    if !reason.is_empty() {
        why = format!("{why}: {reason}");
    }
    refused(attrs, &why)
}

/// A 403 about the object or resource of `attrs`.
pub(super) fn refused(attrs: &Attributes<'_>, why: &str) -> ApiError {
    let subject = Gvr::new(attrs.group, attrs.version, attrs.resource).group_resource();
    let message = match (attrs.is_resource(), attrs.name) {
        (false, _) => format!("forbidden: {why}"),
        (true, "") => format!("{subject} is forbidden: {why}"),
        (true, name) => format!("{subject} \"{name}\" is forbidden: {why}"),
    };
    let mut error = ApiError::new(403, "Forbidden", message);
    *error.details = Details {
        name: attrs.name.into(),
        group: attrs.group.into(),
        kind: attrs.resource.into(),
        ..Details::default()
    };
    error
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::fixture::Roles;
    use super::*;

    fn create_deployment(namespace: &str) -> Attributes<'_> {
        Attributes {
            verb: "create",
            group: "apps",
            version: "v1",
            resource: "deployments",
            namespace,
            ..Attributes::default()
        }
    }

    fn operator() -> Identity {
        Identity::service_account("ns", "sa", "u")
    }

    fn deployer() -> Value {
        json!([{"verbs": ["create"], "apiGroups": ["apps"], "resources": ["deployments"]}])
    }

    #[test]
    fn a_role_binding_grants_in_its_namespace_only() {
        let roles = Roles::default().role("a", "deployer", deployer()).bind(
            "a",
            "b",
            "Role",
            "deployer",
            json!([{"kind": "ServiceAccount", "name": "sa", "namespace": "ns"}]),
        );
        assert_eq!(authorize(&roles, &operator(), &create_deployment("a")), Decision::Allow);
        let denied = Decision::Deny { reason: String::new() };
        assert_eq!(authorize(&roles, &operator(), &create_deployment("other")), denied);
        assert_eq!(authorize(&roles, &operator(), &create_deployment("")), denied);
        assert_eq!(authorize(&roles, &Identity::service_account("ns", "sb", "u"), &create_deployment("a")), denied);
        assert_eq!(authorize(&roles, &Identity::admin(), &create_deployment("")), Decision::Allow);
    }

    #[test]
    fn subjects_are_users_groups_and_accounts() {
        let bound = |subject: Value| {
            let roles = Roles::default().cluster_role("deployer", deployer()).bind(
                "",
                "b",
                "ClusterRole",
                "deployer",
                json!([subject]),
            );
            authorize(&roles, &operator(), &create_deployment("a")) == Decision::Allow
        };
        assert!(bound(json!({"kind": "User", "name": "system:serviceaccount:ns:sa"})));
        assert!(bound(json!({"kind": "Group", "name": "system:serviceaccounts:ns"})));
        assert!(bound(json!({"kind": "ServiceAccount", "name": "sa", "namespace": "ns"})));
        // A ClusterRoleBinding has no namespace that an account could default to.
        assert!(!bound(json!({"kind": "ServiceAccount", "name": "sa"})));
        assert!(!bound(json!({"kind": "User", "name": "system:serviceaccounts:ns"})));
        assert!(!bound(json!({"kind": "Robot", "name": "system:serviceaccount:ns:sa"})));
    }

    #[test]
    fn the_reason_names_the_grant() {
        let roles = Roles::default().cluster_role("deployer", deployer()).bind(
            "a",
            "b",
            "ClusterRole",
            "deployer",
            json!([{"kind": "ServiceAccount", "name": "sa", "namespace": "ns"}]),
        );
        assert_eq!(
            decide(&roles, &operator(), &create_deployment("a")).unwrap(),
            "RBAC: allowed by RoleBinding \"b/a\" of ClusterRole \"deployer\" to ServiceAccount \"sa/ns\""
        );
    }

    #[test]
    fn a_denial_reads_as_that_of_the_real_server() {
        let error = forbidden(&operator(), &create_deployment("default"));
        assert_eq!(
            error.message,
            "deployments.apps is forbidden: User \"system:serviceaccount:ns:sa\" cannot create resource \
             \"deployments\" in API group \"apps\" in the namespace \"default\""
        );
        assert_eq!((error.code, error.reason), (403, "Forbidden"));
        assert_eq!(error.to_status()["details"], json!({"group": "apps", "kind": "deployments"}));
        let get =
            Attributes { verb: "get", resource: "nodes", subresource: "status", name: "n", ..Attributes::default() };
        assert_eq!(
            forbidden(&Identity::anonymous(), &get).message,
            "nodes \"n\" is forbidden: User \"system:anonymous\" cannot get resource \"nodes/status\" in API group \"\" \
             at the cluster scope"
        );
        let path = Attributes { verb: "get", path: "/metrics", ..Attributes::default() };
        assert_eq!(
            forbidden(&Identity::anonymous(), &path).message,
            "forbidden: User \"system:anonymous\" cannot get path \"/metrics\""
        );
    }

    #[test]
    fn dangling_references_are_named() {
        let subject = json!([{"kind": "Group", "name": "system:authenticated"}]);
        let roles = Roles::default()
            .bind("", "x", "ClusterRole", "gone", subject.clone())
            .bind("a", "y", "Role", "lost", subject);
        let error = check(&roles, &operator(), &create_deployment("a")).unwrap_err();
        assert!(
            error.message.ends_with(
                "in the namespace \"a\": RBAC: [clusterrole.rbac.authorization.k8s.io \"gone\" not found, \
                 role.rbac.authorization.k8s.io \"lost\" not found]"
            ),
            "{error}"
        );
    }

    #[test]
    fn health_paths_are_open() {
        let at = |path| Attributes { verb: "get", path, ..Attributes::default() };
        let allowed = |path| authorize(&Roles::default(), &Identity::anonymous(), &at(path)) == Decision::Allow;
        assert!(allowed("/readyz") && allowed("/healthz") && allowed("/livez"));
        assert!(!allowed("/version") && !allowed("/readyz/etcd"));
    }

    #[test]
    fn aggregated_roles_grant_what_they_select() {
        let label = json!({"aggregate": "true"});
        let mut leaf = json!({"metadata": {"name": "leaf", "labels": label}, "rules": deployer()});
        let admin = json!({
            "metadata": {"name": "admin"}, "rules": null,
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": label}]},
        });
        let subjects = json!([{"kind": "Group", "name": "system:serviceaccounts"}]);
        let roles = |leaf: &Value| {
            Roles::default().add_cluster_role(admin.clone()).add_cluster_role(leaf.clone()).bind(
                "",
                "b",
                "ClusterRole",
                "admin",
                subjects.clone(),
            )
        };
        assert_eq!(authorize(&roles(&leaf), &operator(), &create_deployment("a")), Decision::Allow);
        leaf["metadata"]["labels"] = json!({});
        assert_ne!(authorize(&roles(&leaf), &operator(), &create_deployment("a")), Decision::Allow);
    }
}
