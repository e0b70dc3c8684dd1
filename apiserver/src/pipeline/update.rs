//! PUT, and the common end of everything that changes an existing object.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    crd,
    discovery::ResourceType,
    status::{ApiError, Cause},
};

use super::{
    access, admission,
    call::Call,
    checks::{self, Source},
    cluster::Tx,
    convert, create, customs, meta, rules,
};

/// The outcome of an update: the object in its storage form, and whether it was created by it.
pub(crate) struct Updated {
    pub object: Arc<Value>,
    pub created: bool,
}

/// Kinds that a PUT may create.
const CREATE_ON_UPDATE: [&str; 11] = [
    "services",
    "endpoints",
    "events",
    "limitranges",
    "podtemplates",
    "leases.coordination.k8s.io",
    "roles.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
    "clusterroles.rbac.authorization.k8s.io",
    "clusterrolebindings.rbac.authorization.k8s.io",
    "priorityclasses.scheduling.k8s.io",
];

/// Built-in kinds that cannot be updated without a resourceVersion; neither can any custom resource.
const CONDITIONAL_ONLY: [&str; 9] = [
    "leases.coordination.k8s.io",
    "customresourcedefinitions.apiextensions.k8s.io",
    "poddisruptionbudgets.policy",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingadmissionpolicies.admissionregistration.k8s.io",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io",
    "runtimeclasses.node.k8s.io",
    "apiservices.apiregistration.k8s.io",
];

/// PUT on an object or its `status`.
pub(crate) fn update(
    tx: &mut Tx<'_>,
    call: &mut Call,
    mut object: Value,
    duplicates: &[String],
) -> Result<Updated, ApiError> {
    checks::fit(call, &mut object)?;
    let name = meta::name(&object).to_owned();
    if name.is_empty() {
        return Err(ApiError::bad_request("name must be provided in the object's metadata"));
    }
    if name != call.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.name
        )));
    }
    convert::check(&call.kind)?;
    checks::field_validation(call, &mut object, duplicates, Source::Body)?;
    let Some(stored) = tx.get(&call.kind, &call.namespace, &call.name) else {
        let creatable = call.subresource.is_empty() && CREATE_ON_UPDATE.contains(&call.kind.table.as_str());
        if !creatable || !meta::text(&object, "uid").is_empty() {
            return Err(ApiError::not_found(call.gvr(), &call.name));
        }
        access::authorise(tx.state, call, "create")?;
        return Ok(Updated { object: create::insert(tx, call, object, None)?, created: true });
    };
    let object = replace(tx, call, &stored, object, None)?;
    Ok(Updated { object, created: false })
}

/// Replaces `stored` by `new` (in the request's version). `managed` is what server-side apply has computed.
pub(crate) fn replace(
    tx: &mut Tx<'_>,
    call: &Call,
    stored: &Arc<Value>,
    mut new: Value,
    managed: Option<Value>,
) -> Result<Arc<Value>, ApiError> {
    let kind = Arc::clone(&call.kind);
    let old = convert::from_storage(&kind, stored);
    preconditions(call, &old, &new)?;
    keep_system_fields(&old, &mut new);
    rules::default_values(&kind, &mut new);
    if kind.table == customs::TABLE {
        crd::prepare_crd(&mut new);
    }
    // Only what the client changed is his: what follows belongs to nobody.
    match managed {
        Some(managed) => meta::set(&mut new, "managedFields", managed),
        None => rules::track(Some(&old), &mut new, call, tx.now),
    }
    rules::prepare_update(&kind, &call.subresource, &mut new, &old);
    admission::on_update(tx, call, &mut new, &old)?;
    if rules::has_generation(&kind) && call.subresource != "status" && rules::generation_changes(&kind, &new, &old) {
        meta::bump_generation(&mut new);
    }
    let mut causes = metadata_causes(&new, &old);
    causes.extend(rules::validate(&kind, &new, Some(&old)));
    if kind.table == customs::TABLE {
        causes.extend(crd::validate_crd(&new, Some(&old)));
    }
    checks::refuse(&kind, &new, causes)?;
    access::check_escalation(tx.state, call, &new, Some(&old))?;
    admission::webhooks::check(tx, call, "UPDATE", &new)?;
    if kind.table == customs::TABLE {
        if call.subresource.is_empty() {
            crd::accept_crd_status(&mut new, tx.now);
        }
        customs::check(&new)?;
    }
    meta::copy(&old, &mut new, "resourceVersion");
    commit(tx, call, &kind, stored, &old, new)
}

