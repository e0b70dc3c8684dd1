//! The harness's client as the way of the built-in controllers to a real server.

use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use reconverge_apiserver::controllers::remote::{Body, BoxError, Transport};

/// With the client's credentials and connections.
pub(super) struct Connected(pub kube::Client);

impl Transport for Connected {
    fn send(&self, request: Request<Vec<u8>>) -> BoxFuture<'static, Result<Response<Body>, BoxError>> {
        let client = self.0.clone();
        Box::pin(async move {
            let response = client.send(request.map(kube::client::Body::from)).await?;
            Ok(response.map(|body| body.map_err(BoxError::from).boxed_unsync()))
        })
    }
}
