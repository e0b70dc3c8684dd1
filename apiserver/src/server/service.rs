//! `tower::Service` over the pipeline.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, Limited, StreamBody, combinators::UnsyncBoxBody};
use tower::Service;

use crate::{
    auth::Identity,
    pipeline::{self, Answer, Payload, Watcher},
    status::ApiError,
};

use super::ApiServer;

/// The body of every response.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Largest body that is read, as in a default server.
const BODY_LIMIT: usize = 3 * 1024 * 1024;

impl ApiServer {
    /// Answers one HTTP request. Its identity is that of the bearer token, else an [`Identity`] among the request's
    /// extensions.
    pub async fn handle<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        let body = match Limited::new(body, BODY_LIMIT).collect().await {
            Ok(collected) => collected.to_bytes(),
            Err(error) => {
                let why = format!("the body of the request could not be read: {error}");
                return respond(ApiError::new(413, "RequestEntityTooLarge", why).into());
            }
        };
        let Ok(user) = self.identity(&parts) else { return respond(ApiError::unauthorized().into()) };
        if parts.headers.keys().any(|name| name.as_str().starts_with("impersonate-")) {
            return respond(ApiError::unsupported("impersonation").into());
        }
        let text = |name| header_text(&parts.headers, name);
        let request = pipeline::Request {
            method: parts.method.as_str().to_owned(),
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            accept: text(header::ACCEPT),
            content_type: text(header::CONTENT_TYPE),
            user_agent: text(header::USER_AGENT),
            user,
            body,
        };
        respond(self.cluster().respond(&request))
    }

    /// Nobody, somebody, or an error for a token that is not ours.
    fn identity(&self, parts: &http::request::Parts) -> Result<Option<Identity>, ()> {
        let given = header_text(&parts.headers, header::AUTHORIZATION);
        let bearer = given.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        match bearer {
            Some((_, token)) => self.cluster().identify(token.trim()).map(Some).ok_or(()),
            None => Ok(parts.extensions.get::<Identity>().cloned()),
        }
    }
}

fn header_text(headers: &HeaderMap, name: header::HeaderName) -> String {
    // A list may be spread over several lines.
    let all: Vec<&str> = headers.get_all(name).iter().filter_map(|v| v.to_str().ok()).collect();
    all.join(",")
}

fn respond(answer: Answer) -> Response<Body> {
    let body = match answer.body {
        Payload::Whole(bytes) => Full::new(bytes).boxed_unsync(),
        Payload::Watch(watcher) => stream(*watcher),
    };
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(answer.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    if let Ok(kind) = HeaderValue::from_str(&answer.content_type) {
        headers.insert(header::CONTENT_TYPE, kind);
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    if let Some(seconds) = answer.retry_after {
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
    for text in answer.warnings {
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            headers.append(header::WARNING, value);
        }
    }
    response
}

/// One frame per event, so that each one reaches the client at once.
fn stream(watcher: Watcher) -> Body {
    let frames = futures::stream::unfold(watcher, |mut watcher| async move {
        let frame = watcher.next().await?;
        Some((Ok::<_, Infallible>(Frame::data(frame)), watcher))
    });
    StreamBody::new(frames).boxed_unsync()
}

type Answering = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

/// Requests without credentials get 401; use [`ApiServer::service_as`] or an [`Identity`] extension in-process.
impl<B> Service<Request<B>> for ApiServer
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Answering {
        let server = self.clone();
        Box::pin(async move { Ok(server.handle(request).await) })
    }
}

/// The server for callers in this process that have no token.
#[derive(Debug, Clone)]
pub struct ServiceAs {
    server: ApiServer,
    identity: Identity,
}

impl ServiceAs {
    pub(super) fn new(server: ApiServer, identity: Identity) -> Self {
        Self { server, identity }
    }
}

impl<B> Service<Request<B>> for ServiceAs
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Answering {
        request.extensions_mut().insert(self.identity.clone());
        self.server.call(request)
    }
}
