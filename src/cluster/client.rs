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
    let retry = RetryPolicy::new(FIRST_DELAY, LONGEST_DELAY, ATTEMPTS, false);
    client(config, Some(retry.map_err(|error| kube::Error::Service(error.into()))?))
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

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    /// A server that is not ready twice, says that this takes an hour, and is ready then.
    async fn not_ready(status: StatusCode) -> Config {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let version = r#"{"major":"1","minor":"34","gitVersion":"v1.34.4","gitCommit":"","gitTreeState":"clean",
            "buildDate":"","goVersion":"","compiler":"","platform":""}"#;
        tokio::spawn(async move {
            for status in [status, status, StatusCode::OK] {
                let (mut connection, _) = listener.accept().await.unwrap();
                let _ = connection.read(&mut [0; 4096]).await.unwrap();
                let head = format!("HTTP/1.1 {status}\r\nRetry-After: 3600\r\nConnection: close\r\n");
                let answer = format!("{head}Content-Length: {}\r\n\r\n{version}", version.len());
                connection.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        Config::new(url.parse().unwrap())
    }

    #[tokio::test]
    async fn what_is_not_ready_is_asked_again_long_before_the_server_says() {
        for status in [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT] {
            let client = persistent(&not_ready(status).await).unwrap();
            let asked = tokio::time::timeout(Duration::from_secs(60), client.apiserver_version()).await;
            assert_eq!(asked.expect("the server's hour was waited for").unwrap().git_version, "v1.34.4", "{status}");
        }
    }

    #[tokio::test]
    async fn the_plain_one_hands_on_the_refusal() {
        let client = plain(&not_ready(StatusCode::TOO_MANY_REQUESTS).await).unwrap();
        assert!(client.apiserver_version().await.is_err());
    }
}
