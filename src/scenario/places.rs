//! Where each value of a YAML document stands.
//!
//! # Flow
//! A YAML text in; a map from paths such as `spec.workload[0].apply` to [`Place`]s out. It is read in a pass of its
//! own, because serde forgets places behind untagged and flattened parts.

use std::{collections::BTreeMap, fmt};

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

/// A place in a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Place {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// In bytes.
    pub offset: usize,
    /// In bytes.
    pub length: usize,
}

impl Place {
    /// The place that a YAML error or a spanned value gives, cut down to its first line.
    #[must_use]
    pub fn of(location: Location, text: &str) -> Self {
        let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let span = location.span();
        let line = number(location.line()).max(1);
        let column = number(location.column()).max(1);
        let offset = span.byte_offset().map_or_else(|| offset_of(text, line, column), number).min(text.len());
        let rest = text.get(offset..).unwrap_or_default();
        let end_of_line = rest.find('\n').unwrap_or(rest.len());
        let length = span.byte_len().map_or(1, number).clamp(usize::from(end_of_line > 0), end_of_line.max(1));
        Self { line, column, offset, length: length.min(rest.len()) }
    }
}

/// The byte at which a column of a line begins.
fn offset_of(text: &str, line: usize, column: usize) -> usize {
    let start: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let rest = text.get(start..).unwrap_or_default();
    start + rest.char_indices().nth(column.saturating_sub(1)).map_or(0, |(offset, _)| offset)
}

/// The places of one document, by path.
#[derive(Debug, Clone, Default)]
pub struct Places {
    values: BTreeMap<String, Place>,
}

impl Places {
    /// Reads the places of a document; none where it is not YAML at all.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let mut places = Self::default();
        if let Ok(root) = serde_saphyr::from_str_with_options::<Spanned<Node>>(text, super::parse::options()) {
            places.walk(String::new(), &root, text);
        }
        places
    }

    fn walk(&mut self, path: String, node: &Spanned<Node>, text: &str) {
        match &node.value {
            Node::Scalar => {}
            Node::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.walk(format!("{path}[{index}]"), item, text);
                }
            }
            Node::Map(entries) => {
                for (key, value) in entries {
                    let dot = if path.is_empty() { "" } else { "." };
                    let child = format!("{path}{dot}{key}");
                    self.walk(child, value, text);
                }
            }
        }
        self.values.insert(path, Place::of(node.referenced, text));
    }

    /// Where a value begins; for a path that does not exist, where its nearest parent does.
    #[must_use]
    pub fn value(&self, path: &str) -> Place {
        let mut path = path;
        loop {
            if let Some(place) = self.values.get(path) {
                return *place;
            }
            match path.rfind(['.', '[']) {
                Some(end) => path = &path[..end],
                None => {
                    return self.values.get("").copied().unwrap_or(Place { line: 1, column: 1, offset: 0, length: 0 });
                }
            }
        }
    }
}

/// The shape of a document, without its values.
enum Node {
    Scalar,
    List(Vec<Spanned<Node>>),
    Map(Vec<(String, Spanned<Node>)>),
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Node::Map(entries))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_i128<E>(self, _: i128) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_u128<E>(self, _: u128) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_str<E>(self, _: &str) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_bytes<E>(self, _: &[u8]) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "a:\n  - b: 1\n    café: two\n  - name\nc: {d: 4}\n";

    fn at(place: Place) -> (usize, usize, &'static str) {
        (place.line, place.column, &TEXT[place.offset..place.offset + place.length])
    }

    #[test]
    fn knows_where_values_stand() {
        let places = Places::read(TEXT);
        assert_eq!(at(places.value("a[0].b")), (2, 8, "1"));
        // Columns count characters, offsets count bytes.
        assert_eq!(at(places.value("a[0].café")), (3, 11, "two"));
        assert_eq!(at(places.value("a[1]")), (4, 5, "name"));
        assert_eq!(at(places.value("c.d")), (5, 8, "4"));
    }

    #[test]
    fn falls_back_to_the_nearest_parent() {
        let places = Places::read(TEXT);
        assert_eq!(places.value("a[1].missing[3].x"), places.value("a[1]"));
        assert_eq!(places.value("nowhere").line, 1);
        assert_eq!(Places::read("a: [").value("a").line, 1);
    }
}
