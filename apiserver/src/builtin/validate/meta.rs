//! Names, labels, annotations, owners and finalizers.

use serde_json::Value;

use super::{in_order, list, text};
use crate::{
    crd::{
        cause::{child, index, invalid, invalid_as, too_long},
        names::{dns1035_label, dns1123_label, dns1123_subdomain},
    },
    resource::Gvk,
    status::Cause,
};

/// All annotations together, keys included, as the real server limits them.
const ANNOTATIONS_MAX: usize = 256 * 1024;

pub(super) fn check(gvk: &Gvk, new: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    let meta = &new["metadata"];
    let name = text(meta, "name");
    if old.is_none() {
        let generate = text(meta, "generateName");
        if !generate.is_empty() {
            // The random suffix makes up for a trailing dash.
            let whole = format!("{}a", generate.trim_end_matches('-'));
            report(name_rule(gvk, &whole), "metadata.generateName", generate, out);
        }
        if name.is_empty() {
            out.push(Cause::required("metadata.name", "name or generateName is required"));
        } else {
            report(name_rule(gvk, name), "metadata.name", name, out);
        }
    }
    labels(&meta["labels"], "metadata.labels", out);
    annotations(&meta["annotations"], out);
    owners(list(meta, "ownerReferences"), out);
    for (at, finalizer) in list(meta, "finalizers").iter().enumerate() {
        let found = finalizer.as_str().unwrap_or_default();
        report(qualified_name(found), "metadata.finalizers", found, out);
        if !found.contains('/') && !matches!(found, "kubernetes" | "orphan" | "foregroundDeletion") {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            out.push(invalid(index("metadata.finalizers", at), finalizer, why));
        }
    }
    if let Some(old) = old {
        update(meta, &old["metadata"], out);
    }
}

fn report(wrong: Vec<String>, at: &str, found: &str, out: &mut Vec<Cause>) {
    out.extend(wrong.iter().map(|why| invalid(at, &Value::from(found), why)));
}

fn update(meta: &Value, old: &Value, out: &mut Vec<Cause>) {
    for name in ["name", "namespace", "uid", "creationTimestamp"] {
        if meta.get(name).is_some() && meta.get(name) != old.get(name) {
            out.push(invalid(child("metadata", name), &meta[name], "field is immutable"));
        }
    }
    if old.get("deletionTimestamp").is_some_and(|t| !t.is_null()) {
        let before = list(old, "finalizers");
        let added: Vec<&str> =
            list(meta, "finalizers").iter().filter(|f| !before.contains(f)).filter_map(Value::as_str).collect();
        if !added.is_empty() {
            let shown = added.iter().map(|f| format!("{f:?}")).collect::<Vec<_>>().join(", ");
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{shown}}}"
            );
            out.push(crate::crd::cause::forbidden("metadata.finalizers", &why));
        }
    }
}

/// Which names a kind takes.
fn name_rule(gvk: &Gvk, name: &str) -> Vec<String> {
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("", "Namespace") => dns1123_label(name),
        ("", "Service") => dns1035_label(name),
        ("apps", "StatefulSet") => dns1123_label(name),
        ("rbac.authorization.k8s.io", _) => path_segment(name),
        ("batch", "CronJob") if name.len() > 52 => {
            let mut wrong = dns1123_subdomain(name);
            wrong.push("must be no more than 52 characters".to_owned());
            wrong
        }
        _ => dns1123_subdomain(name),
    }
}

fn path_segment(name: &str) -> Vec<String> {
    if matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    ["/", "%"].iter().filter(|part| name.contains(**part)).map(|part| format!("may not contain '{part}'")).collect()
}

/// Judges a label map.
pub(super) fn labels(labels: &Value, at: &str, out: &mut Vec<Cause>) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        report(qualified_name(key), at, key, out);
        let found = value.as_str().unwrap_or_default();
        report(label_value(found), at, found, out);
    }
}

fn annotations(annotations: &Value, out: &mut Vec<Cause>) {
    let mut size = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        report(qualified_name(&key.to_lowercase()), "metadata.annotations", key, out);
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > ANNOTATIONS_MAX {
        out.push(too_long("metadata.annotations", ANNOTATIONS_MAX as u64));
    }
}

fn owners(owners: &[Value], out: &mut Vec<Cause>) {
    for (at, owner) in owners.iter().enumerate() {
        let path = index("metadata.ownerReferences", at);
        for (name, why) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if text(owner, name).is_empty() {
                out.push(invalid(child(&path, name), &Value::from(""), why));
            }
        }
    }
    let controllers: Vec<&Value> = owners.iter().filter(|o| o["controller"] == true).collect();
    if let [first, second, ..] = controllers.as_slice() {
        let why = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {}/{} and {}/{}",
            text(first, "kind"),
            text(first, "name"),
            text(second, "kind"),
            text(second, "name"),
        );
        let fields = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
        let shown: Vec<String> = owners.iter().map(|owner| in_order(owner, &fields)).collect();
        out.push(invalid_as("metadata.ownerReferences", &format!("[{}]", shown.join(",")), &why));
    }
}

const NAME_PART: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

fn is_name_part(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let bytes = text.as_bytes();
    let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(|b| inner(*b))
}

/// What is wrong with a label key, an annotation key or a finalizer.
pub(super) fn qualified_name(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let name = match text.split_once('/') {
        None => text,
        Some((_, rest)) if rest.contains('/') => {
            let why = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a qualified name {NAME_PART} {why}")];
        }
        Some(("", rest)) => {
            wrong.push("prefix part must be non-empty".to_owned());
            rest
        }
        Some((prefix, rest)) => {
            wrong.extend(dns1123_subdomain(prefix).into_iter().map(|why| format!("prefix part {why}")));
            rest
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        wrong.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_name_part(name) {
        wrong.push(format!("name part {NAME_PART}"));
    }
    wrong
}

/// What is wrong with a label's value.
pub(super) fn label_value(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 63 {
        wrong.push("must be no more than 63 bytes".to_owned());
    }
    if !text.is_empty() && !is_name_part(text) {
        wrong.push(LABEL_VALUE.to_owned());
    }
    wrong
}
