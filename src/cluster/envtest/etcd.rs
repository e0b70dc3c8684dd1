//! What a control plane has stored, through etcd's JSON gateway: read all keys, and change many in one transaction.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::{Value, json};

use super::EnvtestError;

/// One key as it is stored now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stored {
    /// The revision of the key's last change.
    pub revision: i64,
    /// Empty when only keys were asked for.
    pub value: Vec<u8>,
}

pub(super) type Keys = BTreeMap<String, Stored>;

/// Which part of the entries to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Keys,
    Values,
}

pub(super) struct Etcd {
    url: String,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Etcd {
    pub(super) fn new(url: String) -> Self {
        Self { url, client: Client::builder(TokioExecutor::new()).build_http() }
    }

    /// Everything that the API server has stored.
    pub(super) async fn read(&self, part: Part) -> Result<Keys, EnvtestError> {
        let range = json!({
            "key": STANDARD.encode("/registry/"),
            // The first key that does not begin with it.
            "range_end": STANDARD.encode("/registry0"),
            "keys_only": part == Part::Keys,
        });
        let answer = self.call("range", &range).await?;
        let entries = answer["kvs"].as_array().map(Vec::as_slice).unwrap_or_default();
        entries.iter().map(entry).collect::<Option<Keys>>().ok_or_else(|| failed("range", "an entry cannot be read"))
    }

    /// Deletes and writes at once; gives the revision that all of it has.
    pub(super) async fn change(&self, delete: &[String], put: &[(String, Vec<u8>)]) -> Result<i64, EnvtestError> {
        let deletions = delete.iter().map(|key| json!({"request_delete_range": {"key": STANDARD.encode(key)}}));
        let writes = put
            .iter()
            .map(|(key, value)| json!({"request_put": {"key": STANDARD.encode(key), "value": STANDARD.encode(value)}}));
        let operations: Vec<Value> = deletions.chain(writes).collect();
        let answer = self.call("txn", &json!({"success": operations})).await?;
        number(&answer["header"]["revision"]).ok_or_else(|| failed("txn", "the answer has no revision"))
    }

    async fn call(&self, operation: &'static str, body: &Value) -> Result<Value, EnvtestError> {
        let request = Request::post(format!("{}/v3/kv/{operation}", self.url))
            .body(Full::new(Bytes::from(body.to_string())))
            .map_err(|error| failed(operation, &error.to_string()))?;
        let response = self.client.request(request).await.map_err(|error| failed(operation, &chain(&error)))?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(|error| failed(operation, &chain(&error)))?.to_bytes();
        if !status.is_success() {
            return Err(failed(operation, &format!("{status}: {}", String::from_utf8_lossy(&body))));
        }
        serde_json::from_slice(&body).map_err(|error| failed(operation, &error.to_string()))
    }
}

fn entry(kv: &Value) -> Option<(String, Stored)> {
    let bytes = |field: &str| STANDARD.decode(kv[field].as_str().unwrap_or_default()).ok();
    let key = String::from_utf8(bytes("key")?).ok()?;
    Some((key, Stored { revision: number(&kv["mod_revision"])?, value: bytes("value")? }))
}

/// The gateway writes 64-bit numbers as strings.
fn number(value: &Value) -> Option<i64> {
    value.as_str()?.parse().ok()
}

fn failed(operation: &str, why: &str) -> EnvtestError {
    EnvtestError::Etcd { operation: operation.to_owned(), why: why.to_owned() }
}

fn chain(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(error.source(), |inner| inner.source());
    sources.fold(error.to_string(), |text, inner| format!("{text}: {inner}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_from_the_gateway() {
        let (key, stored) = entry(&json!({"key": "L2E=", "mod_revision": "7", "value": "YQ=="})).unwrap();
        assert_eq!((key.as_str(), stored.revision, stored.value.as_slice()), ("/a", 7, b"a".as_slice()));
        assert!(entry(&json!({"key": "L2E="})).is_none());
    }
}
