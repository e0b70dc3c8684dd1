//! The listening side, and the proxy's life.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
};

use http::Request;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{rt::TokioIo, server::conn::auto};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::{
    board::Guard,
    certificate::{self, CertificateError},
    commit::Versions,
    exchange::{self, Client, Shared},
    socket::{Reset, Socket},
    task::Tasks,
    upstream::{Server, UpstreamError},
};
use crate::{cluster::Signer, faults::Rule, history::Recorder};

/// An operator may hold a watch per kind and namespace on one HTTP/2 connection.
const MAX_STREAMS: u32 = 1_000;
/// Bearer tokens with many groups are large.
const MAX_HEADERS: u32 = 256 << 10;

/// The API server behind the proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    /// `https://host:port`; `http` only for servers without TLS.
    pub url: String,
    /// Not used with `http`.
    pub ca_pem: String,
}

/// Why the proxy could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    #[error("cannot listen on {address}")]
    Listen {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
}

/// Where the proxy listens, and who vouches for it.
#[derive(Debug, Clone)]
pub struct Listen {
    pub address: IpAddr,
    /// Also on the port of `https`, for clients that know names alone.
    pub also_on_443: bool,
    /// Without one, the proxy makes an authority of its own.
    pub signer: Option<Signer>,
}

impl Default for Listen {
    fn default() -> Self {
        Self { address: Ipv4Addr::LOCALHOST.into(), also_on_443: false, signer: None }
    }
}

/// A running proxy. Dropping it stops it; [`Proxy::shutdown`] also waits until nothing is left.
#[derive(Debug)]
pub struct Proxy {
    pub(super) shared: Arc<Shared>,
    connections: Arc<Connections>,
    address: SocketAddr,
    url: String,
    ca_pem: String,
}

/// What every open client connection hangs on.
#[derive(Debug)]
struct Connections(Mutex<CancellationToken>);

impl Connections {
    fn current(&self) -> CancellationToken {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn replace(&self, next: CancellationToken) -> CancellationToken {
        std::mem::replace(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner), next)
    }
}

impl Proxy {
    /// Listens on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// When the upstream's address or certificates cannot be used, or nothing can be listened on.
    pub async fn start(upstream: Upstream, recorder: Recorder) -> Result<Self, ProxyError> {
        Self::start_at(Listen::default(), upstream, recorder).await
    }

    /// Listens where `listen` says.
    ///
    /// # Errors
    /// As [`Proxy::start`].
    pub async fn start_at(listen: Listen, upstream: Upstream, recorder: Recorder) -> Result<Self, ProxyError> {
        let tasks = Tasks::new();
        let server = Server::new(&upstream.url, &upstream.ca_pem, tasks.clone())?;
        let (tls, ca_pem) = certificate::make(listen.address, listen.signer.as_ref())?;
        let bind = async |port| {
            let bound = TcpListener::bind((listen.address, port)).await;
            bound.map_err(|source| ProxyError::Listen { address: SocketAddr::new(listen.address, port), source })
        };
        let listener = bind(0).await?;
        let known = listener.local_addr();
        let address = SocketAddr::new(listen.address, 0);
        let address = known.map_err(|source| ProxyError::Listen { address, source })?;
        let second = if listen.also_on_443 { Some(bind(443).await?) } else { None };
        let connections = Arc::new(Connections(Mutex::new(tasks.stop.child_token())));
        let shared = Arc::new(Shared {
            board: Arc::default(),
            recorder,
            server,
            versions: Versions::default(),
            tasks: tasks.clone(),
        });
        for listener in std::iter::once(listener).chain(second) {
            tasks.spawn(accept(listener, tls.clone(), shared.clone(), connections.clone()));
        }
        Ok(Self { shared, connections, address, url: format!("https://{address}"), ca_pem })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The authority that signed the proxy's certificate.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// Shows requests to `rule`, after the rules that are installed already.
    pub fn install(&self, rule: Arc<dyn Rule>) -> Guard {
        self.shared.board.install(rule)
    }

    /// How many rules are in force.
    #[must_use]
    pub fn installed(&self) -> usize {
        self.shared.board.installed()
    }

    /// Resets every client connection: the operator was killed. Reads under way are given up; writes that were
    /// forwarded are carried through and recorded.
    pub fn drop_connections(&self) {
        self.connections.replace(self.shared.tasks.stop.child_token()).cancel();
    }

    /// Stops, and waits until no task and no port is left.
    ///
    /// # Cancellation
    /// When dropped half-way, everything still stops by itself.
    pub async fn shutdown(self) {
        self.shared.tasks.end().await;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.tasks.stop.cancel();
    }
}

async fn accept(listener: TcpListener, tls: Arc<ServerConfig>, shared: Arc<Shared>, connections: Arc<Connections>) {
    let acceptor = TlsAcceptor::from(tls);
    loop {
        // An error belongs to the one connection that could not be accepted; the client sees it.
        let Ok((tcp, _)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
        let tasks = shared.tasks.within(connections.current());
        let connection = connect(tcp, acceptor.clone(), shared.clone(), tasks);
        shared.tasks.spawn_stopping(connection);
    }
}

/// Serves one client until it goes, or its connection is reset.
async fn connect(tcp: TcpStream, acceptor: TlsAcceptor, shared: Arc<Shared>, tasks: Tasks) {
    let reset = Reset::default();
    let stop = tasks.stop.clone();
    let _ = tcp.set_nodelay(true);
    let client = Client { shared, reset: reset.clone(), tasks: tasks.clone() };
    let serve = async {
        let Ok(stream) = acceptor.accept(Socket::new(tcp, reset.clone())).await else { return };
        let service = service_fn(move |request: Request<Incoming>| exchange::serve(client.clone(), request));
        let mut builder = auto::Builder::new(tasks);
        builder.http2().max_concurrent_streams(MAX_STREAMS).max_header_list_size(MAX_HEADERS);
        // Errors are the client's, or the resets that rules ask for.
        let _ = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).await;
    };
    // Outlives the select, so that the socket is still open when its end is chosen.
    tokio::pin!(serve);
    tokio::select! {
        () = stop.cancelled() => reset.set(),
        () = &mut serve => {}
    }
}
