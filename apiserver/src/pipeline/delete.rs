//! DELETE of one object and of a collection: preconditions, grace, finalizers, propagation.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::{
    clock::rfc3339_seconds,
    status::{ApiError, Cause},
};

use super::{
    admission, answer::Answer, call::Call, cluster::Tx, customs, list, meta, negotiate::Form, rules,
    selectors::Selector, target::Query,
};

/// What happens to dependents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// `metav1.DeleteOptions`, as far as it concerns the server.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    grace_seconds: Option<i64>,
    propagation: Option<Propagation>,
    uid: Option<String>,
    resource_version: Option<String>,
    dry_run: bool,
}

impl DeleteOptions {
    /// Reads a body of kind `DeleteOptions`, or `{}`.
    pub fn read(body: &Value) -> Result<Self, ApiError> {
        let text = |path: &str| body.pointer(path).and_then(Value::as_str).map(str::to_owned);
        let orphan = body.get("orphanDependents").and_then(Value::as_bool);
        let policy = text("/propagationPolicy").filter(|p| !p.is_empty());
        if orphan.is_some() && policy.is_some() {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            let cause = Cause::invalid("propagationPolicy", &policy.unwrap_or_default().into(), why);
            return Err(ApiError::invalid("", "DeleteOptions", "", vec![cause]));
        }
        let propagation = match policy.as_deref() {
            Some(name) => Some(propagation(name)?),
            None => orphan.map(|o| if o { Propagation::Orphan } else { Propagation::Background }),
        };
        let dry = body.get("dryRun").and_then(Value::as_array).is_some_and(|d| !d.is_empty());
        Ok(Self {
            grace_seconds: body.get("gracePeriodSeconds").and_then(Value::as_i64),
            propagation,
            uid: text("/preconditions/uid"),
            resource_version: text("/preconditions/resourceVersion"),
            dry_run: dry,
        })
    }

    /// Reads the options that a query may carry when there is no body.
    pub fn from_query(query: &Query) -> Result<Self, ApiError> {
        let mut body = json!({});
        if let Ok(seconds) = query.get("gracePeriodSeconds").parse::<i64>() {
            body["gracePeriodSeconds"] = seconds.into();
        }
        if query.has("orphanDependents") {
            body["orphanDependents"] = query.flag("orphanDependents").into();
        }
        if query.has("propagationPolicy") {
            body["propagationPolicy"] = query.get("propagationPolicy").into();
        }
        Self::read(&body)
    }
}

fn propagation(name: &str) -> Result<Propagation, ApiError> {
    match name {
        "Background" => Ok(Propagation::Background),
        "Foreground" => Ok(Propagation::Foreground),
        "Orphan" => Ok(Propagation::Orphan),
        other => {
            let message = format!(
                "Unsupported value: \"{other}\": supported values: \"Background\", \"Foreground\", \"Orphan\", \"nil\""
            );
            let cause = Cause::new("FieldValueNotSupported", "propagationPolicy", message);
            Err(ApiError::invalid("", "DeleteOptions", "", vec![cause]))
        }
    }
}

/// Kinds whose DELETE answers with the object instead of a `Status`.
const RETURNS_OBJECT: [&str; 13] = [
    "pods",
    "persistentvolumeclaims",
    "persistentvolumes",
    "podtemplates",
    "resourcequotas",
    "serviceaccounts",
    "services",
    "namespaces",
    "csidrivers.storage.k8s.io",
    "csinodes.storage.k8s.io",
    "storageclasses.storage.k8s.io",
    "volumeattachments.storage.k8s.io",
    "volumeattributesclasses.storage.k8s.io",
];

/// The outcome of a delete.
pub(crate) struct Deleted {
    pub object: Arc<Value>,
    /// Still there, waiting for its grace period or its finalizers.
    pub pending: bool,
}

impl Deleted {
    /// The answer: the object while it is pending, for some kinds always, and a `Status` otherwise.
    pub fn answer(&self, call: &Call) -> Value {
        if self.pending || RETURNS_OBJECT.contains(&call.kind.table.as_str()) {
            return super::convert::from_storage(&call.kind, &self.object);
        }
        let mut details = json!({
            "name": meta::name(&self.object), "kind": call.gvr().resource, "uid": meta::text(&self.object, "uid"),
        });
        if !call.gvr().group.is_empty() {
            details["group"] = call.gvr().group.as_str().into();
        }
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
    }
}

/// Deletes the object that the call names.
pub(crate) fn delete(tx: &mut Tx<'_>, call: &Call, options: &DeleteOptions) -> Result<Deleted, ApiError> {
    let kind = Arc::clone(&call.kind);
    let stored =
        tx.get(&kind, &call.namespace, &call.name).ok_or_else(|| ApiError::not_found(call.gvr(), &call.name))?;
    check_preconditions(call, options, &stored)?;
    admission::namespace::check_delete(call)?;
    admission::webhooks::check(tx, call, "DELETE", &stored)?;
    let key = kind.key(&call.namespace, &call.name);
    let mut object = (*stored).clone();
    set_finalizers(call, options, &mut object);
    let grace = grace_seconds(call, options, &object);
    let held = !meta::finalizers(&object).is_empty() || is_held_namespace(call, &object);
    if grace == 0 && !held {
        if call.dry_run || options.dry_run {
            return Ok(Deleted { object: stored, pending: false });
        }
        return Ok(Deleted { object: tx.remove(&kind, &key, object), pending: false });
    }
    mark(call, &mut object, grace, tx.now);
    if call.dry_run || options.dry_run {
        return Ok(Deleted { object: Arc::new(object), pending: true });
    }
    if object == *stored {
        return Ok(Deleted { object: stored, pending: true });
    }
    let object = tx.put(&kind, &key, object);
    if kind.table == customs::TABLE {
        customs::cleanup(tx, &call.user, &object)?;
    }
    Ok(Deleted { object, pending: true })
}

