//! Storage: the default class of claims, and the protection of what is in use.

use serde_json::{Value, json};

use super::super::{cluster::Tx, meta};

const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";

/// Adds the finalizer that keeps storage while it is in use; the volume controller removes it.
pub(crate) fn protect(object: &mut Value, finalizer: &str) {
    let list = meta::metadata(object).entry("finalizers").or_insert(Value::Null);
    if !list.is_array() {
        *list = json!([]);
    }
    if let Some(list) = list.as_array_mut()
        && !list.iter().any(|f| f == finalizer)
    {
        list.push(finalizer.into());
    }
}

/// Gives a claim without a class the default one: the newest that is marked, by name where times are equal.
pub(crate) fn default_class(tx: &Tx<'_>, object: &mut Value) {
    let named = object.pointer("/spec/storageClassName").is_some_and(|c| !c.is_null());
    let old_style = meta::field(object, "annotations").and_then(|a| a.get("volume.beta.kubernetes.io/storage-class"));
    if named || old_style.is_some() {
        return;
    }
    let classes = tx.state.store.objects("storageclasses.storage.k8s.io");
    let marked = classes.values().filter(|c| {
        meta::field(c, "annotations").and_then(|a| a.get(IS_DEFAULT)).and_then(Value::as_str) == Some("true")
    });
    let newest = marked
        .min_by_key(|c| (std::cmp::Reverse(meta::text(c, "creationTimestamp").to_owned()), meta::name(c).to_owned()));
    if let Some(class) = newest {
        meta::map_at(object, "spec").insert("storageClassName".into(), meta::name(class).into());
    }
}
