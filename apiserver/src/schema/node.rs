//! One schema node, the table of named ones, and the cursor over both.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;

/// How a list behaves under apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ListType {
    /// One value: replaced whole.
    #[default]
    Atomic,
    /// Scalars without order or repetition.
    Set,
    /// Items identified by their map keys.
    Map,
}

/// One node of an OpenAPI v3 schema, as built-in kinds and CRDs use it.
#[derive(Debug, Clone, Default)]
pub struct Schema {
    /// Name of the definition this node stands for; everything else is empty then, but `default` and `nullable`.
    pub reference: Option<String>,
    /// `object`, `array`, `string`, `integer`, `number`, `boolean`, or empty for anything.
    pub kind: String,
    pub format: String,
    pub properties: BTreeMap<String, Schema>,
    pub additional: Option<Arc<Schema>>,
    pub items: Option<Arc<Schema>>,
    pub required: Vec<String>,
    pub default: Option<Value>,
    pub nullable: bool,
    pub list_type: ListType,
    pub list_map_keys: Vec<String>,
    /// `x-kubernetes-map-type: atomic`.
    pub map_atomic: bool,
    /// `x-kubernetes-patch-merge-key`.
    pub patch_merge_key: Option<String>,
    /// `x-kubernetes-patch-strategy`, such as `merge` or `merge,retainKeys`.
    pub patch_strategy: String,
    /// `x-kubernetes-preserve-unknown-fields`.
    pub preserve_unknown: bool,
    /// `x-kubernetes-embedded-resource`.
    pub embedded_resource: bool,
    /// `x-kubernetes-int-or-string`, or the built-in `IntOrString`.
    pub int_or_string: bool,
    /// The keywords that only validation reads (`pattern`, `enum`, `x-kubernetes-validations`, ...), as written.
    /// Children and descriptions are left out: they stand in the fields above, and copies per level would add up.
    pub raw: Arc<Value>,
    /// Name of the definition that this node is the root of; empty for anonymous nodes.
    pub definition: String,
}

impl Schema {
    /// Reads one JSON schema node; unknown keywords stay in `raw`.
    #[must_use]
    pub fn parse(node: &Value) -> Self {
        let text = |key: &str| node.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let flag = |key: &str| node.get(key).and_then(Value::as_bool).unwrap_or(false);
        let strings = |key: &str| -> Vec<String> {
            let list = node.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let additional = match node.get("additionalProperties") {
            Some(Value::Bool(true)) => Some(Arc::new(Self::default())),
            Some(schema @ Value::Object(_)) => Some(Arc::new(Self::parse(schema))),
            _ => None,
        };
        Self {
            reference: reference(node),
            kind: text("type"),
            format: text("format"),
            properties: node
                .get("properties")
                .and_then(Value::as_object)
                .map(|all| all.iter().map(|(k, v)| (k.clone(), Self::parse(v))).collect())
                .unwrap_or_default(),
            additional,
            items: node.get("items").filter(|v| v.is_object()).map(|v| Arc::new(Self::parse(v))),
            required: strings("required"),
            default: node.get("default").cloned(),
            nullable: flag("nullable"),
            list_type: match text("x-kubernetes-list-type").as_str() {
                "map" => ListType::Map,
                "set" => ListType::Set,
                _ => ListType::Atomic,
            },
            list_map_keys: strings("x-kubernetes-list-map-keys"),
            map_atomic: text("x-kubernetes-map-type") == "atomic",
            patch_merge_key: node.get("x-kubernetes-patch-merge-key").and_then(Value::as_str).map(str::to_owned),
            patch_strategy: text("x-kubernetes-patch-strategy"),
            preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            embedded_resource: flag("x-kubernetes-embedded-resource"),
            int_or_string: flag("x-kubernetes-int-or-string") || text("format") == "int-or-string",
            raw: Arc::new(own_keywords(node)),
            definition: String::new(),
        }
    }

    /// Reads one named schema of `components.schemas`.
    #[must_use]
    pub fn parse_named(name: &str, node: &Value) -> Self {
        Self { definition: name.to_owned(), ..Self::parse(node) }
    }
}

/// The node without its children and prose.
fn own_keywords(node: &Value) -> Value {
    const ELSEWHERE: [&str; 5] = ["properties", "items", "additionalProperties", "description", "default"];
    let Some(map) = node.as_object() else { return Value::Null };
    let kept = map.iter().filter(|(key, _)| !ELSEWHERE.contains(&key.as_str()));
    Value::Object(kept.map(|(key, value)| (key.clone(), value.clone())).collect())
}

/// `$ref`, also in the form `allOf: [{$ref}]` that carries a default or a description beside it.
fn reference(node: &Value) -> Option<String> {
    let direct = node.get("$ref").and_then(Value::as_str);
    let wrapped = || match node.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
        Some([one]) => one.get("$ref").and_then(Value::as_str),
        _ => None,
    };
    direct.or_else(wrapped).map(|path| path.rsplit('/').next().unwrap_or(path).to_owned())
}

/// Named schemas that nodes may refer to.
#[derive(Debug, Clone, Default)]
pub struct Definitions(pub BTreeMap<String, Schema>);

/// A cursor at one node; `Copy`, and valid as long as its definitions.
#[derive(Debug, Clone, Copy)]
pub struct TypeRef<'a> {
    pub definitions: &'a Definitions,
    pub schema: &'a Schema,
}

impl<'a> TypeRef<'a> {
    /// A cursor at `schema`, with references resolved.
    #[must_use]
    pub fn new(definitions: &'a Definitions, schema: &'a Schema) -> Self {
        let mut at = schema;
        // Captured definitions never nest aliases deeply; the bound only guards against a cycle of pure aliases.
        for _ in 0..8 {
            match at.reference.as_ref().and_then(|name| definitions.0.get(name)) {
                Some(next) => at = next,
                None => break,
            }
        }
        Self { definitions, schema: at }
    }

    /// The type of a named field: declared, else that of additional properties.
    #[must_use]
    pub fn field(self, name: &str) -> Option<Self> {
        let declared = self.schema.properties.get(name);
        let schema = declared.or(self.schema.additional.as_deref())?;
        Some(Self::new(self.definitions, schema))
    }

    /// The undereferenced node of a declared field, which is where list type, merge key and default stand.
    #[must_use]
    pub fn field_node(self, name: &str) -> Option<&'a Schema> {
        self.schema.properties.get(name)
    }

    /// The type of the items of a list.
    #[must_use]
    pub fn items(self) -> Option<Self> {
        self.schema.items.as_deref().map(|schema| Self::new(self.definitions, schema))
    }

    /// The type of map values, for maps only.
    #[must_use]
    pub fn additional(self) -> Option<Self> {
        self.schema.additional.as_deref().map(|schema| Self::new(self.definitions, schema))
    }
}
