//! What a request is about, from its method and path alone.

use http::{Method, Uri};

use crate::event::{Target, Verb};

/// The query parameters that matter here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    pub watch: bool,
    pub dry_run: bool,
    pub field_manager: String,
}

impl Query {
    #[must_use]
    pub fn of(uri: &Uri) -> Self {
        let mut query = Self::default();
        for pair in uri.query().unwrap_or_default().split('&') {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decode(value);
            match key {
                "watch" => query.watch = matches!(value.as_str(), "true" | "1"),
                "dryRun" => query.dry_run = !value.is_empty(),
                "fieldManager" => query.field_manager = value,
                _ => {}
            }
        }
        query
    }
}

/// Parses a request line as the API server does.
#[must_use]
pub fn parse(method: &Method, uri: &Uri) -> Target {
    resource(method, uri).unwrap_or_else(|| Target {
        verb: Verb::Path,
        group: String::new(),
        version: String::new(),
        resource: String::new(),
        subresource: String::new(),
        namespace: String::new(),
        name: String::new(),
        path: uri.path().to_owned(),
    })
}

fn resource(method: &Method, uri: &Uri) -> Option<Target> {
    let mut steps = uri.path().split('/').filter(|step| !step.is_empty()).map(decode).peekable();
    let (group, version) = match steps.next()?.as_str() {
        "api" => (String::new(), steps.next()?),
        "apis" => (steps.next()?, steps.next()?),
        _ => return None,
    };
    let watch = steps.next_if(|step| step == "watch").is_some() || Query::of(uri).watch;
    let mut resource = steps.next()?;
    let mut namespace = String::new();
    let mut name = steps.next().unwrap_or_default();
    let mut subresource = steps.next().unwrap_or_default();
    // `status` and `finalize` belong to the namespace itself; everything else is a resource within it.
    if resource == "namespaces" && !matches!(subresource.as_str(), "" | "status" | "finalize") {
        namespace = name;
        resource = subresource;
        name = steps.next().unwrap_or_default();
        subresource = steps.next().unwrap_or_default();
    }
    let verb = verb(method, &resource, &name, &subresource, watch);
    Some(Target { verb, group, version, resource, subresource, namespace, name, path: String::new() })
}

fn verb(method: &Method, resource: &str, name: &str, subresource: &str, watch: bool) -> Verb {
    let connects = match subresource {
        "exec" | "attach" | "portforward" => resource == "pods",
        "proxy" => matches!(resource, "pods" | "services" | "nodes"),
        _ => false,
    };
    match *method {
        _ if connects => Verb::Connect,
        Method::POST => Verb::Create,
        Method::PUT => Verb::Update,
        Method::PATCH => Verb::Patch,
        Method::DELETE if name.is_empty() => Verb::DeleteCollection,
        Method::DELETE => Verb::Delete,
        _ if watch => Verb::Watch,
        _ if name.is_empty() => Verb::List,
        _ => Verb::Get,
    }
}

/// Undoes percent-encoding; what is not valid stays as it is.
fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        match (bytes[at], code.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 3;
            }
            (byte, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_lines_read_as_the_server_reads_them() {
        let table = [
            ("GET", "/api/v1/pods", "list pods"),
            ("GET", "/api/v1/namespaces/a/pods?watch=true", "watch pods in a"),
            ("GET", "/api/v1/namespaces/a/pods?limit=5&watch=1", "watch pods in a"),
            ("GET", "/api/v1/namespaces/a/pods?watch=false", "list pods in a"),
            ("GET", "/api/v1/watch/namespaces/a/pods/b", "watch pods a/b"),
            ("GET", "/api/v1/watch/nodes", "watch nodes"),
            ("GET", "/api/v1/namespaces/a/pods/b/log?follow=true", "get pods/log a/b"),
            ("POST", "/api/v1/namespaces/a/pods/b/exec?command=ls", "connect pods/exec a/b"),
            ("GET", "/api/v1/namespaces/a/pods/b/portforward", "connect pods/portforward a/b"),
            ("GET", "/api/v1/nodes/n/proxy/metrics", "connect nodes/proxy n"),
            ("POST", "/api/v1/namespaces/a/pods/b/eviction", "create pods/eviction a/b"),
            ("GET", "/api/v1/namespaces", "list namespaces"),
            ("GET", "/api/v1/namespaces/a", "get namespaces a"),
            ("PUT", "/api/v1/namespaces/a/finalize", "update namespaces/finalize a"),
            ("DELETE", "/api/v1/namespaces/a", "delete namespaces a"),
            ("POST", "/apis/apps/v1/namespaces/a/deployments", "create deployments.apps in a"),
            ("PATCH", "/apis/apps/v1/namespaces/a/deployments/d/scale", "patch deployments.apps/scale a/d"),
            ("DELETE", "/apis/x.io/v1beta1/widgets/w%3A1", "delete widgets.x.io w:1"),
            ("DELETE", "/apis/x.io/v1/namespaces/a/widgets", "deletecollection widgets.x.io in a"),
            ("HEAD", "/api/v1/namespaces/a/pods/b", "get pods a/b"),
            ("GET", "/apis", "path /apis"),
            ("GET", "/apis/apps/v1", "path /apis/apps/v1"),
            ("GET", "/api/v1", "path /api/v1"),
            ("GET", "/readyz?verbose", "path /readyz"),
            ("GET", "/openapi/v3", "path /openapi/v3"),
            ("GET", "/", "path /"),
        ];
        for (method, uri, expected) in table {
            let target = parse(&method.parse().unwrap(), &uri.parse().unwrap());
            assert_eq!(target.to_string(), expected, "{method} {uri}");
        }
    }

    #[test]
    fn query_parameters_are_decoded() {
        let query = Query::of(&"/x?dryRun=All&fieldManager=a%2Fb&force=true".parse().unwrap());
        assert_eq!(query, Query { watch: false, dry_run: true, field_manager: "a/b".into() });
        assert_eq!(Query::of(&"/x".parse().unwrap()), Query::default());
        assert_eq!(decode("%zz%4"), "%zz%4");
    }
}
