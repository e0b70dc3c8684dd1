//! Bearer tokens of ServiceAccounts: JSON web tokens that this server alone can verify.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::Identity;
use crate::entropy::Entropy;

/// Issuer of the tokens, and the audience of those meant for the API server.
pub const API_AUDIENCE: &str = "https://kubernetes.default.svc.cluster.local";

/// SHA-256 works on blocks of this many bytes, which HMAC pads the key to.
const BLOCK: usize = 64;

/// The account that a token speaks for.
#[derive(Debug, Clone, Copy)]
pub struct ServiceAccount<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
}

/// Issues and verifies tokens with one secret key. A clone, in a forked cluster, accepts the same tokens.
#[derive(Clone)]
pub struct TokenAuthority {
    key: [u8; 32],
    admin: String,
}

impl std::fmt::Debug for TokenAuthority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenAuthority").finish_non_exhaustive()
    }
}

impl TokenAuthority {
    /// An authority with a key from `entropy`.
    #[must_use]
    pub fn new(entropy: &Entropy) -> Self {
        let mut key = [0_u8; 32];
        entropy.fill(&mut key);
        let admin = URL_SAFE_NO_PAD.encode(hmac(&key, b"admin"));
        Self { key, admin }
    }

    /// The token of [`Identity::admin`]. It never expires.
    #[must_use]
    pub fn admin_token(&self) -> &str {
        &self.admin
    }

    /// A token of a ServiceAccount for the API server.
    #[must_use]
    pub fn issue(&self, namespace: &str, service_account: &str, uid: &str, now: Timestamp, ttl: Duration) -> String {
        let account = ServiceAccount { namespace, name: service_account, uid };
        self.issue_for(account, &[API_AUDIENCE.to_owned()], now, ttl)
    }

    /// A token of a ServiceAccount for any audiences.
    #[must_use]
    pub fn issue_for(
        &self,
        account: ServiceAccount<'_>,
        audiences: &[String],
        now: Timestamp,
        ttl: Duration,
    ) -> String {
        let ServiceAccount { namespace, name, uid } = account;
        let issued = now.as_second();
        let expires = issued.saturating_add(i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX));
        let mut claims = json!({
            "aud": audiences, "exp": expires, "iat": issued, "iss": API_AUDIENCE,
            "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}},
            "nbf": issued, "sub": format!("system:serviceaccount:{namespace}:{name}"),
        });
        let digest = hmac(&self.key, claims.to_string().as_bytes());
        claims["jti"] = URL_SAFE_NO_PAD.encode(&digest[..16]).into();
        let header = json!({"alg": "HS256", "typ": "JWT"});
        let signed = [&header, &claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
        let signature = URL_SAFE_NO_PAD.encode(hmac(&self.key, signed.as_bytes()));
        format!("{signed}.{signature}")
    }

    /// Who a bearer token speaks for at the API server: nobody when the signature, the audience or the time is wrong.
    #[must_use]
    pub fn identify(&self, bearer: &str, now: Timestamp) -> Option<Identity> {
        self.identify_for(bearer, &[API_AUDIENCE.to_owned()], now).map(|(identity, _)| identity)
    }

    /// Who a bearer token speaks for at any of `audiences`, and at which of them.
    #[must_use]
    pub fn identify_for(&self, bearer: &str, audiences: &[String], now: Timestamp) -> Option<(Identity, Vec<String>)> {
        if bearer == self.admin {
            return Some((Identity::admin(), audiences.to_vec()));
        }
        let claims = self.verified(bearer)?;
        let within = (claims["nbf"].as_i64()?..claims["exp"].as_i64()?).contains(&now.as_second());
        let meant: Vec<&str> = claims["aud"].as_array()?.iter().filter_map(Value::as_str).collect();
        let shared: Vec<String> = audiences.iter().filter(|a| meant.contains(&a.as_str())).cloned().collect();
        if !within || shared.is_empty() {
            return None;
        }
        let bound = &claims["kubernetes.io"];
        let account = &bound["serviceaccount"];
        let identity = Identity::service_account(
            bound["namespace"].as_str()?,
            account["name"].as_str()?,
            account["uid"].as_str()?,
        );
        Some((identity, shared))
    }

