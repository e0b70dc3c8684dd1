//! What a server serves, from its aggregated discovery documents.

use std::collections::BTreeMap;

use http::{Request, header};
use http_body_util::BodyExt as _;
use serde_json::Value;

use super::{RemoteError, Transport};
use crate::{
    controllers::{
        ResourceInfo,
        object::{list, text},
    },
    resource::Gvr,
};

const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                      application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

/// Everything that can be listed, watched and deleted, each in its preferred version.
pub(super) async fn resources(transport: &dyn Transport) -> Result<Vec<ResourceInfo>, RemoteError> {
    let mut all = BTreeMap::new();
    for path in ["/api", "/apis"] {
        let document = fetch(transport, path).await.map_err(|why| RemoteError::Discovery { path, why })?;
        for info in read(&document) {
            // The first version that has a resource is the preferred one.
            all.entry(info.gvr.group_resource()).or_insert(info);
        }
    }
    Ok(all.into_values().collect())
}

async fn fetch(transport: &dyn Transport, path: &str) -> Result<Value, String> {
    let request = Request::get(path).header(header::ACCEPT, ACCEPT).body(Vec::new()).map_err(|e| e.to_string())?;
    let response = transport.send(request).await.map_err(|e| e.to_string())?;
    if !response.status().is_success() {
        return Err(format!("the answer is {}", response.status()));
    }
    let body = response.into_body().collect().await.map_err(|e| e.to_string())?.to_bytes();
    let document: Value = serde_json::from_slice(&body).map_err(|e| e.to_string())?;
    match text(&document, "/kind") {
        "APIGroupDiscoveryList" => Ok(document),
        other => Err(format!("the answer is a {other}: Kubernetes before 1.27 is not supported")),
    }
}

fn read(document: &Value) -> Vec<ResourceInfo> {
    let mut found = Vec::new();
    for group in list(document, "/items") {
        for version in list(group, "/versions") {
            for resource in list(version, "/resources") {
                let verbs = list(resource, "/verbs");
                let name = text(resource, "/resource");
                if ["list", "watch", "delete"].iter().any(|verb| !verbs.iter().any(|v| v == verb)) || name == "events" {
                    continue;
                }
                found.push(ResourceInfo {
                    gvr: Gvr::new(text(group, "/metadata/name"), text(version, "/version"), name),
                    kind: text(resource, "/responseKind/kind").into(),
                    namespaced: text(resource, "/scope") == "Namespaced",
                });
            }
        }
    }
    found
}

/// The resource that an established CRD defines.
pub(super) fn of_definition(crd: &Value) -> Option<ResourceInfo> {
    let is_established = |c: &Value| text(c, "/type") == "Established" && text(c, "/status") == "True";
    if !list(crd, "/status/conditions").iter().any(is_established) {
        return None;
    }
    let versions = list(crd, "/spec/versions");
    let served = |v: &&Value| v["served"] == true;
    let version = versions.iter().filter(served).find(|v| v["storage"] == true).or(versions.iter().find(served))?;
    Some(ResourceInfo {
        gvr: Gvr::new(text(crd, "/spec/group"), text(version, "/name"), text(crd, "/spec/names/plural")),
        kind: text(crd, "/spec/names/kind").into(),
        namespaced: text(crd, "/spec/scope") == "Namespaced",
    })
}
