//! Lists the pods behind each Service with a selector, as Endpoints and as EndpointSlices.
//!
//! # Guarantees
//! Both are sorted by address, so that the same pods give the same objects. A named target port is looked up in each
//! pod; pods that resolve it differently get a subset (a slice) of their own.
//!
//! # Not done
//! IPv4 only. The trigger-time annotation is not kept (it would change at every step); topology hints are not given.

mod slices;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    Change, Client, Controller, Key, Outcome, kinds,
    object::{delete, flag, get, is_terminating, key, label, list, map, name, namespace, text, uid},
    pods, selector,
};
use crate::status::ApiError;

pub(super) const HEADLESS: &str = "service.kubernetes.io/headless";

/// See the module.
#[derive(Debug, Default)]
pub struct EndpointsController;

impl Controller for EndpointsController {
    fn name(&self) -> &'static str {
        "endpoint-controller"
    }

    fn keys(&self, change: &Change, client: &dyn Client) -> Vec<Key> {
        let object = &change.object;
        if kinds::is(&change.gvr, &kinds::services()) {
            return vec![key(object)];
        }
        if kinds::is(&change.gvr, &kinds::pods()) {
            let services = client.list(&kinds::services(), Some(namespace(object))).unwrap_or_default();
            return services.iter().filter(|s| selects(s, object)).map(key).collect();
        }
        if kinds::is(&change.gvr, &kinds::endpoints()) {
            return vec![key(object)];
        }
        if kinds::is(&change.gvr, &kinds::endpoint_slices()) {
            let service = label(object, slices::SERVICE_NAME);
            if !service.is_empty() {
                return vec![Key { namespace: namespace(object).into(), name: service.into() }];
            }
        }
        Vec::new()
    }

    fn reconcile(&self, client: &dyn Client, key: &Key) -> Result<Outcome, ApiError> {
        let service = get(client, &kinds::services(), key)?.filter(|s| !is_terminating(s));
        let Some(service) = service else {
            // Slices go by their owner reference; Endpoints have none.
            if let Some(endpoints) = get(client, &kinds::endpoints(), key)?
                && label(&endpoints, MANAGED_BY) == MANAGER
            {
                delete(client, &kinds::endpoints(), &endpoints, None)?;
            }
            return Ok(Outcome::default());
        };
        if map(&service, "/spec/selector").is_none_or(serde_json::Map::is_empty)
            || text(&service, "/spec/type") == "ExternalName"
        {
            return Ok(Outcome::default());
        }
        let mut all = client.list(&kinds::pods(), Some(&key.namespace))?;
        all.retain(|p| selects(&service, p) && !pods::is_finished(p) && !text(p, "/status/podIP").is_empty());
        all.sort_by_key(|p| (address_order(p), name(p).to_owned()));
        write_endpoints(client, &service, &all)?;
        slices::write(client, &service, &all)?;
        Ok(Outcome::default())
    }
}

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";

fn selects(service: &Value, pod: &Value) -> bool {
    map(service, "/spec/selector").is_some_and(|s| !s.is_empty() && selector::has_all(s, pod))
}

/// Addresses in numeric order.
fn address_order(pod: &Value) -> Option<std::net::IpAddr> {
    text(pod, "/status/podIP").parse().ok()
}

pub(super) fn is_headless(service: &Value) -> bool {
    text(service, "/spec/clusterIP") == "None"
}

pub(super) fn publishes_all(service: &Value) -> bool {
    flag(service, "/spec/publishNotReadyAddresses")
}

/// The Service's ports as this pod has them; a name that the pod does not know is left out.
pub(super) fn ports(service: &Value, pod: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    for port in list(service, "/spec/ports") {
        let target = port.get("targetPort").filter(|t| !t.is_null()).unwrap_or(&port["port"]);
        let protocol = match text(port, "/protocol") {
            "" => "TCP",
            other => other,
        };
        let number = match target {
            Value::String(wanted) => named_port(pod, wanted, protocol),
            number => number.as_i64(),
        };
        let Some(number) = number else { continue };
        let mut entry = json!({"port": number, "protocol": protocol});
        for field in ["name", "appProtocol"] {
            if let Some(value) = port.get(field).filter(|v| v.as_str().is_some_and(|s| !s.is_empty())) {
                entry[field] = value.clone();
            }
        }
        all.push(entry);
    }
    all
}

