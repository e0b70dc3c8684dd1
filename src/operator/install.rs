//! Applies the operator's manifests: CRDs, RBAC, ServiceAccounts, namespaces.

use std::time::Duration;

use serde_json::{Value, json};

use super::OperatorError;
use crate::{
    clock::RunClock,
    cluster::tester::{Tester, USER_MANAGER},
    scenario::plan::Plan,
};

/// How long a CRD may take until it can be listed; a real API server needs about two seconds.
const CRD_WITHIN: Duration = Duration::from_secs(30);

/// Applies everything in `plan.operator.install`, in order, and waits until its CRDs are served.
///
/// # Errors
/// The first object that the cluster refuses.
pub async fn install(plan: &Plan, tester: &Tester, clock: RunClock) -> Result<(), OperatorError> {
    if plan.namespace != "default" {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": plan.namespace}});
        tester.apply(&namespace, USER_MANAGER).await?;
    }
    for object in &plan.operator.install {
        tester.apply(object, USER_MANAGER).await?;
        if is_crd(object) {
            tester.await_crd(object, clock, CRD_WITHIN).await?;
        }
    }
    Ok(())
}

fn is_crd(object: &Value) -> bool {
    object.get("kind").and_then(Value::as_str) == Some("CustomResourceDefinition")
}
