//! Binds claims to volumes, grows them, and reclaims volumes whose claim is gone.
//!
//! # Flow
//! A claim without a volume gets a matching free one, else a new `PersistentVolume` is made at once (no class has to
//! exist and `WaitForFirstConsumer` is not waited for). A larger request is granted immediately in
//! `status.capacity`. When the claim goes, its volume is deleted or released, as its reclaim policy says.
//!
//! # Guarantees
//! The finalizer `kubernetes.io/pvc-protection` goes only when no unfinished pod uses the claim.
//!
//! # Not done
//! `storageClassName: ""` is never provisioned for: it waits for a free volume. Snapshots and clones are made empty.

use serde_json::{Value, json};

use super::{
    Change, Client, Controller, Key, Outcome, kinds,
    object::{
        annotation, delete, get, has_finalizer, is_terminating, key, list, name, namespace, remove_finalizer,
        status_of, text, uid, write_status,
    },
    pods,
};
use crate::status::ApiError;

const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";
const BOUND: &str = "pv.kubernetes.io/bind-completed";
const BOUND_BY: &str = "pv.kubernetes.io/bound-by-controller";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const PROVISIONER: &str = "reconverge.dev/simulated";

/// See the module.
#[derive(Debug, Default)]
pub struct VolumeController;

impl Controller for VolumeController {
    fn name(&self) -> &'static str {
        "persistent-volume-binder"
    }

    /// A key with a namespace is a claim, one without a volume.
    fn keys(&self, change: &Change, client: &dyn Client) -> Vec<Key> {
        let object = &change.object;
        if kinds::is(&change.gvr, &kinds::claims()) {
            let volume = text(object, "/spec/volumeName");
            let mut keys = vec![key(object)];
            if change.deleted && !volume.is_empty() {
                keys.push(Key { namespace: String::new(), name: volume.into() });
            }
            return keys;
        }
        if kinds::is(&change.gvr, &kinds::volumes()) {
            let mut keys = vec![key(object)];
            let claims = client.list(&kinds::claims(), None).unwrap_or_default();
            keys.extend(claims.iter().filter(|c| text(c, "/status/phase") != "Bound").map(key));
            return keys;
        }
        if kinds::is(&change.gvr, &kinds::pods()) && (change.deleted || pods::is_finished(object)) {
            let used = claims_of(object);
            return used.map(|c| Key { namespace: namespace(object).into(), name: c.into() }).collect();
        }
        Vec::new()
    }

    fn reconcile(&self, client: &dyn Client, key: &Key) -> Result<Outcome, ApiError> {
        if key.namespace.is_empty() {
            if let Some(volume) = get(client, &kinds::volumes(), key)? {
                tend_volume(client, &volume)?;
            }
        } else if let Some(claim) = get(client, &kinds::claims(), key)? {
            if is_terminating(&claim) {
                unprotect(client, &claim)?;
            } else {
                bind(client, &claim)?;
            }
        }
        Ok(Outcome::default())
    }
}

/// The claims that a pod mounts.
pub(super) fn claims_of(pod: &Value) -> impl Iterator<Item = &str> {
    list(pod, "/spec/volumes").iter().map(|v| text(v, "/persistentVolumeClaim/claimName")).filter(|n| !n.is_empty())
}

fn unprotect(client: &dyn Client, claim: &Value) -> Result<(), ApiError> {
    if !has_finalizer(claim, CLAIM_PROTECTION) {
        return Ok(());
    }
    let all = client.list(&kinds::pods(), Some(namespace(claim)))?;
    let used = all.iter().any(|p| !pods::is_finished(p) && claims_of(p).any(|c| c == name(claim)));
    if used { Ok(()) } else { remove_finalizer(client, &kinds::claims(), claim, CLAIM_PROTECTION) }
}

fn claim_ref(claim: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": name(claim), "namespace": namespace(claim),
        "uid": uid(claim),
    })
}