fn named_port(pod: &Value, wanted: &str, protocol: &str) -> Option<i64> {
    let containers = list(pod, "/spec/containers").iter().chain(list(pod, "/spec/initContainers"));
    let mut ports = containers.flat_map(|c| list(c, "/ports"));
    let fits =
        |p: &&Value| text(p, "/name") == wanted && matches!(text(p, "/protocol"), "" | "TCP") == (protocol == "TCP");
    ports.find(fits).and_then(|p| p["containerPort"].as_i64())
}

/// What both kinds say about a pod's origin.
pub(super) fn target(pod: &Value) -> Value {
    json!({"kind": "Pod", "name": name(pod), "namespace": namespace(pod), "uid": uid(pod)})
}

/// A host name that a headless Service gives to its pod.
pub(super) fn hostname<'a>(service: &Value, pod: &'a Value) -> Option<&'a str> {
    let own = text(pod, "/spec/hostname");
    (!own.is_empty() && text(pod, "/spec/subdomain") == name(service)).then_some(own)
}

/// Ports, ready addresses, addresses that are not ready.
type Subset = (Vec<Value>, Vec<Value>, Vec<Value>);

fn subsets(service: &Value, all: &[Value]) -> Vec<Value> {
    // Keyed by the ports' text: ordered, and equal for equal ports.
    let mut groups: BTreeMap<String, Subset> = BTreeMap::new();
    for pod in all.iter().filter(|p| !is_terminating(p) || publishes_all(service)) {
        let ports = ports(service, pod);
        if ports.is_empty() && !is_headless(service) {
            continue;
        }
        let mut address = json!({"ip": text(pod, "/status/podIP"), "targetRef": target(pod)});
        if !text(pod, "/spec/nodeName").is_empty() {
            address["nodeName"] = json!(text(pod, "/spec/nodeName"));
        }
        if let Some(host) = hostname(service, pod) {
            address["hostname"] = json!(host);
        }
        let group = groups.entry(json!(ports).to_string()).or_insert_with(|| (ports, Vec::new(), Vec::new()));
        if pods::is_ready(pod) || publishes_all(service) {
            group.1.push(address);
        } else {
            group.2.push(address);
        }
    }
    let subset = |(ports, ready, not_ready): Subset| {
        let mut subset = json!({});
        for (field, values) in [("addresses", ready), ("notReadyAddresses", not_ready), ("ports", ports)] {
            if !values.is_empty() {
                subset[field] = json!(values);
            }
        }
        subset
    };
    groups.into_values().map(subset).collect()
}

/// The Service's own labels with those of the controller.
pub(super) fn labels(service: &Value, extra: &[(&str, &str)]) -> Value {
    let mut labels = map(service, "/metadata/labels").cloned().unwrap_or_default();
    labels.remove(HEADLESS);
    for (key, value) in extra {
        labels.insert((*key).into(), json!(value));
    }
    if is_headless(service) {
        labels.insert(HEADLESS.into(), json!(""));
    }
    Value::Object(labels)
}

fn write_endpoints(client: &dyn Client, service: &Value, all: &[Value]) -> Result<(), ApiError> {
    let gvr = kinds::endpoints();
    let subsets = subsets(service, all);
    let labels = labels(service, &[(MANAGED_BY, MANAGER)]);
    let Some(there) = get(client, &gvr, &key(service))? else {
        let mut object = json!({
            "apiVersion": "v1", "kind": "Endpoints",
            "metadata": {"name": name(service), "namespace": namespace(service), "labels": labels},
        });
        if !subsets.is_empty() {
            object["subsets"] = json!(subsets);
        }
        client.create(&gvr, namespace(service), &object)?;
        return Ok(());
    };
    if list(&there, "/subsets") == subsets.as_slice() && there["metadata"]["labels"] == labels {
        return Ok(());
    }
    let mut next = there;
    next["metadata"]["labels"] = labels;
    if subsets.is_empty() {
        if let Some(fields) = next.as_object_mut() {
            fields.remove("subsets");
        }
    } else {
        next["subsets"] = json!(subsets);
    }
    client.update(&gvr, "", &next)?;
    Ok(())
}
