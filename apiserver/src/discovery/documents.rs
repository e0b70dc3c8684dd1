//! `/api`, `/apis` and what is below them, in the plain and in the aggregated form.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

use crate::captured;

use super::ResourceType;

/// A discovery answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discovery {
    pub content_type: String,
    pub body: Vec<u8>,
}

type Customs<'a> = &'a [Arc<ResourceType>];

/// Answers a discovery path (`api`, `apis`, `api/v1`, `apis/GROUP`, `apis/GROUP/VERSION`), or `None` when there is no
/// such group. `aggregated` is the version of the aggregated form that the client accepts, if any.
#[must_use]
pub fn discover(path: &str, aggregated: Option<&str>, customs: Customs<'_>) -> Option<Discovery> {
    if let (Some(version), "api" | "apis") = (aggregated, path) {
        return aggregated_root(path, version, customs);
    }
    let body = match path.split('/').collect::<Vec<_>>().as_slice() {
        ["api"] => plain_api()?,
        ["apis"] => plain_groups(customs)?,
        ["api", "v1"] => captured::file("api/v1.json")?,
        ["apis", group] => plain_group(group, customs)?,
        ["apis", group, version] => plain_resources(group, version, customs)?,
        _ => return None,
    };
    Some(Discovery { content_type: "application/json".into(), body })
}

/// The recorded answer names the address of the recorded server; clients ignore it, but ours is the cluster's own.
fn plain_api() -> Option<Vec<u8>> {
    let mut document = (*captured::json("api.json")?).clone();
    document["serverAddressByClientCIDRs"] = json!([{"clientCIDR": "0.0.0.0/0", "serverAddress": "10.96.0.1:443"}]);
    encode(&document)
}

fn plain_groups(customs: Customs<'_>) -> Option<Vec<u8>> {
    if customs.is_empty() {
        return captured::file("apis.json");
    }
    let mut document = (*captured::json("apis.json")?).clone();
    let groups = document.get_mut("groups")?.as_array_mut()?;
    for (group, versions) in custom_versions(customs) {
        let known = groups.iter_mut().find(|g| g["name"] == group);
        let mut entry = group_entry(group, &versions);
        match known {
            // A CRD may add versions to a built-in group.
            Some(builtin) => merge_versions(builtin, entry["versions"].take()),
            None => groups.push(entry),
        }
    }
    encode(&document)
}

fn plain_group(group: &str, customs: Customs<'_>) -> Option<Vec<u8>> {
    let file = format!("apis/{group}.json");
    let versions = custom_versions(customs).remove(group);
    let Some(versions) = versions else { return captured::file(&file) };
    let mut entry = group_entry(group, &versions);
    if let Some(builtin) = captured::json(&file) {
        let mut document = (*builtin).clone();
        merge_versions(&mut document, entry["versions"].take());
        return encode(&document);
    }
    entry["kind"] = "APIGroup".into();
    entry["apiVersion"] = "v1".into();
    encode(&entry)
}

fn plain_resources(group: &str, version: &str, customs: Customs<'_>) -> Option<Vec<u8>> {
    let file = format!("apis/{group}/{version}.json");
    let mut added = Vec::new();
    for t in customs.iter().filter(|t| t.gvr.group == group && t.gvr.version == version) {
        added.extend(plain_entries(t));
    }
    if added.is_empty() {
        return captured::file(&file);
    }
    let mut document = captured::json(&file).map_or_else(
        || {
            let name = format!("{group}/{version}");
            json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": []})
        },
        |d| (*d).clone(),
    );
    document.get_mut("resources")?.as_array_mut()?.extend(added);
    encode(&document)
}

/// The resource and its subresources, as `APIResourceList` has them.
fn plain_entries(t: &ResourceType) -> Vec<Value> {
    let mut main = json!({
        "name": t.gvr.resource, "singularName": t.singular, "namespaced": t.namespaced, "kind": t.kind.kind,
        "verbs": t.verbs, "storageVersionHash": storage_hash(t),
    });
    if !t.short_names.is_empty() {
        main["shortNames"] = json!(t.short_names);
    }
    if !t.categories.is_empty() {
        main["categories"] = json!(t.categories);
    }
    let mut out = vec![main];
    for (name, sub) in &t.subresources {
        let mut entry = json!({
            "name": format!("{}/{name}", t.gvr.resource), "singularName": "", "namespaced": t.namespaced,
            "kind": sub.kind.kind, "verbs": sub.verbs,
        });
        if sub.kind.group != t.gvr.group {
            entry["group"] = sub.kind.group.as_str().into();
            entry["version"] = sub.kind.version.as_str().into();
        }
        out.push(entry);
    }
    out
}

/// An opaque token that changes with the storage version; clients only compare it.
fn storage_hash(t: &ResourceType) -> String {
    use base64::Engine as _;
    use sha2::Digest as _;
    let (group, version) = t.storage_version.split_once('/').unwrap_or(("", &t.storage_version));
    let digest = sha2::Sha256::digest(format!("{group}/{version}/{}", t.kind.kind));
    base64::engine::general_purpose::STANDARD.encode(digest.get(..8).unwrap_or_default())
}

