//! Upgraded connections: `exec`, `attach`, `port-forward`, over HTTP/1.1 on both sides.
//!
//! # Guarantees
//! After the server's 101 the bytes pass untouched, until either side ends or the client's connection is dropped.

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header, request, uri};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;

use super::{
    exchange::{Body, full},
    task::Tasks,
    upstream::Server,
};

/// Why the server could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum TunnelError {
    #[error("cannot connect")]
    Connect(#[from] std::io::Error),
    #[error("cannot send the request")]
    Http(#[from] hyper::Error),
}

/// Whether the client asks for another protocol.
pub fn is_upgrade(parts: &request::Parts) -> bool {
    parts.version < http::Version::HTTP_2 && parts.headers.contains_key(header::UPGRADE)
}

/// Passes the request on over a connection of its own; `parts` lose the client's side of the upgrade.
pub async fn open(
    server: &Server,
    tasks: &Tasks,
    parts: &mut request::Parts,
    body: Bytes,
) -> Result<Response<Body>, TunnelError> {
    let link = server.dial().await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(link).await?;
    tasks.spawn(async move {
        // Its end is seen by the request.
        let _ = connection.with_upgrades().await;
    });
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = parts.method.clone();
    let path = parts.uri.path_and_query().cloned().unwrap_or_else(|| uri::PathAndQuery::from_static("/"));
    *request.uri_mut() = uri::Uri::from(path);
    *request.headers_mut() = parts.headers.clone();
    if let Ok(host) = HeaderValue::from_str(server.authority()) {
        request.headers_mut().insert(header::HOST, host);
    }
    let mut response = sender.send_request(request).await?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(response.map(BodyExt::boxed));
    }
    let there = hyper::upgrade::on(&mut response);
    let mut client = Request::from_parts(std::mem::replace(parts, Request::new(()).into_parts().0), ());
    let here = hyper::upgrade::on(&mut client);
    *parts = client.into_parts().0;
    tasks.spawn(async move {
        // An error of either side ends the tunnel; both clients see that by themselves.
        if let (Ok(here), Ok(there)) = tokio::join!(here, there) {
            let _ = tokio::io::copy_bidirectional(&mut TokioIo::new(here), &mut TokioIo::new(there)).await;
        }
    });
    let (head, _) = response.into_parts();
    Ok(Response::from_parts(head, full(Bytes::new())))
}
