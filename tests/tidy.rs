//! The repository checks itself: layering, sizes as a ratchet, spelling, and that every folder is described.
//!
//! Each check is a function of a list of files, so that the tests at the end can show it a tree that is wrong.

#[path = "tidy/imports.rs"]
mod imports;
#[path = "tidy/sizes.rs"]
mod sizes;

use std::{collections::BTreeSet, fs, path::Path};

use imports::paths;
use sizes::{check_sizes, oversized};

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

/// What stands outside of the flow and sees all of it.
const OUTER: &[&str] = &["run", "campaign", "cli"];

/// Folders whose files are alternatives of one another and never import each other, with the files that all of them
/// may use or that list them all.
const SIBLINGS: &[(&str, &[&str])] = &[
    ("src/faults", &["mod", "selector", "trigger", "tally", "status", "registry", "catalogue", "fixture", "proxy"]),
    ("src/verdict/oracles", &["mod"]),
    ("src/normalise/rules", &["mod"]),
];

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
    for folder in ["src", "apiserver/src", "apiserver/benches", "tests"] {
        walk(Path::new(folder), &mut found);
    }
    for page in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "reports/README.md", "apiserver/LEDGER.md"] {
        found.push(Source { path: page.into(), text: fs::read_to_string(page).expect("a page of the repository") });
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

fn check_layers(sources: &[Source]) -> Vec<String> {
    let mut wrong = Vec::new();
    for source in sources.iter().filter(|source| !is_test(&source.path)) {
        let Some(path) = source.path.strip_prefix("src/") else { continue };
        let (stage, allowed) = match path.split_once('/') {
            Some((folder, _)) => match STAGES.iter().find(|(stage, _)| *stage == folder) {
                Some((stage, allowed)) => (*stage, *allowed),
                None => continue,
            },
            // `run.rs`, `campaign.rs` and the roots see everything; the ground types see no stage.
            None if OUTER.iter().any(|name| path == format!("{name}.rs")) || ["lib.rs", "main.rs"].contains(&path) => {
                continue;
            }
            None => (path, &[][..]),
        };
        for import in paths(without_tests(&source.text), "crate") {
            let head = import.split("::").next().unwrap_or_default();
            let other = STAGES.iter().any(|(name, _)| *name == head) && head != stage;
            let permitted = allowed.iter().any(|entry| import == *entry || import.starts_with(&format!("{entry}::")));
            if OUTER.contains(&head) || (other && !permitted) {
                wrong.push(format!("{}: `{stage}` must not import `{import}`", source.path));
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
        let module = folder.strip_prefix("src/").unwrap_or(folder).replace('/', "::") + "::";
        for (source, name) in &names {
            let from_crate = paths(&source.text, "crate");
            let near = from_crate.iter().filter_map(|path| path.strip_prefix(&module)).map(str::to_owned);
            // In a test module, `super` is the file itself; nothing there has the name of another alternative.
            let reached: BTreeSet<String> = near
                .chain(paths(&source.text, "super"))
                .filter_map(|path| path.split("::").find(|part| *part != "super").map(str::to_owned))
                .collect();
            for (_, other) in names.iter().filter(|(_, other)| other != name && reached.contains(*other)) {
                wrong.push(format!("{}: `{name}` must not know `{other}`", source.path));
            }
        }
    }
    wrong
}

/// Files that are compiled for tests only.
fn is_test(path: &str) -> bool {
    path.starts_with("tests/")
        || path.contains("/tests/")
        || path.ends_with("/tests.rs")
        || path.ends_with("/fixture.rs")
}

/// The part of a file before its test module. A test module in a file of its own is only declared, and hides nothing.
fn without_tests(text: &str) -> &str {
    text.find("#[cfg(test)]\nmod tests {").map_or(text, |at| &text[..at])
}

/// American spelling in comments and in Markdown; what stands between backticks is a name and not a word.
fn check_spelling(sources: &[Source]) -> Vec<String> {
    let mut wrong = Vec::new();
    for source in sources {
        let is_prose = source.path.ends_with(".md");
        for (number, line) in source.text.lines().enumerate() {
            let Some(words) = (if is_prose { Some(line) } else { line.trim_start().strip_prefix("//") }) else {
                continue;
            };
            let words = words.split('`').step_by(2).collect::<Vec<_>>().join(" ").to_lowercase();
            for (american, british) in SPELLINGS {
                if words.contains(american) {
                    wrong.push(format!("{}:{}: `{american}` is spelled `{british}` here", source.path, number + 1));
                }
            }
        }
    }
    wrong
}

/// Every folder with sources is named in ARCHITECTURE.md, and every folder that a table there begins a row with exists.
fn check_folders(sources: &[Source], architecture: &str, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let folders: BTreeSet<&str> =
        sources.iter().filter_map(|source| source.path.rsplit_once('/')).map(|(f, _)| f).collect();
    let missing = folders.into_iter().filter(|folder| !architecture.contains(&format!("`{folder}/`")));
    let mut wrong: Vec<String> = missing.map(|folder| format!("ARCHITECTURE.md does not name `{folder}/`")).collect();
    let rows = architecture.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`')).map(|(name, _)| name);
    wrong.extend(
        rows.filter(|name| name.ends_with('/') && !exists(name))
            .map(|name| format!("ARCHITECTURE.md names `{name}`, which is no folder")),
    );
    wrong
}

/// Names that say nothing, tests that never run, and code that is yet to be written.
fn check_leftovers(sources: &[Source]) -> Vec<String> {
    const NAMES: &[&str] = &["utils", "util", "common", "helpers", "misc"];
    const WORDS: &[&str] =
        &[concat!("#[", "ignore"), concat!("todo", "!("), concat!("unimplemented", "!("), concat!("dbg", "!(")];
    let mut wrong = Vec::new();
    for source in sources {
        let mut parts = source.path.trim_end_matches(".rs").split('/');
        if let Some(part) = parts.find(|part| NAMES.contains(part)) {
            wrong.push(format!("{}: `{part}` says nothing about what is in it", source.path));
        }
        for word in WORDS.iter().filter(|word| source.path.ends_with(".rs") && source.text.contains(**word)) {
            wrong.push(format!("{}: has `{word}`", source.path));
        }
    }
    wrong
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
        fs::write(path, format!("{head}{}", lines.concat())).expect("the ratchet file");
    }
    let ratchet = fs::read_to_string(path).expect("the ratchet file");
    nothing_wrong(&check_sizes(&sources(), &ratchet));
}

#[test]
fn prose_is_in_british_spelling() {
    nothing_wrong(&check_spelling(&sources()));
}

#[test]
fn nothing_is_left_over() {
    nothing_wrong(&check_leftovers(&sources()));
}

#[test]
fn the_architecture_names_every_folder() {
    let architecture = fs::read_to_string("ARCHITECTURE.md").expect("ARCHITECTURE.md");
    let rust: Vec<Source> = sources().into_iter().filter(|source| source.path.ends_with(".rs")).collect();
    nothing_wrong(&check_folders(&rust, &architecture, |folder| Path::new(folder).is_dir()));
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
        let part = tree(&[("src/operator/a.rs", "use crate::observe::{record::OperatorExit, Observer};\n")]);
        assert_eq!(check_layers(&part), ["src/operator/a.rs: `operator` must not import `observe::Observer`"]);
        let ground =
            tree(&[("src/event.rs", "use crate::verdict::Outcome;\n"), ("src/run.rs", "use crate::verdict::A;")]);
        assert_eq!(check_layers(&ground), ["src/event.rs: `event.rs` must not import `verdict::Outcome`"]);
        let server = tree(&[("apiserver/src/a.rs", "use reconverge::event::Event;\n")]);
        assert_eq!(check_layers(&server).len(), 1);
        // Only the tests at the end of a file may reach to the right, and a declaration hides nothing below it.
        let tests = "#[cfg(test)]\nmod tests {\n    use crate::verdict::judge;\n}\n";
        assert_eq!(check_layers(&tree(&[("src/observe/a.rs", tests)])), Vec::<String>::new());
        let apart = tree(&[("src/observe/tests.rs", "use crate::verdict::judge;\n")]);
        assert_eq!(check_layers(&apart), Vec::<String>::new());
        let declared = "#[cfg(test)]\nmod tests;\nuse crate::verdict::judge;\n";
        assert_eq!(check_layers(&tree(&[("src/observe/a.rs", declared)])).len(), 1);
    }

    #[test]
    fn see_two_faults_that_know_each_other() {
        let wrong = tree(&[
            ("src/faults/conflict.rs", "use super::latency::Latency;\n"),
            ("src/faults/latency.rs", "use super::trigger::Trigger;\n"),
        ]);
        let expected = ["src/faults/conflict.rs: `conflict` must not know `latency`"];
        assert_eq!(check_siblings(&wrong), expected);
        for import in [
            "use super::{Rule, trigger::Trigger, latency::Latency};",
            "use crate::{event::Event, faults::{Rule, latency}};",
            "use crate::faults::{\n    Rule,\n    latency::{self, Latency},\n};",
            "fn f() { super::latency::new() }",
        ] {
            let wrong = tree(&[("src/faults/conflict.rs", import), ("src/faults/latency.rs", "")]);
            assert_eq!(check_siblings(&wrong), expected, "{import}");
        }
    }

    #[test]
    fn see_american_spelling() {
        assert_eq!(check_spelling(&tree(&[("src/a.rs", "// We normalize it.\n")])).len(), 1);
        assert_eq!(check_spelling(&tree(&[("src/a.rs", "// `ok`, but we normalize it.\n")])).len(), 1);
        assert_eq!(
            check_spelling(&tree(&[("src/a.rs", "// `serde::Serializer` and `behavior`\nfn initialize() {}")])).len(),
            0
        );
        assert_eq!(check_spelling(&tree(&[("A.md", "Its behavior.\n")])).len(), 1);
    }

    #[test]
    fn see_folders_without_a_name_and_names_without_a_folder() {
        let files = tree(&[("src/new/a.rs", "")]);
        assert_eq!(check_folders(&files, "`src/`", |_| true), ["ARCHITECTURE.md does not name `src/new/`"]);
        let gone = "| `src/new/` | it |\n| `src/old/` | was here |\n";
        assert_eq!(check_folders(&files, gone, |name| name == "src/new/").len(), 1);
        assert_eq!(check_folders(&files, gone, |_| true), Vec::<String>::new());
    }

    #[test]
    fn see_leftovers() {
        assert_eq!(check_leftovers(&tree(&[("src/diff/utils.rs", ""), ("src/helpers/a.rs", "")])).len(), 2);
        assert_eq!(check_leftovers(&tree(&[("src/a.rs", concat!("#[", "ignore]\nfn f() {}"))])).len(), 1);
        assert_eq!(check_leftovers(&tree(&[("src/a.rs", concat!("fn f() { todo", "!() }"))])).len(), 1);
    }
}
