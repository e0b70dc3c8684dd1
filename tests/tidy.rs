//! The repository checks itself: layering, sizes as a ratchet, spelling, and that every folder is described.
//!
//! Each check is a function of a list of files, so that the tests at the end can show it a tree that is wrong.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// Stages in the order in which data flows, each with what it may import beside the ground types and itself.
const STAGES: &[(&str, &[&str])] = &[
    ("scenario", &[]),
    ("cluster", &["scenario"]),
    ("operator", &["scenario", "cluster", "observe::record"]),
    ("faults", &["scenario", "cluster", "operator"]),
    ("observe", &["scenario", "cluster"]),
    ("normalise", &["scenario", "observe"]),
    ("diff", &["normalise"]),
    ("verdict", &["scenario", "observe", "normalise", "diff"]),
    ("report", &["scenario", "observe", "normalise", "diff", "verdict"]),
];

/// Folders whose files are alternatives of one another and never import each other, with the files that are shared.
const SIBLINGS: &[(&str, &[&str])] = &[
    ("src/faults", &["mod", "selector", "trigger", "tally", "status", "catalogue", "fixture", "proxy"]),
    ("src/verdict/oracles", &["mod"]),
    ("src/normalise/rules", &["mod"]),
];

/// No file grows past this without an entry in `tests/tidy/sizes.txt`.
const FILE_LINES: usize = 400;
/// No function grows past this without an entry there.
const FUNCTION_LINES: usize = 70;

/// American spellings of words that this project writes.
const SPELLINGS: &[(&str, &str)] = &[
    ("normaliz", "normalis"),
    ("behavior", "behaviour"),
    ("initializ", "initialis"),
    ("recogniz", "recognis"),
    ("minimiz", "minimis"),
    ("canonicaliz", "canonicalis"),
    ("unauthorized to", "unauthorised to"),
];

struct Source {
    path: String,
    text: String,
}

fn sources() -> Vec<Source> {
    let mut found = Vec::new();
    for folder in ["src", "apiserver/src", "tests"] {
        walk(Path::new(folder), &mut found);
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn walk(folder: &Path, found: &mut Vec<Source>) {
    for entry in fs::read_dir(folder).expect("a folder of the repository") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            walk(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a source file");
            found.push(Source { path: path.display().to_string(), text });
        }
    }
}

/// Paths that a file imports from its crate, such as `observe::record`.
fn imports(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let code: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        if rest.starts_with('{') {
            let end = matching_brace(rest);
            found.extend(top_level_names(&rest[1..end]));
        } else {
            found.push(path_at(rest));
        }
    }
    found
}

/// The first two segments of the path that starts here.
fn path_at(rest: &str) -> String {
    let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(rest.len());
    rest[..end].trim_end_matches(':').split("::").take(2).collect::<Vec<_>>().join("::")
}

fn matching_brace(text: &str) -> usize {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                if depth == 0 {
                    return at;
                }
            }
            _ => {}
        }
    }
    text.len()
}

/// `a::{b, c}, d::e` gives `a::b`-like heads: one per top-level entry, its first segments only.
fn top_level_names(list: &str) -> Vec<String> {
    let mut depth = 0;
    let mut start = 0;
    let mut found = Vec::new();
    for (at, c) in list.char_indices().chain(std::iter::once((list.len(), ','))) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let entry = list[start..at].trim();
                if !entry.is_empty() {
                    found.push(path_at(entry));
                }
                start = at + 1;
            }
            _ => {}
        }
    }
    found
}

fn check_layers(sources: &[Source]) -> Vec<String> {
    let stages: BTreeSet<&str> = STAGES.iter().map(|(stage, _)| *stage).collect();
    let mut wrong = Vec::new();
    for (stage, allowed) in STAGES {
        let folder = format!("src/{stage}/");
        for source in sources.iter().filter(|source| source.path.starts_with(&folder)) {
            for import in imports(without_tests(&source.text)) {
                let head = import.split("::").next().unwrap_or_default();
                let outer = ["run", "campaign", "cli"].contains(&head);
                let other = stages.contains(head) && head != *stage;
                let permitted = allowed.iter().any(|entry| *entry == head || import == *entry);
                if outer || (other && !permitted) {
                    wrong.push(format!("{}: the stage `{stage}` must not import `{import}`", source.path));
                }
            }
        }
    }
    for source in sources.iter().filter(|source| source.path.starts_with("apiserver/")) {
        if source.text.contains("reconverge::") {
            wrong.push(format!("{}: the API server imports nothing of the harness", source.path));
        }
    }
    wrong
}

