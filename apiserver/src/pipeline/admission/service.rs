//! Cluster IPs and node ports of Services.
//!
//! # Guarantees
//! Addresses are drawn from 10.96.0.0/16 and ports from 30000-32767 with the cluster's own chance; one in use is
//! refused. The service network has IPv4 only.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::status::{ApiError, Cause};

use super::super::{call::Call, cluster::Tx, meta};

const NETWORK: [u8; 2] = [10, 96];
const PORTS: std::ops::RangeInclusive<u64> = 30_000..=32_767;

/// Allocates what the Service lacks and releases what its type no longer has.
pub(crate) fn allocate(tx: &Tx<'_>, call: &Call, object: &mut Value, old: Option<&Value>) -> Result<(), ApiError> {
    let own = call.kind.key(&call.namespace, meta::name(object));
    let services = tx.state.store.objects("services");
    let others: Vec<&Value> = services.iter().filter(|(key, _)| **key != own).map(|(_, s)| s.as_ref()).collect();
    let name = meta::name(object).to_owned();
    let refuse = |cause: Cause| ApiError::invalid("", "Service", &name, vec![cause]);
    let spec = meta::map_at(object, "spec");
    let kind = spec.get("type").and_then(Value::as_str).unwrap_or("ClusterIP").to_owned();
    if kind == "ExternalName" {
        for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            spec.remove(key);
        }
        release_ports(spec);
        return Ok(());
    }
    check_families(spec)?;
    keep_old(spec, old);
    addresses(tx, spec, &others).map_err(refuse)?;
    if kind == "ClusterIP" {
        if old.is_some_and(|o| o.pointer("/spec/type") != Some(&"ClusterIP".into())) {
            release_ports(spec);
        }
        return Ok(());
    }
    let wanted = kind != "LoadBalancer" || spec.get("allocateLoadBalancerNodePorts") != Some(&false.into());
    ports(tx, spec, &others, old, wanted).map_err(refuse)
}

fn check_families(spec: &Map<String, Value>) -> Result<(), ApiError> {
    let v6 = spec.get("ipFamilies").and_then(Value::as_array).is_some_and(|f| f.iter().any(|x| x == "IPv6"));
    if v6 || spec.get("ipFamilyPolicy").and_then(Value::as_str) == Some("RequireDualStack") {
        return Err(ApiError::unsupported("IPv6 and dual-stack services"));
    }
    Ok(())
}

/// An update that leaves the addresses out keeps them, unless the type forbids it.
fn keep_old(spec: &mut Map<String, Value>, old: Option<&Value>) {
    let Some(old) = old.and_then(|o| o.get("spec")) else { return };
    for key in ["clusterIP", "clusterIPs"] {
        let empty = spec.get(key).is_none_or(|v| v.is_null() || v == "" || v == &json!([]));
        if let (true, Some(value)) = (empty, old.get(key)) {
            spec.insert(key.into(), value.clone());
        }
    }
}

fn addresses(tx: &Tx<'_>, spec: &mut Map<String, Value>, others: &[&Value]) -> Result<(), Cause> {
    let given = spec.get("clusterIP").and_then(Value::as_str).filter(|ip| !ip.is_empty()).map(str::to_owned);
    let first = spec.get("clusterIPs").and_then(|l| l.get(0)).and_then(Value::as_str).map(str::to_owned);
    let used = |ip: &str| others.iter().any(|s| s.pointer("/spec/clusterIP").and_then(Value::as_str) == Some(ip));
    let ip = match given.or(first) {
        Some(ip) if ip == "None" => ip,
        Some(ip) => {
            check_address(&ip)?;
            if used(&ip) {
                let detail = "failed to allocate IP: provided IP is already allocated";
                return Err(Cause::invalid("spec.clusterIPs", &json!([ip]), detail));
            }
            ip
        }
        None => free_address(tx, used)
            .ok_or_else(|| Cause::new("InternalError", "spec.clusterIPs", "Internal error: no free address is left"))?,
    };
    spec.insert("clusterIP".into(), ip.as_str().into());
    spec.insert("clusterIPs".into(), json!([ip]));
    spec.entry("ipFamilies").or_insert_with(|| json!(["IPv4"]));
    spec.entry("ipFamilyPolicy").or_insert_with(|| "SingleStack".into());
    Ok(())
}

