//! Files and functions stay short; what is longer may only shrink.

use std::collections::BTreeMap;

use super::{Source, is_test, without_tests};

/// No file grows past this without an entry in `tests/tidy/sizes.txt`.
const FILE_LINES: usize = 400;
/// No function grows past this without an entry there.
const FUNCTION_LINES: usize = 70;

/// Sizes above the limits: `path` or `path::function` with its lines.
pub fn oversized(sources: &[Source]) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for source in sources.iter().filter(|source| source.path.ends_with(".rs") && !is_test(&source.path)) {
        let code = without_tests(&source.text);
        let lines = code.lines().count();
        if lines > FILE_LINES {
            found.insert(source.path.clone(), lines);
        }
        for (name, lines) in functions(code) {
            if lines > FUNCTION_LINES {
                found.insert(format!("{}::{name}", source.path), lines);
            }
        }
    }
    found
}

/// Functions and their lengths, by the indentation that rustfmt gives.
fn functions(code: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    let mut open: Option<(String, usize, usize)> = None;
    for (number, line) in code.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        if let Some((name, start, depth)) = &open {
            let line = line.trim();
            if indent == *depth && line == "}" {
                found.push((name.clone(), number - start + 1));
                open = None;
            } else if indent == *depth && line.ends_with(';') {
                // The signature of a trait's method, over several lines.
                open = None;
            }
            continue;
        }
        let ends_here = line.trim_end().ends_with(['}', ';']);
        if let Some(name) = function_name(line).filter(|_| !ends_here) {
            open = Some((name.to_owned(), number, indent));
        }
    }
    found
}

/// The name, when the line begins a function, whatever stands before `fn`.
fn function_name(line: &str) -> Option<&str> {
    let (before, rest) = line.trim_start().split_once("fn ")?;
    let qualifiers = ["async", "const", "unsafe", "extern", "\"C\""];
    let is_item = before.split_whitespace().all(|word| word.starts_with("pub") || qualifiers.contains(&word));
    let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_'))?;
    is_item.then(|| &rest[..end])
}

pub fn check_sizes(sources: &[Source], ratchet: &str) -> Vec<String> {
    let allowed: BTreeMap<&str, usize> = ratchet
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
        .filter_map(|line| line.rsplit_once(' ').and_then(|(name, size)| Some((name.trim(), size.parse().ok()?))))
        .collect();
    let found = oversized(sources);
    let mut wrong = Vec::new();
    for (name, lines) in &found {
        match allowed.get(name.as_str()) {
            None => {
                wrong.push(format!("{name}: {lines} lines; split it (files {FILE_LINES}, functions {FUNCTION_LINES})"));
            }
            Some(limit) if lines > limit => {
                wrong.push(format!("{name}: {lines} lines, grown past its ratchet of {limit}; split it"));
            }
            Some(_) => {}
        }
    }
    for (name, limit) in &allowed {
        let now = found.get(*name).copied().unwrap_or_default();
        if now < *limit {
            wrong.push(format!("tests/tidy/sizes.txt: {name} has shrunk to {now}; lower its ratchet of {limit}"));
        }
    }
    wrong
}

#[test]
fn growth_past_the_ratchet_is_seen() {
    let one = |path: &str, text: &str| [Source { path: path.into(), text: text.into() }];
    let files = one("src/a.rs", &"// a line\n".repeat(FILE_LINES + 10));
    assert_eq!(check_sizes(&files, "").len(), 1, "no entry");
    assert_eq!(check_sizes(&files, "src/a.rs 405").len(), 1, "grown past the entry");
    assert_eq!(check_sizes(&files, "src/a.rs 410"), Vec::<String>::new());
    assert_eq!(check_sizes(&files, "src/a.rs 500").len(), 1, "shrunk below the entry");
    let body = "    let a = 1;\n".repeat(FUNCTION_LINES);
    for head in ["fn", "pub(super) const fn", "pub async unsafe fn"] {
        let function = one("src/b.rs", &format!("{head} long() {{\n{body}}}\n"));
        assert_eq!(check_sizes(&function, "").len(), 1, "{head}");
    }
    let declared = one("src/b.rs", &format!("fn one(\n    a: u8,\n) -> u8;\n{body}}}\n"));
    assert_eq!(check_sizes(&declared, ""), Vec::<String>::new(), "a declaration has no length");
}