fn is_claimed_by(volume: &Value, claim: &Value) -> bool {
    let reference = &volume["spec"]["claimRef"];
    let named = text(reference, "/namespace") == namespace(claim) && text(reference, "/name") == name(claim);
    named && (text(reference, "/uid").is_empty() || text(reference, "/uid") == uid(claim))
}

fn bind(client: &dyn Client, claim: &Value) -> Result<(), ApiError> {
    let wanted = text(claim, "/spec/volumeName");
    let volume = if wanted.is_empty() {
        find_or_provision(client, claim)?
    } else {
        let own = Key { namespace: String::new(), name: wanted.into() };
        get(client, &kinds::volumes(), &own)?
    };
    let Some(volume) = volume else { return pend(client, claim) };
    let taken = volume["spec"]["claimRef"].is_object() && !is_claimed_by(&volume, claim);
    if taken {
        return pend(client, claim);
    }
    let volume = claim_volume(client, &volume, claim)?;
    let mut next = claim.clone();
    next["spec"]["volumeName"] = json!(name(&volume));
    if !next["metadata"]["annotations"].is_object() {
        next["metadata"]["annotations"] = json!({});
    }
    for note in [BOUND, BOUND_BY] {
        if note == BOUND || wanted.is_empty() {
            next["metadata"]["annotations"][note] = json!("yes");
        }
    }
    let claim = if next == *claim { next } else { client.update(&kinds::claims(), "", &next)? };
    let mut status = status_of(&claim);
    status["phase"] = json!("Bound");
    status["accessModes"] = claim.pointer("/spec/accessModes").cloned().unwrap_or_else(|| json!([]));
    // What was provisioned here grows with its request; a volume of the user's has the size it has.
    let size = if is_provisioned(&volume) { requested(&claim) } else { volume.pointer("/spec/capacity/storage") };
    if let Some(size) = size {
        status["capacity"] = json!({"storage": size});
        if is_provisioned(&volume) && volume.pointer("/spec/capacity/storage") != Some(size) {
            let patch = json!({"spec": {"capacity": {"storage": size}}});
            client.patch(&kinds::volumes(), "", "", name(&volume), &patch)?;
        }
    }
    write_status(client, &kinds::claims(), &claim, status)?;
    Ok(())
}

fn requested(claim: &Value) -> Option<&Value> {
    claim.pointer("/spec/resources/requests/storage")
}

fn is_provisioned(volume: &Value) -> bool {
    annotation(volume, PROVISIONED_BY) == Some(PROVISIONER)
}

fn pend(client: &dyn Client, claim: &Value) -> Result<(), ApiError> {
    let mut status = status_of(claim);
    status["phase"] = json!("Pending");
    write_status(client, &kinds::claims(), claim, status).map(|_| ())
}

/// Puts the claim's reference on the volume, and the volume into phase `Bound`.
fn claim_volume(client: &dyn Client, volume: &Value, claim: &Value) -> Result<Value, ApiError> {
    let mut next = volume.clone();
    if text(volume, "/spec/claimRef/uid") != uid(claim) {
        next["spec"]["claimRef"] = claim_ref(claim);
        next = client.update(&kinds::volumes(), "", &next)?;
    }
    if text(&next, "/status/phase") != "Bound" {
        next["status"] = json!({"phase": "Bound"});
        next = client.update(&kinds::volumes(), "status", &next)?;
    }
    Ok(next)
}

fn find_or_provision(client: &dyn Client, claim: &Value) -> Result<Option<Value>, ApiError> {
    let class = claim.pointer("/spec/storageClassName").and_then(Value::as_str);
    let mut volumes = client.list(&kinds::volumes(), None)?;
    volumes.sort_by_key(|v| name(v).to_owned());
    if let Some(own) = volumes.iter().find(|v| v["spec"]["claimRef"].is_object() && is_claimed_by(v, claim)) {
        return Ok(Some(own.clone()));
    }
    let free = |v: &&Value| {
        !v["spec"]["claimRef"].is_object()
            && !is_terminating(v)
            && text(v, "/spec/storageClassName") == class.unwrap_or("")
            && fits(v, claim)
    };
    if let Some(volume) = volumes.iter().find(free) {
        return Ok(Some(volume.clone()));
    }
    if class == Some("") { Ok(None) } else { provision(client, claim, class).map(Some) }
}

