//! How Go reads and writes each field of each built-in type, from a generated table.

use std::{collections::BTreeMap, sync::OnceLock};

static TABLE: &str = include_str!("../../data/go_fields.json");

/// One field.
#[derive(Debug, Clone)]
pub(super) struct Field {
    /// `p` pointer, `o` struct, `l` slice, `m` map, `s` string, `n` number, `b` bool, `y` bytes, `q` quantity, `i` int-or-string, `t`
    /// time, `r` raw JSON.
    pub kind: char,
    /// Written even when empty.
    pub kept: bool,
    /// An empty struct is left out.
    pub omit_zero: bool,
    /// The Go type, where it has a name of its own.
    pub go_type: Option<String>,
}

pub(super) type Fields = BTreeMap<String, Field>;

/// The fields of a definition; `None` for types that write themselves.
pub(super) fn of(definition: &str) -> Option<&'static Fields> {
    static PARSED: OnceLock<BTreeMap<String, Fields>> = OnceLock::new();
    let parsed = PARSED.get_or_init(|| {
        let raw: BTreeMap<String, BTreeMap<String, String>> = serde_json::from_str(TABLE).unwrap_or_default();
        raw.into_iter()
            .map(|(name, fields)| (name, fields.into_iter().map(|(f, code)| (f, parse(&code))).collect()))
            .collect()
    });
    parsed.get(definition)
}

fn parse(code: &str) -> Field {
    let (flags, go_type) = code.split_once('=').map_or((code, None), |(f, t)| (f, Some(t.to_owned())));
    Field {
        kind: flags.chars().next().unwrap_or('r'),
        kept: flags.contains('!'),
        omit_zero: flags.contains('z'),
        go_type,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_table_is_read() {
        let container = super::of("io.k8s.api.core.v1.Container").unwrap();
        assert!(container["name"].kept && container["resources"].kind == 'o');
        assert_eq!(container["imagePullPolicy"].go_type.as_deref(), Some("v1.PullPolicy"));
    }
}
