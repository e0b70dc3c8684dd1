//! Built-in admission: what a default server adds to, or refuses about, objects of some kinds.
//!
//! # Guarantees
//! Each plug-in is a file of its own and looks only at the object and at the state of the same request.
//!
//! # Not done here
//! LimitRange and ResourceQuota are not enforced: pods are refused where one exists. Webhooks and admission policies
//! are not called: a request that one of them matches is refused.

pub(crate) mod namespace;
mod pod;
mod quota;
mod service;
mod storage;
pub(crate) mod webhooks;

use serde_json::Value;

use crate::status::ApiError;

use super::{call::Call, cluster::Tx};

/// Runs the mutating and validating plug-ins for a new object.
pub(crate) fn on_create(tx: &Tx<'_>, call: &Call, object: &mut Value) -> Result<(), ApiError> {
    match call.kind.table.as_str() {
        "namespaces" => namespace::prepare(object),
        "pods" => {
            quota::check(tx, call)?;
            pod::admit(tx, call, object)?;
        }
        "services" => service::allocate(tx, call, object, None)?,
        "persistentvolumeclaims" => {
            storage::default_class(tx, object);
            storage::protect(object, "kubernetes.io/pvc-protection");
        }
        "persistentvolumes" => storage::protect(object, "kubernetes.io/pv-protection"),
        _ => {}
    }
    Ok(())
}

/// Runs them for a changed object.
pub(crate) fn on_update(tx: &Tx<'_>, call: &Call, object: &mut Value, old: &Value) -> Result<(), ApiError> {
    if call.kind.table == "services" && call.subresource.is_empty() {
        service::allocate(tx, call, object, Some(old))?;
    }
    Ok(())
}
