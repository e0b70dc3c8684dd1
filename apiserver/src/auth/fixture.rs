//! A set of roles and bindings for the tests of this folder.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

use super::RbacSource;

#[derive(Debug, Default)]
pub(super) struct Roles {
    cluster_roles: BTreeMap<String, Arc<Value>>,
    roles: BTreeMap<(String, String), Arc<Value>>,
    bindings: Vec<Arc<Value>>,
}

impl Roles {
    pub fn cluster_role(self, name: &str, rules: Value) -> Self {
        self.add_cluster_role(json!({"metadata": {"name": name}, "rules": rules}))
    }

    pub fn add_cluster_role(mut self, role: Value) -> Self {
        let name = role["metadata"]["name"].as_str().unwrap().to_owned();
        self.cluster_roles.insert(name, Arc::new(role));
        self
    }

    pub fn role(mut self, namespace: &str, name: &str, rules: Value) -> Self {
        let role = json!({"metadata": {"name": name, "namespace": namespace}, "rules": rules});
        self.roles.insert((namespace.into(), name.into()), Arc::new(role));
        self
    }

    /// Binds in a namespace, or cluster-wide where it is empty.
    pub fn bind(mut self, namespace: &str, name: &str, kind: &str, role: &str, subjects: Value) -> Self {
        let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role});
        let mut binding = json!({"metadata": {"name": name}, "roleRef": reference, "subjects": subjects});
        if !namespace.is_empty() {
            binding["metadata"]["namespace"] = namespace.into();
        }
        self.bindings.push(Arc::new(binding));
        self
    }

    fn bindings_in(&self, namespace: Option<&str>) -> Vec<Arc<Value>> {
        self.bindings.iter().filter(|b| b["metadata"]["namespace"].as_str() == namespace).cloned().collect()
    }
}

impl RbacSource for Roles {
    fn cluster_role(&self, name: &str) -> Option<Arc<Value>> {
        self.cluster_roles.get(name).cloned()
    }

    fn cluster_roles(&self) -> Vec<Arc<Value>> {
        self.cluster_roles.values().cloned().collect()
    }

    fn role(&self, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.roles.get(&(namespace.into(), name.into())).cloned()
    }

    fn cluster_role_bindings(&self) -> Vec<Arc<Value>> {
        self.bindings_in(None)
    }

    fn role_bindings(&self, namespace: &str) -> Vec<Arc<Value>> {
        self.bindings_in(Some(namespace))
    }
}
