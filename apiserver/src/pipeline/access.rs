//! Permissions: the store as the source of RBAC, and the calls of the authoriser.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    auth::{self, Attributes, Identity, RbacSource},
    status::ApiError,
};

use super::{
    call::Call,
    cluster::{State, Tx},
};

const GROUP: &str = "rbac.authorization.k8s.io";

impl RbacSource for State {
    fn cluster_role(&self, name: &str) -> Option<Arc<Value>> {
        self.store.get(&format!("clusterroles.{GROUP}"), name)
    }

    fn cluster_roles(&self) -> Vec<Arc<Value>> {
        self.store.objects(&format!("clusterroles.{GROUP}")).values().cloned().collect()
    }

    fn role(&self, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.store.get(&format!("roles.{GROUP}"), &format!("{namespace}/{name}"))
    }

    fn cluster_role_bindings(&self) -> Vec<Arc<Value>> {
        self.store.objects(&format!("clusterrolebindings.{GROUP}")).values().cloned().collect()
    }

    fn role_bindings(&self, namespace: &str) -> Vec<Arc<Value>> {
        let prefix = format!("{namespace}/");
        let bindings = self.store.objects(&format!("rolebindings.{GROUP}"));
        bindings
            .range(prefix.clone()..)
            .take_while(|(k, _)| k.starts_with(&prefix))
            .map(|(_, b)| Arc::clone(b))
            .collect()
    }
}

/// Whether the user may make the call.
///
/// # Errors
/// 403 with the text of the real server.
pub(crate) fn authorise(state: &State, call: &Call, verb: &str) -> Result<(), ApiError> {
    let gvr = call.gvr();
    let attributes = Attributes {
        verb,
        group: &gvr.group,
        version: &gvr.version,
        resource: &gvr.resource,
        subresource: &call.subresource,
        // A namespace is within itself, so that a role in it may cover it.
        namespace: if call.kind.table == "namespaces" { &call.name } else { &call.namespace },
        name: &call.name,
        path: "",
    };
    auth::check(state, &call.user, &attributes)
}

/// Whether the user may read a path that is no resource.
///
/// # Errors
/// 403 with the text of the real server.
pub(crate) fn authorise_path(state: &State, user: &Identity, method: &str, path: &str) -> Result<(), ApiError> {
    auth::check(state, user, &Attributes { verb: &method.to_lowercase(), path, ..Attributes::default() })
}

/// Whether the user holds what a role or binding grants; anything else passes.
///
/// # Errors
/// 403, or 404 for a binding to a role that does not exist.
pub(crate) fn check_escalation(
    state: &State,
    call: &Call,
    object: &Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    if call.gvr().group != GROUP {
        return Ok(());
    }
    auth::check_escalation(state, &call.user, &call.gvr().resource, object, old)
}

/// Answers a review of access or identity.
///
/// # Errors
/// As the real server's for questions that it rejects.
pub(crate) fn review(tx: &Tx<'_>, call: &Call, question: &Value) -> Result<Value, ApiError> {
    let tokens = &tx.cluster.tokens;
    let mut answer = auth::review(&call.kind.kind.kind, question, &call.user, tx.state, tokens, tx.now)?;
    let user = answer.pointer("/status/user").map(|u| Identity {
        name: u["username"].as_str().unwrap_or_default().into(),
        uid: u["uid"].as_str().unwrap_or_default().into(),
        groups: Vec::new(),
    });
    if user.is_some_and(|user| !tx.state.account_lives(&user)) {
        // The token outlived its account.
        answer["status"] = serde_json::json!({"user": {}, "error": "[invalid bearer token, token lookup failed]"});
    }
    Ok(answer)
}
