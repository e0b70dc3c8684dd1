//! Sets of field paths, and their `FieldsV1` form.
//!
//! In and out: the JSON of `managedFields[].fieldsV1` (`f:name`, `k:{...}`, `v:value`, `i:index`, `.`). Guaranteed:
//! ordered, canonical (equal sets have equal JSON), no empty children. Deliberately not done: path wildcards.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde_json::{Map, Value};

use super::value;

/// One step from a value to a part of it.
#[derive(Debug, Clone)]
pub enum PathElement {
    /// A struct field or map key.
    Field(String),
    /// An item of a keyed list: key names and values, sorted by name.
    Key(Vec<(String, Value)>),
    /// An item of a set list.
    Value(Value),
    /// An item of any list, by position.
    Index(i64),
}

/// Why a `fieldsV1` document cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("field path `{path}` is not valid: {problem}")]
pub struct FieldSetError {
    path: String,
    problem: &'static str,
}

impl PathElement {
    /// A named field.
    #[must_use]
    pub fn field(name: impl Into<String>) -> Self {
        Self::Field(name.into())
    }

    /// Reads `f:name` and its siblings; `None` for a kind of element that is not known, which readers skip.
    fn parse(text: &str) -> Result<Option<Self>, FieldSetError> {
        let bad = |problem| FieldSetError { path: text.to_owned(), problem };
        let (kind, rest) = text.split_once(':').filter(|(kind, _)| kind.len() == 1).ok_or_else(|| bad("no kind"))?;
        let element = match kind {
            "f" => Self::Field(rest.to_owned()),
            "v" => Self::Value(serde_json::from_str(rest).map_err(|_| bad("the value is not JSON"))?),
            "i" => Self::Index(rest.parse().map_err(|_| bad("the index is not a number"))?),
            "k" => {
                let keys: Map<String, Value> =
                    serde_json::from_str(rest).map_err(|_| bad("the key is not an object"))?;
                Self::Key(keys.into_iter().collect())
            }
            _ => return Ok(None),
        };
        Ok(Some(element))
    }

    fn encode(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Value(v) => format!("v:{}", value::escaped_json(v)),
            Self::Index(i) => format!("i:{i}"),
            Self::Key(keys) => {
                let inner: Vec<String> = keys
                    .iter()
                    .map(|(k, v)| {
                        format!("{}:{}", value::escaped_json(&Value::String(k.clone())), value::escaped_json(v))
                    })
                    .collect();
                format!("k:{{{}}}", inner.join(","))
            }
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Value(v) => write!(f, "[={}]", value::notation(v)),
            Self::Index(i) => write!(f, "[{i}]"),
            Self::Key(keys) => {
                let inner: Vec<String> = keys.iter().map(|(k, v)| format!("{k}={}", value::notation(v))).collect();
                write!(f, "[{}]", inner.join(","))
            }
        }
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Value(a), Self::Value(b)) => value::compare(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => {
                let pairs = a.iter().zip(b);
                let unequal = pairs.map(|((k, x), (l, y))| k.cmp(l).then_with(|| value::compare(x, y)));
                unequal.into_iter().find(|order| order.is_ne()).unwrap_or_else(|| a.len().cmp(&b.len()))
            }
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PathElement {}

/// A set of field paths. Membership of a path says nothing about its prefixes or its continuations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSet {
    pub(super) members: BTreeSet<PathElement>,
    pub(super) children: BTreeMap<PathElement, FieldSet>,
}

