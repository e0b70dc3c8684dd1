//! What a pod refers to and cannot start without.
//!
//! Missing volumes hold the whole pod in `ContainerCreating`; a missing variable holds its container in
//! `CreateContainerConfigError`. What is marked optional, and image pull secrets, may be missing. Generic ephemeral volumes
//! hold the pod for ever, since nothing here makes their claims.

use serde_json::Value;

use crate::{
    controllers::{
        Change, Client, Key, kinds,
        object::{flag, get, list, map, name, namespace, text},
    },
    resource::Gvr,
    status::ApiError,
};

/// Why containers wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Waiting {
    pub reason: &'static str,
    pub message: String,
    /// The container that it is about, or all of them.
    pub container: Option<String>,
}

impl Waiting {
    pub(super) fn everywhere(reason: &'static str, message: String) -> Self {
        Self { reason, message, container: None }
    }
}

/// The kinds of object that a pod may need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Secret,
    ConfigMap,
    Claim,
}

impl Source {
    fn gvr(self) -> Gvr {
        match self {
            Self::Secret => kinds::secrets(),
            Self::ConfigMap => kinds::config_maps(),
            Self::Claim => kinds::claims(),
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Secret => "secret",
            Self::ConfigMap => "configmap",
            Self::Claim => "persistentvolumeclaim",
        }
    }
}

/// One object that a pod refers to, with the keys it must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Need {
    source: Source,
    name: String,
    keys: Vec<String>,
    /// The container whose variable it is; `None` for a volume.
    container: Option<String>,
}

impl Need {
    /// The need that a change may satisfy.
    pub(super) fn of(change: &Change) -> Option<Self> {
        let all = [Source::Secret, Source::ConfigMap, Source::Claim];
        let source = all.into_iter().find(|s| !change.deleted && kinds::is(&change.gvr, &s.gvr()))?;
        Some(Self { source, name: name(&change.object).into(), keys: Vec::new(), container: None })
    }
}

/// Whether the pod refers to that object.
pub(super) fn refers(pod: &Value, need: &Need) -> bool {
    needs(pod).iter().any(|n| n.source == need.source && n.name == need.name)
}

/// The first thing that is missing, in the order in which a kubelet would meet it.
pub(super) fn missing(client: &dyn Client, pod: &Value) -> Result<Option<Waiting>, ApiError> {
    let ephemeral = list(pod, "/spec/volumes").iter().find(|v| v["ephemeral"].is_object());
    if let Some(volume) = ephemeral {
        let message = format!("generic ephemeral volume \"{}\" is not simulated", text(volume, "/name"));
        return Ok(Some(Waiting::everywhere("ContainerCreating", message)));
    }
    for need in needs(pod) {
        let own = Key { namespace: namespace(pod).into(), name: need.name.clone() };
        let object = get(client, &need.source.gvr(), &own)?;
        let word = need.source.word();
        let message = match &object {
            None => format!("{word} \"{}\" not found", need.name),
            Some(claim) if need.source == Source::Claim => {
                if text(claim, "/status/phase") == "Bound" {
                    continue;
                }
                format!("{word} \"{}\" is not bound", need.name)
            }
            Some(object) => match need.keys.iter().find(|k| !has_key(object, k)) {
                None => continue,
                Some(key) => format!("couldn't find key {key} in {word} {}/{}", own.namespace, own.name),
            },
        };
        let reason = if need.container.is_some() { "CreateContainerConfigError" } else { "ContainerCreating" };
        return Ok(Some(Waiting { reason, message, container: need.container }));
    }
    Ok(None)
}

fn has_key(object: &Value, key: &str) -> bool {
    ["/data", "/binaryData", "/stringData"].iter().any(|part| map(object, part).is_some_and(|m| m.contains_key(key)))
}

fn needs(pod: &Value) -> Vec<Need> {
    let mut all = Vec::new();
    for volume in list(pod, "/spec/volumes") {
        of_source(volume, "secret", "secretName", &mut all);
        of_source(volume, "configMap", "name", &mut all);
        for projected in list(volume, "/projected/sources") {
            of_source(projected, "secret", "name", &mut all);
            of_source(projected, "configMap", "name", &mut all);
        }
        let claim = text(volume, "/persistentVolumeClaim/claimName");
        if !claim.is_empty() {
            all.push(Need { source: Source::Claim, name: claim.into(), keys: Vec::new(), container: None });
        }
    }
    for container in list(pod, "/spec/initContainers").iter().chain(list(pod, "/spec/containers")) {
        of_container(container, &mut all);
    }
    all
}

fn of_source(volume: &Value, field: &str, named: &str, all: &mut Vec<Need>) {
    let source = &volume[field];
    if !source.is_object() || flag(source, "/optional") {
        return;
    }
    let kind = if field == "secret" { Source::Secret } else { Source::ConfigMap };
    let keys = list(source, "/items").iter().map(|i| text(i, "/key").into()).collect();
    all.push(Need { source: kind, name: text(source, &format!("/{named}")).into(), keys, container: None });
}

fn of_container(container: &Value, all: &mut Vec<Need>) {
    let own = Some(text(container, "/name").to_owned());
    let mut push = |source: Source, reference: &Value, keys: Vec<String>| {
        if reference.is_object() && !flag(reference, "/optional") {
            all.push(Need { source, name: text(reference, "/name").into(), keys, container: own.clone() });
        }
    };
    for from in list(container, "/envFrom") {
        push(Source::Secret, &from["secretRef"], Vec::new());
        push(Source::ConfigMap, &from["configMapRef"], Vec::new());
    }
    for variable in list(container, "/env") {
        for (field, source) in [("secretKeyRef", Source::Secret), ("configMapKeyRef", Source::ConfigMap)] {
            let reference = &variable["valueFrom"][field];
            push(source, reference, vec![text(reference, "/key").into()]);
        }
    }
}
