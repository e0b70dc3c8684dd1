//! Who asks, and may they: bearer tokens, RBAC, access reviews.
//!
//! # Flow
//! bearer token -> `tokens` -> [`Identity`] -> `rbac` with the request's [`Attributes`] -> allowed, or the 403 that kube gives.
//! `escalation` guards writes of roles and bindings; `reviews` answers the review kinds from the same two.
//!
//! # Guarantees
//! RBAC only, with the semantics of the real authoriser: aggregation, subresources, resource names, non-resource paths,
//! the `system:masters` bypass and the health paths that are open to everyone. Tokens depend on the seed alone.
//!
//! # Not done
//! Client certificates, Node and webhook authorisation, field and label selector authorisation, tokens bound to a pod. A
//! token stays valid when its ServiceAccount is deleted: whoever holds the store checks that.

mod tokens;
mod rbac;
mod rules;
mod escalation;
mod reviews;

pub use escalation::check_escalation;
pub use rbac::{Attributes, Decision, RbacSource, authorize, check, forbidden, forbidden_because, rules_for};
pub use reviews::{request_token, review};
pub use rules::aggregate;
pub use tokens::{API_AUDIENCE, ServiceAccount, TokenAuthority};

#[cfg(test)]
mod fixture;

/// The user behind a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
}

impl Identity {
    /// The tester's own identity: allowed everything.
    #[must_use]
    pub fn admin() -> Self {
        Self {
            name: "kubernetes-admin".into(),
            uid: String::new(),
            groups: vec!["system:masters".into(), "system:authenticated".into()],
        }
    }

    /// The identity of a ServiceAccount's token.
    #[must_use]
    pub fn service_account(namespace: &str, name: &str, uid: &str) -> Self {
        Self {
            name: format!("system:serviceaccount:{namespace}:{name}"),
            uid: uid.into(),
            groups: vec![
                "system:serviceaccounts".into(),
                format!("system:serviceaccounts:{namespace}"),
                "system:authenticated".into(),
            ],
        }
    }

    /// Who sends no credentials.
    #[must_use]
    pub fn anonymous() -> Self {
        Self { name: "system:anonymous".into(), uid: String::new(), groups: vec!["system:unauthenticated".into()] }
    }

    /// A member of the group that no authoriser ever denies.
    #[must_use]
    pub fn is_privileged(&self) -> bool {
        self.groups.iter().any(|g| g == "system:masters")
    }
}