impl FieldSet {
    /// The set of the given paths of plain field names, such as `&["metadata", "name"]`.
    #[must_use]
    pub fn of_fields(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert(&path.iter().map(|name| PathElement::field(*name)).collect::<Vec<_>>());
        }
        set
    }

    /// Reads a `fieldsV1` document.
    ///
    /// # Errors
    /// A key without a known form, or a value that is not an object.
    pub fn from_json(fields: &Value) -> Result<Self, FieldSetError> {
        Ok(Self::read(fields)?.0)
    }

    /// The set below a node, and whether the node itself is a member.
    fn read(fields: &Value) -> Result<(Self, bool), FieldSetError> {
        let problem = "the fields are not an object";
        let map = fields.as_object().ok_or_else(|| FieldSetError { path: fields.to_string(), problem })?;
        let mut set = Self::default();
        let mut member = false;
        let mut any = false;
        for (key, below) in map {
            if key == "." {
                member = true;
                continue;
            }
            let Some(element) = PathElement::parse(key)? else { continue };
            any = true;
            let (child, is_member) = Self::read(below)?;
            set.put(element, is_member, child);
        }
        Ok((set, member || !any))
    }

    /// The `fieldsV1` document.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut out = Map::new();
        for element in &self.members {
            out.insert(element.encode(), Value::Object(Map::new()));
        }
        for (element, child) in &self.children {
            let mut below = child.to_json();
            if let (true, Some(map)) = (self.members.contains(element), below.as_object_mut()) {
                map.insert(".".to_owned(), Value::Object(Map::new()));
            }
            out.insert(element.encode(), below);
        }
        Value::Object(out)
    }

    /// Adds one path; the empty path is ignored.
    pub fn insert(&mut self, path: &[PathElement]) {
        match path {
            [] => {}
            [last] => {
                self.members.insert(last.clone());
            }
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    /// Adds what lies at and below one element.
    pub(super) fn put(&mut self, element: PathElement, member: bool, below: Self) {
        if !below.is_empty() {
            let known = self.children.remove(&element).unwrap_or_default();
            self.children.insert(element.clone(), known.union(&below));
        }
        if member {
            self.members.insert(element);
        }
    }

    #[must_use]
    pub fn contains(&self, path: &[PathElement]) -> bool {
        match path {
            [] => false,
            [last] => self.members.contains(last),
            [first, rest @ ..] => self.children.get(first).is_some_and(|child| child.contains(rest)),
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.values().all(Self::is_empty)
    }

    /// How many paths the set holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len() + self.children.values().map(Self::len).sum::<usize>()
    }

    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut out = self.clone();
        out.members.extend(other.members.iter().cloned());
        for (element, child) in &other.children {
            let merged = match out.children.get(element) {
                Some(known) => known.union(child),
                None => child.clone(),
            };
            out.children.insert(element.clone(), merged);
        }
        out
    }

    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let members = self.members.intersection(&other.members).cloned().collect();
        let both = self.children.iter().filter_map(|(element, child)| {
            let common = child.intersection(other.children.get(element)?);
            (!common.is_empty()).then(|| (element.clone(), common))
        });
        Self { members, children: both.collect() }
    }

    /// The paths that are not in `other`; what lies below a removed path stays.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.without(other, false)
    }

    /// The paths that are neither in `other` nor below a path in it.
    #[must_use]
    pub fn recursive_difference(&self, other: &Self) -> Self {
        self.without(other, true)
    }

    fn without(&self, other: &Self, recursive: bool) -> Self {
        let members = self.members.difference(&other.members).cloned().collect();
        let kept = self.children.iter().filter(|(element, _)| !(recursive && other.members.contains(element)));
        let children = kept.filter_map(|(element, child)| {
            let rest = other.children.get(element).map_or_else(|| child.clone(), |o| child.without(o, recursive));
            (!rest.is_empty()).then(|| (element.clone(), rest))
        });
        Self { members, children: children.collect() }
    }

    /// The paths that are no prefix of another path of the set.
    #[must_use]
    pub fn leaves(&self) -> Self {
        let members = self.members.iter().filter(|element| !self.children.contains_key(*element)).cloned().collect();
        let children = self.children.iter().map(|(element, child)| (element.clone(), child.leaves())).collect();
        Self { members, children }
    }

    /// All paths, members before deeper ones at each level.
    #[must_use]
    pub fn paths(&self) -> Vec<Vec<PathElement>> {
        let mut out: Vec<Vec<PathElement>> = self.members.iter().map(|element| vec![element.clone()]).collect();
        for (element, child) in &self.children {
            out.extend(child.paths().into_iter().map(|mut path| {
                path.insert(0, element.clone());
                path
            }));
        }
        out
    }
}

/// A path as messages show it: `.spec.ports[port=80].name`.
pub(super) fn path_text(path: &[PathElement]) -> String {
    path.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(fields: Value) -> FieldSet {
        FieldSet::from_json(&fields).unwrap()
    }

    #[test]
    fn json_round_trips_with_every_kind_of_element() {
        let fields = json!({"f:spec": {"f:ports": {".": {}, "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}},
            "f:set": {"v:\"a\"": {}, "v:1.5": {}}, "f:list": {"i:0": {}}}});
        assert_eq!(set(fields.clone()).to_json(), fields);
    }

    #[test]
    fn keys_are_canonical_and_unknown_kinds_are_skipped() {
        let odd = set(json!({"k:{\"b\":1,\"a\":2}": {}, "x:what": {"f:a": {}}}));
        assert_eq!(odd.to_json(), json!({"k:{\"a\":2,\"b\":1}": {}}));
    }

    #[test]
    fn malformed_documents_are_refused() {
        for bad in [json!({"spec": {}}), json!({"i:x": {}}), json!({"k:[]": {}}), json!({"f:a": 1}), json!([])] {
            assert!(FieldSet::from_json(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_dot_is_written_only_beside_children() {
        let a = set(json!({"f:a": {".": {}}}));
        assert_eq!(a.to_json(), json!({"f:a": {}}));
        assert_eq!(a.union(&set(json!({"f:a": {"f:b": {}}}))).to_json(), json!({"f:a": {".": {}, "f:b": {}}}));
    }

    #[test]
    fn algebra_keeps_levels_apart() {
        let deep = set(json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}}));
        let a = set(json!({"f:a": {}}));
        assert_eq!(deep.difference(&a), set(json!({"f:a": {"f:b": {}}, "f:c": {}})));
        assert_eq!(deep.recursive_difference(&a), set(json!({"f:c": {}})));
        assert_eq!(deep.intersection(&a), a);
        assert_eq!(deep.leaves(), set(json!({"f:a": {"f:b": {}}, "f:c": {}})));
        assert!(a.difference(&deep).is_empty());
        assert_eq!(deep.len(), 3);
        assert!(deep.contains(&[PathElement::field("a"), PathElement::field("b")]));
        assert!(!deep.contains(&[PathElement::field("b")]));
    }

    #[test]
    fn numbers_that_are_equal_are_one_element() {
        assert_eq!(set(json!({"v:1": {}})).union(&set(json!({"v:1.0": {}}))).len(), 1);
    }

    #[test]
    fn paths_read_as_in_messages() {
        let keyed = set(
            json!({"f:spec": {"f:ports": {"k:{\"port\":80,\"name\":\"x\"}": {"f:q": {}}}, "f:s": {"v:\"a\"": {}}}}),
        );
        let texts: Vec<String> = keyed.paths().iter().map(|p| path_text(p)).collect();
        assert_eq!(texts, [".spec.ports[name=\"x\",port=80].q", ".spec.s[=\"a\"]"]);
    }
}
