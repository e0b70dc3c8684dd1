//! Errors as the API reports them: `metav1.Status` with reason, details and causes.

use serde_json::{Value, json};

use crate::resource::Gvr;

/// One entry of `status.details.causes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// `FieldValueInvalid`, `FieldValueRequired`, `FieldManagerConflict`, ...
    pub reason: &'static str,
    pub message: String,
    /// `spec.replicas`, `.spec.template` for field-manager conflicts.
    pub field: String,
}

impl Cause {
    /// `field: Required value: detail`.
    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        let tail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
        Self { reason: "FieldValueRequired", message: format!("Required value{tail}"), field: field.into() }
    }

    /// `field: Invalid value: <value>: detail`.
    pub fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        Self { reason: "FieldValueInvalid", message: format!("Invalid value: {value}: {detail}"), field: field.into() }
    }

    /// A cause with any other reason.
    pub fn new(reason: &'static str, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), field: field.into() }
    }
}

/// An error answer of the API: the status code and the parts of its `Status` body.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code} {reason}: {message}")]
pub struct ApiError {
    pub code: u16,
    pub reason: &'static str,
    pub message: String,
    /// Boxed so that `Result<_, ApiError>` stays small on the hot path.
    pub details: Box<Details>,
}

/// The `details` of a `Status`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Details {
    pub name: String,
    pub group: String,
    /// The plural resource, or the kind for validation errors, as the real server does.
    pub kind: String,
    pub uid: String,
    pub causes: Vec<Cause>,
    pub retry_after_seconds: Option<u32>,
}

impl ApiError {
    #[must_use]
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: Box::default() }
    }

    fn on(mut self, gvr: &Gvr, name: &str) -> Self {
        self.details.group.clone_from(&gvr.group);
        self.details.kind.clone_from(&gvr.resource);
        name.clone_into(&mut self.details.name);
        self
    }

    #[must_use]
    pub fn not_found(gvr: &Gvr, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} \"{name}\" not found", gvr.group_resource())).on(gvr, name)
    }

    #[must_use]
    pub fn already_exists(gvr: &Gvr, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} \"{name}\" already exists", gvr.group_resource())).on(gvr, name)
    }

    /// The optimistic lock or a precondition failed.
    #[must_use]
    pub fn conflict(gvr: &Gvr, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", gvr.group_resource());
        Self::new(409, "Conflict", message).on(gvr, name)
    }

    /// The conflict that a stale `resourceVersion` gives.
    #[must_use]
    pub fn stale(gvr: &Gvr, name: &str) -> Self {
        Self::conflict(
            gvr,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    #[must_use]
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    #[must_use]
    pub fn method_not_allowed() -> Self {
        Self::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
    }

    /// The resourceVersion asked for is no longer kept.
    #[must_use]
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    #[must_use]
    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// 422 with one cause per violated rule; `kind` is the object's kind.
    #[must_use]
    pub fn invalid(group: &str, kind: &str, name: &str, causes: Vec<Cause>) -> Self {
        let list: Vec<String> = causes.iter().map(|c| format!("{}: {}", c.field, c.message)).collect();
        let joined = match list.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let full = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let mut error = Self::new(422, "Invalid", format!("{full} \"{name}\" is invalid: {joined}"));
        *error.details =
            Details { name: name.into(), group: group.into(), kind: kind.into(), causes, ..Details::default() };
        error
    }

    /// What this server does not do: the harness makes a run that met this inconclusive.
    #[must_use]
    pub fn unsupported(what: &str) -> Self {
        Self::new(501, "EmbeddedUnsupported", format!("the embedded API server does not support {what}"))
    }

    /// The `Status` object.
    #[must_use]
    pub fn to_status(&self) -> Value {
        let d = &self.details;
        let mut details = serde_json::Map::new();
        for (key, text) in [("name", &d.name), ("group", &d.group), ("kind", &d.kind), ("uid", &d.uid)] {
            if !text.is_empty() {
                details.insert(key.into(), json!(text));
            }
        }
        if !d.causes.is_empty() {
            let causes: Vec<Value> =
                d.causes.iter().map(|c| json!({"reason": c.reason, "message": c.message, "field": c.field})).collect();
            details.insert("causes".into(), causes.into());
        }
        if let Some(seconds) = d.retry_after_seconds {
            details.insert("retryAfterSeconds".into(), seconds.into());
        }
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if !details.is_empty() {
            status["details"] = Value::Object(details);
        }
        status
    }
}
