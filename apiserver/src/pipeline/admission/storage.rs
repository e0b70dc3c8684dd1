//! The default storage class of claims.

use serde_json::Value;

use super::super::{cluster::Tx, meta};

const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";

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
