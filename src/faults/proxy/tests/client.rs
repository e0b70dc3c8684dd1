//! A client with one connection of a chosen protocol.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::faults::proxy::upstream::{trust, with_alpn};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Http {
    One,
    Two,
}

impl Http {
    pub fn alpn(self) -> &'static [u8] {
        match self {
            Self::One => b"http/1.1",
            Self::Two => b"h2",
        }
    }
}

pub enum Peer {
    One(http1::SendRequest<Full<Bytes>>),
    Two(http2::SendRequest<Full<Bytes>>),
}

impl Peer {
    pub async fn connect(url: &str, ca_pem: &str, http: Http) -> Self {
        let tcp = TcpStream::connect(url.trim_start_matches("https://")).await.unwrap();
        let config = with_alpn(&trust(ca_pem).unwrap(), &[http.alpn()]);
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let tls = TlsConnector::from(config).connect(name, tcp).await.unwrap();
        assert_eq!(tls.get_ref().1.alpn_protocol(), Some(http.alpn()));
        match http {
            Http::One => {
                let (sender, connection) = http1::handshake(TokioIo::new(tls)).await.unwrap();
                tokio::spawn(connection.with_upgrades());
                Self::One(sender)
            }
            Http::Two => {
                let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(tls)).await.unwrap();
                tokio::spawn(connection);
                Self::Two(sender)
            }
        }
    }

    pub async fn send(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Response<Incoming>> {
        match self {
            Self::One(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
            Self::Two(sender) => {
                sender.ready().await?;
                let mut parts = request.uri().clone().into_parts();
                parts.scheme = Some(http::uri::Scheme::HTTPS);
                parts.authority = Some("localhost".parse().unwrap());
                let mut request = request;
                *request.uri_mut() = http::Uri::from_parts(parts).unwrap();
                request.headers_mut().remove("host");
                sender.send_request(request).await
            }
        }
    }
}

pub fn request(method: &str, uri: &str, body: &str) -> Request<Full<Bytes>> {
    Request::builder()
        .method(method)
        .uri(uri)
        .header("host", "localhost")
        .header("authorization", "Bearer operator-token")
        .header("accept-encoding", "gzip")
        .body(Full::new(Bytes::copy_from_slice(body.as_bytes())))
        .unwrap()
}

pub fn post(uri: &str, body: &str) -> Request<Full<Bytes>> {
    let mut request = request("POST", uri, body);
    request.headers_mut().insert("content-type", "application/json".parse().unwrap());
    request
}

pub fn patch(uri: &str, body: &str) -> Request<Full<Bytes>> {
    let mut request = request("PATCH", uri, body);
    request.headers_mut().insert("content-type", "application/merge-patch+json".parse().unwrap());
    request
}