fn check_address(ip: &str) -> Result<(), Cause> {
    let value = json!([ip]);
    let octets = ip.parse::<std::net::Ipv4Addr>().map(|a| a.octets());
    match octets {
        Ok([a, b, ..]) if [a, b] == NETWORK => Ok(()),
        Ok(_) => {
            let detail = "failed to allocate IP: the provided IP is not in the valid range. The range of valid IPs is 10.96.0.0/16";
            Err(Cause::invalid("spec.clusterIPs", &value, detail))
        }
        Err(_) => {
            let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            Err(Cause::invalid("spec.clusterIPs[0]", &ip.into(), detail))
        }
    }
}

/// The lowest 256 addresses are left for fixed ones, as real allocators do.
fn free_address(tx: &Tx<'_>, used: impl Fn(&str) -> bool) -> Option<String> {
    let from = 256 + tx.cluster.entropy.below(65_279);
    (0..65_279_u64).map(|step| 256 + (from - 256 + step) % 65_279).find_map(|n| {
        let ip = format!("{}.{}.{}.{}", NETWORK[0], NETWORK[1], n / 256, n % 256);
        (!used(&ip)).then_some(ip)
    })
}

fn ports(
    tx: &Tx<'_>,
    spec: &mut Map<String, Value>,
    others: &[&Value],
    old: Option<&Value>,
    wanted: bool,
) -> Result<(), Cause> {
    let mut used: BTreeSet<u64> = others.iter().flat_map(|s| node_ports(s)).collect();
    let before = old.and_then(|o| o.pointer("/spec/ports")).and_then(Value::as_array).cloned().unwrap_or_default();
    let list = spec.get_mut("ports").and_then(Value::as_array_mut).map(Vec::as_mut_slice).unwrap_or_default();
    for (index, port) in list.iter_mut().enumerate() {
        let mut number = port.get("nodePort").and_then(Value::as_u64).unwrap_or(0);
        if number == 0 && wanted {
            let same =
                before.iter().find(|b| b.get("port") == port.get("port") && b.get("protocol") == port.get("protocol"));
            let kept = same.and_then(|b| b.get("nodePort")).and_then(Value::as_u64).filter(|n| !used.contains(n));
            number = kept.unwrap_or_else(|| free_port(tx, &used));
        } else if number != 0 {
            let field = format!("spec.ports[{index}].nodePort");
            if !PORTS.contains(&number) {
                let detail = "provided port is not in the valid range. The range of valid ports is 30000-32767";
                return Err(Cause::invalid(field, &number.into(), detail));
            }
            if used.contains(&number) {
                return Err(Cause::invalid(field, &number.into(), "provided port is already allocated"));
            }
        }
        if number != 0 {
            used.insert(number);
            meta::as_map(port).insert("nodePort".into(), number.into());
        }
    }
    Ok(())
}

fn node_ports(service: &Value) -> Vec<u64> {
    let list = service.pointer("/spec/ports").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(|p| p.get("nodePort").and_then(Value::as_u64)).collect()
}

fn free_port(tx: &Tx<'_>, used: &BTreeSet<u64>) -> u64 {
    let span = PORTS.end() - PORTS.start() + 1;
    let from = tx.cluster.entropy.below(span);
    (0..span).map(|step| PORTS.start() + (from + step) % span).find(|n| !used.contains(n)).unwrap_or(0)
}

fn release_ports(spec: &mut Map<String, Value>) {
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        meta::as_map(port).remove("nodePort");
    }
}
