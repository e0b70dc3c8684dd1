//! Answers before they become HTTP responses, and the forms of objects in them.

use std::borrow::Cow;

use bytes::Bytes;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{discovery::ResourceType, status::ApiError};

use super::{convert, negotiate::Form, table, watch::Watcher};

/// What a request is answered with.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub content_type: Cow<'static, str>,
    /// Texts of `Warning` headers.
    pub warnings: Vec<String>,
    pub retry_after: Option<u32>,
    pub body: Payload,
}

/// The body of an answer.
#[derive(Debug)]
pub enum Payload {
    Whole(Bytes),
    Watch(Box<Watcher>),
}

const JSON: Cow<'static, str> = Cow::Borrowed("application/json");

impl Answer {
    pub(crate) fn bytes(code: u16, content_type: impl Into<Cow<'static, str>>, body: impl Into<Bytes>) -> Self {
        let body = Payload::Whole(body.into());
        Self { code, content_type: content_type.into(), warnings: Vec::new(), retry_after: None, body }
    }

    pub(crate) fn text(code: u16, body: &'static str) -> Self {
        Self::bytes(code, "text/plain; charset=utf-8", body)
    }

    /// What a server says about a path that it does not know.
    pub(crate) fn unknown_path() -> Self {
        Self::text(404, "404 page not found\n")
    }

    pub(crate) fn json(code: u16, value: &impl Serialize) -> Self {
        match serde_json::to_vec(value) {
            Ok(mut body) => {
                body.push(b'\n');
                Self::bytes(code, JSON, body)
            }
            Err(error) => Self::text(500, "").with_warning(error.to_string()),
        }
    }

    pub(crate) fn watch(watcher: Watcher) -> Self {
        let body = Payload::Watch(Box::new(watcher));
        Self { code: 200, content_type: JSON, warnings: Vec::new(), retry_after: None, body }
    }

    fn with_warning(mut self, text: String) -> Self {
        self.warnings.push(text);
        self
    }
}

impl From<ApiError> for Answer {
    fn from(error: ApiError) -> Self {
        let mut answer = Self::json(error.code, &error.to_status());
        answer.retry_after = error.details.retry_after_seconds;
        answer
    }
}

/// Picks the first accepted form that this resource has. Tables of built-in kinds with columns of their own are not
/// made; clients then print what the objects themselves say.
pub(crate) fn choose_form(forms: &[Form], kind: &ResourceType) -> Result<Form, ApiError> {
    let usable = forms.iter().find(|form| **form != Form::Table || table::has(kind));
    usable.copied().ok_or_else(super::negotiate::not_acceptable)
}

/// A stored object in the form and version that the client asked for.
pub(crate) fn present(form: Form, kind: &ResourceType, object: &Value, now: Timestamp) -> Value {
    match form {
        Form::Object => convert::from_storage(kind, object),
        Form::Partial => partial(object),
        Form::Table => {
            table::of(kind, &[object], json!({"resourceVersion": object["metadata"]["resourceVersion"]}), now)
        }
    }
}

pub(crate) fn partial(object: &Value) -> Value {
    let metadata = object.get("metadata").cloned().unwrap_or_else(|| json!({}));
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
}
