//! The places where the pipeline calls the stages that know kinds, schemas, patches and permissions.
//!
//! # Guarantees
//! Each function is one decision of the pipeline, so that the verbs read the same for built-in and custom kinds.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    auth::Identity,
    discovery::{CustomType, ResourceType, ScalePaths},
    entropy::Entropy,
    schema::{Definitions, Schema, TypeRef},
    status::{ApiError, Cause},
};

use super::{call::Call, cluster::Tx, meta};

/// The type of a resource's objects, where one is known.
pub(crate) fn type_of(kind: &ResourceType) -> Option<TypeRef<'_>> {
    kind.custom_type()
}

/// Drops fields that the type does not have and returns their paths.
pub(crate) fn drop_unknown(_kind: &ResourceType, _object: &mut Value) -> Vec<String> {
    Vec::new()
}

/// Fills in defaults.
pub(crate) fn default_values(_kind: &ResourceType, _object: &mut Value) {}

/// Checks an object; `old` is what it replaces.
pub(crate) fn validate(_kind: &ResourceType, _new: &Value, _old: Option<&Value>) -> Vec<Cause> {
    Vec::new()
}

/// Resets what a client may not set when it creates an object.
pub(crate) fn prepare_create(kind: &ResourceType, object: &mut Value) {
    if kind.subresources.contains_key("status") && kind.table != "nodes" {
        meta::as_map(object).remove("status");
    }
}

/// Puts back what this request may not change.
pub(crate) fn prepare_update(kind: &ResourceType, subresource: &str, new: &mut Value, old: &Value) {
    match subresource {
        "" if kind.subresources.contains_key("status") => meta::copy_member(old, new, "status"),
        "status" => {
            let status = new.get("status").cloned();
            let version = meta::field(new, "resourceVersion").cloned();
            *new = old.clone();
            match status {
                Some(status) => {
                    meta::as_map(new).insert("status".into(), status);
                }
                None => {
                    meta::as_map(new).remove("status");
                }
            }
            if let Some(version) = version {
                meta::set(new, "resourceVersion", version);
            }
        }
        _ => {}
    }
}

/// Kinds without a generation; every custom resource has one.
const WITHOUT_GENERATION: [&str; 14] = [
    "configmaps",
    "secrets",
    "services",
    "serviceaccounts",
    "events",
    "namespaces",
    "nodes",
    "endpoints",
    "persistentvolumes",
    "persistentvolumeclaims",
    "leases.coordination.k8s.io",
    "roles.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
    "controllerrevisions.apps",
];

pub(crate) fn has_generation(kind: &ResourceType) -> bool {
    kind.custom.is_some() || !WITHOUT_GENERATION.contains(&kind.table.as_str())
}

/// Whether an update raises the generation.
pub(crate) fn generation_changes(kind: &ResourceType, new: &Value, old: &Value) -> bool {
    let status_apart = kind.custom.as_ref().is_none_or(|c| c.status);
    let desired = |object: &Value| {
        let mut copy = object.clone();
        let map = meta::as_map(&mut copy);
        for key in ["metadata", "apiVersion", "kind"] {
            map.remove(key);
        }
        if status_apart {
            map.remove("status");
        }
        copy
    };
    let annotations = |object: &Value| meta::field(object, "annotations").cloned();
    desired(new) != desired(old) || (kind.table == "deployments.apps" && annotations(new) != annotations(old))
}

/// Records which manager set which field.
pub(crate) fn track(_live: Option<&Value>, _new: &mut Value, _call: &Call, _now: Timestamp) {}

/// Server-side apply.
pub(crate) fn apply(_live: Option<&Value>, _applied: &Value, _call: &Call, _now: Timestamp) -> Result<Value, ApiError> {
    Err(ApiError::unsupported("server-side apply"))
}

pub(crate) fn json_patch(current: &Value, patch: &Value) -> Result<Value, ApiError> {
    let bad = |why: String| ApiError::bad_request(why);
    let patch: json_patch::Patch = serde_json::from_value(patch.clone()).map_err(|e| bad(e.to_string()))?;
    let mut out = current.clone();
    json_patch::patch(&mut out, &patch).map_err(|e| {
        ApiError::new(422, "Invalid", format!("the server rejected our request due to an error in our request: {e}"))
    })?;
    Ok(out)
}

