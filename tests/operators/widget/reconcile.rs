//! One pass over one Widget.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Secret},
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
    runtime::controller::Action,
};
use serde_json::json;

use crate::{
    api::{Condition, Widget, WidgetStatus},
    bug::Bug,
    children,
    context::{Context, retry_after},
    write::{Done, Error, create, doing, ensure},
};

const FINALIZER: &str = "specimen.reconverge.dev/registration";

/// Brings the cluster one pass closer to what a Widget asks for.
pub async fn reconcile(cached: Arc<Widget>, context: Arc<Context>) -> Result<Action, Error> {
    let key = key(&cached);
    if context.memory().given_up.contains(&key) && cached.metadata.deletion_timestamp.is_none() {
        return Ok(Action::await_change());
    }
    let (namespace, name) = (cached.namespace().unwrap_or_default(), cached.name_any());
    let widgets: Api<Widget> = Api::namespaced(context.client.clone(), &namespace);
    // The cache may be behind: a Widget that is gone must not be registered once more.
    if let Some(widget) = widgets.get_opt(&name).await.map_err(doing(format!("get Widget {name}")))? {
        let outcome = if widget.metadata.deletion_timestamp.is_some() {
            clean_up(&context, &widgets, &widget).await
        } else {
            maintain(&context, &widgets, widget).await
        };
        if outcome.is_err() && context.has(Bug::SlowAfterError) {
            take_a_nap().await;
        }
        outcome?;
    }
    context.memory().failures.remove(&key);
    Ok(Action::await_change())
}

/// When to try again.
pub fn after_error(widget: Arc<Widget>, _: &Error, context: Arc<Context>) -> Action {
    let key = key(&widget);
    let mut memory = context.memory();
    if context.has(Bug::DeafAfterError) {
        memory.given_up.insert(key);
        return Action::await_change();
    }
    let failures = memory.failures.entry(key).or_default();
    let delay = retry_after(*failures);
    *failures = failures.saturating_add(1);
    Action::requeue(delay)
}

fn key(widget: &Widget) -> String {
    format!("{}/{}", widget.namespace().unwrap_or_default(), widget.name_any())
}

async fn maintain(context: &Context, widgets: &Api<Widget>, widget: Widget) -> Result<(), Error> {
    let client = &context.client;
    let namespace = widget.namespace().unwrap_or_default();
    if context.has(Bug::DeafAfterRestart) && is_finished(context, &widget) {
        return Ok(());
    }
    // First of all, since what is made outside needs somebody who removes it.
    let widget = add_finalizer(widgets, widget).await?;
    ensure(client, &namespace, &children::registration(&widget)).await?;
    keep_secret(context, &namespace, &widget).await?;

    let mut config = children::config(&widget);
    if context.has(Bug::TimestampInChild) {
        config.object["data"]["renderedAt"] = now().strftime("%H:%M:%S").to_string().into();
    }
    let config = ensure(client, &namespace, &config).await?;
    if !context.has(Bug::CrashLeavesHalfState) || config == Done::Created {
        ensure(client, &namespace, &children::service(&widget)).await?;
    }
    match ensure(client, &namespace, &children::deployment(&widget)).await {
        Err(error) if context.has(Bug::ConflictSwallowed) && error.is_conflict() => {
            tracing::info!(%error, "someone else was faster");
            return Ok(());
        }
        Err(error) if context.has(Bug::PanicOnConflict) && error.is_conflict() => {
            panic!("nobody else writes our Deployments: {error}")
        }
        other => other?,
    };
    let mut cache_name = widget.status.as_ref().and_then(|status| status.cache_name.clone());
    if context.has(Bug::RandomNameOnCreate) && cache_name.is_none() {
        cache_name = Some(create(client, &namespace, &children::cache(&widget)).await?.name_any());
    }
    write_status(context, widgets, widget, cache_name).await
}

/// Only with the bug `deaf-after-restart`: decides on first sight, and never again.
fn is_finished(context: &Context, widget: &Widget) -> bool {
    let mut memory = context.memory();
    let key = key(widget);
    let ready = widget.status.as_ref().is_some_and(|status| status.phase == "Ready");
    if memory.seen.insert(key.clone()) && ready {
        memory.given_up.insert(key);
        return true;
    }
    false
}

async fn add_finalizer(widgets: &Api<Widget>, widget: Widget) -> Result<Widget, Error> {
    if widget.finalizers().iter().any(|finalizer| finalizer == FINALIZER) {
        return Ok(widget);
    }
    let mut finalizers = widget.finalizers().to_vec();
    finalizers.push(FINALIZER.to_owned());
    set_finalizers(widgets, &widget, &finalizers).await
}

/// With the version that was read: a finalizer that somebody else added in between would be lost otherwise.
async fn set_finalizers(widgets: &Api<Widget>, widget: &Widget, finalizers: &[String]) -> Result<Widget, Error> {
    let metadata = json!({ "finalizers": finalizers, "resourceVersion": widget.resource_version() });
    let patch = Patch::Merge(json!({ "metadata": metadata }));
    let name = widget.name_any();
    widgets
        .patch(&name, &PatchParams::default(), &patch)
        .await
        .map_err(doing(format!("set finalizers of Widget {name}")))
}

