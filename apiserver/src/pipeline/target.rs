//! What a request is about: the parts of its path and query.

use std::collections::BTreeMap;

use crate::resource::Gvr;

/// A path below `/api/v1` or `/apis/GROUP/VERSION`. Empty strings stand for absent parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub gvr: Gvr,
    pub namespace: String,
    pub name: String,
    pub subresource: String,
}

impl Target {
    /// Reads a path, or gives `None` when it does not address a resource.
    #[must_use]
    pub fn parse(path: &str) -> Option<Self> {
        let parts: Vec<String> = path.trim_matches('/').split('/').map(|p| decode(p, false)).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            // `namespaces/x/status` is a subresource of the namespace, `namespaces/x/pods` is not.
            ["namespaces", _, "status" | "finalize"] => ("", rest),
            ["namespaces", namespace, inner @ ..] if !inner.is_empty() => (*namespace, inner),
            _ => ("", rest),
        };
        let (resource, name, sub) = match rest {
            [resource] => (*resource, "", ""),
            [resource, name] => (*resource, *name, ""),
            [resource, name, sub, ..] => (*resource, *name, *sub),
            [] => return None,
        };
        if resource.is_empty() {
            return None;
        }
        Some(Self {
            gvr: Gvr::new(group, version, resource),
            namespace: namespace.into(),
            name: name.into(),
            subresource: sub.into(),
        })
    }
}

/// The parameters of a query; of a repeated one the first value counts.
#[derive(Debug, Clone, Default)]
pub struct Query(BTreeMap<String, String>);

impl Query {
    #[must_use]
    pub fn parse(query: &str) -> Self {
        let mut all = BTreeMap::new();
        for pair in query.split('&').filter(|p| !p.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            all.entry(decode(key, true)).or_insert_with(|| decode(value, true));
        }
        Self(all)
    }

    /// The value, or an empty string.
    #[must_use]
    pub fn get(&self, key: &str) -> &str {
        self.0.get(key).map(String::as_str).unwrap_or_default()
    }

    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// A boolean as query strings spell it; the bare key counts as true.
    #[must_use]
    pub fn flag(&self, key: &str) -> bool {
        self.0.get(key).is_some_and(|v| matches!(v.as_str(), "true" | "1" | "t" | "T" | "True" | "TRUE" | ""))
    }

    /// A number, when there is one.
    #[must_use]
    pub fn number(&self, key: &str) -> Option<u64> {
        self.get(key).parse().ok()
    }
}

/// Resolves `%xx`, and `+` in queries. Broken escapes stay as they are.
fn decode(text: &str, query: bool) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        let escape = (first == b'%').then(|| tail.get(..2)).flatten().and_then(|hex| std::str::from_utf8(hex).ok());
        match escape.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = tail.get(2..).unwrap_or_default();
            }
            None if query && first == b'+' => out.push(b' '),
            None => out.push(first),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(path: &str) -> (String, String, String, String) {
        let t = Target::parse(path).unwrap();
        (t.gvr.to_string(), t.namespace, t.name, t.subresource)
    }

    fn expect(gvr: &str, namespace: &str, name: &str, sub: &str) -> (String, String, String, String) {
        (gvr.into(), namespace.into(), name.into(), sub.into())
    }

    #[test]
    fn paths_give_their_parts() {
        assert_eq!(parts("/api/v1/pods"), expect("v1/pods", "", "", ""));
        assert_eq!(parts("/api/v1/namespaces/x"), expect("v1/namespaces", "", "x", ""));
        assert_eq!(parts("/api/v1/namespaces/x/finalize"), expect("v1/namespaces", "", "x", "finalize"));
        assert_eq!(parts("/api/v1/namespaces/x/pods/p/log"), expect("v1/pods", "x", "p", "log"));
        assert_eq!(parts("/apis/g.io/v1/namespaces/x/as/a%2Fb"), expect("g.io/v1/as", "x", "a/b", ""));
        assert!(Target::parse("/apis/g.io/v1").is_none());
        assert!(Target::parse("/healthz").is_none());
    }

    #[test]
    fn queries_are_decoded() {
        let q = Query::parse("labelSelector=a%3Db%2Cc+in+(d)&watch=1&limit=5");
        assert_eq!(q.get("labelSelector"), "a=b,c in (d)");
        assert!(q.flag("watch") && !q.flag("follow"));
        assert_eq!(q.number("limit"), Some(5));
    }
}