pub(crate) fn merge_patch(current: &Value, patch: &Value) -> Value {
    let mut out = current.clone();
    json_patch::merge(&mut out, patch);
    out
}

pub(crate) fn strategic_merge(_current: &Value, _patch: &Value, _kind: &ResourceType) -> Result<Value, ApiError> {
    Err(ApiError::unsupported("strategic merge patches"))
}

pub(crate) fn decode_protobuf(_body: &[u8]) -> Result<Value, ApiError> {
    Err(ApiError::unsupported("protobuf bodies"))
}

/// Whether the user may make the call.
pub(crate) fn authorise(_call: &Call, _verb: &str) -> Result<(), ApiError> {
    Ok(())
}

/// The status of an access review.
pub(crate) fn access_review(_tx: &Tx<'_>, call: &Call, _review: &Value) -> Result<Value, ApiError> {
    Err(ApiError::unsupported(&call.gvr().resource))
}

/// Fills in what a CRD leaves out.
pub(crate) fn prepare_crd(crd: &mut Value) {
    let kind = crd.pointer("/spec/names/kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    let spec = meta::map_at(crd, "spec");
    spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
    let names = spec.entry("names").or_insert_with(|| json!({}));
    let names = meta::as_map(names);
    names.entry("singular").or_insert_with(|| kind.to_lowercase().into());
    names.entry("listKind").or_insert_with(|| format!("{kind}List").into());
}

pub(crate) fn validate_crd(_crd: &Value, _old: Option<&Value>) -> Vec<Cause> {
    Vec::new()
}

/// Accepts the names of a CRD and says so in its status.
pub(crate) fn accept_crd_status(crd: &mut Value, now: Timestamp) {
    let time = crate::clock::rfc3339_seconds(now);
    let names = crd.pointer("/spec/names").cloned().unwrap_or_default();
    let condition = |kind: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": time,
        })
    };
    let stored: Vec<Value> = super::customs::versions(crd)
        .iter()
        .filter(|v| v["storage"] == true)
        .filter_map(|v| v.get("name").cloned())
        .collect();
    meta::as_map(crd).insert(
        "status".into(),
        json!({
            "acceptedNames": names, "storedVersions": stored,
            "conditions": [
                condition("NamesAccepted", "NoConflicts", "no conflicts found"),
                condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
            ],
        }),
    );
}

/// Compiles one version of a CRD.
pub(crate) fn compile_version(crd: &Value, version: &Value) -> Result<CustomType, ApiError> {
    let _ = crd;
    let raw = version.pointer("/schema/openAPIV3Schema").cloned().unwrap_or(Value::Null);
    let scale = version.pointer("/subresources/scale").map(|s| ScalePaths {
        spec: s["specReplicasPath"].as_str().unwrap_or_default().into(),
        status: s["statusReplicasPath"].as_str().unwrap_or_default().into(),
        selector: s["labelSelectorPath"].as_str().map(str::to_owned),
    });
    let list = |key: &str| version.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    Ok(CustomType {
        definitions: Definitions::default(),
        schema: Schema::parse(&raw),
        status: version.pointer("/subresources/status").is_some(),
        scale,
        columns: list("additionalPrinterColumns"),
        selectable: list("selectableFields").iter().filter_map(|f| f["jsonPath"].as_str().map(str::to_owned)).collect(),
        raw,
    })
}

/// Bearer tokens of one cluster.
#[derive(Debug, Clone)]
pub(crate) struct Tokens {
    admin: String,
    known: Arc<Mutex<BTreeMap<String, Identity>>>,
}

impl Tokens {
    pub fn new(entropy: &Entropy) -> Self {
        Self { admin: format!("admin.{}", entropy.uuid()), known: Arc::default() }
    }

    pub fn admin(&self) -> &str {
        &self.admin
    }

    /// A token for a ServiceAccount.
    pub fn issue(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        _now: Timestamp,
        _seconds: i64,
        entropy: &Entropy,
    ) -> String {
        let token = format!("sa.{}", entropy.uuid());
        let identity = Identity::service_account(namespace, name, uid);
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(token.clone(), identity);
        token
    }

    pub fn identify(&self, bearer: &str, _now: Timestamp) -> Option<Identity> {
        if bearer == self.admin {
            return Some(Identity::admin());
        }
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(bearer).cloned()
    }
}