    /// The claims of a token that this authority signed.
    fn verified(&self, bearer: &str) -> Option<Value> {
        let (signed, signature) = bearer.rsplit_once('.')?;
        let (_, claims) = signed.split_once('.')?;
        if URL_SAFE_NO_PAD.decode(signature).ok()? != hmac(&self.key, signed.as_bytes()) {
            return None;
        }
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
    }
}

/// HMAC with SHA-256 (RFC 2104), for keys that are no longer than a block.
fn hmac(key: &[u8; 32], message: &[u8]) -> [u8; 32] {
    let mut block = [0_u8; BLOCK];
    block[..key.len()].copy_from_slice(key);
    let inner = Sha256::new().chain_update(block.map(|b| b ^ 0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(block.map(|b| b ^ 0x5c)).chain_update(inner).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_token_speaks_for_its_account_until_it_expires() {
        let tokens = TokenAuthority::new(&Entropy::seeded(1));
        let token = tokens.issue("ns", "operator", "u-1", at(1000), HOUR);
        assert_eq!(tokens.identify(&token, at(1000)), Some(Identity::service_account("ns", "operator", "u-1")));
        assert!(tokens.identify(&token, at(4599)).is_some());
        assert_eq!(tokens.identify(&token, at(4600)), None);
        assert_eq!(tokens.identify(&token, at(999)), None);
    }

    #[test]
    fn a_token_has_the_claims_that_clients_read() {
        let tokens = TokenAuthority::new(&Entropy::seeded(1));
        let token = tokens.issue("ns", "operator", "u-1", at(1000), HOUR);
        let parts: Vec<&str> = token.split('.').collect();
        assert_eq!(parts.len(), 3);
        let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(parts[1]).unwrap()).unwrap();
        assert_eq!(claims["sub"], "system:serviceaccount:ns:operator");
        assert_eq!((&claims["iat"], &claims["exp"]), (&json!(1000), &json!(4600)));
        assert_eq!(
            claims["kubernetes.io"],
            json!({"namespace": "ns", "serviceaccount": {"name": "operator", "uid": "u-1"}})
        );
    }

    #[test]
    fn forged_and_foreign_tokens_speak_for_nobody() {
        let tokens = TokenAuthority::new(&Entropy::seeded(1));
        let other = TokenAuthority::new(&Entropy::seeded(2)).issue("ns", "operator", "u-1", at(1000), HOUR);
        assert_eq!(tokens.identify(&other, at(1000)), None);
        let token = tokens.issue("ns", "operator", "u-1", at(1000), HOUR);
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let (header, _) = signed.split_once('.').unwrap();
        let claims = URL_SAFE_NO_PAD.encode(json!({"aud": [API_AUDIENCE], "nbf": 0, "exp": 9_999}).to_string());
        assert_eq!(tokens.identify(&format!("{header}.{claims}.{signature}"), at(1000)), None);
        for rubbish in ["", ".", "a.b.c", "a.b.", signed] {
            assert_eq!(tokens.identify(rubbish, at(1000)), None, "{rubbish}");
        }
    }

    #[test]
    fn a_token_for_another_audience_is_not_one_for_the_api_server() {
        let tokens = TokenAuthority::new(&Entropy::seeded(1));
        let account = ServiceAccount { namespace: "ns", name: "operator", uid: "u-1" };
        let vault = ["vault".to_owned()];
        let token = tokens.issue_for(account, &vault, at(1000), HOUR);
        assert_eq!(tokens.identify(&token, at(1000)), None);
        assert_eq!(tokens.identify_for(&token, &vault, at(1000)).unwrap().1, vault);
    }

    #[test]
    fn the_admin_token_depends_on_the_seed_alone() {
        let tokens = TokenAuthority::new(&Entropy::seeded(1));
        assert_eq!(tokens.identify(tokens.admin_token(), at(0)), Some(Identity::admin()));
        assert_eq!(tokens.admin_token(), TokenAuthority::new(&Entropy::seeded(1)).admin_token());
        assert_ne!(tokens.admin_token(), TokenAuthority::new(&Entropy::seeded(2)).admin_token());
    }

    /// Case 1 of RFC 4231 has a key of 20 bytes, which zeros extend to the same block.
    #[test]
    fn hmac_agrees_with_its_rfc() {
        let mut key = [0_u8; 32];
        key[..20].fill(0x0b);
        let hex: String = hmac(&key, b"Hi There").iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    }
}