/// Writes the object, or nothing when it is the same; removes it when it was only waiting for its finalizers.
fn commit(
    tx: &mut Tx<'_>,
    call: &Call,
    kind: &ResourceType,
    stored: &Arc<Value>,
    old: &Value,
    new: Value,
) -> Result<Arc<Value>, ApiError> {
    let key = kind.key(&call.namespace, &call.name);
    let goes = is_finished(kind, &new);
    if !goes && same_but_times(old, &new) {
        return Ok(Arc::clone(stored));
    }
    let new = convert::to_storage(kind, new);
    if call.dry_run {
        return Ok(Arc::new(new));
    }
    if goes {
        return Ok(tx.remove(kind, &key, new));
    }
    Ok(tx.put(kind, &key, new))
}

/// Whether nothing but the deletion is left to do.
pub(crate) fn is_finished(kind: &ResourceType, object: &Value) -> bool {
    let grace = meta::field(object, "deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0);
    let own = object.pointer("/spec/finalizers").and_then(Value::as_array).is_some_and(|f| !f.is_empty());
    meta::is_terminating(object)
        && meta::finalizers(object).is_empty()
        && grace == 0
        && !(kind.table == "namespaces" && own)
}

/// Whether an update would change nothing but the times of managed fields, which is not worth a write.
fn same_but_times(old: &Value, new: &Value) -> bool {
    if old == new {
        return true;
    }
    let timeless = |object: &Value| {
        let mut copy = object.clone();
        if let Some(entries) = copy.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut) {
            for entry in entries {
                meta::as_map(entry).remove("time");
            }
        }
        copy
    };
    timeless(old) == timeless(new)
}

fn preconditions(call: &Call, old: &Value, new: &Value) -> Result<(), ApiError> {
    let (uid, live) = (meta::text(new, "uid"), meta::text(old, "uid"));
    if !uid.is_empty() && uid != live {
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {live}");
        return Err(ApiError::conflict(call.gvr(), &call.name, &why));
    }
    let version = meta::text(new, "resourceVersion");
    if version.is_empty() || version == "0" {
        let conditional = call.kind.custom.is_some() || CONDITIONAL_ONLY.contains(&call.kind.table.as_str());
        if conditional {
            let cause = Cause::invalid("metadata.resourceVersion", &0.into(), "must be specified for an update");
            return checks::refuse(&call.kind, new, vec![cause]);
        }
        return Ok(());
    }
    if version.parse::<u64>().is_err() {
        let cause = Cause::invalid("metadata.resourceVersion", &version.into(), "must be an unsigned integer");
        return checks::refuse(&call.kind, new, vec![cause]);
    }
    if version != meta::text(old, "resourceVersion") {
        return Err(ApiError::stale(call.gvr(), &call.name));
    }
    Ok(())
}

/// What no update changes, whatever it sends.
fn keep_system_fields(old: &Value, new: &mut Value) {
    let always = ["name", "namespace", "uid", "creationTimestamp", "generation", "deletionTimestamp"];
    for key in always.into_iter().chain(["deletionGracePeriodSeconds", "selfLink"]) {
        meta::copy(old, new, key);
    }
    if meta::field(new, "generateName").is_none() {
        meta::copy(old, new, "generateName");
    }
}

fn metadata_causes(new: &Value, old: &Value) -> Vec<Cause> {
    if !meta::is_terminating(old) {
        return Vec::new();
    }
    let known = meta::finalizers(old);
    let added: Vec<&str> = meta::finalizers(new).into_iter().filter(|f| !known.contains(f)).collect();
    if added.is_empty() {
        return Vec::new();
    }
    let message = format!(
        "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{added:?}"
    );
    vec![Cause::new("FieldValueForbidden", "metadata.finalizers", message)]
}
