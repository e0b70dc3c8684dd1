//! CustomResourceDefinitions themselves: what is filled in, and what is refused.

use serde_json::{Value, json};

use super::{
    accept::storage_version,
    cause::{child, forbidden, index, invalid, not_supported},
    names::{dns1035_label, dns1123_subdomain},
    structural,
};
use crate::status::Cause;

/// Fills in the names, the conversion and the first stored version.
pub fn prepare_crd(crd: &mut Value) {
    let storage = storage_version(crd);
    if let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) {
        if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
            let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
            let missing = |value: Option<&Value>| value.is_none_or(|v| v.is_null() || v == "");
            if missing(names.get("singular")) {
                names.insert("singular".into(), kind.to_lowercase().into());
            }
            if missing(names.get("listKind")) && !kind.is_empty() {
                names.insert("listKind".into(), format!("{kind}List").into());
            }
        }
        let conversion = spec.entry("conversion").or_insert(Value::Null);
        if conversion.is_null() {
            *conversion = json!({"strategy": "None"});
        }
        if let Some(service) = conversion.pointer_mut("/webhook/clientConfig/service").and_then(Value::as_object_mut) {
            service.entry("port").or_insert_with(|| 443.into());
        }
    }
    if !crd["status"].is_object() {
        crd["status"] = json!({});
    }
    if crd["status"]["storedVersions"].as_array().is_none_or(Vec::is_empty) {
        crd["status"]["storedVersions"] = storage.into_iter().collect::<Vec<_>>().into();
    }
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Judges a definition; `old` is the stored one on update.
#[must_use]
pub fn validate_crd(crd: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut out = Vec::new();
    let spec = &crd["spec"];
    let name = text(&crd["metadata"], "name");
    let expected = format!("{}.{}", text(&spec["names"], "plural"), text(spec, "group"));
    if old.is_none() && name != expected {
        let why = "must be spec.names.plural+\".\"+spec.group";
        out.push(invalid("metadata.name", &Value::from(name), why));
    }
    group_and_scope(spec, &mut out);
    names(&spec["names"], &mut out);
    versions(spec, &mut out);
    conversion(spec, &mut out);
    if spec["preserveUnknownFields"] == true && old.is_none_or(|o| o["spec"]["preserveUnknownFields"] != true) {
        let why =
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        out.push(invalid("spec.preserveUnknownFields", &json!(true), why));
    }
    stored_versions(crd, &mut out);
    if let Some(old) = old {
        immutable(spec, old, &mut out);
    }
    out
}

fn group_and_scope(spec: &Value, out: &mut Vec<Cause>) {
    let group = text(spec, "group");
    let wrong = dns1123_subdomain(group);
    if group.is_empty() {
        out.push(Cause::required("spec.group", ""));
    } else if !wrong.is_empty() {
        out.push(invalid("spec.group", &Value::from(group), &wrong.join(",")));
    } else if !group.contains('.') {
        out.push(invalid("spec.group", &Value::from(group), "should be a domain with at least one dot"));
    }
    match text(spec, "scope") {
        "Namespaced" | "Cluster" => {}
        "" => out.push(Cause::required("spec.scope", "")),
        other => {
            out.push(not_supported("spec.scope", &Value::from(other), &["Cluster", "Namespaced"].map(str::to_owned)))
        }
    }
}

fn names(names: &Value, out: &mut Vec<Cause>) {
    for name in ["plural", "singular", "kind", "listKind"] {
        let found = text(names, name);
        let at = child("spec.names", name);
        let wrong = dns1035_label(&found.to_lowercase());
        let mixed = matches!(name, "kind" | "listKind");
        if found.is_empty() {
            out.push(Cause::required(at, ""));
        } else if mixed && !wrong.is_empty() {
            let why = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
            out.push(invalid(at, &Value::from(found), &why));
        } else if !mixed && !dns1035_label(found).is_empty() {
            out.push(invalid(at, &Value::from(found), &dns1035_label(found).join(",")));
        }
    }
    for list in ["shortNames", "categories"] {
        let items = names.get(list).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for (at, item) in items.iter().enumerate() {
            let wrong = dns1035_label(item.as_str().unwrap_or_default());
            if !wrong.is_empty() {
                out.push(invalid(index(&child("spec.names", list), at), item, &wrong.join(",")));
            }
        }
    }
    if !text(names, "kind").is_empty() && names["kind"] == names["listKind"] {
        out.push(invalid("spec.names.listKind", &names["listKind"], "kind and listKind may not be the same"));
    }
}

fn versions(spec: &Value, out: &mut Vec<Cause>) {
    let list = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let shown = &spec["versions"];
    let names: Vec<&str> = list.iter().map(|v| text(v, "name")).collect();
    if names.iter().enumerate().any(|(at, name)| names[..at].contains(name)) {
        out.push(invalid("spec.versions", shown, "must contain unique version names"));
    }
    if list.iter().filter(|v| v["storage"] == true).count() != 1 {
        out.push(invalid("spec.versions", shown, "must have exactly one version marked as storage version"));
    }
    for (at, version) in list.iter().enumerate() {
        let path = index("spec.versions", at);
        let wrong = dns1035_label(text(version, "name"));
        if !wrong.is_empty() {
            out.push(invalid(child(&path, "name"), &version["name"], &wrong.join(",")));
        }
        let schema_at = format!("{path}.schema.openAPIV3Schema");
        let schema = &version["schema"]["openAPIV3Schema"];
        if schema.is_object() {
            structural::check(schema, &schema_at, out);
        } else {
            out.push(Cause::required(schema_at, ""));
        }
        subresources(&version["subresources"], &child(&path, "subresources"), out);
        columns(&version["additionalPrinterColumns"], &child(&path, "additionalPrinterColumns"), out);
        if version.get("deprecationWarning").is_some() && version["deprecated"] != true {
            let why = "can only be set for deprecated versions";
            out.push(invalid(child(&path, "deprecationWarning"), &version["deprecationWarning"], why));
        }
    }
}