async fn keep_secret(context: &Context, namespace: &str, widget: &Widget) -> Result<(), Error> {
    let child = children::secret(widget, &token());
    let done = ensure(&context.client, namespace, &child).await?;
    let first = context.memory().seen.insert(key(widget));
    if context.has(Bug::SecretRotatedAtStart) && first && done == Done::Nothing {
        let secrets: Api<Secret> = Api::namespaced(context.client.clone(), namespace);
        let mut secret = secrets.get(child.name()).await.map_err(doing("get Secret to rotate"))?;
        secret.string_data = Some([("token".to_owned(), token())].into());
        secrets.replace(child.name(), &PostParams::default(), &secret).await.map_err(doing("rotate Secret"))?;
    }
    Ok(())
}

async fn clean_up(context: &Context, widgets: &Api<Widget>, widget: &Widget) -> Result<(), Error> {
    if !widget.finalizers().iter().any(|finalizer| finalizer == FINALIZER) {
        return Ok(());
    }
    if !context.has(Bug::OrphanLeft) {
        remove_registration(context, widget).await?;
    }
    if context.has(Bug::FinalizerNeverRemoved) {
        return Ok(());
    }
    let rest: Vec<String> = widget.finalizers().iter().filter(|finalizer| *finalizer != FINALIZER).cloned().collect();
    match set_finalizers(widgets, widget, &rest).await {
        // It went away with the patch whose reply was lost.
        Err(Error::Api(_, kube::Error::Api(status))) if status.code == 404 => Ok(()),
        other => other.map(drop),
    }
}

/// Removes the registration of this very Widget, not of one that was made anew under its name.
async fn remove_registration(context: &Context, widget: &Widget) -> Result<(), Error> {
    let name = children::registration_name(widget);
    let api: Api<ConfigMap> = Api::namespaced(context.client.clone(), &widget.namespace().unwrap_or_default());
    let Some(found) = api.get_opt(&name).await.map_err(doing(format!("get registration {name}")))? else {
        return Ok(());
    };
    if found.data.as_ref().and_then(|data| data.get("uid")) != widget.uid().as_ref() {
        return Ok(());
    }
    let preconditions = Preconditions { uid: found.uid(), ..Preconditions::default() };
    let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match api.delete(&name, &parameters).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other.map(drop).map_err(doing(format!("delete registration {name}"))),
    }
}

async fn write_status(
    context: &Context,
    widgets: &Api<Widget>,
    mut widget: Widget,
    cache_name: Option<String>,
) -> Result<(), Error> {
    let name = widget.name_any();
    let namespace = widget.namespace().unwrap_or_default();
    let deployments: Api<Deployment> = Api::namespaced(context.client.clone(), &namespace);
    let deployment = deployments.get_opt(&name).await.map_err(doing(format!("get Deployment {name}")))?;
    let before = widget.status.take();
    let mut status = status_of(&widget, before.as_ref(), deployment.as_ref());
    status.cache_name = cache_name;
    if let (true, Some(before)) = (context.has(Bug::StaleGeneration), &before) {
        status.observed_generation = before.observed_generation;
    }
    if context.has(Bug::StatusWrittenEveryPass) {
        status.last_sync = Some(now().to_string());
    }
    if before.as_ref() == Some(&status) {
        return Ok(());
    }
    widget.status = Some(status);
    let doing = doing(format!("write status of Widget {name}"));
    widgets.replace_status(&name, &PostParams::default(), &widget).await.map_err(doing)?;
    Ok(())
}

fn status_of(widget: &Widget, before: Option<&WidgetStatus>, deployment: Option<&Deployment>) -> WidgetStatus {
    let theirs = deployment.and_then(|deployment| deployment.status.as_ref());
    let generation = deployment.and_then(|deployment| deployment.metadata.generation);
    let seen = theirs.and_then(|status| status.observed_generation);
    let updated = theirs.and_then(|status| status.updated_replicas).unwrap_or(0);
    let ready = theirs.and_then(|status| status.ready_replicas).unwrap_or(0);
    let all = widget.spec.replicas;
    let is_ready = generation.is_some() && seen >= generation && updated == all && ready == all;

    let (status, reason) = if is_ready { ("True", "AllReady") } else { ("False", "Progressing") };
    let old = before.and_then(|before| before.conditions.iter().find(|condition| condition.kind == "Ready"));
    let unchanged_since = old.filter(|old| old.status == status).map(|old| old.last_transition_time.clone());
    let condition = Condition {
        kind: "Ready".into(),
        status: status.into(),
        reason: reason.into(),
        message: format!("{ready} of {all} replicas are ready"),
        last_transition_time: unchanged_since.unwrap_or_else(|| now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
    };
    WidgetStatus {
        phase: if is_ready { "Ready" } else { "Progressing" }.into(),
        ready_replicas: ready,
        observed_generation: widget.metadata.generation.unwrap_or_default(),
        conditions: vec![condition],
        ..WidgetStatus::default()
    }
}

/// Holds the Widget's next pass back, whatever happens meanwhile.
#[expect(clippy::disallowed_methods, reason = "this wait without a condition is the bug")]
async fn take_a_nap() {
    tokio::time::sleep(Duration::from_secs(12)).await;
}

#[expect(clippy::disallowed_methods, reason = "the operator under test lives in real time, as any operator does")]
fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// Something that nobody can guess; each hasher is keyed by the system's randomness.
fn token() -> String {
    format!("{:016x}{:016x}", RandomState::new().hash_one(0), RandomState::new().hash_one(1))
}
