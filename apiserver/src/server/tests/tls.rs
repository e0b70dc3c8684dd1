//! The server behind a socket: what only TLS and HTTP can show.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::StreamExt as _;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use serde_json::json;
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{MAPS, Tester};
use crate::server::Listening;

/// Nothing here takes longer on an idle machine than a few milliseconds; the bound only stops a hang.
const LONG: Duration = Duration::from_secs(30);

async fn connect(listening: &Listening, protocol: &[u8], name: &'static str) -> TlsStream<TcpStream> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(listening.ca_pem().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    let stream = TcpStream::connect(listening.address()).await.unwrap();
    let name = ServerName::try_from(name).unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

fn request(uri: &str, token: &str) -> http::Request<Full<Bytes>> {
    http::Request::get(uri)
        .header("host", "kubernetes.default.svc")
        .header("authorization", format!("Bearer {token}"))
        .body(Full::default())
        .unwrap()
}

#[tokio::test]
async fn both_protocols_are_spoken_and_watches_stream() {
    let t = Tester::new();
    let listening = t.server.serve("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let token = t.server.admin_token();

    let tls = connect(&listening, b"http/1.1", "kubernetes.default.svc").await;
    let (mut one, link) = hyper::client::conn::http1::handshake(TokioIo::new(tls)).await.unwrap();
    let link = tokio::spawn(link);
    let got = one.send_request(request("/api/v1/nodes/node-1", &token)).await.unwrap();
    assert_eq!(got.status(), 200);
    got.collect().await.unwrap();
    let anonymous = http::Request::get("/api/v1/nodes").header("host", "x").body(Full::default()).unwrap();
    assert_eq!(one.send_request(anonymous).await.unwrap().status(), 401);

    let tls = connect(&listening, b"h2", "localhost").await;
    let (mut two, h2) = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(tls)).await.unwrap();
    let h2 = tokio::spawn(h2);
    let uri = format!("https://localhost{MAPS}?watch=1");
    let mut watch = two.send_request(request(&uri, &token)).await.unwrap().into_body().into_data_stream();
    t.config_map("a", json!({})).await;
    let frame = timeout(LONG, watch.next()).await.expect("no event").unwrap().unwrap();
    assert!(String::from_utf8_lossy(&frame).contains("\"ADDED\""));

    let port = listening.address();
    timeout(LONG, listening.shutdown()).await.expect("an open watch must not hold the shutdown up");
    assert!(TcpStream::connect(port).await.is_err());
    link.abort();
    h2.abort();
}

#[tokio::test]
async fn the_kubeconfig_names_the_listener() {
    let t = Tester::new();
    let listening = t.server.serve("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let text = listening.admin_kubeconfig();
    assert!(text.contains(&listening.url()) && text.contains(&t.server.admin_token()));
    listening.shutdown().await;
}
