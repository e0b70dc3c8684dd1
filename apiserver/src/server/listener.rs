//! TLS listeners: HTTP/1.1 and HTTP/2 by ALPN, with a certificate of the cluster's own authority.

use std::{net::SocketAddr, sync::Arc};

use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
    service::TowerToHyperService,
};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::{
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::{ApiServer, kubeconfig};

/// Names under which pods and testers reach the server.
const NAMES: [&str; 8] = [
    "localhost",
    "127.0.0.1",
    "::1",
    "10.96.0.1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// Why a listener could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("cannot listen on {address}")]
    Bind { address: SocketAddr, source: std::io::Error },
    #[error("cannot make the server's certificate")]
    Certificate(#[from] rcgen::Error),
    #[error("cannot set up TLS")]
    Tls(#[from] rustls::Error),
}

/// A running listener. Dropping it stops it, too, without waiting for its connections to end.
#[derive(Debug)]
pub struct Listening {
    address: SocketAddr,
    ca_pem: String,
    admin_token: String,
    stop: CancellationToken,
    task: Option<JoinHandle<()>>,
}

impl Listening {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL for clients on this machine.
    #[must_use]
    pub fn url(&self) -> String {
        let ip = self.address.ip();
        if ip.is_unspecified() {
            format!("https://127.0.0.1:{}", self.address.port())
        } else {
            format!("https://{}", self.address)
        }
    }

    /// The certificate of the authority that signed the server's.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// A kubeconfig with this token.
    #[must_use]
    pub fn kubeconfig(&self, token: &str) -> String {
        kubeconfig::render(&self.url(), &self.ca_pem, token)
    }

    /// A kubeconfig of the tester.
    #[must_use]
    pub fn admin_kubeconfig(&self) -> String {
        self.kubeconfig(&self.admin_token)
    }

    /// Stops listening, cuts all connections and waits until their tasks have ended.
    pub async fn shutdown(mut self) {
        self.stop.cancel();
        if let Some(task) = self.task.take() {
            // A panic in a connection was already reported by its task.
            let _ = task.await;
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl ApiServer {
    /// Listens for TLS connections, with a fresh certificate; port 0 takes a free one.
    ///
    /// # Errors
    /// When the address is taken or keys cannot be made.
    pub async fn serve(&self, address: SocketAddr) -> Result<Listening, ServeError> {
        let identity = Keys::generate(address)?;
        let acceptor = identity.acceptor()?;
        let listener = TcpListener::bind(address).await.map_err(|source| ServeError::Bind { address, source })?;
        let address = listener.local_addr().map_err(|source| ServeError::Bind { address, source })?;
        let stop = CancellationToken::new();
        let task = tokio::spawn(accept(self.clone(), listener, acceptor, stop.clone()));
        let admin_token = self.admin_token();
        Ok(Listening { address, ca_pem: identity.ca_pem, admin_token, stop, task: Some(task) })
    }
}

/// A certificate authority and one certificate of it.
struct Keys {
    ca_pem: String,
    ca_der: CertificateDer<'static>,
    leaf_der: CertificateDer<'static>,
    leaf_key: KeyPair,
}

impl Keys {
    fn generate(address: SocketAddr) -> Result<Self, rcgen::Error> {
        let mut authority = CertificateParams::default();
        authority.distinguished_name.push(DnType::CommonName, "reconverge-ca");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let ca_key = KeyPair::generate()?;
        let ca = authority.self_signed(&ca_key)?;
        let issuer = Issuer::new(authority, ca_key);
        let mut names: Vec<String> = NAMES.iter().map(|n| (*n).to_owned()).collect();
        let own = address.ip().to_string();
        if !address.ip().is_unspecified() && !names.contains(&own) {
            names.push(own);
        }
        let mut leaf = CertificateParams::new(names)?;
        leaf.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        leaf.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
        leaf.use_authority_key_identifier_extension = true;
        let leaf_key = KeyPair::generate()?;
        let signed = leaf.signed_by(&leaf_key, &issuer)?;
        Ok(Self { ca_pem: ca.pem(), ca_der: ca.der().clone(), leaf_der: signed.der().clone(), leaf_key })
    }

    fn acceptor(&self) -> Result<TlsAcceptor, rustls::Error> {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.leaf_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![self.leaf_der.clone(), self.ca_der.clone()], key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

/// Accepts until it is told to stop, then cuts what is open.
async fn accept(server: ApiServer, listener: TcpListener, acceptor: TlsAcceptor, stop: CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(converse(server.clone(), stream, acceptor.clone()));
                }
                // Out of file descriptors, for instance; the next attempt may succeed.
                Err(error) => tracing::warn!(%error, "cannot accept a connection"),
            },
            // Ended connections are reaped as they end.
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
    connections.shutdown().await;
}

async fn converse(server: ApiServer, stream: TcpStream, acceptor: TlsAcceptor) {
    // Small answers must not wait for the acknowledgement of earlier ones.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot switch off Nagle's algorithm");
    }
    let tls = match acceptor.accept(stream).await {
        Ok(tls) => tls,
        Err(error) => {
            tracing::debug!(%error, "TLS handshake failed");
            return;
        }
    };
    let service = TowerToHyperService::new(server);
    let builder = auto::Builder::new(TokioExecutor::new());
    if let Err(error) = builder.serve_connection(TokioIo::new(tls), service).await {
        tracing::debug!(%error, "connection ended");
    }
}
