//! Subresources other than `status`, and the review resources, which are answered and never stored.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{
    auth::{self, ServiceAccount},
    clock::rfc3339_seconds,
    discovery::ResourceType,
    status::{ApiError, Cause},
};

use super::{
    access,
    answer::Answer,
    body,
    call::Call,
    checks,
    cluster::Tx,
    convert, delete,
    dispatch::Request,
    meta,
    patch::{self, Patch, PatchKind},
    target::Query,
    update,
};

/// Answers a call on a subresource.
pub(crate) fn answer(
    tx: &mut Tx<'_>,
    call: &mut Call,
    verb: &str,
    request: &Request,
    query: &Query,
) -> Result<Answer, ApiError> {
    let stored =
        tx.get(&call.kind, &call.namespace, &call.name).ok_or_else(|| ApiError::not_found(call.gvr(), &call.name))?;
    let decoded = || body::decode(&request.content_type, &request.body).map(|d| d.value);
    match (call.subresource.as_str(), verb) {
        ("scale", _) => scale(tx, call, verb, request, &stored),
        ("finalize", "update") => finalize(tx, call, decoded()?).map(|done| Answer::json(200, &*done)),
        ("approval", "update") => {
            let done = update::update(tx, call, decoded()?, &[])?;
            Ok(Answer::json(200, &*done.object))
        }
        ("eviction", "create") => {
            call.dry_run |= query.get("dryRun") == "All";
            post(tx, call, decoded()?)
        }
        (_, "create") => post(tx, call, decoded()?),
        // Simulated pods print nothing.
        ("log", "get") => Ok(Answer::text(200, "")),
        (other, _) => Err(ApiError::unsupported(&format!("{}/{other}", call.gvr().resource))),
    }
}

/// POST to a subresource that is an action.
pub(crate) fn post(tx: &mut Tx<'_>, call: &mut Call, body: Value) -> Result<Answer, ApiError> {
    let stored =
        tx.get(&call.kind, &call.namespace, &call.name).ok_or_else(|| ApiError::not_found(call.gvr(), &call.name))?;
    match call.subresource.as_str() {
        "binding" => bind(tx, call, &body, &stored),
        "eviction" => evict(tx, call, &body, &stored),
        "token" => token(tx, call, body, &stored),
        other => Err(ApiError::unsupported(&format!("{}/{other}", call.gvr().resource))),
    }
}

/// `/spec/replicas` for `.spec.replicas`.
fn pointer(json_path: &str) -> String {
    json_path.replace('.', "/")
}

/// JSON pointers to the wanted and the observed replicas and to the selector of a scalable resource.
fn scale_paths(kind: &ResourceType) -> (String, String, Option<String>) {
    match kind.custom.as_ref().and_then(|c| c.scale.as_ref()) {
        Some(paths) => (pointer(&paths.spec), pointer(&paths.status), paths.selector.as_deref().map(pointer)),
        None => ("/spec/replicas".into(), "/status/replicas".into(), None),
    }
}

fn scale(
    tx: &mut Tx<'_>,
    call: &mut Call,
    verb: &str,
    request: &Request,
    stored: &Arc<Value>,
) -> Result<Answer, ApiError> {
    let current = scale_of(&call.kind, stored);
    let wanted = match verb {
        "get" => return Ok(Answer::json(200, &current)),
        "update" => body::decode(&request.content_type, &request.body)?.value,
        _ => {
            let patch = Patch::decode(call, &request.content_type, &request.body)?;
            match patch.kind {
                PatchKind::Apply => return Err(ApiError::unsupported("server-side apply of scales")),
                // A scale has no lists, so the strategic form is a merge.
                PatchKind::Strategic => crate::patch::merge_patch(&current, &patch.value),
                _ => patch::patched(&call.kind, &current, &patch)?,
            }
        }
    };
    let version = meta::text(&wanted, "resourceVersion");
    if !version.is_empty() && version != meta::text(stored, "resourceVersion") {
        return Err(ApiError::stale(call.gvr(), &call.name));
    }
    let replicas = wanted.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0);
    if replicas < 0 {
        let cause = Cause::invalid("spec.replicas", &replicas.into(), "must be greater than or equal to 0");
        return Err(ApiError::invalid("autoscaling", "Scale", &call.name, vec![cause]));
    }
    let mut new = convert::from_storage(&call.kind, stored);
    set_at(&mut new, &scale_paths(&call.kind).0, replicas.into());
    let updated = update::replace(tx, call, stored, new, None)?;
    Ok(Answer::json(200, &scale_of(&call.kind, &updated)))
}

