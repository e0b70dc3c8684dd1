//! Publishes the API server's CA as ConfigMap `kube-root-ca.crt` in every active namespace, and repairs it.

use serde_json::json;

use super::{
    Change, Client, Controller, Key, Outcome, kinds,
    object::{get, name, namespace},
    serviceaccount::is_active,
};
use crate::status::ApiError;

const CONFIG_MAP: &str = "kube-root-ca.crt";

/// See the module.
#[derive(Debug)]
pub struct RootCaController {
    ca_pem: String,
}

impl RootCaController {
    /// Publishes this PEM text.
    #[must_use]
    pub fn new(ca_pem: &str) -> Self {
        Self { ca_pem: ca_pem.into() }
    }
}

impl Controller for RootCaController {
    fn name(&self) -> &'static str {
        "root-ca-cert-publisher"
    }

    fn keys(&self, change: &Change, _client: &dyn Client) -> Vec<Key> {
        let namespace = if kinds::is(&change.gvr, &kinds::namespaces()) && !change.deleted {
            name(&change.object)
        } else if kinds::is(&change.gvr, &kinds::config_maps()) && name(&change.object) == CONFIG_MAP {
            namespace(&change.object)
        } else {
            return Vec::new();
        };
        vec![Key { namespace: String::new(), name: namespace.into() }]
    }

    fn reconcile(&self, client: &dyn Client, key: &Key) -> Result<Outcome, ApiError> {
        if !is_active(client, key)? {
            return Ok(Outcome::default());
        }
        let gvr = kinds::config_maps();
        let data = json!({"ca.crt": self.ca_pem});
        let own = Key { namespace: key.name.clone(), name: CONFIG_MAP.into() };
        match get(client, &gvr, &own)? {
            None => {
                let object = json!({
                    "apiVersion": "v1", "kind": "ConfigMap", "data": data,
                    "metadata": {
                        "name": CONFIG_MAP, "namespace": key.name,
                        "annotations": {"kubernetes.io/description":
                            "Holds the CA certificate that verifies the API server from within pods."},
                    },
                });
                match client.create(&gvr, &key.name, &object) {
                    Err(e) if e.reason != "AlreadyExists" => return Err(e),
                    _ => {}
                }
            }
            Some(mut there) if there["data"] != data => {
                there["data"] = data;
                client.update(&gvr, "", &there)?;
            }
            Some(_) => {}
        }
        Ok(Outcome::default())
    }
}
