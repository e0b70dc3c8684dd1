//! Namespace life cycle: nothing is created in a namespace that is absent or goes away.

use serde_json::{Value, json};

use crate::{
    resource::Gvr,
    status::{ApiError, Cause},
};

use super::super::{call::Call, checks, cluster::Tx, meta};

/// Kinds that may be created in a terminating namespace, because deciding about requests needs them.
const ALWAYS: [&str; 1] = ["localsubjectaccessreviews.authorization.k8s.io"];

const PROTECTED: [&str; 3] = ["default", "kube-system", "kube-public"];

/// Refuses a create in a namespace that cannot take it.
pub(crate) fn check(tx: &Tx<'_>, call: &Call, object: &Value) -> Result<(), ApiError> {
    if !call.kind.namespaced || ALWAYS.contains(&call.kind.table.as_str()) {
        return Ok(());
    }
    let Some(namespace) = tx.lookup("namespaces", &call.namespace) else {
        return Err(ApiError::not_found(&Gvr::new("", "v1", "namespaces"), &call.namespace));
    };
    if !meta::is_terminating(&namespace) {
        return Ok(());
    }
    let name = &call.namespace;
    let why = format!("unable to create new content in namespace {name} because it is being terminated");
    let mut error = checks::forbidden(call, meta::name(object), &why);
    let message = format!("namespace {name} is being terminated");
    error.details.causes.push(Cause::new("NamespaceTerminating", "metadata.namespace", message));
    Err(error)
}

/// Refuses to delete the namespaces that a cluster cannot do without.
pub(crate) fn check_delete(call: &Call) -> Result<(), ApiError> {
    if call.kind.table == "namespaces" && PROTECTED.contains(&call.name.as_str()) {
        return Err(checks::forbidden(call, &call.name, "this namespace may not be deleted"));
    }
    Ok(())
}

/// Gives a new namespace its finalizer, its phase and the label with its name.
pub(crate) fn prepare(object: &mut Value) {
    let name = meta::name(object).to_owned();
    let labels = meta::metadata(object).entry("labels").or_insert_with(|| json!({}));
    meta::as_map(labels).insert("kubernetes.io/metadata.name".into(), name.into());
    let spec = meta::map_at(object, "spec");
    let finalizers = spec.entry("finalizers").or_insert_with(|| json!([]));
    if let Some(list) = finalizers.as_array_mut()
        && !list.iter().any(|f| f == "kubernetes")
    {
        list.push("kubernetes".into());
    }
    meta::map_at(object, "status").insert("phase".into(), "Active".into());
}
