//! EndpointSlices of one Service: as few as hold its endpoints, reused before new ones are made.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{hostname, labels, ports, publishes_all, target};
use crate::{
    controllers::{
        Client, kinds,
        object::{controller_ref, delete, is_terminating, label, list, name, namespace, text},
        pods,
    },
    status::ApiError,
};

pub(super) const SERVICE_NAME: &str = "kubernetes.io/service-name";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGER: &str = "endpointslice-controller.k8s.io";
/// The endpoints that one slice holds at most.
const SLICE_MAX: usize = 100;

pub(super) fn write(client: &dyn Client, service: &Value, all: &[Value]) -> Result<(), ApiError> {
    let gvr = kinds::endpoint_slices();
    let existing = client.list(&gvr, Some(namespace(service)))?;
    let mut existing: Vec<Value> = existing
        .into_iter()
        .filter(|s| label(s, SERVICE_NAME) == name(service) && label(s, MANAGED_BY) == MANAGER && !is_terminating(s))
        .collect();
    existing.sort_by_key(|s| name(s).to_owned());
    let labels = labels(service, &[(SERVICE_NAME, name(service)), (MANAGED_BY, MANAGER)]);
    for (ports, endpoints) in wanted(service, all) {
        // The same ports first: a slice keeps its name as long as its ports last.
        let at = existing.iter().position(|s| list(s, "/ports") == ports.as_slice());
        match at.map(|i| existing.remove(i)) {
            Some(slice) => renew(client, slice, &labels, &endpoints)?,
            None => create(client, service, &labels, &ports, &endpoints)?,
        }
    }
    for slice in existing {
        delete(client, &gvr, &slice, None)?;
    }
    Ok(())
}

/// Ports and endpoints of every slice that there should be; one empty slice when there are no endpoints.
fn wanted(service: &Value, all: &[Value]) -> Vec<(Vec<Value>, Vec<Value>)> {
    let mut groups: BTreeMap<String, (Vec<Value>, Vec<Value>)> = BTreeMap::new();
    for pod in all {
        let mut ports = ports(service, pod);
        for port in &mut ports {
            // Here the API defaults the name to the empty text, where Endpoints leave it out.
            if port["name"].is_null() {
                port["name"] = json!("");
            }
        }
        let group = groups.entry(json!(ports).to_string()).or_insert_with(|| (ports, Vec::new()));
        group.1.push(endpoint(service, pod));
    }
    if groups.is_empty() {
        return vec![(Vec::new(), Vec::new())];
    }
    let split = |(ports, endpoints): (Vec<Value>, Vec<Value>)| {
        let chunks: Vec<Vec<Value>> = endpoints.chunks(SLICE_MAX).map(<[Value]>::to_vec).collect();
        chunks.into_iter().map(move |chunk| (ports.clone(), chunk))
    };
    groups.into_values().flat_map(split).collect()
}

fn endpoint(service: &Value, pod: &Value) -> Value {
    let serving = pods::is_ready(pod);
    let leaving = is_terminating(pod);
    let mut endpoint = json!({
        "addresses": [text(pod, "/status/podIP")],
        "conditions": {
            "ready": publishes_all(service) || (serving && !leaving), "serving": serving, "terminating": leaving,
        },
        "targetRef": target(pod),
    });
    if !text(pod, "/spec/nodeName").is_empty() {
        endpoint["nodeName"] = json!(text(pod, "/spec/nodeName"));
    }
    if let Some(host) = hostname(service, pod) {
        endpoint["hostname"] = json!(host);
    }
    endpoint
}

fn renew(client: &dyn Client, slice: Value, labels: &Value, endpoints: &[Value]) -> Result<(), ApiError> {
    if list(&slice, "/endpoints") == endpoints && slice["metadata"]["labels"] == *labels {
        return Ok(());
    }
    let mut next = slice;
    next["endpoints"] = json!(endpoints);
    next["metadata"]["labels"] = labels.clone();
    client.update(&kinds::endpoint_slices(), "", &next).map(|_| ())
}

fn create(
    client: &dyn Client,
    service: &Value,
    labels: &Value,
    ports: &[Value],
    endpoints: &[Value],
) -> Result<(), ApiError> {
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "generateName": format!("{}-", name(service)), "namespace": namespace(service), "labels": labels,
            "ownerReferences": [controller_ref(service, "v1", "Service")],
        },
        "addressType": "IPv4", "endpoints": endpoints, "ports": ports,
    });
    client.create(&kinds::endpoint_slices(), namespace(service), &slice).map(|_| ())
}
