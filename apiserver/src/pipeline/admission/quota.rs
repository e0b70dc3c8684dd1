//! LimitRange and ResourceQuota: not enforced, so pods that they would concern are refused.

use crate::status::ApiError;

use super::super::{call::Call, cluster::Tx};

/// Refuses a pod in a namespace that limits pods.
pub(crate) fn check(tx: &Tx<'_>, call: &Call) -> Result<(), ApiError> {
    let prefix = format!("{}/", call.namespace);
    for (table, what) in [("limitranges", "LimitRange"), ("resourcequotas", "ResourceQuota")] {
        let objects = tx.state.store.objects(table);
        if objects.range(prefix.clone()..).next().is_some_and(|(key, _)| key.starts_with(&prefix)) {
            return Err(ApiError::unsupported(&format!("pods in a namespace with a {what}")));
        }
    }
    Ok(())
}
