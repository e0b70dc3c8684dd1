//! How a value of a type is divided into fields: what is one leaf, and what has parts of its own.
//!
//! In: a [`TypeRef`], or nothing for schemaless resources. Out: cursors that say, for a value, whether it is a scalar,
//! a list (atomic, set, keyed) or a map (atomic, granular), and the shapes of its parts. Guaranteed: the object's
//! `metadata` is always shaped as object metadata. Deliberately not done: validation beyond what shapes need.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::fieldset::PathElement;
use crate::schema::{Definitions, Schema, TypeRef};

const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";

/// A cursor over shapes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape<'a> {
    Declared(Declared<'a>),
    /// Any scalar, and nothing else.
    Scalar,
    /// No schema: maps are granular, lists atomic.
    Deduced,
    /// As `Deduced`, at the root of an object.
    DeducedRoot,
    /// No schema: one leaf, whatever it is.
    Opaque,
    /// The schema has no place for such a field; walks treat it as `Deduced`, validation refuses it.
    Undeclared,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Declared<'a> {
    at: TypeRef<'a>,
    /// `x-kubernetes-map-type` beside a reference overrides that of the definition.
    atomic: Option<bool>,
    /// `x-kubernetes-preserve-unknown-fields` here or on an inline ancestor.
    preserve: bool,
    /// The value is a whole object, so that its `metadata` is object metadata.
    object: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scalar {
    Numeric,
    String,
    Boolean,
    Untyped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation<'a> {
    Atomic,
    Set,
    Keys(&'a [String]),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct ListForm<'a> {
    pub(super) relation: Relation<'a>,
    pub(super) element: Shape<'a>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct MapForm<'a> {
    pub(super) atomic: bool,
    host: Shape<'a>,
}

/// The forms a value of some shape may take.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Forms<'a> {
    scalar: Option<Scalar>,
    list: Option<ListForm<'a>>,
    map: Option<MapForm<'a>>,
}

/// The one form that a walk follows.
#[derive(Debug, Clone, Copy)]
pub(super) enum Form<'a> {
    Map(MapForm<'a>),
    Scalar(Scalar),
    List(ListForm<'a>),
}

impl<'a> Shape<'a> {
    /// The shape of whole objects of a type.
    pub(super) fn root(ty: Option<TypeRef<'a>>) -> Self {
        ty.map_or(Self::DeducedRoot, |at| {
            Self::Declared(Declared { at, atomic: None, preserve: at.schema.preserve_unknown, object: true })
        })
    }

    /// The shape behind a schema node, which may be a reference.
    fn enter(definitions: &'a Definitions, node: &'a Schema, preserve: bool) -> Self {
        match node.reference.as_deref() {
            Some(QUANTITY) => return Self::Scalar,
            Some(RAW_EXTENSION) => return Self::Opaque,
            _ => {}
        }
        let at = TypeRef::new(definitions, node);
        let inherited = preserve && node.reference.is_none();
        Self::Declared(Declared {
            at,
            atomic: node.reference.as_ref().and_then(|_| map_type(node)),
            preserve: inherited || at.schema.preserve_unknown,
            object: at.schema.embedded_resource,
        })
    }

    pub(super) fn forms(self) -> Forms<'a> {
        let any = Some(Scalar::Untyped);
        let leaf_list = Some(ListForm { relation: Relation::Atomic, element: Self::Opaque });
        match self {
            Self::Declared(declared) => declared.forms(),
            Self::Scalar => Forms { scalar: any, ..Forms::default() },
            Self::Opaque => Forms { scalar: any, list: leaf_list, map: Some(MapForm { atomic: true, host: self }) },
            Self::Deduced | Self::DeducedRoot | Self::Undeclared => {
                Forms { scalar: any, list: leaf_list, map: Some(MapForm { atomic: false, host: self }) }
            }
        }
    }
}

fn map_type(node: &Schema) -> Option<bool> {
    match node.raw.get("x-kubernetes-map-type").and_then(Value::as_str) {
        Some("atomic") => Some(true),
        Some("granular") => Some(false),
        _ => None,
    }
}

impl<'a> Declared<'a> {
    fn forms(self) -> Forms<'a> {
        let schema = self.at.schema;
        let map = Some(MapForm { atomic: self.atomic.unwrap_or(schema.map_atomic), host: Shape::Declared(self) });
        let scalar = |kind| Forms { scalar: Some(kind), ..Forms::default() };
        match schema.kind.as_str() {
            "object" => Forms { map, ..Forms::default() },
            "array" => Forms { list: Some(self.list()), ..Forms::default() },
            "integer" | "number" => scalar(Scalar::Numeric),
            "boolean" => scalar(Scalar::Boolean),
            "string" if matches!(schema.format.as_str(), "" | "byte") => scalar(Scalar::String),
            "string" => scalar(Scalar::Untyped),
            _ => Forms { scalar: Some(Scalar::Untyped), list: Some(self.list()), map },
        }
    }

    fn list(self) -> ListForm<'a> {
        let schema = self.at.schema;
        let merged = matches!(schema.patch_strategy.as_str(), "merge" | "merge,retainKeys");
        let relation = match schema.raw.get("x-kubernetes-list-type").and_then(Value::as_str) {
            Some("set") => Relation::Set,
            Some("map") => Relation::Keys(&schema.list_map_keys),
            Some(_) => Relation::Atomic,
            // Types older than list types say the same by their patch strategy.
            None if merged => {
                schema.patch_merge_key.as_ref().map_or(Relation::Set, |k| Relation::Keys(std::slice::from_ref(k)))
            }
            None => Relation::Atomic,
        };
        let items = schema.items.as_deref();
        let element = items.map_or(Shape::Opaque, |node| Shape::enter(self.at.definitions, node, self.preserve));
        ListForm { relation, element }
    }

    /// The shape of a field, and whether the type names it.
    fn child(self, name: &str) -> (Shape<'a>, bool) {
        let node = self.at.schema.properties.get(name);
        if self.object
            && node.is_none_or(|n| n.reference.is_none())
            && let Some(known) = object_field(name)
        {
            return (known, true);
        }
        if let Some(node) = node {
            return (Shape::enter(self.at.definitions, node, self.preserve), true);
        }
        (self.element(), false)
    }

    /// The shape of fields that the type does not name.
    fn element(self) -> Shape<'a> {
        let schema = self.at.schema;
        match (schema.raw.get("additionalProperties"), schema.additional.as_deref()) {
            (Some(Value::Bool(true)), _) => Shape::Deduced,
            (_, Some(node)) => Shape::enter(self.at.definitions, node, self.preserve),
            (None, None) if self.preserve || schema.properties.is_empty() => Shape::Deduced,
            _ => Shape::Undeclared,
        }
    }
}

