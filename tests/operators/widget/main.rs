//! The specimen: a small operator for the kind `Widget`, in a correct form and with one bug at a time.
//!
//! # Flow
//! For each Widget: a finalizer, a registration (a ConfigMap without owner, which stands for a thing outside of the
//! cluster), a Secret with a token, a ConfigMap, a Service, a Deployment, and then its status. The cluster is found by
//! `KUBECONFIG`; the manifests in `scenarios/specimens/deploy/` are installed by somebody else.
//!
//! # Guarantees
//! Without `--bug` it is what the harness must find nothing in: level-based, quiet at rest, safe to kill after any
//! write, indifferent to conflicts, lost replies and errors. With `--bug` exactly one thing differs.

mod api;
mod bug;
mod children;
mod context;
mod reconcile;
mod write;

use std::sync::Arc;

use clap::Parser;
use futures::StreamExt as _;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Secret, Service},
};
use kube::{
    Api, Client, ResourceExt as _,
    runtime::{
        controller::{Config, Controller},
        reflector::ObjectRef,
        watcher,
    },
};

use crate::{api::Widget, bug::Bug, context::Context};

/// An operator for Widgets.
#[derive(Parser)]
struct Arguments {
    /// What it does wrong.
    #[arg(long, env = "WIDGET_BUG")]
    bug: Option<Bug>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info,kube=warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
    // Ignored on purpose: it only fails when somebody has installed one already.
    let _ = rustls::crypto::ring::default_provider().install_default();

    let client = Client::try_default().await?;
    let context = Arc::new(Context::new(client.clone(), arguments.bug));
    let all = watcher::Config::default;
    let mut controller = Controller::new(Api::<Widget>::all(client.clone()), all())
        // Events of one pass come in a burst; together they are worth one more pass.
        .with_config(Config::default().debounce(context::DEBOUNCE).concurrency(4))
        .trigger_backoff(context::Backoff::default())
        .shutdown_on_signal()
        .owns(Api::<Deployment>::all(client.clone()), all())
        .owns(Api::<Secret>::all(client.clone()), all());
    if !context.has(Bug::ChildUnwatched) {
        controller = controller
            .owns(Api::<Service>::all(client.clone()), all())
            .owns(Api::<ConfigMap>::all(client.clone()), all())
            .watches(Api::<ConfigMap>::all(client), all().labels(children::REGISTRATION_LABEL), |registration| {
                let widget = registration.labels().get(children::WIDGET_LABEL)?;
                Some(ObjectRef::new(widget).within(&registration.namespace()?))
            });
    }
    controller
        .run(reconcile::reconcile, reconcile::after_error, context)
        .for_each(|outcome| async {
            if let Err(error) = outcome {
                tracing::warn!(%error, "pass failed");
            }
        })
        .await;
    Ok(())
}
