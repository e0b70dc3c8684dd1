//! Claims of a StatefulSet's pods: made before the pod, owned as the retention policy says.

use serde_json::{Value, json};

use super::identity;
use crate::{
    controllers::{
        Client, Key,
        claim::Owner,
        kinds,
        object::{controller_ref, get, is_terminating, list, name, namespace, patch_metadata, text, uid},
    },
    status::ApiError,
};

/// Makes the claims that a pod of this name needs, unless they exist.
pub(super) fn ensure(client: &dyn Client, owner: Owner<'_>, pod: &str) -> Result<(), ApiError> {
    let set = owner.object;
    for claim_template in list(set, "/spec/volumeClaimTemplates") {
        let mut claim = identity::claim(set, claim_template, pod);
        let own = Key { namespace: namespace(set).into(), name: name(&claim).into() };
        match get(client, &kinds::claims(), &own)? {
            Some(there) if is_terminating(&there) => {
                let why = format!("pvc {} is being deleted", own.name);
                return Err(ApiError::conflict(&kinds::claims(), &own.name, &why));
            }
            Some(_) => {}
            None => {
                if deletes(set, "whenDeleted") {
                    claim["metadata"]["ownerReferences"] = json!([owner.reference()]);
                }
                client.create(&kinds::claims(), namespace(set), &claim)?;
            }
        }
    }
    Ok(())
}

/// Makes a pod's claims owned by the set, by the pod (when it is about to be scaled away) or by neither.
pub(super) fn settle_owners(
    client: &dyn Client,
    owner: Owner<'_>,
    pod: &Value,
    condemned: bool,
) -> Result<(), ApiError> {
    let set = owner.object;
    let by_pod = condemned && deletes(set, "whenScaled");
    let by_set = !by_pod && deletes(set, "whenDeleted");
    for claim_template in list(set, "/spec/volumeClaimTemplates") {
        let own = Key { namespace: namespace(set).into(), name: identity::claim_name(claim_template, name(pod)) };
        let Some(claim) = get(client, &kinds::claims(), &own)? else { continue };
        let old = list(&claim, "/metadata/ownerReferences");
        let mut refs: Vec<Value> = old.iter().filter(|r| !is_ours(r, set, pod)).cloned().collect();
        if by_set {
            refs.push(owner.reference());
        }
        if by_pod {
            refs.push(controller_ref(pod, "v1", "Pod"));
        }
        if refs.as_slice() != old && !is_terminating(&claim) {
            patch_metadata(client, &kinds::claims(), &claim, "ownerReferences", json!(refs))?;
        }
    }
    Ok(())
}

/// References that this controller sets and removes: to the set, and to any pod of that name.
fn is_ours(reference: &Value, set: &Value, pod: &Value) -> bool {
    text(reference, "/uid") == uid(set) || (text(reference, "/kind") == "Pod" && text(reference, "/name") == name(pod))
}

fn deletes(set: &Value, when: &str) -> bool {
    set["spec"]["persistentVolumeClaimRetentionPolicy"][when] == "Delete"
}
