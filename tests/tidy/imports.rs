//! The paths that a source file names, with every `{...}` of a `use` written out.
//!
//! By text and not by grammar: comments are left out, strings are not, which never mattered.

/// Every path that begins with `root::`, without that root: `crate::{a::{B, c::D}, e}` gives `a::B`, `a::c::D`, `e`.
pub fn paths(text: &str, root: &str) -> Vec<String> {
    let code: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let start = format!("{root}::");
    let mut found = Vec::new();
    for (at, _) in code.match_indices(&start) {
        let before = code[..at].chars().next_back().unwrap_or(' ');
        if !is_part(before) {
            expand(&code[at + start.len()..], "", &mut found);
        }
    }
    found
}

/// Takes one tree of a `use`, and gives what stands after it.
fn expand<'a>(tree: &'a str, prefix: &str, found: &mut Vec<String>) -> &'a str {
    let tree = tree.trim_start();
    let end = tree.find(|c: char| !is_part(c)).unwrap_or(tree.len());
    let (head, rest) = tree.split_at(end);
    let path = format!("{prefix}{head}");
    let Some(mut rest) = rest.strip_prefix('{') else {
        found.push(path.trim_end_matches("::self").trim_end_matches(':').to_owned());
        return rest;
    };
    loop {
        rest = expand(rest, &path, found).trim_start();
        // `a as b`: the new name is nobody's path.
        if let Some(renamed) = rest.strip_prefix("as ") {
            rest = renamed.trim_start().trim_start_matches(is_part).trim_start();
        }
        match rest.strip_prefix(',').map(str::trim_start) {
            Some(more) if !more.starts_with('}') => rest = more,
            Some(more) => return &more[1..],
            None => return rest.strip_prefix('}').unwrap_or(rest),
        }
    }
}

fn is_part(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | ':' | '*')
}

#[test]
fn trees_are_written_out() {
    let all = paths(
        "use crate::{\n    a::{self, B, c::{D, E as F,},},\n    g,\n};\nfn f() { crate::h::i(); supercrate::j }\n// crate::k",
        "crate",
    );
    assert_eq!(all, ["a", "a::B", "a::c::D", "a::c::E", "g", "h::i"]);
    assert_eq!(paths("use super::super::a::{B};", "super"), ["super::a::B"]);
}
