//! What the proxy reads out of request and answer bodies, and what of them goes into the record.

use http::{HeaderMap, header};
use serde_json::Value;

use super::protobuf;
use crate::{
    event::{Target, Verb},
    redact,
};

/// Facts of one body; empty where it does not say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    pub kind: String,
    pub name: String,
    pub generate_name: String,
    /// Of the object, or the precondition of `DeleteOptions`.
    pub resource_version: String,
    /// Of a `Status`.
    pub reason: String,
    pub message: String,
    /// How many, for lists.
    pub items: Option<usize>,
    /// `dryRun` of `DeleteOptions`.
    pub dry_run: bool,
}

/// A request body, read.
#[derive(Debug, Clone, Default)]
pub struct Sent {
    pub facts: Facts,
    /// JSON, not redacted; null for other encodings.
    pub json: Value,
}

impl Sent {
    pub fn read(headers: &HeaderMap, body: &[u8]) -> Self {
        if body.is_empty() {
            return Self::default();
        }
        if let Some(facts) = protobuf::facts(body) {
            return Self { facts, json: Value::Null };
        }
        let json = serde_json::from_slice(body).ok().or_else(|| yaml(headers, body)).unwrap_or(Value::Null);
        Self { facts: json_facts(&json), json }
    }

    /// The name that a create asks for; a trailing `*` stands for what the server adds to a `generateName`.
    pub fn created_name(&self) -> String {
        match (self.facts.name.as_str(), self.facts.generate_name.as_str()) {
            ("", "") => String::new(),
            ("", prefix) => format!("{prefix}*"),
            (name, _) => name.to_owned(),
        }
    }

    /// The body as it may be recorded. Token requests are left out altogether.
    pub fn recorded(mut self, target: &Target) -> Value {
        if !target.verb.is_mutating() || is_token(target) {
            return Value::Null;
        }
        if target.group.is_empty() && target.resource == "secrets" && target.verb != Verb::Delete {
            redact::redact_secret(&mut self.json);
        } else {
            redact::redact(&mut self.json);
        }
        self.json
    }
}

fn is_token(target: &Target) -> bool {
    target.subresource == "token" || target.group == "authentication.k8s.io"
}

fn yaml(headers: &HeaderMap, body: &[u8]) -> Option<Value> {
    let content_type = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    if !content_type.contains("yaml") {
        return None;
    }
    serde_saphyr::from_slice(body).ok()
}

/// Facts of an answer, of any encoding.
pub fn read_answer(body: &[u8]) -> Facts {
    protobuf::facts(body)
        .or_else(|| serde_json::from_slice(body).ok().map(|json| json_facts(&json)))
        .unwrap_or_default()
}

fn json_facts(json: &Value) -> Facts {
    if let Value::Array(operations) = json {
        return Facts { resource_version: tested_version(operations), ..Facts::default() };
    }
    let text = |pointer| json.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let kind = text("/kind");
    let status = kind == "Status";
    let list = json.get("items").and_then(Value::as_array).filter(|_| kind.ends_with("List"));
    let version = match json.pointer("/preconditions/resourceVersion").and_then(Value::as_str) {
        Some(version) => version.to_owned(),
        None if list.is_some() || status => String::new(),
        None => text("/metadata/resourceVersion"),
    };
    Facts {
        name: text("/metadata/name"),
        generate_name: text("/metadata/generateName"),
        resource_version: version,
        reason: if status { text("/reason") } else { String::new() },
        message: if status { text("/message") } else { String::new() },
        items: list.map(Vec::len),
        dry_run: kind == "DeleteOptions"
            && json.get("dryRun").is_some_and(|modes| modes.as_array().is_none_or(|m| !m.is_empty())),
        kind,
    }
}

/// The resourceVersion that a JSON patch tests or sets: the server takes either for a precondition.
fn tested_version(operations: &[Value]) -> String {
    operations
        .iter()
        .filter(|operation| operation.get("path").and_then(Value::as_str) == Some("/metadata/resourceVersion"))
        .find_map(|operation| operation.get("value").and_then(Value::as_str))
        .unwrap_or_default()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::faults::fixture::target;

    fn sent(content_type: &str, body: &str) -> Sent {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, content_type.parse().unwrap());
        Sent::read(&headers, body.as_bytes())
    }

    #[test]
    fn preconditions_are_found_wherever_they_stand() {
        for (content_type, body) in [
            ("application/json", r#"{"metadata":{"name":"a","resourceVersion":"7"}}"#),
            ("application/json", r#"{"kind":"DeleteOptions","preconditions":{"resourceVersion":"7"}}"#),
            ("application/json-patch+json", r#"[{"op":"test","path":"/metadata/resourceVersion","value":"7"}]"#),
            ("application/apply-patch+yaml", "metadata:\n  resourceVersion: \"7\"\n"),
        ] {
            assert_eq!(sent(content_type, body).facts.resource_version, "7", "{body}");
        }
        assert_eq!(sent("application/json", r#"{"metadata":{"name":"a"}}"#).facts.resource_version, "");
        assert_eq!(sent("text/plain", "metadata: {resourceVersion: x}").facts, Facts::default());
    }

    #[test]
    fn created_names() {
        assert_eq!(sent("application/json", r#"{"metadata":{"name":"a"}}"#).created_name(), "a");
        assert_eq!(sent("application/json", r#"{"metadata":{"generateName":"a-"}}"#).created_name(), "a-*");
        assert_eq!(sent("application/json", "").created_name(), "");
    }

    #[test]
    fn secrets_and_tokens_do_not_reach_the_record() {
        let body = sent("application/merge-patch+json", r#"{"data":{"p":"aHVudGVyMjI="}}"#);
        let recorded = body.recorded(&target(Verb::Patch, "secrets", "s"));
        assert!(!recorded.to_string().contains("aHVudGVyMjI"));
        let mut token = target(Verb::Create, "serviceaccounts", "s");
        token.subresource = "token".into();
        assert_eq!(sent("application/json", r#"{"spec":{}}"#).recorded(&token), Value::Null);
        let plain = sent("application/json", r#"{"kind":"ConfigMap","data":{"p":"q"}}"#);
        assert_eq!(
            plain.recorded(&target(Verb::Create, "configmaps", "")),
            json!({"kind":"ConfigMap","data":{"p":"q"}})
        );
    }

    #[test]
    fn answers_tell_failure_object_and_list_apart() {
        let status = read_answer(br#"{"kind":"Status","status":"Failure","reason":"NotFound","message":"no"}"#);
        assert_eq!((status.reason.as_str(), status.message.as_str()), ("NotFound", "no"));
        assert_eq!(read_answer(br#"{"kind":"Pod","metadata":{"resourceVersion":"5"}}"#).resource_version, "5");
        let list = read_answer(br#"{"kind":"PodList","metadata":{"resourceVersion":"5"},"items":[{}]}"#);
        assert_eq!((list.items, list.resource_version.as_str()), (Some(1), ""));
        assert_eq!(read_answer(b"plain text"), Facts::default());
    }
}
