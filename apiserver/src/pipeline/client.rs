//! The [`Client`] of built-in controllers: the same pipeline, without HTTP in between.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::{
    auth::Identity,
    controllers::{Client, ResourceInfo},
    entropy::Entropy,
    resource::Gvr,
    status::ApiError,
};

use super::{
    call::Call,
    cluster::Cluster,
    convert, create, delete, list, meta,
    patch::{self, Patch, PatchKind},
    subresource,
    target::Query,
    update,
};

pub use crate::controllers::driver::ClientFactory;

/// A client with an identity and a field manager. Its callers are parts of the control plane, so that permissions are
/// not asked for: a real server trusts them by roles and authorisers of their own.
#[derive(Debug, Clone)]
pub struct InProcessClient {
    cluster: Arc<Cluster>,
    user: Identity,
    manager: String,
}

impl InProcessClient {
    #[must_use]
    pub fn new(cluster: Arc<Cluster>, user: Identity, manager: &str) -> Self {
        Self { cluster, user, manager: manager.into() }
    }

    fn call(&self, gvr: &Gvr, namespace: &str, name: &str, sub: &str) -> Result<Call, ApiError> {
        let kind = self.cluster.read(|s| s.resource(gvr)).ok_or_else(|| ApiError::not_found(gvr, name))?;
        let namespace = if kind.namespaced { namespace } else { "" };
        let mut call = Call::internal(kind, namespace, name, self.user.clone(), &self.manager);
        sub.clone_into(&mut call.subresource);
        Ok(call)
    }
}

/// The identity behind a controller's user name.
#[must_use]
pub(crate) fn identity_of(user: &str) -> Identity {
    let mut parts = user.split(':');
    if let (Some("system"), Some("serviceaccount"), Some(namespace), Some(name)) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    {
        return Identity::service_account(namespace, name, "");
    }
    let mut groups = vec!["system:authenticated".to_owned()];
    if user.starts_with("system:node:") {
        groups.insert(0, "system:nodes".into());
    }
    Identity { name: user.into(), uid: String::new(), groups }
}

impl Client for InProcessClient {
    fn now(&self) -> Timestamp {
        self.cluster.clock.now()
    }

    fn entropy(&self) -> &Entropy {
        &self.cluster.entropy
    }

    fn get(&self, gvr: &Gvr, namespace: &str, name: &str) -> Result<Value, ApiError> {
        let call = self.call(gvr, namespace, name, "")?;
        let found = self.cluster.read(|s| list::get(s, &call, &Query::default()))?;
        Ok(convert::from_storage(&call.kind, &found))
    }

    fn list(&self, gvr: &Gvr, namespace: Option<&str>) -> Result<Vec<Value>, ApiError> {
        let call = self.call(gvr, namespace.unwrap_or_default(), "", "")?;
        let objects = self.cluster.read(|s| s.store.objects(&call.kind.table));
        Ok(list::in_namespace(&objects, &call).map(|(_, o)| convert::from_storage(&call.kind, o)).collect())
    }

    fn create(&self, gvr: &Gvr, namespace: &str, object: &Value) -> Result<Value, ApiError> {
        let mut call = self.call(gvr, namespace, "", "")?;
        let created = self.cluster.transact(|tx| create::create(tx, &mut call, object.clone(), &[]))?;
        Ok(convert::from_storage(&call.kind, &created))
    }

    fn update(&self, gvr: &Gvr, sub: &str, object: &Value) -> Result<Value, ApiError> {
        let mut call = self.call(gvr, meta::namespace(object), meta::name(object), sub)?;
        let object = object.clone();
        let done = self.cluster.transact(|tx| match sub {
            "finalize" => subresource::finalize(tx, &mut call, object),
            _ => update::update(tx, &mut call, object, &[]).map(|done| done.object),
        })?;
        Ok(convert::from_storage(&call.kind, &done))
    }

    fn patch(&self, gvr: &Gvr, sub: &str, namespace: &str, name: &str, patch: &Value) -> Result<Value, ApiError> {
        let mut call = self.call(gvr, namespace, name, sub)?;
        let patch = Patch { kind: PatchKind::Merge, value: patch.clone(), duplicates: Vec::new() };
        let done = self.cluster.transact(|tx| patch::patch(tx, &mut call, &patch))?;
        Ok(convert::from_storage(&call.kind, &done.object))
    }

    fn delete(&self, gvr: &Gvr, namespace: &str, name: &str, options: &Value) -> Result<(), ApiError> {
        let call = self.call(gvr, namespace, name, "")?;
        let options = delete::DeleteOptions::read(options)?;
        self.cluster.transact(|tx| delete::delete(tx, &call, &options)).map(|_| ())
    }

    fn create_subresource(
        &self,
        gvr: &Gvr,
        sub: &str,
        namespace: &str,
        name: &str,
        object: &Value,
    ) -> Result<Value, ApiError> {
        let mut call = self.call(gvr, namespace, name, sub)?;
        self.cluster.transact(|tx| subresource::post(tx, &mut call, object.clone()))?;
        Ok(object.clone())
    }

    fn resources(&self) -> Vec<ResourceInfo> {
        self.cluster.read(super::cluster::State::preferred_resources)
    }
}
