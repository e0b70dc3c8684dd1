//! Services.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{list, pods::port_name, text};
use crate::{
    crd::cause::{child, duplicate, forbidden, index, invalid, not_supported},
    status::Cause,
};

pub(super) fn check(new: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    let spec = &new["spec"];
    let kind = text(spec, "type");
    let headless = text(spec, "clusterIP") == "None";
    let ports = list(spec, "ports");
    if ports.is_empty() && !headless && kind != "ExternalName" {
        out.push(Cause::required("spec.ports", ""));
    }
    match kind {
        "LoadBalancer" | "NodePort" if headless => {
            out.push(invalid(
                "spec.clusterIPs[0]",
                &json!("None"),
                &format!("may not be set to 'None' for {kind} services"),
            ));
        }
        "ClusterIP" | "LoadBalancer" | "NodePort" => {}
        "ExternalName" => {
            let name = text(spec, "externalName");
            if name.is_empty() {
                out.push(Cause::required("spec.externalName", ""));
            }
            if !text(spec, "clusterIP").is_empty() {
                let why = "may not be set when `type` is 'ExternalName'";
                out.push(forbidden("spec.clusterIPs[0]", why));
            }
        }
        "" => out.push(Cause::required("spec.type", "")),
        other => {
            let known = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"].map(str::to_owned);
            out.push(not_supported("spec.type", &Value::from(other), &known));
        }
    }
    check_ports(ports, kind, headless, out);
    super::meta::labels(&spec["selector"], "spec.selector", out);
    let affinity = text(spec, "sessionAffinity");
    if !matches!(affinity, "ClientIP" | "None") {
        let known = ["ClientIP", "None"].map(str::to_owned);
        out.push(not_supported("spec.sessionAffinity", &Value::from(affinity), &known));
    }
    if let Some(old) = old {
        update(spec, &old["spec"], out);
    }
}

fn check_ports(ports: &[Value], kind: &str, headless: bool, out: &mut Vec<Cause>) {
    let (mut names, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    for (at, port) in ports.iter().enumerate() {
        let here = index("spec.ports", at);
        let name = text(port, "name");
        if name.is_empty() {
            if ports.len() > 1 {
                out.push(Cause::required(child(&here, "name"), ""));
            }
        } else {
            for why in crate::crd::names::dns1123_label(name) {
                out.push(invalid(child(&here, "name"), &Value::from(name), &why));
            }
            if !names.insert(name) {
                out.push(duplicate(child(&here, "name"), &Value::from(name)));
            }
        }
        let range = "must be between 1 and 65535, inclusive";
        if !(1..=65535).contains(&port["port"].as_i64().unwrap_or_default()) {
            out.push(invalid(child(&here, "port"), &port["port"], range));
        }
        let protocol = text(port, "protocol");
        if !matches!(protocol, "TCP" | "UDP" | "SCTP") {
            let known = ["SCTP", "TCP", "UDP"].map(str::to_owned);
            out.push(not_supported(child(&here, "protocol"), &Value::from(protocol), &known));
        }
        match &port["targetPort"] {
            Value::Number(n) if !n.as_i64().is_some_and(|n| (1..=65535).contains(&n)) => {
                out.push(invalid(child(&here, "targetPort"), &port["targetPort"], range));
            }
            Value::String(text) => {
                out.extend(
                    port_name(text).iter().map(|why| invalid(child(&here, "targetPort"), &port["targetPort"], why)),
                );
            }
            _ => {}
        }
        if !headless && port["nodePort"].as_i64().unwrap_or_default() != 0 && kind == "ClusterIP" {
            let why = "may not be used when `type` is 'ClusterIP'";
            out.push(forbidden(child(&here, "nodePort"), why));
        }
        if !numbers.insert((protocol, port["port"].as_i64())) {
            // The real server prints its internal struct, reduced to what must be unique.
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":\"{protocol}\",\"AppProtocol\":null,\"Port\":{},\"TargetPort\":0,\"NodePort\":0}}",
                port["port"]
            );
            out.push(Cause::new("FieldValueDuplicate", &here, format!("Duplicate value: {shown}")));
        }
    }
}

/// The primary cluster IP stays, unless the service becomes or was an external name.
fn update(new: &Value, old: &Value, out: &mut Vec<Cause>) {
    let external = |spec: &Value| text(spec, "type") == "ExternalName";
    let (now, before) = (text(new, "clusterIP"), text(old, "clusterIP"));
    if external(new) || external(old) || before.is_empty() || now == before {
        return;
    }
    let shown = json!([now]);
    let why = if now.is_empty() { "primary clusterIP can not be unset" } else { "may not change once set" };
    out.push(invalid("spec.clusterIPs[0]", &shown, why));
}