fn fits(volume: &Value, claim: &Value) -> bool {
    let modes = list(volume, "/spec/accessModes");
    let modes_fit = list(claim, "/spec/accessModes").iter().all(|m| modes.contains(m));
    let labels_fit =
        claim["spec"]["selector"].is_null() || super::selector::matches(claim.pointer("/spec/selector"), volume);
    let bytes = |v: Option<&Value>| v.and_then(Value::as_str).and_then(bytes).unwrap_or(0.0);
    modes_fit && labels_fit && bytes(volume.pointer("/spec/capacity/storage")) >= bytes(requested(claim))
}

/// A quantity of storage in bytes; good enough to compare by.
fn bytes(quantity: &str) -> Option<f64> {
    let at = quantity.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(quantity.len());
    let (number, unit) = quantity.split_at(at);
    let factor = match unit {
        "" => 1.0,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "Ki" => 1024.0,
        "Mi" => 1_048_576.0,
        "Gi" => 1_073_741_824.0,
        "Ti" => 1_099_511_627_776.0,
        _ => return quantity.parse().ok(),
    };
    number.parse::<f64>().ok().map(|n| n * factor)
}

fn provision(client: &dyn Client, claim: &Value, class: Option<&str>) -> Result<Value, ApiError> {
    let own = format!("pvc-{}", uid(claim));
    let class_object = match class {
        Some(class) => get(client, &kinds::storage_classes(), &Key { namespace: String::new(), name: class.into() })?,
        None => None,
    };
    let policy = class_object.as_ref().map_or("", |c| text(c, "/reclaimPolicy"));
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": own, "annotations": {PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "accessModes": claim.pointer("/spec/accessModes").cloned().unwrap_or_else(|| json!(["ReadWriteOnce"])),
            "capacity": {"storage": requested(claim).cloned().unwrap_or_else(|| json!("1Gi"))},
            "claimRef": claim_ref(claim),
            "persistentVolumeReclaimPolicy": if policy.is_empty() { "Delete" } else { policy },
            "volumeMode": match text(claim, "/spec/volumeMode") { "" => "Filesystem", mode => mode },
            "hostPath": {"path": format!("/simulated/{own}"), "type": "DirectoryOrCreate"},
        },
    });
    if let Some(class) = class {
        volume["spec"]["storageClassName"] = json!(class);
    }
    client.create(&kinds::volumes(), "", &volume)
}

/// A volume without a claim is available; one whose claim is gone is released or deleted.
fn tend_volume(client: &dyn Client, volume: &Value) -> Result<(), ApiError> {
    let gvr = kinds::volumes();
    let reference = &volume["spec"]["claimRef"];
    let own = Key { namespace: text(reference, "/namespace").into(), name: text(reference, "/name").into() };
    let claim = if reference.is_object() { get(client, &kinds::claims(), &own)? } else { None };
    let alive = claim.as_ref().is_some_and(|c| is_claimed_by(volume, c));
    if is_terminating(volume) {
        let protected = has_finalizer(volume, VOLUME_PROTECTION);
        return if alive || !protected { Ok(()) } else { remove_finalizer(client, &gvr, volume, VOLUME_PROTECTION) };
    }
    let phase = if alive {
        // The claim's own step writes `Bound`, in the same step that it binds.
        return Ok(());
    } else if !reference.is_object() || text(reference, "/uid").is_empty() {
        "Available"
    } else if text(volume, "/spec/persistentVolumeReclaimPolicy") == "Delete" {
        return delete(client, &gvr, volume, None);
    } else {
        "Released"
    };
    let mut status = status_of(volume);
    status["phase"] = json!(phase);
    write_status(client, &gvr, volume, status).map(|_| ())
}
