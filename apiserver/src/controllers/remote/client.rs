//! The [`Client`] of controllers over HTTP.

use std::{sync::Arc, time::Duration};

use http::{Request, header};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::{
    Transport,
    mirror::{Mirror, typed},
};
use crate::{
    clock::SharedClock,
    controllers::{
        Client, Key, ResourceInfo,
        object::{list, name, namespace, text},
    },
    entropy::Entropy,
    resource::Gvr,
    status::{ApiError, Cause},
};

/// A request that takes longer has lost its server.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where lists come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reads {
    Mirrored,
    Live,
}

impl Reads {
    /// Those that delete upon absence must not mistake a watch that is behind for absence.
    pub(super) fn of(user: &str) -> Self {
        let careful = ["generic-garbage-collector", "namespace-controller"];
        if careful.iter().any(|name| user.ends_with(name)) { Self::Live } else { Self::Mirrored }
    }
}

/// See the module; made for one controller.
pub(super) struct RemoteClient {
    pub transport: Arc<dyn Transport>,
    pub mirror: Arc<Mirror>,
    pub runtime: Handle,
    pub clock: SharedClock,
    pub entropy: Entropy,
    pub manager: String,
    pub reads: Reads,
}

/// One request to come.
struct Call<'a> {
    method: &'static str,
    path: String,
    content: &'static str,
    body: Option<&'a Value>,
}

const JSON: &str = "application/json";

impl RemoteClient {
    /// Sends, and waits on this thread for the answer that the runtime's other threads take in.
    fn call(&self, call: Call<'_>) -> Result<Value, ApiError> {
        let is_write = call.method == "POST" || call.method == "PUT" || call.method == "PATCH";
        let query = if is_write { format!("?fieldManager={}", self.manager) } else { String::new() };
        let body = call.body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let request = Request::builder()
            .method(call.method)
            .uri(format!("{}{query}", call.path))
            .header(header::ACCEPT, JSON)
            .header(header::CONTENT_TYPE, call.content)
            .body(body)
            .map_err(|error| lost(&call.path, &error.to_string()))?;
        let sent = self.transport.send(request);
        let (done, answer) = std::sync::mpsc::sync_channel(1);
        self.runtime.spawn(async move {
            let exchange = async {
                let (parts, body) = sent.await?.into_parts();
                Ok::<_, super::BoxError>((parts.status, body.collect().await?.to_bytes()))
            };
            let answer = match tokio::time::timeout(PATIENCE, exchange).await {
                Ok(exchanged) => exchanged.map_err(|error| error.to_string()),
                Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
            };
            // Nobody waits any more when the controllers were ended.
            let _ = done.send(answer);
        });
        let (status, bytes) = match answer.recv() {
            Ok(Ok(answer)) => answer,
            Ok(Err(why)) => return Err(lost(&call.path, &why)),
            Err(_) => return Err(lost(&call.path, "the runtime has ended")),
        };
        let body: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        if status.is_success() { Ok(body) } else { Err(error_of(status.as_u16(), &body, &bytes)) }
    }

    fn path(&self, gvr: &Gvr, namespace: &str, name: &str, subresource: &str) -> String {
        let namespaced = self.mirror.info(gvr).is_none_or(|info| info.namespaced);
        path(gvr, if namespaced { namespace } else { "" }, name, subresource)
    }
}

impl Client for RemoteClient {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn entropy(&self) -> &Entropy {
        &self.entropy
    }

    fn get(&self, gvr: &Gvr, namespace: &str, name: &str) -> Result<Value, ApiError> {
        self.call(Call { method: "GET", path: self.path(gvr, namespace, name, ""), content: JSON, body: None })
    }

    fn list(&self, gvr: &Gvr, namespace: Option<&str>) -> Result<Vec<Value>, ApiError> {
        if self.reads == Reads::Mirrored
            && let Some(items) = self.mirror.list(gvr, namespace)
        {
            return Ok(items);
        }
        let path = self.path(gvr, namespace.unwrap_or_default(), "", "");
        let mut answer = self.call(Call { method: "GET", path, content: JSON, body: None })?;
        let kind = text(&answer, "/kind").trim_end_matches("List").to_owned();
        let info = ResourceInfo { gvr: gvr.clone(), kind, namespaced: false };
        let items = match answer["items"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        };
        Ok(items.into_iter().map(|item| typed(item, &info)).collect())
    }

    fn create(&self, gvr: &Gvr, namespace: &str, object: &Value) -> Result<Value, ApiError> {
        let path = self.path(gvr, namespace, "", "");
        let created = self.call(Call { method: "POST", path, content: JSON, body: Some(object) })?;
        self.mirror.wrote(gvr, &created);
        Ok(created)
    }

    fn update(&self, gvr: &Gvr, subresource: &str, object: &Value) -> Result<Value, ApiError> {
        let path = self.path(gvr, namespace(object), name(object), subresource);
        let done = self.call(Call { method: "PUT", path, content: JSON, body: Some(object) })?;
        self.mirror.wrote(gvr, &done);
        Ok(done)
    }