impl<'a> MapForm<'a> {
    /// The shape of a field, and whether the type names it, as opposed to a key of a map.
    pub(super) fn child(&self, name: &str) -> (Shape<'a>, bool) {
        match self.host {
            Shape::Declared(declared) => declared.child(name),
            Shape::DeducedRoot => object_field(name).map_or((Shape::Deduced, false), |known| (known, true)),
            Shape::Opaque => (Shape::Opaque, false),
            _ => (Shape::Deduced, false),
        }
    }

    /// Nothing is known about the parts, so that a change of the schema cannot move ownership among them.
    pub(super) fn is_deduced(&self) -> bool {
        match self.host {
            Shape::Declared(declared) => {
                declared.at.schema.properties.is_empty()
                    && !declared.object
                    && matches!(declared.element(), Shape::Deduced)
            }
            Shape::DeducedRoot => false,
            _ => true,
        }
    }

    fn default_of(&self, name: &str) -> Option<&'a Value> {
        match self.host {
            Shape::Declared(declared) => declared.at.schema.properties.get(name)?.default.as_ref(),
            _ => None,
        }
    }
}

impl<'a> ListForm<'a> {
    /// What identifies an item; `None` if it lacks its keys or cannot be a member.
    pub(super) fn element_of(&self, item: &Value) -> Option<PathElement> {
        match self.relation {
            Relation::Atomic => None,
            Relation::Set => match item {
                Value::Null | Value::Array(_) | Value::Object(_) => None,
                scalar => Some(PathElement::Value(scalar.clone())),
            },
            Relation::Keys(names) => {
                let fields = item.as_object()?;
                let map = self.element.forms().map;
                let mut keys: Vec<(String, Value)> = Vec::with_capacity(names.len());
                for name in names {
                    let default = || map.and_then(|m| m.default_of(name)).filter(|v| !v.is_null());
                    if let Some(found) = fields.get(name).or_else(default) {
                        keys.push((name.clone(), found.clone()));
                    }
                }
                keys.sort_by(|a, b| a.0.cmp(&b.0));
                (!keys.is_empty()).then_some(PathElement::Key(keys))
            }
        }
    }
}

