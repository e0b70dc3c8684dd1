//! The API server's audit log: an independent witness of who wrote what, and from where.
//!
//! # Guarantees
//! A request that came through the fault proxy has the address of this machine; one that a pod sent past it has the
//! pod's. Writes that the policy leaves out (leases, events, reviews) are not looked at.

use std::net::IpAddr;

use serde::Deserialize;

use super::{K3sError, engine::Engine, start::AUDIT_LOG};

/// The part of an entry that is read.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    verb: String,
    user: User,
    #[serde(default, rename = "sourceIPs")]
    source_ips: Vec<IpAddr>,
    #[serde(rename = "requestURI")]
    request_uri: String,
    #[serde(default)]
    user_agent: String,
}

#[derive(Debug, Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

/// How much has been written up to now, in bytes.
///
/// # Errors
/// When the node does not answer.
pub async fn length(engine: &Engine, node: &str) -> Result<u64, K3sError> {
    let done = engine.exec(node, &["sh", "-c", &format!("wc -c < {AUDIT_LOG} 2>/dev/null || echo 0")]).await?;
    Ok(done.stdout.trim().parse().unwrap_or(0))
}

/// What was written since.
///
/// # Errors
/// When the node does not answer.
pub async fn read(engine: &Engine, node: &str, from: u64) -> Result<String, K3sError> {
    // tail counts from 1.
    let start = format!("+{}", from + 1);
    let done = engine.exec(node, &["tail", "-c", &start, AUDIT_LOG]).await?;
    Ok(done.stdout)
}

/// The writes of `users` that did not come from `proxy`.
pub fn direct_writes(log: &str, users: &[String], proxy: IpAddr) -> Vec<String> {
    // The last line may be half written.
    let entries = log.lines().filter_map(|line| serde_json::from_str::<Entry>(line).ok());
    let direct = entries.filter(|entry| users.contains(&entry.user.username) && !entry.source_ips.contains(&proxy));
    direct
        .map(|entry| {
            let from = entry.source_ips.first().map(ToString::to_string).unwrap_or_default();
            format!("{} {} from {from} ({})", entry.verb, entry.request_uri, entry.user_agent)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = r#"{"kind":"Event","stage":"ResponseComplete","verb":"create","requestURI":"/api/v1/namespaces/default/configmaps","user":{"username":"system:serviceaccount:default:op"},"sourceIPs":["172.17.0.1"],"userAgent":"op/1"}
{"kind":"Event","stage":"ResponseComplete","verb":"update","requestURI":"/api/v1/namespaces/default/configmaps/c","user":{"username":"system:serviceaccount:default:op"},"sourceIPs":["10.42.0.7"],"userAgent":"side-car/1"}
{"kind":"Event","stage":"ResponseComplete","verb":"update","requestURI":"/api/v1/nodes/n","user":{"username":"system:node:n"},"sourceIPs":["127.0.0.1"]}
{"kind":"Event","stage":"ResponseCom"#;

    #[test]
    fn only_what_the_operator_wrote_past_the_proxy() {
        let users = ["system:serviceaccount:default:op".to_owned()];
        let found = direct_writes(LOG, &users, "172.17.0.1".parse().unwrap());
        assert_eq!(found, ["update /api/v1/namespaces/default/configmaps/c from 10.42.0.7 (side-car/1)"]);
        assert!(direct_writes(LOG, &[], "172.17.0.1".parse().unwrap()).is_empty());
    }
}