fn aggregated_root(path: &str, version: &str, customs: Customs<'_>) -> Option<Discovery> {
    let content_type = format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList");
    let file = format!("{path}.aggregated-{version}.json");
    if version != "v2" {
        // 1.34 no longer serves v2beta1; the recording of that request is the plain refusal.
        return None;
    }
    if path == "api" || customs.is_empty() {
        return Some(Discovery { content_type, body: captured::file(&file)? });
    }
    let mut document = (*captured::json(&file)?).clone();
    let items = document.get_mut("items")?.as_array_mut()?;
    for (group, versions) in custom_versions(customs) {
        let entries: Vec<Value> = versions.iter().map(|v| aggregated_version(group, v, customs)).collect();
        match items.iter_mut().find(|g| g["metadata"]["name"] == group) {
            Some(builtin) => merge_versions(builtin, entries.into()),
            None => items.push(json!({"metadata": {"name": group}, "versions": entries})),
        }
    }
    Some(Discovery { content_type, body: encode(&document)? })
}

fn aggregated_version(group: &str, version: &str, customs: Customs<'_>) -> Value {
    let of_version = customs.iter().filter(|t| t.gvr.group == group && t.gvr.version == version);
    let resources: Vec<Value> = of_version.map(|t| aggregated_entry(t)).collect();
    json!({"version": version, "resources": resources, "freshness": "Current"})
}

fn aggregated_entry(t: &ResourceType) -> Value {
    let kind = json!({"group": t.kind.group, "version": t.kind.version, "kind": t.kind.kind});
    let mut entry = json!({
        "resource": t.gvr.resource, "responseKind": kind, "singularResource": t.singular, "verbs": t.verbs,
        "scope": if t.namespaced { "Namespaced" } else { "Cluster" },
    });
    if !t.short_names.is_empty() {
        entry["shortNames"] = json!(t.short_names);
    }
    if !t.categories.is_empty() {
        entry["categories"] = json!(t.categories);
    }
    let subs: Vec<Value> = t
        .subresources
        .iter()
        .map(|(name, sub)| {
            let kind = json!({"group": sub.kind.group, "version": sub.kind.version, "kind": sub.kind.kind});
            json!({"subresource": name, "responseKind": kind, "verbs": sub.verbs})
        })
        .collect();
    if !subs.is_empty() {
        entry["subresources"] = subs.into();
    }
    entry
}

/// Versions of each custom group, the preferred one first.
pub(super) fn custom_versions<'a>(customs: Customs<'a>) -> BTreeMap<&'a str, Vec<&'a str>> {
    let mut out: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for t in customs {
        let versions = out.entry(t.gvr.group.as_str()).or_default();
        if !versions.contains(&t.gvr.version.as_str()) {
            versions.push(&t.gvr.version);
        }
    }
    for versions in out.values_mut() {
        versions.sort_by_key(|v| version_rank(v));
    }
    out
}

/// The order of API versions: `v2`, `v1`, `v1beta2`, `v1beta1`, `v1alpha1`, then anything else by name.
fn version_rank(version: &str) -> (u8, std::cmp::Reverse<u64>, std::cmp::Reverse<u64>, String) {
    let other = (3, std::cmp::Reverse(0), std::cmp::Reverse(0), version.to_owned());
    let Some(rest) = version.strip_prefix('v') else { return other };
    let split = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, tail) = rest.split_at(split);
    let Ok(major) = major.parse::<u64>() else { return other };
    let (class, minor) = match tail {
        "" => (0, ""),
        _ => match (tail.strip_prefix("beta"), tail.strip_prefix("alpha")) {
            (Some(n), _) => (1, n),
            (_, Some(n)) => (2, n),
            _ => return other,
        },
    };
    match (class, minor.parse::<u64>()) {
        (0, _) => (0, std::cmp::Reverse(major), std::cmp::Reverse(0), String::new()),
        (class, Ok(minor)) => (class, std::cmp::Reverse(major), std::cmp::Reverse(minor), String::new()),
        _ => other,
    }
}

fn group_entry(group: &str, versions: &[&str]) -> Value {
    let named = |v: &&str| json!({"groupVersion": format!("{group}/{v}"), "version": v});
    let all: Vec<Value> = versions.iter().map(named).collect();
    let preferred = all.first().cloned().unwrap_or_default();
    json!({"name": group, "versions": all, "preferredVersion": preferred})
}

fn merge_versions(entry: &mut Value, added: Value) {
    let (Some(known), Value::Array(added)) = (entry.get_mut("versions").and_then(Value::as_array_mut), added) else {
        return;
    };
    for mut version in added {
        match known.iter_mut().find(|v| v["version"] == version["version"]) {
            Some(same) => {
                if let (Some(into), Some(from)) =
                    (same["resources"].as_array_mut(), version["resources"].as_array_mut())
                {
                    into.append(from);
                }
            }
            None => known.push(version),
        }
    }
}

fn encode(document: &Value) -> Option<Vec<u8>> {
    let mut out = serde_json::to_vec(document).ok()?;
    out.push(b'\n');
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_sort_by_stability() {
        let mut all = ["v1alpha1", "foo", "v1", "v1beta1", "v10", "v2", "v1beta2"];
        all.sort_by_key(|v| version_rank(v));
        assert_eq!(all, ["v10", "v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "foo"]);
    }

    #[test]
    fn unknown_groups_have_no_document() {
        assert!(discover("apis/example.com", None, &[]).is_none());
        assert!(discover("apis/apps", None, &[]).is_some());
        let aggregated = discover("apis", Some("v2"), &[]).unwrap();
        assert_eq!(aggregated.content_type, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
    }
}
