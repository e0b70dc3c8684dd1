//! Making the cluster match an object, with as few writes as possible.

use kube::{
    Api, Client,
    api::{DynamicObject, PostParams},
};
use serde_json::Value;

use crate::children::Child;

/// What [`ensure`] had to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    Nothing,
    Created,
    Updated,
}

/// Why a pass ended early.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {0}")]
    Api(String, #[source] kube::Error),
    #[error("cannot read {0}")]
    Json(String, #[source] serde_json::Error),
}

impl Error {
    /// Somebody was faster.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Api(_, kube::Error::Api(status)) if status.code == 409)
    }
}

/// Shorthand for `map_err`.
pub fn doing(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Error {
    let what = what.into();
    move |error| Error::Api(what, error)
}

/// Creates the child if it is absent, and updates it if a field that we set differs; fields of others stay.
pub async fn ensure(client: &Client, namespace: &str, child: &Child) -> Result<Done, Error> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &child.resource);
    let (kind, name) = (&child.resource.kind, child.name());
    let Some(live) = api.get_opt(name).await.map_err(doing(format!("get {kind} {name}")))? else {
        create(client, namespace, child).await?;
        return Ok(Done::Created);
    };
    let unreadable = |error| Error::Json(format!("{kind} {name}"), error);
    let mut wanted = serde_json::to_value(&live).map_err(unreadable)?;
    if covers(&wanted, &child.object) {
        return Ok(Done::Nothing);
    }
    overlay(&mut wanted, &child.object);
    // Carries the resourceVersion that was read, so that a write in between is not undone unseen.
    let wanted: DynamicObject = serde_json::from_value(wanted).map_err(unreadable)?;
    api.replace(name, &PostParams::default(), &wanted).await.map_err(doing(format!("update {kind} {name}")))?;
    Ok(Done::Updated)
}

/// Creates the child, and returns it.
pub async fn create(client: &Client, namespace: &str, child: &Child) -> Result<DynamicObject, Error> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &child.resource);
    let (kind, name) = (&child.resource.kind, child.name());
    let mut object = child.object.clone();
    object["apiVersion"] = child.resource.api_version.clone().into();
    object["kind"] = kind.clone().into();
    if let Some(more) = &child.on_create {
        overlay(&mut object, more);
    }
    let object = serde_json::from_value(object).map_err(|error| Error::Json(format!("{kind} {name}"), error))?;
    api.create(&PostParams::default(), &object).await.map_err(doing(format!("create {kind} {name}")))
}

/// Whether every field that is wanted is there.
fn covers(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            wanted.iter().all(|(key, wanted)| live.get(key).is_some_and(|live| covers(live, wanted)))
        }
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len() && live.iter().zip(wanted).all(|(live, wanted)| covers(live, wanted))
        }
        (live, wanted) => live == wanted,
    }
}

/// Puts the wanted fields over those that are there; lists are taken whole.
fn overlay(live: &mut Value, wanted: &Value) {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            for (key, wanted) in wanted {
                overlay(live.entry(key.clone()).or_insert(Value::Null), wanted);
            }
        }
        (live, wanted) => *live = wanted.clone(),
    }
}