fn subresources(value: &Value, path: &str, out: &mut Vec<Cause>) {
    let Some(scale) = value.get("scale").filter(|s| s.is_object()) else { return };
    for (name, bases, why) in [
        ("specReplicasPath", &[".spec."][..], "should be a json path under .spec"),
        ("statusReplicasPath", &[".status."][..], "should be a json path under .status"),
        ("labelSelectorPath", &[".spec.", ".status."][..], "should be a json path under either .spec or .status"),
    ] {
        let found = text(scale, name);
        let at = format!("{path}.scale.{name}");
        if found.is_empty() {
            if name != "labelSelectorPath" {
                out.push(Cause::required(at, ""));
            }
        } else if found.contains(['[', ']']) {
            out.push(invalid(at, &Value::from(found), "must be a json path in the dot notation"));
        } else if !bases.iter().any(|base| found.starts_with(base)) {
            out.push(invalid(at, &Value::from(found), why));
        }
    }
}

fn columns(value: &Value, path: &str, out: &mut Vec<Cause>) {
    const KINDS: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    for (at, column) in value.as_array().into_iter().flatten().enumerate() {
        let base = index(path, at);
        if text(column, "name").is_empty() {
            out.push(Cause::required(child(&base, "name"), ""));
        }
        let why = format!("must be one of {}", KINDS.join(","));
        match text(column, "type") {
            "" => out.push(Cause::required(child(&base, "type"), &why)),
            kind if !KINDS.contains(&kind) => out.push(invalid(child(&base, "type"), &Value::from(kind), &why)),
            _ => {}
        }
        match text(column, "jsonPath") {
            "" => out.push(Cause::required(child(&base, "JSONPath"), "")),
            found if !found.starts_with('.') => {
                let why = "must be a simple json path starting with .";
                out.push(invalid(child(&base, "JSONPath"), &Value::from(found), why));
            }
            _ => {}
        }
    }
}

fn conversion(spec: &Value, out: &mut Vec<Cause>) {
    let (value, at) = (&spec["conversion"], "spec.conversion");
    let client = value.pointer("/webhook/clientConfig");
    match text(value, "strategy") {
        "None" => {
            if client.is_some() {
                let why = "should not be set when strategy is not set to Webhook";
                out.push(forbidden(format!("{at}.webhookClientConfig"), why));
            }
        }
        "Webhook" => match client {
            None => {
                let why = "required when strategy is set to Webhook";
                out.push(Cause::required(format!("{at}.webhookClientConfig"), why));
            }
            Some(client) => {
                if client.get("url").is_some() == client.get("service").is_some() {
                    let why = "exactly one of url or service is required";
                    out.push(Cause::required(format!("{at}.webhookClientConfig"), why));
                }
                if value
                    .pointer("/webhook/conversionReviewVersions")
                    .and_then(Value::as_array)
                    .is_none_or(Vec::is_empty)
                {
                    out.push(Cause::required(format!("{at}.conversionReviewVersions"), ""));
                }
            }
        },
        "" => out.push(Cause::required(format!("{at}.strategy"), "")),
        other => {
            let known = ["None", "Webhook"].map(str::to_owned);
            out.push(not_supported(format!("{at}.strategy"), &Value::from(other), &known));
        }
    }
}

fn stored_versions(crd: &Value, out: &mut Vec<Cause>) {
    let at = "status.storedVersions";
    let stored = crd["status"]["storedVersions"].as_array().map(Vec::as_slice).unwrap_or_default();
    if stored.is_empty() {
        out.push(invalid(at, &json!([]), "must have at least one stored version"));
        return;
    }
    let versions = crd["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (i, name) in stored.iter().enumerate() {
        if !versions.iter().any(|v| &v["name"] == name) {
            let shown = name.as_str().unwrap_or_default();
            let why = format!(
                "missing from spec.versions; {shown} was previously a storage version, and must remain in spec.versions until a \
                 storage migration ensures no data remains persisted in {shown} and removes {shown} from status.storedVersions"
            );
            out.push(invalid(index(at, i), name, &why));
        }
    }
}

fn immutable(spec: &Value, old: &Value, out: &mut Vec<Cause>) {
    let conditions = old["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let established = conditions.iter().any(|c| c["type"] == "Established" && c["status"] == "True");
    for (pointer, field, always) in [
        ("/scope", "spec.scope", false),
        ("/names/kind", "spec.names.kind", false),
        ("/group", "spec.group", true),
        ("/names/plural", "spec.names.plural", true),
    ] {
        let (now, before) = (spec.pointer(pointer), old["spec"].pointer(pointer));
        if (always || established) && now != before {
            out.push(invalid(field, now.unwrap_or(&Value::Null), "field is immutable"));
        }
    }
}
