//! Whether a write changed anything.
//!
//! The server answers a no-op write with success and the resourceVersion that the object had before. What it had is the
//! precondition where the request has one. Otherwise the object is read just before, with the client's own token;
//! where the client may not read, the version in the last answer about the object serves instead. A parallel write of
//! somebody else in between is taken for the client's own: best effort, without locks.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};

use super::{
    body::{self, Facts},
    upstream::Server,
};
use crate::event::{Target, Verb};

/// Enough for the metadata of any object, and for any object where the server sends it whole.
const MAX_READ: usize = 8 << 20;

/// What was known of an object before a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prior {
    Absent,
    Version(String),
    Unknown,
}

/// The last resourceVersion that was answered, by object.
#[derive(Debug, Default)]
pub struct Versions(Mutex<BTreeMap<(String, String, String, String), String>>);

impl Versions {
    /// Learns from an answer about one object.
    pub fn learn(&self, target: &Target, answer: &Facts) {
        if answer.items.is_some() || answer.resource_version.is_empty() {
            return;
        }
        let name = if answer.name.is_empty() { &target.name } else { &answer.name };
        let mut versions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        versions.insert(key(target, name), answer.resource_version.clone());
    }

    fn last(&self, target: &Target) -> Prior {
        let versions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        versions.get(&key(target, &target.name)).cloned().map_or(Prior::Unknown, Prior::Version)
    }

    /// What is known of the target of a write that is about to be forwarded.
    pub async fn before(
        &self,
        server: &Server,
        target: &Target,
        precondition: &str,
        headers: &HeaderMap,
        uri: &Uri,
    ) -> Prior {
        if !matches!(target.verb, Verb::Update | Verb::Patch | Verb::Delete) || target.name.is_empty() {
            return Prior::Unknown;
        }
        if !precondition.is_empty() {
            return Prior::Version(precondition.to_owned());
        }
        match read(server, target, headers, uri).await {
            Some(prior) => prior,
            None => self.last(target),
        }
    }
}

fn key(target: &Target, name: &str) -> (String, String, String, String) {
    (target.group.clone(), target.resource.clone(), target.namespace.clone(), name.to_owned())
}

async fn read(server: &Server, target: &Target, headers: &HeaderMap, uri: &Uri) -> Option<Prior> {
    let path = uri.path();
    // The object itself, whose version its subresources share.
    let path = if target.subresource.is_empty() {
        path
    } else {
        path.strip_suffix(&target.subresource)?.trim_end_matches('/')
    };
    let mut request = Request::new(Full::new(Bytes::new()));
    *request.method_mut() = Method::GET;
    *request.uri_mut() = path.parse().ok()?;
    for name in [header::AUTHORIZATION, header::USER_AGENT] {
        if let Some(value) = headers.get(&name) {
            request.headers_mut().insert(name, value.clone());
        }
    }
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json";
    request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static(accept));
    let response = server.send(request).await.ok()?;
    match response.status() {
        StatusCode::NOT_FOUND => Some(Prior::Absent),
        StatusCode::OK => {
            let body = Limited::new(response.into_body(), MAX_READ).collect().await.ok()?.to_bytes();
            let version = body::read_answer(&body).resource_version;
            (!version.is_empty()).then_some(Prior::Version(version))
        }
        _ => None,
    }
}

/// Whether the server committed a change; see [`crate::event::Request::committed`].
pub fn committed(target: &Target, dry_run: bool, prior: &Prior, status: u16, answer: &Facts) -> Option<bool> {
    if !target.verb.is_mutating() || dry_run || !(200..300).contains(&status) {
        return Some(false);
    }
    match target.verb {
        // Reviews and token requests are answered, and stored nowhere.
        Verb::Create if matches!(target.group.as_str(), "authentication.k8s.io" | "authorization.k8s.io") => {
            Some(false)
        }
        Verb::Create if target.subresource == "token" => Some(false),
        Verb::Create => Some(true),
        Verb::DeleteCollection => answer.items.map(|items| items > 0),
        // The object is gone, and the answer says so instead of showing it.
        Verb::Delete if answer.kind == "Status" => Some(true),
        _ if status == StatusCode::CREATED.as_u16() => Some(true),
        _ => match prior {
            Prior::Absent => Some(true),
            Prior::Version(_) | Prior::Unknown if answer.resource_version.is_empty() => None,
            Prior::Version(before) => Some(*before != answer.resource_version),
            Prior::Unknown => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::fixture::target;

    fn answer(kind: &str, version: &str) -> Facts {
        Facts { kind: kind.into(), resource_version: version.into(), ..Facts::default() }
    }

    #[test]
    fn a_write_counts_when_the_version_moved() {
        let seven = Prior::Version("7".into());
        let table = [
            (Verb::Update, &seven, 200, answer("Pod", "8"), Some(true)),
            (Verb::Update, &seven, 200, answer("Pod", "7"), Some(false)),
            (Verb::Patch, &Prior::Absent, 200, answer("Pod", "1"), Some(true)),
            (Verb::Patch, &Prior::Unknown, 201, answer("Pod", "1"), Some(true)),
            (Verb::Patch, &Prior::Unknown, 200, answer("Pod", "1"), None),
            (Verb::Patch, &seven, 409, answer("Status", ""), Some(false)),
            (Verb::Create, &Prior::Unknown, 201, answer("Pod", "1"), Some(true)),
            (Verb::Delete, &seven, 200, answer("Status", ""), Some(true)),
            (Verb::Delete, &seven, 200, answer("Pod", "8"), Some(true)),
            (Verb::Delete, &seven, 200, answer("Pod", "7"), Some(false)),
            (Verb::Get, &Prior::Unknown, 200, answer("Pod", "7"), Some(false)),
        ];
        for (verb, prior, status, answer, expected) in table {
            let found = committed(&target(verb, "pods", "a"), false, prior, status, &answer);
            assert_eq!(found, expected, "{verb:?} {prior:?} {status} {answer:?}");
        }
        assert_eq!(committed(&target(Verb::Create, "pods", "a"), true, &seven, 201, &answer("Pod", "1")), Some(false));
        let review =
            Target { group: "authorization.k8s.io".into(), ..target(Verb::Create, "subjectaccessreviews", "") };
        assert_eq!(committed(&review, false, &Prior::Unknown, 201, &Facts::default()), Some(false));
    }

    #[test]
    fn versions_are_remembered_by_object() {
        let versions = Versions::default();
        versions.learn(&target(Verb::Create, "pods", ""), &Facts { name: "a".into(), ..answer("Pod", "5") });
        assert_eq!(versions.last(&target(Verb::Patch, "pods", "a")), Prior::Version("5".into()));
        assert_eq!(versions.last(&target(Verb::Patch, "pods", "b")), Prior::Unknown);
    }
}
