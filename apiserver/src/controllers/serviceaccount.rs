//! Keeps a ServiceAccount `default` in every active namespace.
//!
//! Token secrets are not made: tokens come from the TokenRequest API.

use serde_json::json;

use super::{
    Change, Client, Controller, Key, Outcome, kinds,
    object::{get, is_terminating, name, namespace},
};
use crate::status::ApiError;

/// See the module.
#[derive(Debug, Default)]
pub struct ServiceAccountController;

impl Controller for ServiceAccountController {
    fn name(&self) -> &'static str {
        "service-account-controller"
    }

    fn keys(&self, change: &Change, _client: &dyn Client) -> Vec<Key> {
        let namespace = if kinds::is(&change.gvr, &kinds::namespaces()) && !change.deleted {
            name(&change.object)
        } else if kinds::is(&change.gvr, &kinds::service_accounts())
            && change.deleted
            && name(&change.object) == "default"
        {
            namespace(&change.object)
        } else {
            return Vec::new();
        };
        vec![Key { namespace: String::new(), name: namespace.into() }]
    }

    fn reconcile(&self, client: &dyn Client, key: &Key) -> Result<Outcome, ApiError> {
        let own = Key { namespace: key.name.clone(), name: "default".into() };
        if !is_active(client, key)? || get(client, &kinds::service_accounts(), &own)?.is_some() {
            return Ok(Outcome::default());
        }
        let object = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": key.name},
        });
        match client.create(&kinds::service_accounts(), &key.name, &object) {
            Err(e) if e.reason != "AlreadyExists" => Err(e),
            _ => Ok(Outcome::default()),
        }
    }
}

/// Whether the namespace exists and is not being deleted.
pub(super) fn is_active(client: &dyn Client, key: &Key) -> Result<bool, ApiError> {
    Ok(get(client, &kinds::namespaces(), key)?.is_some_and(|n| !is_terminating(&n)))
}
