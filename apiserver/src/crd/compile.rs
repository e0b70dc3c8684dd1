//! One version of a definition, ready for use.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{
    schema::{Definitions, Schema, TypeRef},
    status::ApiError,
};

/// Where the scale subresource reads and writes, as simple JSON paths such as `.spec.replicas`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScalePaths {
    pub spec_replicas: String,
    pub status_replicas: String,
    pub label_selector: Option<String>,
}

/// One version of a custom resource.
#[derive(Debug, Clone)]
pub struct CrdVersion {
    pub name: String,
    pub served: bool,
    pub storage: bool,
    pub deprecated: bool,
    /// Text of the `Warning` header for deprecated versions, when the definition gives its own.
    pub deprecation_warning: Option<String>,
    pub schema: Schema,
    /// Empty: structural schemas have no references.
    pub definitions: Definitions,
    pub status: bool,
    pub scale: Option<ScalePaths>,
    /// The list of `additionalPrinterColumns`, or an empty list.
    pub printer_columns: Value,
    /// JSON paths of the `selectableFields`.
    pub selectable_fields: Vec<String>,
}

impl CrdVersion {
    /// The cursor at the root of an object.
    #[must_use]
    pub fn root(&self) -> TypeRef<'_> {
        TypeRef::new(&self.definitions, &self.schema)
    }
}

/// Compiles one version.
///
/// # Errors
/// 404 when the definition has no such version; 501 when it asks for what this server lacks.
pub fn compile_version(crd: &Value, version: &str) -> Result<CrdVersion, ApiError> {
    let spec = &crd["spec"];
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let Some(found) = versions.iter().find(|v| v["name"] == version) else {
        return Err(ApiError::new(404, "NotFound", "the server could not find the requested resource"));
    };
    let flag = |key: &str| found[key].as_bool().unwrap_or(false);
    let root = &found["schema"]["openAPIV3Schema"];
    let mut schema = if root.is_object() {
        Schema::parse(root)
    } else {
        Schema::parse(&json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}))
    };
    add_type_meta(&mut schema);
    below(&mut schema);
    let subresources = &found["subresources"];
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let scale = subresources.get("scale").filter(|s| s.is_object()).map(|s| ScalePaths {
        spec_replicas: text(&s["specReplicasPath"]),
        status_replicas: text(&s["statusReplicasPath"]),
        label_selector: s["labelSelectorPath"].as_str().filter(|p| !p.is_empty()).map(str::to_owned),
    });
    let fields = found["selectableFields"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(CrdVersion {
        name: version.to_owned(),
        served: flag("served"),
        storage: flag("storage"),
        deprecated: flag("deprecated"),
        deprecation_warning: found["deprecationWarning"].as_str().map(str::to_owned),
        schema,
        definitions: Definitions::default(),
        status: subresources.get("status").is_some_and(|s| !s.is_null()),
        scale,
        printer_columns: found.get("additionalPrinterColumns").cloned().unwrap_or_else(|| json!([])),
        selectable_fields: fields.iter().map(|f| text(&f["jsonPath"])).collect(),
    })
}

/// `apiVersion`, `kind` and `metadata`, whatever the author wrote or left out about them.
fn add_type_meta(schema: &mut Schema) {
    for name in ["apiVersion", "kind"] {
        schema
            .properties
            .entry(name.to_owned())
            .or_insert_with(|| Schema { kind: "string".to_owned(), ..Schema::default() });
    }
    let metadata = schema.properties.entry("metadata".to_owned()).or_default();
    // The author's limits on names hold; what else metadata contains is not theirs to say.
    "object".clone_into(&mut metadata.kind);
    metadata.preserve_unknown = true;
    metadata.default = None;
}

/// Embedded resources get their type meta too.
fn below(schema: &mut Schema) {
    for property in schema.properties.values_mut() {
        nested(property);
    }
    for inner in [&mut schema.items, &mut schema.additional].into_iter().flatten() {
        nested(Arc::make_mut(inner));
    }
}

fn nested(schema: &mut Schema) {
    if schema.embedded_resource {
        add_type_meta(schema);
    }
    below(schema);
}
