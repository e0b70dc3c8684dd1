//! Manifest files: YAML or JSON, one or many documents, single files or directories.
//!
//! # Flow
//! A path in; the objects with file and line out, in the order of the files.
//!
//! # Guarantees
//! Each object has an apiVersion, a kind and a name. Lists are taken apart, empty documents are left out. A directory
//! is read without its sub-directories, in the order of the file names.
//!
//! What a directory holds for kustomize or Helm is rendered by them ([`super::rendered`]).

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use miette::NamedSource;
use serde_json::Value;
use serde_saphyr::Spanned;

use super::{
    error::{Problem, ScenarioError, Source},
    parse::{options, problem},
    places::Place,
    rendered,
};

/// One object of a manifest.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    pub object: Value,
    pub file: PathBuf,
    /// From 1.
    pub line: usize,
}

/// Reads a file or a directory.
///
/// # Errors
/// When it cannot be read, is not YAML or JSON, or holds what is not an object.
pub fn read(path: &Path) -> Result<Vec<Document>, ScenarioError> {
    let failed = |path: &Path, source| ScenarioError::Read { path: path.to_owned(), source };
    if !path.is_dir() {
        let text = fs::read_to_string(path).map_err(|source| failed(path, source))?;
        return documents(&text, path);
    }
    if let Some(text) = rendered::render(path)? {
        return documents(&text, path);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(|source| failed(path, source))? {
        let file = entry.map_err(|source| failed(path, source))?.path();
        if file.is_file() && is_manifest(&file) {
            files.push(file);
        }
    }
    files.sort();
    let mut found = Vec::new();
    for file in files {
        found.extend(read(&file)?);
    }
    if found.is_empty() {
        return invalid(Problem::of_file(path.to_owned(), "the directory holds no manifest (.yaml, .yml or .json)"));
    }
    Ok(found)
}

fn is_manifest(file: &Path) -> bool {
    matches!(file.extension().and_then(|e| e.to_str()), Some("yaml" | "yml" | "json"))
}

fn invalid<T>(problem: Problem) -> Result<T, ScenarioError> {
    Err(ScenarioError::Invalid { problems: vec![problem] })
}

/// Reads the objects of one text; `file` is only for messages.
///
/// # Errors
/// When it is not YAML or JSON, or holds what is not an object.
pub fn documents(text: &str, file: &Path) -> Result<Vec<Document>, ScenarioError> {
    let source: Source = Arc::new(NamedSource::new(file.display().to_string(), text.to_owned()).with_language("yaml"));
    let roots: Vec<Spanned<Value>> = match serde_saphyr::from_multiple_with_options(text, options()) {
        Ok(roots) => roots,
        Err(error) => return invalid(problem(&error, text, file, &source)),
    };
    let mut found = Vec::new();
    for root in roots {
        let place = Place::of(root.referenced, text);
        let mut pending = vec![root.value];
        while let Some(object) = pending.pop() {
            if object.is_null() {
                continue;
            }
            if is_list(&object) {
                let items = object.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
                pending.extend(items.into_iter().rev());
                continue;
            }
            if let Some((message, help)) = objection(&object) {
                return invalid(Problem::at(file.to_owned(), &source, place, message).with_help(help));
            }
            found.push(Document { object, file: file.to_owned(), line: place.line });
        }
    }
    Ok(found)
}

fn is_list(object: &Value) -> bool {
    object.get("items").is_some_and(Value::is_array) && text(object, "kind").ends_with("List")
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Why a value is not an object that can be applied, with what to do.
#[must_use]
pub fn objection(object: &Value) -> Option<(String, Option<String>)> {
    if !object.is_object() {
        return Some(("this is not a Kubernetes object".into(), None));
    }
    if text(object, "kind") == "Kustomization" {
        let help = "name its directory instead";
        return Some(("a kustomization is not an object".into(), Some(help.into())));
    }
    for field in ["apiVersion", "kind"] {
        if text(object, field).is_empty() {
            return Some((format!("this object has no `{field}`"), None));
        }
    }
    if crate::object::metadata(object, "name").is_empty() {
        return Some((format!("this {} has no `metadata.name`", text(object, "kind")), None));
    }
    None
}

/// Sorts objects so that each finds there what it needs: namespaces, definitions, accounts, rights, the rest, and
/// webhooks last, since they stand in the way of what comes after them.
pub fn sort_for_install(objects: &mut [Value]) {
    objects.sort_by_key(|object| match text(object, "kind") {
        "Namespace" => 0,
        "CustomResourceDefinition" => 1,
        "ServiceAccount" => 2,
        "ClusterRole" | "Role" => 3,
        "ClusterRoleBinding" | "RoleBinding" => 4,
        "ConfigMap" | "Secret" => 5,
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => 7,
        _ => 6,
    });
}

/// Whether an object would run the operator in the cluster, which a `process` operator does by itself.
#[must_use]
pub fn runs_pods(object: &Value) -> bool {
    matches!(
        text(object, "kind"),
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" | "Pod" | "Job" | "CronJob"
    )
}

/// The kinds of Kubernetes that have no namespace.
const CLUSTER_SCOPED: [&str; 23] = [
    "APIService",
    "CSIDriver",
    "CSINode",
    "CertificateSigningRequest",
    "ClusterRole",
    "ClusterRoleBinding",
    "ClusterTrustBundle",
    "CustomResourceDefinition",
    "DeviceClass",
    "FlowSchema",
    "IngressClass",
    "MutatingWebhookConfiguration",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PriorityClass",
    "PriorityLevelConfiguration",
    "RuntimeClass",
    "StorageClass",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
    "VolumeAttachment",
];

/// Which kinds live in a namespace, by the built-in kinds and the definitions among some manifests.
#[derive(Debug, Clone, Default)]
pub struct Scopes(BTreeMap<(String, String), bool>);

impl Scopes {
    /// Learns from the CustomResourceDefinitions among the objects.
    #[must_use]
    pub fn of<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut scopes = BTreeMap::new();
        for object in objects.into_iter().filter(|object| text(object, "kind") == "CustomResourceDefinition") {
            let field = |path| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
            scopes.insert((field("/spec/group"), field("/spec/names/kind")), field("/spec/scope") != "Cluster");
        }
        Self(scopes)
    }

    /// Whether objects of a kind have a namespace; kinds that nobody defined are taken to have one.
    #[must_use]
    pub fn is_namespaced(&self, api_version: &str, kind: &str) -> bool {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        if let Some(namespaced) = self.0.get(&(group.to_owned(), kind.to_owned())) {
            return *namespaced;
        }
        let built_in = group.is_empty() || !group.contains('.') || group.ends_with(".k8s.io");
        !(built_in && CLUSTER_SCOPED.contains(&kind))
    }

    /// Puts an object that needs a namespace and names none into this one.
    pub fn fill_namespace(&self, object: &mut Value, namespace: &str) {
        if !crate::object::metadata(object, "namespace").is_empty()
            || !self.is_namespaced(text(object, "apiVersion"), text(object, "kind"))
        {
            return;
        }
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("namespace".into(), namespace.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn named(objects: &[Value]) -> Vec<&str> {
        objects.iter().map(|object| object["kind"].as_str().unwrap()).collect()
    }

    #[test]
    fn reads_documents_and_lists_with_their_lines() {
        let text = "---\n# nothing\n---\nkind: A\napiVersion: v1\nmetadata: {name: a}\n---\n\
                    {\"kind\": \"BList\", \"apiVersion\": \"v1\", \"items\": [{\"kind\": \"B\", \"apiVersion\": \"v1\", \
                    \"metadata\": {\"name\": \"b\"}}]}\n";
        let found = documents(text, Path::new("m.yaml")).unwrap();
        let seen: Vec<(&str, usize)> = found.iter().map(|d| (d.object["kind"].as_str().unwrap(), d.line)).collect();
        assert_eq!(seen, [("A", 4), ("B", 8)]);
    }

    #[test]
    fn says_where_an_object_is_wrong() {
        let table = [
            ("kind: A\nmetadata: {name: a}\n", 1, "no `apiVersion`"),
            (
                "kind: A\napiVersion: v1\nmetadata: {name: a}\n---\nkind: B\napiVersion: v1\n",
                5,
                "B has no `metadata.name`",
            ),
            ("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n", 1, "a kustomization"),
            ("just a word\n", 1, "not a Kubernetes object"),
            ("kind: A\n  bad: [\n", 2, ""),
        ];
        for (text, line, message) in table {
            let error = documents(text, Path::new("m.yaml")).unwrap_err();
            let problem = &error.problems()[0];
            assert_eq!(problem.line, line, "{text}: {error}");
            assert!(problem.message.contains(message), "{}", problem.message);
        }
    }

    #[test]
    fn installs_in_order() {
        let kinds = ["ValidatingWebhookConfiguration", "Service", "ClusterRoleBinding", "ServiceAccount", "Role"];
        let more = ["CustomResourceDefinition", "Namespace"];
        let mut objects: Vec<Value> = kinds.iter().chain(&more).map(|kind| json!({"kind": kind})).collect();
        sort_for_install(&mut objects);
        assert_eq!(
            named(&objects),
            [
                "Namespace",
                "CustomResourceDefinition",
                "ServiceAccount",
                "Role",
                "ClusterRoleBinding",
                "Service",
                "ValidatingWebhookConfiguration"
            ]
        );
    }

    #[test]
    fn fills_in_namespaces_only_where_there_are_some() {
        let crd = json!({"kind": "CustomResourceDefinition", "spec": {"group": "x.io", "scope": "Cluster",
            "names": {"kind": "Fleet"}}});
        let scopes = Scopes::of([&crd]);
        let table = [
            ("v1", "Pod", Some("ns")),
            ("v1", "Namespace", None),
            ("x.io/v1", "Fleet", None),
            ("x.io/v1", "Ship", Some("ns")),
            // A custom kind with the name of a built-in one.
            ("example.com/v1", "Node", Some("ns")),
        ];
        for (api_version, kind, expected) in table {
            let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}});
            scopes.fill_namespace(&mut object, "ns");
            assert_eq!(object["metadata"]["namespace"].as_str(), expected, "{kind}");
        }
        let mut placed = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "b"}});
        scopes.fill_namespace(&mut placed, "ns");
        assert_eq!(placed["metadata"]["namespace"], "b");
    }
}