fn check_preconditions(call: &Call, options: &DeleteOptions, stored: &Value) -> Result<(), ApiError> {
    let pairs = [("UID", &options.uid, "uid"), ("ResourceVersion", &options.resource_version, "resourceVersion")];
    for (name, wanted, key) in pairs {
        let live = meta::text(stored, key);
        if let Some(wanted) = wanted.as_deref().filter(|w| *w != live) {
            let why = format!("Precondition failed: {name} in precondition: {wanted}, {name} in object meta: {live}");
            return Err(ApiError::conflict(call.gvr(), &call.name, &why));
        }
    }
    Ok(())
}

/// Finalizers that stand for a propagation policy; the garbage collector removes them.
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

fn set_finalizers(call: &Call, options: &DeleteOptions, object: &mut Value) {
    let mut list: Vec<String> = meta::finalizers(object).into_iter().map(str::to_owned).collect();
    // Jobs and replication controllers date from before garbage collection and orphan by default.
    let legacy = matches!(call.kind.table.as_str(), "jobs.batch" | "replicationcontrollers");
    let has = |name: &str| list.iter().any(|f| f == name);
    let policy = match options.propagation {
        Some(given) => given,
        None if has(ORPHAN) => Propagation::Orphan,
        None if has(FOREGROUND) => Propagation::Foreground,
        None if legacy => Propagation::Orphan,
        None => Propagation::Background,
    };
    list.retain(|f| f != ORPHAN && f != FOREGROUND);
    match policy {
        Propagation::Background => {}
        Propagation::Foreground => list.push(FOREGROUND.into()),
        Propagation::Orphan => list.push(ORPHAN.into()),
    }
    let cleanup = call.kind.table == customs::TABLE && !meta::is_terminating(object);
    if cleanup && !list.iter().any(|f| f == customs::CLEANUP_FINALIZER) {
        list.push(customs::CLEANUP_FINALIZER.into());
    }
    if list.is_empty() {
        meta::remove(object, "finalizers");
    } else {
        meta::set(object, "finalizers", list);
    }
}

fn is_held_namespace(call: &Call, object: &Value) -> bool {
    let own = object.pointer("/spec/finalizers").and_then(Value::as_array);
    call.kind.table == "namespaces" && own.is_some_and(|f| !f.is_empty())
}

/// Only pods have a grace period: a pod that no kubelet runs goes at once.
fn grace_seconds(call: &Call, options: &DeleteOptions, object: &Value) -> i64 {
    if call.kind.table != "pods" {
        return 0;
    }
    let unscheduled = object.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or_default().is_empty();
    let over = matches!(object.pointer("/status/phase").and_then(Value::as_str), Some("Succeeded" | "Failed"));
    if unscheduled || over {
        return 0;
    }
    let own = object.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64);
    let asked = match options.grace_seconds.or(own).unwrap_or(30) {
        // A negative period stands for the shortest one that still lets the kubelet act.
        negative if negative < 0 => 1,
        seconds => seconds,
    };
    // A second delete may shorten the period, never lengthen it.
    let running = meta::is_terminating(object)
        .then(|| meta::field(object, "deletionGracePeriodSeconds").and_then(Value::as_i64))
        .flatten();
    running.map_or(asked, |left| left.min(asked))
}

fn mark(call: &Call, object: &mut Value, grace: i64, now: Timestamp) {
    let running = meta::field(object, "deletionGracePeriodSeconds").and_then(Value::as_i64);
    if meta::is_terminating(object) && running.unwrap_or(0) <= grace {
        return;
    }
    let first = !meta::is_terminating(object);
    let at = now.checked_add(SignedDuration::from_secs(grace)).unwrap_or(now);
    meta::set(object, "deletionTimestamp", rfc3339_seconds(at));
    meta::set(object, "deletionGracePeriodSeconds", grace);
    if first && meta::field(object, "generation").is_some() && rules::has_generation(&call.kind) {
        meta::bump_generation(object);
    }
    if call.kind.table == "namespaces" {
        meta::map_at(object, "status").insert("phase".into(), "Terminating".into());
    }
}

/// Deletes what the selectors choose and answers with the list of it.
pub(crate) fn delete_collection(
    tx: &mut Tx<'_>,
    call: &Call,
    options: &DeleteOptions,
    query: &Query,
) -> Result<Answer, ApiError> {
    let selector = Selector::parse(query.get("labelSelector"), query.get("fieldSelector"), &call.kind)?;
    let objects = tx.state.store.objects(&call.kind.table);
    let chosen: Vec<&Arc<Value>> =
        list::in_namespace(&objects, call).map(|(_, object)| object).filter(|o| selector.matches(o)).collect();
    for object in &chosen {
        let mut one = call.clone();
        one.name = meta::name(object).to_owned();
        if call.kind.namespaced {
            one.namespace = meta::namespace(object).to_owned();
        }
        delete(tx, &one, options)?;
    }
    let metadata = json!({"resourceVersion": tx.state.store.revision().to_string()});
    Ok(Answer::json(200, &list::collection(call, Form::Object, &chosen, metadata, tx)))
}
