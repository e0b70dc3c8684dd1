//! A real API server as the harness has it: by a kubeconfig, with a token of an administrator.
//!
//! # Guarantees
//! The operator's requests pass the proxy with a bearer token. A client certificate cannot pass it, so the harness makes
//! a ServiceAccount of its own, `kube-system/reconverge-admin`, bound to `cluster-admin`, and takes a token of that.
//!
//! # Deliberately not done
//! Servers whose certificate is not checked, or that are reached through another HTTP proxy: the fault proxy would have
//! to do the same, and does not.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
    rbac::v1::ClusterRoleBinding,
};
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::json;

use super::{ClusterError, Endpoint, client, tester::Tester};

const ADMIN: &str = "reconverge-admin";
const ADMIN_NAMESPACE: &str = "kube-system";
const MANAGER: &str = "reconverge-harness";
/// Longer than any campaign.
const TOKEN_LIVES: Duration = Duration::from_secs(7 * 24 * 3600);

/// Why a kubeconfig cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    #[error("the kubeconfig cannot be used")]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    #[error(
        "the kubeconfig says `insecure-skip-tls-verify`; give it the server's `certificate-authority-data` instead"
    )]
    Insecure,
    #[error("the kubeconfig has no certificate authority; give it the server's `certificate-authority-data`")]
    NoAuthority,
    #[error("the kubeconfig has a {0}, which the fault proxy does not do; use a context without it")]
    Unsupported(&'static str),
    #[error("no client can be made of the kubeconfig")]
    Client(#[source] Box<kube::Error>),
}

/// An API server, and the right to do everything there.
pub struct Access {
    pub endpoint: Endpoint,
    pub client: Client,
    pub admin_token: String,
    /// What the server says about itself: `v1.34.4`.
    pub version: String,
}

/// The server that a context of a kubeconfig means, and a client for it. Nothing is sent.
///
/// # Errors
/// When the kubeconfig is not usable, or says something that the proxy cannot do.
pub async fn connect(file: Kubeconfig, context: Option<String>) -> Result<(Endpoint, Client), AccessError> {
    let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
    let config = kube::Config::from_custom_kubeconfig(file, &options).await?;
    if config.accept_invalid_certs {
        return Err(AccessError::Insecure);
    }
    if config.tls_server_name.is_some() {
        return Err(AccessError::Unsupported("tls-server-name"));
    }
    if config.proxy_url.is_some() {
        return Err(AccessError::Unsupported("proxy-url"));
    }
    let authority = config.root_cert.as_deref().filter(|chain| !chain.is_empty()).ok_or(AccessError::NoAuthority)?;
    let ca_pem = authority.iter().map(|certificate| pem(certificate)).collect();
    let url = config.cluster_url.to_string().trim_end_matches('/').to_owned();
    let client = client::persistent(&config).map_err(|error| AccessError::Client(Box::new(error)))?;
    Ok((Endpoint { url, ca_pem }, client))
}

impl Access {
    /// Makes the harness's own administrator.
    ///
    /// # Errors
    /// When the user of the client may not do that.
    pub async fn open(endpoint: Endpoint, client: Client) -> Result<Self, ClusterError> {
        let version =
            client.apiserver_version().await.map_err(|error| failed("ask for the server's version", error))?;
        let tester = Tester::new(client.clone(), ADMIN_NAMESPACE);
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": ADMIN, "namespace": ADMIN_NAMESPACE},
        });
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": ADMIN},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": ADMIN, "namespace": ADMIN_NAMESPACE}],
        });
        tester.apply(&account, MANAGER).await?;
        tester.apply(&binding, MANAGER).await?;
        let admin_token = token(&client, ADMIN_NAMESPACE, ADMIN).await?;
        Ok(Self { endpoint, client, admin_token, version: version.git_version })
    }

    /// Removes the administrator again.
    ///
    /// # Errors
    /// When that is refused.
    pub async fn close(&self) -> Result<(), ClusterError> {
        let params = DeleteParams::default();
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), ADMIN_NAMESPACE);
        let bindings: Api<ClusterRoleBinding> = Api::all(self.client.clone());
        bindings.delete(ADMIN, &params).await.map_err(|error| failed("delete the harness's binding", error))?;
        accounts.delete(ADMIN, &params).await.map_err(|error| failed("delete the harness's account", error))?;
        Ok(())
    }
}

