//! POST of a new object.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    clock::rfc3339_seconds,
    crd,
    status::{ApiError, Cause},
};

use super::{
    access, admission,
    call::Call,
    checks::{self, Source},
    cluster::Tx,
    convert, customs, meta, rules,
};

/// Longest name that `generateName` may lead to: 63 bytes with a suffix of 5.
const GENERATED_BASE: usize = 58;
const SUFFIX: usize = 5;

/// Creates an object and gives it in its storage form.
pub(crate) fn create(
    tx: &mut Tx<'_>,
    call: &mut Call,
    mut object: Value,
    duplicates: &[String],
) -> Result<Arc<Value>, ApiError> {
    checks::fit(call, &mut object)?;
    checks::field_validation(call, &mut object, duplicates, Source::Body)?;
    insert(tx, call, object, None)
}

/// The part of a create that server-side apply and create-on-update share. `applied` carries managed fields already.
pub(crate) fn insert(
    tx: &mut Tx<'_>,
    call: &mut Call,
    mut object: Value,
    managed: Option<Value>,
) -> Result<Arc<Value>, ApiError> {
    let kind = Arc::clone(&call.kind);
    convert::check(&kind)?;
    customs::check_create(tx, &kind)?;
    admission::namespace::check(tx, call, &object)?;
    let version = meta::text(&object, "resourceVersion");
    if !version.is_empty() && version != "0" {
        // The storage says this, so it has no reason.
        return Err(ApiError::new(500, "", "resourceVersion should not be set on objects to be created"));
    }
    name_object(tx, &kind, &mut object)?;
    let key = kind.key(&call.namespace, meta::name(&object));
    if tx.state.store.get(&kind.table, &key).is_some() {
        return Err(exists(call, &object));
    }
    rules::default_values(&kind, &mut object);
    if kind.table == customs::TABLE {
        crd::prepare_crd(&mut object);
    }
    // Only what the client sent is his: what follows belongs to nobody.
    match managed {
        Some(managed) => meta::set(&mut object, "managedFields", managed),
        None => rules::track(None, &mut object, call, tx.now),
    }
    stamp(tx, &kind, &mut object);
    rules::prepare_create(&kind, &mut object);
    admission::on_create(tx, call, &mut object)?;
    let mut causes: Vec<Cause> = checks::name(&kind, &object).into_iter().collect();
    causes.extend(rules::validate(&kind, &object, None));
    if kind.table == customs::TABLE {
        causes.extend(crd::validate_crd(&object, None));
    }
    checks::refuse(&kind, &object, causes)?;
    access::check_escalation(tx.state, call, &object, None)?;
    admission::webhooks::check(tx, call, "CREATE", &object)?;
    if kind.table == customs::TABLE {
        crd::accept_crd_status(&mut object, tx.now);
        customs::check(&object)?;
    }
    let stored = convert::to_storage(&kind, object);
    if call.dry_run {
        return Ok(Arc::new(stored));
    }
    Ok(tx.put(&kind, &key, stored))
}

fn exists(call: &Call, object: &Value) -> ApiError {
    let name = meta::name(object);
    let error = ApiError::already_exists(call.gvr(), name);
    if meta::text(object, "generateName").is_empty() {
        return error;
    }
    let mut retry = ApiError::new(
        409,
        "AlreadyExists",
        format!("{}, the server was not able to generate a unique name for the object", error.message),
    );
    retry.details = error.details;
    retry.details.retry_after_seconds = Some(1);
    retry
}

fn name_object(tx: &Tx<'_>, kind: &crate::discovery::ResourceType, object: &mut Value) -> Result<(), ApiError> {
    if !meta::name(object).is_empty() {
        return Ok(());
    }
    let base = meta::text(object, "generateName").to_owned();
    if base.is_empty() {
        let cause = Cause::required("metadata.name", "name or generateName is required");
        return checks::refuse(kind, object, vec![cause]);
    }
    let mut end = base.len().min(GENERATED_BASE);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    let name = format!("{}{}", base.get(..end).unwrap_or_default(), tx.cluster.entropy.suffix(SUFFIX));
    meta::set(object, "name", name);
    Ok(())
}

/// What the server alone decides about a new object.
fn stamp(tx: &Tx<'_>, kind: &crate::discovery::ResourceType, object: &mut Value) {
    for key in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion", "generation"] {
        meta::remove(object, key);
    }
    meta::set(object, "uid", tx.cluster.entropy.uuid());
    meta::set(object, "creationTimestamp", rfc3339_seconds(tx.now));
    if rules::has_generation(kind) {
        meta::set(object, "generation", 1);
    }
}