    fn patch(
        &self,
        gvr: &Gvr,
        subresource: &str,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<Value, ApiError> {
        let path = self.path(gvr, namespace, name, subresource);
        let content = "application/merge-patch+json";
        let done = self.call(Call { method: "PATCH", path, content, body: Some(patch) })?;
        self.mirror.wrote(gvr, &done);
        Ok(done)
    }

    fn delete(&self, gvr: &Gvr, namespace: &str, name: &str, options: &Value) -> Result<(), ApiError> {
        let path = self.path(gvr, namespace, name, "");
        let mut options = options.clone();
        options["apiVersion"] = json!("v1");
        options["kind"] = json!("DeleteOptions");
        let deleting = Call { method: "DELETE", path: path.clone(), content: JSON, body: Some(&options) };
        self.call(deleting)?;
        // The answer does not tell an object that waits for finalizers from one that is gone.
        match self.call(Call { method: "GET", path, content: JSON, body: None }) {
            Ok(object) => self.mirror.wrote(gvr, &object),
            Err(error) if error.code == 404 => {
                self.mirror.deleted(gvr, &Key { namespace: namespace.into(), name: name.into() });
            }
            // The watch will tell.
            Err(_) => {}
        }
        Ok(())
    }

    fn create_subresource(
        &self,
        gvr: &Gvr,
        subresource: &str,
        namespace: &str,
        name: &str,
        object: &Value,
    ) -> Result<Value, ApiError> {
        let path = self.path(gvr, namespace, name, subresource);
        self.call(Call { method: "POST", path, content: JSON, body: Some(object) })
    }

    fn resources(&self) -> Vec<ResourceInfo> {
        self.mirror.resources()
    }
}

/// The URL's path of an object, or of a list when it has no name.
pub(super) fn path(gvr: &Gvr, namespace: &str, name: &str, subresource: &str) -> String {
    let mut path = String::from(if gvr.group.is_empty() { "/api/" } else { "/apis/" });
    path.push_str(&gvr.api_version());
    let inside = if namespace.is_empty() { ["", ""] } else { ["namespaces", namespace] };
    for part in inside.into_iter().chain([gvr.resource.as_str(), name, subresource]).filter(|part| !part.is_empty()) {
        path.push('/');
        path.push_str(part);
    }
    path
}

fn lost(path: &str, why: &str) -> ApiError {
    ApiError::new(503, "ServiceUnavailable", format!("{path}: {why}"))
}

/// The reasons that controllers or their readers tell apart.
const REASONS: [&str; 14] = [
    "NotFound",
    "AlreadyExists",
    "Conflict",
    "Invalid",
    "Forbidden",
    "Unauthorized",
    "BadRequest",
    "Expired",
    "Gone",
    "TooManyRequests",
    "MethodNotAllowed",
    "InternalError",
    "ServiceUnavailable",
    "NamespaceTerminating",
];

fn known(reason: &str) -> &'static str {
    REASONS.into_iter().find(|known| *known == reason).unwrap_or("Unknown")
}

fn error_of(code: u16, status: &Value, bytes: &[u8]) -> ApiError {
    let message = match text(status, "/message") {
        "" => String::from_utf8_lossy(&bytes[..bytes.len().min(300)]).into_owned(),
        message => message.to_owned(),
    };
    let mut error = ApiError::new(code, known(text(status, "/reason")), message);
    let causes = list(status, "/details/causes");
    error.details.causes =
        causes.iter().map(|c| Cause::new(known(text(c, "/reason")), text(c, "/field"), text(c, "/message"))).collect();
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_api() {
        let pods = Gvr::new("", "v1", "pods");
        assert_eq!(path(&pods, "a", "p", "binding"), "/api/v1/namespaces/a/pods/p/binding");
        assert_eq!(path(&pods, "", "", ""), "/api/v1/pods");
        assert_eq!(path(&Gvr::new("apps", "v1", "deployments"), "a", "", ""), "/apis/apps/v1/namespaces/a/deployments");
        assert_eq!(path(&Gvr::new("", "v1", "namespaces"), "", "a", "finalize"), "/api/v1/namespaces/a/finalize");
    }

    #[test]
    fn errors_keep_what_the_driver_decides_upon() {
        let status = json!({"reason": "Forbidden", "message": "no", "details": {"causes": [
            {"reason": "NamespaceTerminating", "message": "is being terminated", "field": "metadata.namespace"},
        ]}});
        let error = error_of(403, &status, b"");
        assert_eq!((error.code, error.reason, error.message.as_str()), (403, "Forbidden", "no"));
        assert_eq!(error.details.causes[0].reason, "NamespaceTerminating");
        assert_eq!(error_of(502, &Value::Null, b"bad gateway").message, "bad gateway");
    }
}