fn check_siblings(sources: &[Source]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (folder, shared) in SIBLINGS {
        let names: Vec<(&Source, &str)> = sources
            .iter()
            .filter_map(|source| {
                let name = source.path.strip_prefix(folder)?.strip_prefix('/')?.strip_suffix(".rs")?;
                (!name.contains('/') && !shared.contains(&name)).then_some((source, name))
            })
            .collect();
        let module = folder.strip_prefix("src/").unwrap_or(folder).replace('/', "::");
        for (source, name) in &names {
            for (_, other) in names.iter().filter(|(_, other)| other != name) {
                let reached =
                    [format!("super::{other}"), format!("crate::{module}::{other}"), format!("super::{{{other}")];
                if reached.iter().any(|path| mentions(&source.text, path)) {
                    wrong.push(format!("{}: `{name}` must not know `{other}`", source.path));
                }
            }
        }
    }
    wrong
}

/// Whether `path` stands in the text as a whole path, not as the beginning of a longer name.
fn mentions(text: &str, path: &str) -> bool {
    text.match_indices(path).any(|(at, _)| {
        let next = text[at + path.len()..].chars().next().unwrap_or(' ');
        !(next.is_alphanumeric() || next == '_')
    })
}

/// The part of a file before its test module.
fn without_tests(text: &str) -> &str {
    text.find("#[cfg(test)]\nmod tests").map_or(text, |at| &text[..at])
}

fn is_test(path: &str) -> bool {
    path.starts_with("tests/")
        || path.contains("/tests/")
        || path.ends_with("/tests.rs")
        || path.ends_with("/fixture.rs")
}

/// Sizes above the limits: `path` or `path::function` with its lines.
fn oversized(sources: &[Source]) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for source in sources.iter().filter(|source| !is_test(&source.path)) {
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
            if line.trim_end() == format!("{}}}", " ".repeat(*depth)) {
                found.push((name.clone(), number - start + 1));
                open = None;
            }
            continue;
        }
        let head = line.trim_start();
        let is_function = [
            "fn ",
            "pub fn ",
            "async fn ",
            "pub async fn ",
            "pub(crate) fn ",
            "pub(super) fn ",
            "pub(crate) async fn ",
            "pub(super) async fn ",
            "const fn ",
            "pub const fn ",
        ]
        .iter()
        .find_map(|prefix| head.strip_prefix(prefix));
        if let Some(rest) = is_function {
            let one_line = line.trim_end().ends_with('}') || line.trim_end().ends_with(';');
            if !one_line {
                let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
                open = Some((rest[..end].to_owned(), number, indent));
            }
        }
    }
    found
}

