//! The harness's clients of real API servers.
//!
//! # Guarantees
//! What a server that is not ready yet refuses is tried again, soon and for a while. A server asks for whole seconds
//! (`Retry-After`) where the cache of a new CRD needs milliseconds, and every run installs its CRDs.

use std::time::Duration;

use hyper_util::{client::legacy, rt::TokioExecutor};
use kube::{
    Client, Config,
    client::{ConfigExt as _, retry::RetryPolicy},
};
use reconverge_apiserver::controllers::remote::BoxError;
use tower::{ServiceBuilder, retry::RetryLayer};

const FIRST_DELAY: Duration = Duration::from_millis(5);
const LONGEST_DELAY: Duration = Duration::from_secs(1);
/// With these delays about twenty seconds.
const ATTEMPTS: u32 = 25;

/// A client that tries again what is refused with 429, 503 or 504.
///
/// # Errors
/// When the configuration is not usable.
pub fn persistent(config: &Config) -> Result<Client, kube::Error> {
    client(config, RetryPolicy::new(FIRST_DELAY, LONGEST_DELAY, ATTEMPTS, false).ok())
}

/// A client that hands on every answer as it is.
///
/// # Errors
/// When the configuration is not usable.
pub fn plain(config: &Config) -> Result<Client, kube::Error> {
    client(config, None)
}

fn client(config: &Config, retry: Option<RetryPolicy>) -> Result<Client, kube::Error> {
    let connector = config.rustls_https_connector()?;
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(retry.map(RetryLayer::new))
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(legacy::Client::builder(TokioExecutor::new()).build(connector));
    Ok(Client::new(service, config.default_namespace.clone()))
}
