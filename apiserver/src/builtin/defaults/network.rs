//! Services, endpoints, network policies and ingress classes.

use serde_json::{Map, Value, json};

use super::{objects, put, text};

pub(super) fn apply(name: &str, map: &mut Map<String, Value>) {
    match name {
        "core.v1.ServiceSpec" => service(map),
        "core.v1.Service" => load_balancer_status(map),
        "core.v1.EndpointPort" => put(map, "protocol", "TCP"),
        "discovery.v1.EndpointPort" => {
            if map.get("name").is_none_or(Value::is_null) {
                map.insert("name".into(), "".into());
            }
            put(map, "protocol", "TCP");
        }
        "networking.v1.NetworkPolicyPort" => put(map, "protocol", "TCP"),
        "networking.v1.NetworkPolicySpec" => network_policy(map),
        "networking.v1.IngressClassParametersReference" => put(map, "scope", "Cluster"),
        _ => {}
    }
}

fn service(map: &mut Map<String, Value>) {
    put(map, "sessionAffinity", "None");
    match text(map, "sessionAffinity") {
        "None" => {
            map.remove("sessionAffinityConfig");
        }
        "ClientIP"
            if map.get("sessionAffinityConfig").and_then(|c| c.pointer("/clientIP/timeoutSeconds")).is_none() =>
        {
            map.insert("sessionAffinityConfig".into(), json!({"clientIP": {"timeoutSeconds": 10800}}));
        }
        _ => {}
    }
    put(map, "type", "ClusterIP");
    for port in objects(map, "ports") {
        put(port, "protocol", "TCP");
        if port.get("targetPort").is_none_or(|p| p.is_null() || *p == 0 || p == "") {
            let same = port.get("port").cloned().unwrap_or_else(|| 0.into());
            port.insert("targetPort".into(), same);
        }
    }
    let kind = text(map, "type").to_owned();
    let outside = map.get("externalIPs").and_then(Value::as_array).is_some_and(|ips| !ips.is_empty());
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") || (kind == "ClusterIP" && outside) {
        put(map, "externalTrafficPolicy", "Cluster");
    }
    if matches!(kind.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer") {
        put(map, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        put(map, "allocateLoadBalancerNodePorts", true);
    }
}

fn load_balancer_status(map: &mut Map<String, Value>) {
    if map.get("spec").and_then(|s| s.get("type")).and_then(Value::as_str) != Some("LoadBalancer") {
        return;
    }
    let entries = map.get_mut("status").and_then(|s| s.pointer_mut("/loadBalancer/ingress"));
    for entry in entries.and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut) {
        if !text(entry, "ip").is_empty() {
            put(entry, "ipMode", "VIP");
        }
    }
}

fn network_policy(map: &mut Map<String, Value>) {
    let filled =
        |map: &Map<String, Value>, name: &str| map.get(name).and_then(Value::as_array).is_some_and(|l| !l.is_empty());
    if !filled(map, "policyTypes") {
        let egress = filled(map, "egress");
        map.insert("policyTypes".into(), if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) });
    }
}
