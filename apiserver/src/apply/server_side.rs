//! Server-side apply.
//!
//! In: the live object and a configuration. Out: the merged object with its `managedFields`, or conflicts. Guaranteed:
//! an apply that changes nothing leaves even the times alone. Deliberately not done: conversion between versions, and
//! defaulting, which belongs to the caller.

use serde_json::Value;

use super::{
    Writer,
    collect::collect,
    conflict::{self, Conflict},
    fieldset::FieldSet,
    last_applied,
    managers::{Entry, ManagerId, Managers, Operation},
    merge::merge,
    ownership::{Contest, reconcile_all, transfer, without_identity},
    prune::prune,
    shape::Shape,
    track::{empty_like, record},
    validate::{plain, validate},
    value::equal,
};
use crate::{clock::rfc3339_seconds, resource::Gvk, schema::TypeRef, status::ApiError};

/// Owner of what a live object without `managedFields` held before its first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Server-side apply of the configuration `applied` to `live`, which is `None` if the object does not exist yet.
///
/// # Errors
/// 400 for a configuration with `managedFields` or of another version or kind, 500 for one that does not fit the type
/// (as the real server answers), 409 with one cause per path for conflicts when `force` is not set.
pub fn apply(
    live: Option<&Value>,
    applied: &Value,
    ty: Option<TypeRef<'_>>,
    writer: &Writer<'_>,
    force: bool,
) -> Result<Value, ApiError> {
    apply_resetting(live, applied, ty, writer, force, &FieldSet::default())
}

/// As [`apply`], where `reset` names the fields that the written endpoint ignores, with all below them. They are not
/// owned; putting their live values back into the result is up to the caller.
///
/// # Errors
/// As [`apply`].
pub fn apply_resetting(
    live: Option<&Value>,
    applied: &Value,
    ty: Option<TypeRef<'_>>,
    writer: &Writer<'_>,
    force: bool,
    reset: &FieldSet,
) -> Result<Value, ApiError> {
    check(live, applied, writer)?;
    let shape = Shape::root(ty);
    let mut managers = match live {
        Some(object) => Managers::of_object(object)
            .map_err(|error| ApiError::new(500, "", format!("failed to decode managed fields: {error}")))?,
        None => Managers::default(),
    };
    let fresh = live.is_none().then(|| empty_like(applied));
    let before = live.or(fresh.as_ref()).unwrap_or(applied);
    if managers.is_empty() && live.is_some() {
        let past = Writer { manager: BEFORE_FIRST_APPLY, ..*writer };
        record(shape, &empty_like(applied), before, &mut managers, &past, reset);
    }
    validate(shape, applied).map_err(|problem| not_typed(applied, &problem))?;
    let job = Job { shape, before, applied, writer, reset };
    let contest = if force { Contest::Take } else { Contest::Refuse };
    let kubectl = writer.manager == last_applied::MANAGER;
    let mut result = match job.run(managers.clone(), contest) {
        Err(conflicts) if kubectl => {
            let rest = last_applied::remaining(shape, before, writer.api_version, conflicts);
            if rest.is_empty() { job.run(managers, Contest::Take) } else { Err(rest) }
        }
        outcome => outcome,
    }
    .map_err(|conflicts| conflict::error(&conflicts))?;
    if kubectl {
        last_applied::refresh(&mut result, applied);
    }
    Ok(result)
}

fn check(live: Option<&Value>, applied: &Value, writer: &Writer<'_>) -> Result<(), ApiError> {
    let text = |object: &Value, key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (version, kind) = (text(applied, "apiVersion"), text(applied, "kind"));
    let other_kind = live.is_some_and(|object| text(object, "kind") != kind);
    if version != writer.api_version || other_kind {
        return Err(ApiError::bad_request(format!("invalid object type: {}", kind_text(&version, &kind))));
    }
    if !matches!(applied.pointer("/metadata/managedFields"), None | Some(Value::Null)) {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    Ok(())
}

/// `apps/v1, Kind=Deployment`, or `/v1, Kind=Pod`.
fn kind_text(api_version: &str, kind: &str) -> String {
    let gvk = Gvk::parse(api_version, kind);
    format!("{}/{}, Kind={}", gvk.group, gvk.version, gvk.kind)
}

fn not_typed(applied: &Value, problem: &str) -> ApiError {
    let meta = &applied["metadata"];
    let text = |value: &Value| if value.is_null() { String::new() } else { plain(value) };
    let kind = kind_text(&text(&applied["apiVersion"]), &text(&applied["kind"]));
    let name = format!("{}/{}; {kind}", text(&meta["namespace"]), text(&meta["name"]));
    ApiError::new(500, "", format!("failed to create typed patch object ({name}): {problem}"))
}

/// One attempt at an apply.
struct Job<'a> {
    shape: Shape<'a>,
    before: &'a Value,
    applied: &'a Value,
    writer: &'a Writer<'a>,
    reset: &'a FieldSet,
}

impl Job<'_> {
    fn run(&self, mut managers: Managers, contest: Contest) -> Result<Value, Vec<Conflict>> {
        let (shape, writer) = (self.shape, self.writer);
        reconcile_all(shape, &mut managers);
        let id = ManagerId::of(writer, Operation::Apply);
        let merged = merge(shape, Some(self.before), Some(self.applied)).unwrap_or_default();
        let set = collect(shape, self.applied).recursive_difference(self.reset);
        let last = managers.0.get(&id).cloned().unwrap_or_default();
        let api_version = writer.api_version.to_owned();
        managers.0.insert(id.clone(), Entry { set, api_version, time: last.time });
        let mut object = prune(shape, merged, &last.set, &managers.owned());
        transfer(shape, (self.before, &object), &mut managers, Some(&id), contest, self.reset)?;
        let unchanged = equal(self.before, &object);
        if let Some(entry) = managers.0.get_mut(&id) {
            entry.set = without_identity(&entry.set);
            if !unchanged {
                entry.time = Some(rfc3339_seconds(writer.now));
            }
        }
        managers.drop_empty();
        if unchanged {
            object = self.before.clone();
        }
        managers.store(&mut object);
        Ok(object)
    }
}
