//! What belongs to the operator as a program in the cluster, and not to what it makes.
//!
//! # Guarantees
//! Its Deployment, the ReplicaSets of that, and their pods: they change with every restart, which the harness itself
//! causes. Whatever else the operator's manifests bring is observed like any other object.

use serde_json::Value;

use crate::object::metadata;

/// The operator's own objects, by its Deployment.
#[derive(Debug)]
pub struct Own {
    namespace: String,
    deployment: String,
}

impl Own {
    #[must_use]
    pub fn new(namespace: &str, deployment: &str) -> Self {
        Self { namespace: namespace.to_owned(), deployment: deployment.to_owned() }
    }

    /// Whether an object is one of them.
    #[must_use]
    pub fn holds(&self, object: &Value) -> bool {
        if metadata(object, "namespace") != self.namespace {
            return false;
        }
        match object.get("kind").and_then(Value::as_str) {
            Some("Deployment") => metadata(object, "name") == self.deployment,
            Some("ReplicaSet") => owner(object, "Deployment") == Some(&self.deployment),
            // The hash of the ReplicaSet's template is the last word of its name.
            Some("Pod") => owner(object, "ReplicaSet")
                .and_then(|set| set.rsplit_once('-'))
                .is_some_and(|(deployment, _)| deployment == self.deployment),
            _ => false,
        }
    }
}

/// The name of the controlling owner, where it is of that kind.
fn owner<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let owner = owners?.iter().find(|owner| owner.get("controller").and_then(Value::as_bool) == Some(true))?;
    (owner.get("kind").and_then(Value::as_str) == Some(kind)).then(|| owner.get("name")?.as_str()).flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn owned(kind: &str, namespace: &str, by: (&str, &str)) -> Value {
        json!({"kind": kind, "metadata": {
            "name": "x", "namespace": namespace,
            "ownerReferences": [{"kind": by.0, "name": by.1, "controller": true}],
        }})
    }

    #[test]
    fn only_the_deployment_and_what_it_runs() {
        let own = Own::new("system", "demo");
        assert!(own.holds(&json!({"kind": "Deployment", "metadata": {"name": "demo", "namespace": "system"}})));
        assert!(own.holds(&owned("ReplicaSet", "system", ("Deployment", "demo"))));
        assert!(own.holds(&owned("Pod", "system", ("ReplicaSet", "demo-5d4f"))));
        for other in [
            json!({"kind": "Deployment", "metadata": {"name": "demo", "namespace": "default"}}),
            json!({"kind": "Deployment", "metadata": {"name": "demo-2", "namespace": "system"}}),
            json!({"kind": "ConfigMap", "metadata": {"name": "demo", "namespace": "system"}}),
            owned("ReplicaSet", "system", ("Deployment", "demo-2")),
            owned("Pod", "system", ("ReplicaSet", "demo-2-5d4f")),
            owned("Pod", "system", ("Job", "demo-5d4f")),
        ] {
            assert!(!own.holds(&other), "{other}");
        }
    }
}