/// Sets a member by its JSON pointer, creating objects on the way.
fn set_at(object: &mut Value, pointer: &str, value: Value) {
    let mut at = object;
    for step in pointer.trim_start_matches('/').split('/') {
        at = meta::as_map(at).entry(step).or_insert(Value::Null);
    }
    *at = value;
}

fn scale_of(kind: &ResourceType, object: &Value) -> Value {
    let (spec, status, selector) = scale_paths(kind);
    let number = |path: &str| object.pointer(path).and_then(Value::as_i64).unwrap_or(0);
    let mut metadata = json!({});
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = meta::field(object, key) {
            metadata[key] = value.clone();
        }
    }
    let mut out = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": {}, "status": {"replicas": number(&status)},
    });
    if number(&spec) != 0 {
        out["spec"]["replicas"] = number(&spec).into();
    }
    let text = match selector {
        Some(path) => object.pointer(&path).and_then(Value::as_str).unwrap_or_default().to_owned(),
        None => selector_text(object.pointer("/spec/selector").unwrap_or(&Value::Null)),
    };
    if !text.is_empty() {
        out["status"]["selector"] = text.into();
    }
    out
}

/// A label selector in the form of a query: `a=b,c in (d,e)`.
fn selector_text(selector: &Value) -> String {
    let labels = selector.get("matchLabels").or(Some(selector)).and_then(Value::as_object);
    let mut terms: Vec<(String, String)> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, v)| v.as_str().map(|v| (key.clone(), format!("{key}={v}"))))
        .collect();
    for e in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
        let key = e["key"].as_str().unwrap_or_default();
        let mut values: Vec<&str> = e["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let set = values.join(",");
        let term = match e["operator"].as_str() {
            Some("In") => format!("{key} in ({set})"),
            Some("NotIn") => format!("{key} notin ({set})"),
            Some("Exists") => key.to_owned(),
            _ => format!("!{key}"),
        };
        terms.push((key.to_owned(), term));
    }
    terms.sort();
    terms.into_iter().map(|(_, term)| term).collect::<Vec<_>>().join(",")
}

/// PUT on `namespaces/x/finalize`: changes the namespace's own finalizers, and ends it when none are left.
pub(crate) fn finalize(tx: &mut Tx<'_>, call: &mut Call, mut body: Value) -> Result<Arc<Value>, ApiError> {
    checks::fit(call, &mut body)?;
    let stored = tx.get(&call.kind, "", &call.name).ok_or_else(|| ApiError::not_found(call.gvr(), &call.name))?;
    let version = meta::text(&body, "resourceVersion");
    if !version.is_empty() && version != meta::text(&stored, "resourceVersion") {
        return Err(ApiError::stale(call.gvr(), &call.name));
    }
    let mut new = (*stored).clone();
    let finalizers = body.pointer("/spec/finalizers").cloned().unwrap_or_else(|| json!([]));
    let empty = finalizers.as_array().is_none_or(Vec::is_empty);
    let spec = meta::map_at(&mut new, "spec");
    if empty {
        spec.remove("finalizers");
    } else {
        spec.insert("finalizers".into(), finalizers);
    }
    if new == *stored {
        return Ok(stored);
    }
    let key = call.name.clone();
    let kind = Arc::clone(&call.kind);
    if call.dry_run {
        return Ok(Arc::new(new));
    }
    let gone = update::is_finished(&kind, &new);
    Ok(if gone { tx.remove(&kind, &key, new) } else { tx.put(&kind, &key, new) })
}

fn success(code: u16) -> Answer {
    Answer::json(
        code,
        &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code}),
    )
}

/// Assigns a pod to a node.
fn bind(tx: &mut Tx<'_>, call: &Call, binding: &Value, stored: &Arc<Value>) -> Result<Answer, ApiError> {
    let node = binding.pointer("/target/name").and_then(Value::as_str).unwrap_or_default();
    if node.is_empty() {
        let cause = Cause::required("target.name", "");
        return Err(ApiError::invalid("", "Binding", &call.name, vec![cause]));
    }
    if meta::is_terminating(stored) {
        let why = format!("pod {} is being deleted, cannot be assigned to a host", call.name);
        return Err(ApiError::conflict(call.gvr(), &call.name, &why));
    }
    if let Some(bound) = stored.pointer("/spec/nodeName").and_then(Value::as_str).filter(|n| !n.is_empty()) {
        let why = format!("pod {} is already assigned to node \"{bound}\"", call.name);
        return Err(ApiError::conflict(call.gvr(), &call.name, &why));
    }
    let mut pod = (**stored).clone();
    meta::map_at(&mut pod, "spec").insert("nodeName".into(), node.into());
    let condition = json!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": rfc3339_seconds(tx.now),
    });
    let status = meta::map_at(&mut pod, "status");
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    if let Some(list) = conditions.as_array_mut() {
        list.retain(|c| c["type"] != "PodScheduled");
        list.push(condition);
    }
    if !call.dry_run {
        let kind = Arc::clone(&call.kind);
        let key = kind.key(&call.namespace, &call.name);
        tx.put(&kind, &key, pod);
    }
    Ok(success(201))
}

