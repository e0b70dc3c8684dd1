//! Adoption and release: which children belong to an owner, by selector and controller reference.

use serde_json::{Value, json};

use super::{
    Client,
    object::{controller_of, is_controlled_by, is_terminating, list, patch_metadata, text, uid},
    selector,
};
use crate::{resource::Gvr, status::ApiError};

/// The owner on whose behalf children are claimed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner<'a> {
    pub object: &'a Value,
    pub api_version: &'a str,
    pub kind: &'a str,
}

impl Owner<'_> {
    pub(super) fn reference(&self) -> Value {
        super::object::controller_ref(self.object, self.api_version, self.kind)
    }

    pub(super) fn uid(&self) -> &str {
        uid(self.object)
    }
}

/// Keeps what the owner controls, adopts matching orphans for which `eligible` holds, releases what no longer matches.
///
/// An owner that is being deleted neither adopts nor releases.
pub(super) fn claim(
    client: &dyn Client,
    gvr: &Gvr,
    owner: Owner<'_>,
    candidates: Vec<Value>,
    eligible: impl Fn(&Value) -> bool,
) -> Result<Vec<Value>, ApiError> {
    let wanted = owner.object.pointer("/spec/selector");
    let mut mine = Vec::new();
    for child in candidates {
        let fits = selector::matches(wanted, &child) && eligible(&child);
        if is_controlled_by(&child, owner.uid()) {
            // Without a selector (a Job whose server makes none) the reference alone decides.
            if fits || wanted.is_none() || is_terminating(owner.object) {
                mine.push(child);
            } else if !is_terminating(&child) {
                release(client, gvr, &child, owner.uid())?;
            }
        } else if controller_of(&child).is_none()
            && fits
            && !is_terminating(owner.object)
            && !is_terminating(&child)
            && let Some(adopted) = adopt(client, gvr, &child, owner)?
        {
            mine.push(adopted);
        }
    }
    Ok(mine)
}

fn adopt(client: &dyn Client, gvr: &Gvr, child: &Value, owner: Owner<'_>) -> Result<Option<Value>, ApiError> {
    let mut refs: Vec<Value> = list(child, "/metadata/ownerReferences").to_vec();
    refs.retain(|r| text(r, "/uid") != owner.uid());
    refs.push(owner.reference());
    patch_metadata(client, gvr, child, "ownerReferences", json!(refs))?;
    super::object::get(client, gvr, &super::object::key(child))
}

fn release(client: &dyn Client, gvr: &Gvr, child: &Value, owner_uid: &str) -> Result<(), ApiError> {
    let refs: Vec<&Value> =
        list(child, "/metadata/ownerReferences").iter().filter(|r| text(r, "/uid") != owner_uid).collect();
    patch_metadata(client, gvr, child, "ownerReferences", json!(refs))
}