impl<'a> Forms<'a> {
    /// Only the form that `value` has, if the shape allows it; all of them otherwise, and for null or absence.
    pub(super) fn narrowed(self, value: Option<&Value>) -> Self {
        let none = Forms::default();
        match value {
            Some(Value::Number(_) | Value::String(_) | Value::Bool(_)) if self.scalar.is_some() => {
                Forms { scalar: self.scalar, ..none }
            }
            Some(Value::Array(_)) if self.list.is_some() => Forms { list: self.list, ..none },
            Some(Value::Object(_)) if self.map.is_some() => Forms { map: self.map, ..none },
            _ => self,
        }
    }

    pub(super) fn map(self) -> Option<MapForm<'a>> {
        self.map
    }

    pub(super) fn list(self) -> Option<ListForm<'a>> {
        self.list
    }

    /// Whether both allow the same forms.
    pub(super) fn same(&self, other: &Self) -> bool {
        let kinds = |f: &Self| (f.scalar.is_some(), f.list.is_some(), f.map.is_some());
        kinds(self) == kinds(other)
    }

    pub(super) fn chosen(self) -> Form<'a> {
        match self {
            Forms { map: Some(map), .. } => Form::Map(map),
            Forms { scalar: None, list: Some(list), .. } => Form::List(list),
            Forms { scalar, .. } => Form::Scalar(scalar.unwrap_or(Scalar::Untyped)),
        }
    }
}

/// The fields that every object has, whatever its schema says.
fn object_field(name: &str) -> Option<Shape<'static>> {
    let key = match name {
        "metadata" => "ObjectMeta",
        "apiVersion" | "kind" => "Text",
        _ => return None,
    };
    let schema = OBJECT.0.get(key)?;
    Some(Shape::enter(&OBJECT, schema, false))
}

/// Object metadata, as every API group defines it alike.
static OBJECT: LazyLock<Definitions> = LazyLock::new(|| {
    let text = json!({"type": "string"});
    let texts = json!({"type": "object", "additionalProperties": text});
    let time = json!({"type": "string", "format": "date-time"});
    let integer = json!({"type": "integer", "format": "int64"});
    let owner = json!({"type": "object", "x-kubernetes-map-type": "atomic", "properties": {
        "apiVersion": text, "kind": text, "name": text, "uid": {"type": "string", "default": ""},
        "controller": {"type": "boolean"}, "blockOwnerDeletion": {"type": "boolean"}}});
    let entry = json!({"type": "object", "properties": {
        "manager": text, "operation": text, "apiVersion": text, "time": time, "fieldsType": text,
        "fieldsV1": {"type": "object"}, "subresource": text}});
    let meta = json!({"type": "object", "properties": {
        "annotations": texts, "labels": texts, "creationTimestamp": time, "deletionTimestamp": time,
        "deletionGracePeriodSeconds": integer, "generation": integer, "generateName": text, "name": text,
        "namespace": text, "resourceVersion": text, "selfLink": text, "uid": text,
        "finalizers": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
        "managedFields": {"type": "array", "items": entry, "x-kubernetes-list-type": "atomic"},
        "ownerReferences": {"type": "array", "items": owner, "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["uid"]}}});
    let named = [("ObjectMeta", meta), ("Text", text)];
    Definitions(named.iter().map(|(name, node)| ((*name).to_owned(), Schema::parse(node))).collect())
});
