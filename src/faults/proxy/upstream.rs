//! Connections to the API server.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::{FutureExt as _, future::BoxFuture};
use http::{Request, Response, Uri, uri};
use http_body_util::Full;
use hyper::{
    body::Incoming,
    rt::{Read, ReadBufCursor, Write},
};
use hyper_util::{
    client::legacy::{
        Client,
        connect::{Connected, Connection},
    },
    rt::{TokioIo, TokioTimer},
};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

use super::task::Tasks;

/// Longer than clients keep a stream open between two requests, shorter than servers do.
const IDLE: Duration = Duration::from_secs(60);
/// Large enough that one client which reads its watch slowly does not hold up the others on the same connection.
const CONNECTION_WINDOW: u32 = 64 << 20;
const STREAM_WINDOW: u32 = 1 << 20;

/// Why the address or the certificates of the API server cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    #[error("`{0}` is not the address of an API server (https://host:port)")]
    Url(String),
    #[error("the API server's certificate authority is not PEM")]
    Pem(#[source] rustls::pki_types::pem::Error),
    #[error("the API server's certificate authority has no certificate")]
    NoCertificate,
    #[error("the API server's certificate authority cannot be used")]
    Tls(#[from] rustls::Error),
}

/// The client side of the proxy.
#[derive(Debug, Clone)]
pub struct Server {
    client: Client<Connector, Full<Bytes>>,
    connector: Connector,
    scheme: uri::Scheme,
    authority: uri::Authority,
}

impl Server {
    pub fn new(url: &str, ca_pem: &str, tasks: Tasks) -> Result<Self, UpstreamError> {
        let wrong = || UpstreamError::Url(url.to_owned());
        let parsed: Uri = url.parse().map_err(|_| wrong())?;
        let authority = parsed.authority().cloned().ok_or_else(wrong)?;
        let (scheme, tls) = match parsed.scheme_str() {
            Some("https") => (uri::Scheme::HTTPS, Some(trust(ca_pem)?)),
            Some("http") => (uri::Scheme::HTTP, None),
            _ => return Err(wrong()),
        };
        let tls = tls.map(|config| Tls {
            either: with_alpn(&config, &[b"h2", b"http/1.1"]),
            old: with_alpn(&config, &[b"http/1.1"]),
        });
        let connector = Connector { tls };
        let client = Client::builder(tasks)
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .http2_initial_stream_window_size(STREAM_WINDOW)
            .http2_initial_connection_window_size(CONNECTION_WINDOW)
            .build(connector.clone());
        Ok(Self { client, connector, scheme, authority })
    }

    /// Sends a request; only the path and query of its URI are used.
    pub async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, hyper_util::client::legacy::Error> {
        let mut parts = std::mem::take(request.uri_mut()).into_parts();
        parts.scheme = Some(self.scheme.clone());
        parts.authority = Some(self.authority.clone());
        if parts.path_and_query.is_none() {
            parts.path_and_query = Some(uri::PathAndQuery::from_static("/"));
        }
        // Cannot fail: all three parts are there.
        *request.uri_mut() = Uri::from_parts(parts).unwrap_or_default();
        *request.version_mut() = http::Version::HTTP_11;
        self.client.request(request).await
    }

    /// A connection of one's own that speaks HTTP/1.1, for upgrades.
    pub async fn dial(&self) -> io::Result<Link> {
        self.connector.connect(&self.authority, Protocol::OnlyHttp1).await
    }

    pub fn authority(&self) -> &str {
        self.authority.as_str()
    }
}

pub(super) fn trust(ca_pem: &str) -> Result<ClientConfig, UpstreamError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca_pem.as_bytes()) {
        roots.add(certificate.map_err(UpstreamError::Pem)?)?;
    }
    if roots.is_empty() {
        return Err(UpstreamError::NoCertificate);
    }
    Ok(ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth())
}

pub(super) fn with_alpn(config: &ClientConfig, protocols: &[&[u8]]) -> Arc<ClientConfig> {
    let mut config = config.clone();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Arc::new(config)
}

/// Opens connections for the pool, and for upgrades.
#[derive(Debug, Clone)]
struct Connector {
    /// `None` for a server without TLS.
    tls: Option<Tls>,
}

#[derive(Debug, Clone)]
struct Tls {
    either: Arc<ClientConfig>,
    old: Arc<ClientConfig>,
}

#[derive(Debug, Clone, Copy)]
enum Protocol {
    Either,
    OnlyHttp1,
}

impl Connector {
    async fn connect(&self, authority: &uri::Authority, protocol: Protocol) -> io::Result<Link> {
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        let port = authority.port_u16().unwrap_or(if self.tls.is_some() { 443 } else { 80 });
        let tcp = TcpStream::connect((host, port)).await?;
        tcp.set_nodelay(true)?;
        let Some(tls) = &self.tls else { return Ok(Link::new(tcp, false)) };
        let config = match protocol {
            Protocol::Either => tls.either.clone(),
            Protocol::OnlyHttp1 => tls.old.clone(),
        };
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let stream = TlsConnector::from(config).connect(name, tcp).await?;
        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok(Link::new(stream, http2))
    }
}

impl tower::Service<Uri> for Connector {
    type Response = Link;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Link>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connector = self.clone();
        async move {
            let authority = uri.authority().ok_or_else(|| io::Error::other("no authority"))?;
            connector.connect(authority, Protocol::Either).await
        }
        .boxed()
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// One connection to the API server.
pub struct Link {
    io: TokioIo<Box<dyn Stream>>,
    http2: bool,
}

impl Link {
    fn new(stream: impl Stream + 'static, http2: bool) -> Self {
        Self { io: TokioIo::new(Box::new(stream)), http2 }
    }
}

impl Connection for Link {
    fn connected(&self) -> Connected {
        if self.http2 { Connected::new().negotiated_h2() } else { Connected::new() }
    }
}

impl Read for Link {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl Write for Link {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
