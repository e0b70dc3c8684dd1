//! An upstream with one object, one watch, and an echo behind `exec`.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Frame, Incoming},
    service::service_fn,
};
use hyper_util::{rt::TokioIo, server::conn::auto};
use tokio::{net::TcpListener, sync::broadcast};
use tokio_rustls::TlsAcceptor;

use super::client::Http;
use crate::faults::proxy::{certificate, task::Tasks};

pub const POD: &str = "/api/v1/namespaces/demo/pods/a";

/// The object at that version.
pub fn object(version: u64) -> Bytes {
    format!("{{\"kind\":\"Pod\", \"metadata\":{{\"name\":\"a\",\"resourceVersion\":\"{version}\"}}}}").into()
}

#[derive(Debug, Clone)]
pub struct Got {
    pub method: Method,
    pub headers: HeaderMap,
    pub body: Bytes,
}

#[derive(Debug)]
struct State {
    got: Mutex<Vec<Got>>,
    version: Mutex<u64>,
    frames: broadcast::Sender<Bytes>,
    tasks: Tasks,
}

#[derive(Debug)]
pub struct Origin {
    pub url: String,
    pub ca_pem: String,
    /// What is sent here comes out of every open watch.
    pub frames: broadcast::Sender<Bytes>,
    state: Arc<State>,
}

impl Origin {
    pub async fn start(http: Http) -> Self {
        let (tls, ca_pem) = certificate::make(std::net::Ipv4Addr::LOCALHOST.into(), None).unwrap();
        let mut tls = (*tls).clone();
        tls.alpn_protocols = match http {
            Http::One => vec![Http::One.alpn().to_vec()],
            // An upgrade asks for HTTP/1.1 on a connection of its own.
            Http::Two => vec![Http::Two.alpn().to_vec(), Http::One.alpn().to_vec()],
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let tasks = Tasks::new();
        let frames = broadcast::Sender::new(16);
        let state = Arc::new(State { got: Mutex::default(), version: Mutex::new(0), frames: frames.clone(), tasks });
        state.tasks.spawn(accept(listener, TlsAcceptor::from(Arc::new(tls)), state.clone()));
        Self { url, ca_pem, frames, state }
    }

    pub fn got(&self) -> Vec<Got> {
        self.state.got.lock().unwrap().clone()
    }

    pub async fn shutdown(&self) {
        self.state.tasks.end().await;
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, state: Arc<State>) {
    loop {
        let (tcp, _) = listener.accept().await.unwrap();
        let (acceptor, state) = (acceptor.clone(), state.clone());
        state.tasks.clone().spawn(async move {
            let Ok(tls) = acceptor.accept(tcp).await else { return };
            let tasks = state.tasks.clone();
            let service = service_fn(move |request| answer(state.clone(), request));
            let _ = auto::Builder::new(tasks).serve_connection_with_upgrades(TokioIo::new(tls), service).await;
        });
    }
}

async fn answer(
    state: Arc<State>,
    request: Request<Incoming>,
) -> Result<Response<UnsyncBoxBody<Bytes, Infallible>>, Infallible> {
    if request.headers().contains_key("upgrade") {
        return Ok(echo(&state, request));
    }
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let got = Got { method: parts.method.clone(), headers: parts.headers, body: body.clone() };
    state.got.lock().unwrap().push(got);
    if parts.uri.query().is_some_and(|query| query.contains("watch=")) {
        let frames = state.frames.subscribe();
        let frames = futures::stream::unfold(frames, |mut frames| async move {
            let frame = frames.recv().await.ok()?;
            Some((Ok(Frame::data(frame)), frames))
        });
        return Ok(Response::new(StreamBody::new(frames).boxed_unsync()));
    }
    let mut version = state.version.lock().unwrap();
    let changes = parts.method != Method::GET && !body.windows(4).any(|part| part == b"noop");
    *version += u64::from(changes);
    let status = match (parts.method, *version) {
        (Method::GET, 0) => StatusCode::NOT_FOUND,
        (Method::POST, _) => StatusCode::CREATED,
        _ => StatusCode::OK,
    };
    let mut response = Response::new(Full::new(object(*version)).boxed_unsync());
    *response.status_mut() = status;
    Ok(response)
}

fn echo(state: &State, mut request: Request<Incoming>) -> Response<UnsyncBoxBody<Bytes, Infallible>> {
    let upgrade = hyper::upgrade::on(&mut request);
    state.tasks.spawn(async move {
        let (mut read, mut write) = tokio::io::split(TokioIo::new(upgrade.await.unwrap()));
        let _ = tokio::io::copy(&mut read, &mut write).await;
    });
    Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header("connection", "Upgrade")
        .header("upgrade", "websocket")
        .body(Full::new(Bytes::new()).boxed_unsync())
        .unwrap()
}