/// A bearer token of a ServiceAccount that outlives the runs.
///
/// # Errors
/// When there is no such account, or the server refuses.
pub async fn token(client: &Client, namespace: &str, name: &str) -> Result<String, ClusterError> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let expiration_seconds = i64::try_from(TOKEN_LIVES.as_secs()).ok();
    let spec = TokenRequestSpec { expiration_seconds, ..TokenRequestSpec::default() };
    let request = TokenRequest { spec, ..TokenRequest::default() };
    match accounts.create_token_request(name, &PostParams::default(), &request).await {
        Ok(answer) => Ok(answer.status.map(|status| status.token).unwrap_or_default()),
        Err(kube::Error::Api(status)) if status.code == 404 => {
            Err(ClusterError::NoServiceAccount { namespace: namespace.into(), name: name.into() })
        }
        Err(error) => Err(failed(&format!("request a token of ServiceAccount {namespace}/{name}"), error)),
    }
}

fn failed(doing: &str, source: kube::Error) -> ClusterError {
    ClusterError::Request { doing: doing.to_owned(), source: Box::new(source) }
}

fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> = (0..text.len()).step_by(64).map(|at| &text[at..text.len().min(at + 64)]).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cluster::{Cluster as _, embedded::Embedded, kubeconfig},
        seed::Seed,
    };

    async fn with_config(test: impl AsyncFnOnce(Kubeconfig, Endpoint)) {
        let cluster = Embedded::start(Seed(1)).await.unwrap();
        let text = kubeconfig(cluster.endpoint(), &cluster.admin_token(), "default");
        test(Kubeconfig::from_yaml(&text).unwrap(), cluster.endpoint().clone()).await;
        Box::new(cluster).shutdown().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_kubeconfig_gives_the_endpoint_that_the_proxy_needs() {
        with_config(async |file, endpoint| {
            let (found, client) = connect(file, None).await.unwrap();
            assert_eq!(found.url, endpoint.url);
            let authority = |text: &str| text.lines().collect::<Vec<_>>().concat();
            assert_eq!(authority(&found.ca_pem), authority(&endpoint.ca_pem));
            let access = Access::open(found, client.clone()).await.unwrap();
            assert!(!access.admin_token.is_empty());
            assert!(matches!(token(&client, "default", "nobody").await, Err(ClusterError::NoServiceAccount { .. })));
            access.close().await.unwrap();
            assert!(token(&client, ADMIN_NAMESPACE, ADMIN).await.is_err(), "the administrator is gone");
        })
        .await;
    }

    /// Each of these would be lost on the way through the proxy.
    #[tokio::test(flavor = "multi_thread")]
    async fn what_the_proxy_cannot_do_is_refused() {
        with_config(async |file, _| {
            let changed = |change: &dyn Fn(&mut kube::config::Cluster)| {
                let mut file = file.clone();
                change(file.clusters[0].cluster.as_mut().unwrap());
                connect(file, None)
            };
            let insecure = changed(&|cluster| cluster.insecure_skip_tls_verify = Some(true)).await;
            assert!(matches!(insecure, Err(AccessError::Insecure)));
            let named = changed(&|cluster| cluster.tls_server_name = Some("kubernetes".into())).await;
            assert!(matches!(named, Err(AccessError::Unsupported(_))));
            let public = changed(&|cluster| cluster.certificate_authority_data = None).await;
            assert!(matches!(public, Err(AccessError::NoAuthority)));
            assert!(connect(file.clone(), Some("another".into())).await.is_err());
        })
        .await;
    }
}