/// Deletes a pod unless a budget forbids it.
fn evict(tx: &mut Tx<'_>, call: &mut Call, eviction: &Value, stored: &Arc<Value>) -> Result<Answer, ApiError> {
    let over = matches!(stored.pointer("/status/phase").and_then(Value::as_str), Some("Succeeded" | "Failed"));
    if !over && !meta::is_terminating(stored) {
        use_budget(tx, call, stored)?;
    }
    call.subresource.clear();
    let options = delete::DeleteOptions::read(eviction.get("deleteOptions").unwrap_or(&json!({})))?;
    delete::delete(tx, call, &options)?;
    Ok(success(201))
}

/// Takes one disruption from the budget that covers the pod.
fn use_budget(tx: &mut Tx<'_>, call: &Call, pod: &Value) -> Result<(), ApiError> {
    let table = "poddisruptionbudgets.policy";
    let budgets = tx.state.store.objects(table);
    let labels = meta::field(pod, "labels").cloned().unwrap_or_default();
    let covering: Vec<_> = budgets
        .iter()
        .filter(|(_, b)| meta::namespace(b) == call.namespace)
        .filter(|(_, b)| budget_selects(b.pointer("/spec/selector"), &labels))
        .collect();
    let (key, budget) = match covering.as_slice() {
        [] => return Ok(()),
        [one] => *one,
        _ => {
            let why =
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(ApiError::new(500, "InternalError", why));
        }
    };
    let allowed = budget.pointer("/status/disruptionsAllowed").and_then(Value::as_i64).unwrap_or(0);
    if allowed <= 0 {
        let why = "Cannot evict pod as it would violate the pod's disruption budget.";
        let mut error = ApiError::new(429, "TooManyRequests", why);
        let message = format!("The disruption budget {} needs to be satisfied first", meta::name(budget));
        error.details.causes.push(Cause::new("DisruptionBudget", "", message));
        return Err(error);
    }
    let mut changed = (**budget).clone();
    let now = rfc3339_seconds(tx.now);
    let status = meta::map_at(&mut changed, "status");
    status.insert("disruptionsAllowed".into(), (allowed - 1).into());
    let disrupted = status.entry("disruptedPods").or_insert_with(|| json!({}));
    meta::as_map(disrupted).insert(call.name.clone(), now.into());
    let gvr = crate::resource::Gvr::new("policy", "v1", "poddisruptionbudgets");
    if let (Some(kind), false) = (tx.state.resource(&gvr), call.dry_run) {
        tx.put(&kind, key, changed);
    }
    Ok(())
}

fn budget_selects(selector: Option<&Value>, labels: &Value) -> bool {
    let Some(selector) = selector else { return false };
    super::admission::webhooks::selected(Some(selector), Some(labels))
}

/// Answers a TokenRequest.
fn token(tx: &Tx<'_>, call: &Call, mut request: Value, account: &Value) -> Result<Answer, ApiError> {
    let top = meta::as_map(&mut request);
    top.insert("kind".into(), "TokenRequest".into());
    top.insert("apiVersion".into(), "authentication.k8s.io/v1".into());
    meta::set(&mut request, "name", call.name.as_str());
    meta::set(&mut request, "namespace", call.namespace.as_str());
    meta::set(&mut request, "creationTimestamp", rfc3339_seconds(tx.now));
    let uid = meta::text(account, "uid");
    let account = ServiceAccount { namespace: &call.namespace, name: &call.name, uid };
    let answer = auth::request_token(&request, account, &tx.cluster.tokens, tx.now)?;
    Ok(Answer::json(201, &answer))
}

/// Whether a create is a question, not an object.
pub(crate) fn is_review(call: &Call) -> bool {
    matches!(call.gvr().group.as_str(), "authentication.k8s.io" | "authorization.k8s.io")
        || call.kind.table == "bindings"
}

/// Answers a review.
pub(crate) fn review(tx: &Tx<'_>, call: &Call, mut body: Value) -> Result<Answer, ApiError> {
    checks::fit(call, &mut body)?;
    if call.kind.table == "bindings" {
        return Err(ApiError::unsupported("bindings outside of their pod"));
    }
    let mut answer = access::review(tx, call, &body)?;
    meta::set(&mut answer, "creationTimestamp", Value::Null);
    Ok(Answer::json(201, &answer))
}