fn check_sizes(sources: &[Source], ratchet: &str) -> Vec<String> {
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
                wrong.push(format!("{name}: {lines} lines; split it (files {FILE_LINES}, functions {FUNCTION_LINES})"))
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

fn check_spelling(sources: &[Source]) -> Vec<String> {
    let mut wrong = Vec::new();
    for source in sources {
        for (number, line) in source.text.lines().enumerate() {
            let Some(comment) = line.trim_start().strip_prefix("//") else { continue };
            let comment = comment.to_lowercase();
            for (american, british) in SPELLINGS {
                if comment.contains(american) && !comment.contains('`') {
                    wrong.push(format!("{}:{}: `{american}` is spelled `{british}` here", source.path, number + 1));
                }
            }
        }
    }
    wrong
}

/// Every folder with sources must be named in ARCHITECTURE.md.
fn check_folders(sources: &[Source], architecture: &str) -> Vec<String> {
    let folders: BTreeSet<&str> =
        sources.iter().filter_map(|source| source.path.rsplit_once('/')).map(|(f, _)| f).collect();
    let missing = folders.into_iter().filter(|folder| !architecture.contains(&format!("`{folder}/`")));
    missing.map(|folder| format!("ARCHITECTURE.md does not name `{folder}/`")).collect()
}

fn nothing_wrong(wrong: &[String]) {
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn stages_import_only_to_their_left() {
    nothing_wrong(&check_layers(&sources()));
}

#[test]
fn alternatives_do_not_know_each_other() {
    nothing_wrong(&check_siblings(&sources()));
}

#[test]
fn sizes_stay_within_their_ratchet() {
    let path = "tests/tidy/sizes.txt";
    if std::env::var_os("RECONVERGE_BLESS").is_some() {
        let head = "# Files and functions that are longer than the limits of tests/tidy.rs; they may only shrink.\n\
                    # After making one smaller: RECONVERGE_BLESS=1 cargo test --test tidy\n";
        let lines: Vec<String> =
            oversized(&sources()).iter().map(|(name, lines)| format!("{name} {lines}\n")).collect();
        fs::create_dir_all("tests/tidy").expect("a folder");
        fs::write(path, format!("{head}{}", lines.concat())).expect("the ratchet file");
    }
    let ratchet = fs::read_to_string(path).expect("the ratchet file");
    nothing_wrong(&check_sizes(&sources(), &ratchet));
}

#[test]
fn comments_are_in_british_spelling() {
    nothing_wrong(&check_spelling(&sources()));
}

#[test]
fn the_architecture_names_every_folder() {
    let architecture = fs::read_to_string("ARCHITECTURE.md").expect("ARCHITECTURE.md");
    nothing_wrong(&check_folders(&sources(), &architecture));
}

/// The checks themselves, shown trees that are wrong.
mod the_checks {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Vec<Source> {
        files.iter().map(|(path, text)| Source { path: (*path).into(), text: (*text).into() }).collect()
    }

    #[test]
    fn see_a_stage_that_imports_to_its_right() {
        let wrong = tree(&[("src/normalise/mod.rs", "use crate::{object::ObjectKey, verdict::Outcome};\n")]);
        assert_eq!(check_layers(&wrong).len(), 1);
        let nested = tree(&[("src/observe/mod.rs", "fn f() { crate::faults::proxy::start(); }\n")]);
        assert_eq!(check_layers(&nested).len(), 1);
        let right =
            tree(&[("src/verdict/mod.rs", "use crate::{\n    diff::Delta,\n    normalise::{Canonical, Mask},\n};\n")]);
        assert_eq!(check_layers(&right), Vec::<String>::new());
        let outer = tree(&[("src/report/mod.rs", "use crate::run::RunError;\n")]);
        assert_eq!(check_layers(&outer).len(), 1);
    }

    #[test]
    fn see_two_faults_that_know_each_other() {
        let wrong = tree(&[
            ("src/faults/conflict.rs", "use super::latency::Latency;\n"),
            ("src/faults/latency.rs", "use super::trigger::Trigger;\n"),
        ]);
        assert_eq!(check_siblings(&wrong), ["src/faults/conflict.rs: `conflict` must not know `latency`"]);
    }

    #[test]
    fn see_growth_past_the_ratchet() {
        let long = "// a line\n".repeat(FILE_LINES + 10);
        let files = tree(&[("src/a.rs", &long)]);
        assert_eq!(check_sizes(&files, "").len(), 1, "no entry");
        assert_eq!(check_sizes(&files, "src/a.rs 405").len(), 1, "grown past the entry");
        assert_eq!(check_sizes(&files, "src/a.rs 410"), Vec::<String>::new());
        assert_eq!(check_sizes(&files, "src/a.rs 500").len(), 1, "shrunk below the entry");
        let body = "    let a = 1;\n".repeat(FUNCTION_LINES);
        let function = tree(&[("src/b.rs", &format!("fn long() {{\n{body}}}\n"))]);
        assert_eq!(check_sizes(&function, "").len(), 1);
    }

    #[test]
    fn see_american_spelling_and_unnamed_folders() {
        assert_eq!(check_spelling(&tree(&[("src/a.rs", "// We normalize it.\n")])).len(), 1);
        assert_eq!(check_folders(&tree(&[("src/new/a.rs", "")]), "`src/`").len(), 1);
    }
}
