//! The generated field table: which message a kind is, and which JSON field a field number is.
//!
//! It is parsed once per process, at the first protobuf body. Its lines are described in `data/protobuf/table.go`.

use std::{collections::BTreeMap, sync::LazyLock};

/// Index of a message in the table.
pub(super) type MessageId = usize;

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Text,
    Bool,
    Int32,
    Int64,
    Double,
    Bytes,
    Time,
    MicroTime,
    Duration,
    Quantity,
    IntOrString,
    /// JSON in bytes: `RawExtension` and `FieldsV1`.
    Raw,
    /// The `JSON` of apiextensions, which differs for empty bytes.
    Json,
    SchemaOrBool,
    SchemaOrArray,
    SchemaOrStrings,
    Message(MessageId),
}

/// How often a field holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    One,
    Repeated,
    Map,
    /// The fields of the message belong to the parent's JSON object.
    Inlined,
}

/// One field of a message.
#[derive(Debug)]
pub(super) struct Field {
    pub number: u32,
    pub name: &'static str,
    pub of: Type,
    pub shape: Shape,
    pub omit_empty: bool,
    pub omit_zero: bool,
    pub pointer: bool,
    /// A list in a message of its own.
    pub list: bool,
}

/// Kinds and messages.
#[derive(Debug, Default)]
pub(super) struct Table {
    kinds: BTreeMap<(&'static str, &'static str, &'static str), MessageId>,
    messages: Vec<Vec<Field>>,
    schema: MessageId,
}

/// The table of this process.
pub(super) static TABLE: LazyLock<Table> = LazyLock::new(|| Table::parse(include_str!("../../data/protobuf.txt")));

/// Kinds that belong to every group version; the table has them under `v1`.
const SHARED: [&str; 7] =
    ["CreateOptions", "DeleteOptions", "GetOptions", "ListOptions", "PatchOptions", "Status", "UpdateOptions"];

impl Table {
    /// The message of a kind.
    pub fn kind(&self, api_version: &str, kind: &str) -> Option<MessageId> {
        let (group, version) = api_version.split_once('/').unwrap_or(("-", api_version));
        let exact = self.kinds.get(&(group, version, kind));
        let shared = || SHARED.contains(&kind).then(|| self.kinds.get(&("-", "v1", kind))).flatten();
        exact.or_else(shared).copied()
    }

    pub fn fields(&self, message: MessageId) -> &[Field] {
        self.messages.get(message).map_or(&[], Vec::as_slice)
    }

    /// The message of `JSONSchemaProps`, which the unions of apiextensions hold.
    pub fn schema(&self) -> MessageId {
        self.schema
    }

    /// Reads the generated text. A line that it cannot read is our own bug, which `tests` would find: it is left out.
    fn parse(text: &'static str) -> Self {
        let names = text.lines().filter_map(|l| l.strip_prefix("M "));
        let ids: BTreeMap<&str, MessageId> = names.enumerate().map(|(id, name)| (name, id)).collect();
        let mut table = Self {
            schema: ids.get("apiextensions/v1.JSONSchemaProps").copied().unwrap_or(MessageId::MAX),
            ..Self::default()
        };
        for line in text.lines() {
            let mut words = line.split(' ');
            match words.next() {
                Some("K") => {
                    let key = (words.next(), words.next(), words.next());
                    let id = words.next().and_then(|name| ids.get(name));
                    if let ((Some(group), Some(version), Some(kind)), Some(id)) = (key, id) {
                        table.kinds.insert((group, version, kind), *id);
                    }
                }
                Some("M") => table.messages.push(Vec::new()),
                _ => {
                    if let (Some(fields), Some(field)) = (table.messages.last_mut(), field(line, &ids)) {
                        fields.push(field);
                    }
                }
            }
        }
        table
    }

    #[cfg(test)]
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.kinds.len(), self.messages.len(), self.messages.iter().map(Vec::len).sum())
    }
}

fn field(line: &'static str, ids: &BTreeMap<&str, MessageId>) -> Option<Field> {
    let mut words = line.split(' ');
    let number = words.next()?.parse().ok()?;
    let name = words.next()?;
    let of = type_named(words.next()?, ids)?;
    let flags = words.next()?;
    let shape = match flags {
        f if f.contains('i') => Shape::Inlined,
        f if f.contains('r') => Shape::Repeated,
        f if f.contains('m') => Shape::Map,
        _ => Shape::One,
    };
    Some(Field {
        number,
        name,
        of,
        shape,
        omit_empty: flags.contains('o'),
        omit_zero: flags.contains('z'),
        pointer: flags.contains('p'),
        list: flags.contains('l'),
    })
}

fn type_named(name: &str, ids: &BTreeMap<&str, MessageId>) -> Option<Type> {
    Some(match name {
        "string" => Type::Text,
        "bool" => Type::Bool,
        "int32" => Type::Int32,
        "int64" => Type::Int64,
        "double" => Type::Double,
        "bytes" => Type::Bytes,
        "@time" => Type::Time,
        "@microtime" => Type::MicroTime,
        "@duration" => Type::Duration,
        "@quantity" => Type::Quantity,
        "@intorstring" => Type::IntOrString,
        "@raw" => Type::Raw,
        "@json" => Type::Json,
        "@orbool" => Type::SchemaOrBool,
        "@orarray" => Type::SchemaOrArray,
        "@orstrings" => Type::SchemaOrStrings,
        message => Type::Message(*ids.get(message)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every line of the generated text must be understood: a line left out would silently drop a field.
    #[test]
    fn every_line_is_used() {
        let text = include_str!("../../data/protobuf.txt");
        let count = |prefix: &str| text.lines().filter(|l| l.starts_with(prefix)).count();
        let fields = text.lines().filter(|l| l.starts_with(|c: char| c.is_ascii_digit())).count();
        assert_eq!(TABLE.counts(), (count("K "), count("M "), fields));
        assert_eq!(text.lines().count(), count("K ") + count("M ") + fields);
        assert!(TABLE.schema() < TABLE.messages.len());
    }

    #[test]
    fn option_kinds_belong_to_every_group() {
        let plain = TABLE.kind("v1", "DeleteOptions");
        assert!(plain.is_some());
        assert_eq!(TABLE.kind("apps/v1", "DeleteOptions"), plain);
        assert_eq!(TABLE.kind("apps/v1", "Pod"), None);
    }
}
