//! Wrong scenario files and what is said about them; good ones and the plans that they give.

use std::{fs, path::Path};

use miette::Diagnostic as _;
use serde_json::json;

use super::{
    check::{KnownIds, check, check_ids},
    error::{Problem, ScenarioError},
    format::Lane,
    parse::parse,
    plan::{Plan, PlannedAction},
    resolve::{Context, Loaded, discover, expand_crash_points, load, perturbations, plan},
};
use crate::seed::Seed;

/// A small scenario; the tables below change one line of it.
const GOOD: &str = r#"apiVersion: reconverge.dev/v1alpha1
kind: Scenario
metadata:
  name: demo
spec:
  namespace: demo
  operator:
    install: [crd.yaml]
    serviceAccount: demo/operator
    process:
      command: ["{{target}}/op", "--config={{kubeconfig}}"]
      env: {HOME_DIR: "{{scenario}}"}
  workload:
    - apply: widget.yaml
    - name: more
      scale: {target: {apiVersion: x.io/v1, kind: Widget, name: w}, replicas: 2}
  expect:
    - object: {apiVersion: x.io/v1, kind: Widget, name: w}
      that: object.status.phase == "Ready"
  settle: 1s
  deadline: 10s
  perturbations:
    - quiet: {}
    - conflict: {trigger: {nth: 1}}
    - conflict: {}
    - crash-after-write: {}
    - crash-after-write: {before: true, write: 2}
"#;

fn problems(text: &str) -> Vec<Problem> {
    match parse(text, Path::new("s.yaml")) {
        Ok(file) => check(&file),
        Err(error) => error.problems().to_vec(),
    }
}

#[test]
fn the_good_one_is_good() {
    assert_eq!(problems(GOOD).iter().map(|p| &p.message).collect::<Vec<_>>(), Vec::<&String>::new());
}

/// What is replaced by what; line, column and words of the one problem; words of its help.
type Wrong = (&'static str, &'static str, usize, usize, &'static str, &'static str);

fn check_table(table: &[Wrong]) {
    // All rows are tried, so that one run shows everything that differs.
    let mut differing = Vec::new();
    for (from, to, line, column, message, help) in table {
        assert!(GOOD.contains(from), "{from}");
        let found = problems(&GOOD.replacen(from, to, 1));
        let [problem] = found.as_slice() else {
            differing.push(format!("{to}: {:?}", found.iter().map(|p| &p.message).collect::<Vec<_>>()));
            continue;
        };
        let said = problem.help.clone().unwrap_or_default();
        let fits = (problem.line, problem.column) == (*line, *column)
            && problem.message.contains(message)
            && said.contains(help)
            && said.is_empty() == help.is_empty();
        if !fits {
            differing.push(format!("{to}: {}:{} {} ({said})", problem.line, problem.column, problem.message));
        }
    }
    assert!(differing.is_empty(), "\n{}", differing.join("\n"));
}

#[test]
fn mistakes_of_grammar() {
    check_table(&[
        ("  perturbations:", "  perturbation:", 22, 3, "unknown field `perturbation`", "did you mean `perturbations`?"),
        ("- quiet: {}", "- quite: {}", 23, 7, "`quite` is not known", "did you mean `quiet`?"),
        ("- quiet: {}", "- quiet: {duration: 5s}", 23, 15, "unknown field `duration`", "known here: for"),
        ("- quiet: {}", "- quiet: {for: soon}", 23, 20, "`soon` is not a duration", ""),
        ("settle: 1s", "settle: 1", 20, 11, "`1` is not a duration", ""),
        ("- apply: widget.yaml", "- aply: widget.yaml", 14, 7, "unknown field `aply`", "did you mean `apply`?"),
        ("- apply: widget.yaml", "- apply: 3", 14, 14, "expected the path of a manifest", ""),
        ("replicas: 2", "replicas: two", 16, 79, "expected u32", ""),
        ("  settle: 1s", "  settle: 1s\n  settle: 2s", 21, 3, "`settle` stands here twice", ""),
        ("kind: Scenario\n", "kind: Scenario\nkin: x\n", 3, 1, "unknown field `kin`", "did you mean `kind`?"),
    ]);
}

#[test]
fn missing_fields_and_broken_yaml() {
    let without = GOOD.replace("kind: Scenario\n", "");
    assert_eq!(problems(&without)[0].message, "the field `kind` is missing");
    for text in ["", "a: [", "\t", "- a\nb: c", "--- \nx: 1\n--- \n"] {
        assert_eq!(problems(text).len(), 1, "{text}");
    }
    let two = format!("{GOOD}---\n{GOOD}");
    assert!(problems(&two)[0].message.contains("one document"), "{:?}", problems(&two));
}

#[test]
fn mistakes_of_meaning() {
    check_table(&[
        ("v1alpha1", "v2", 1, 13, "apiVersion `reconverge.dev/v2`", "reconverge.dev/v1alpha1"),
        ("kind: Scenario", "kind: Scenery", 2, 7, "kind `Scenery`", "write `Scenario`"),
        ("name: demo", "name: My Demo", 4, 9, "`My Demo` is not a name", "`my-demo` would do"),
        ("demo/operator", "operator", 9, 21, "`namespace/name`", ""),
        ("{{target}}/op", "{{tarjet}}/op", 11, 17, "unknown placeholder `{{tarjet}}`", "did you mean `target`?"),
        ("- apply: widget.yaml", "- name: nothing", 14, 7, "exactly one action, this has none", "apply, patch"),
        ("      scale:", "      apply: a.yaml\n      scale:", 15, 7, "this has 2", "apply, patch"),
        ("- apply: widget.yaml", "- apply: {kind: A, apiVersion: v1}", 14, 14, "no `metadata.name`", ""),
        ("kind: Widget, name: w}, replicas", "kind: Widget}, replicas", 16, 23, "needs the `name`", ""),
        ("object.status.phase == ", "object.status.phase = ", 19, 13, "is not a CEL expression", ""),
        ("object.status.phase", "objects.status.phase", 19, 13, "the variable is `object`", ""),
        ("settle: 1s", "settle: 10s", 20, 11, "the deadline of 10s", ""),
        ("settle: 1s", "settle: 0s", 20, 11, "longer than nothing", ""),
        ("settle: 1s", "references: 2", 20, 15, "at least three", ""),
        ("- quiet: {}", "- api-error: {status: 404}", 23, 27, "429, 500, 503 or 504", ""),
        ("- quiet: {}", "- api-error: {retryAfter: 1500ms}", 23, 31, "whole seconds", ""),
        ("nth: 1", "nth: 0", 24, 33, "counts from 1", ""),
        ("{nth: 1}", "{nth: 1, every: 2}", 24, 27, "exclude each other", ""),
        ("nth: 1", "probability: 1.5", 24, 41, "above 0 and at most 1", ""),
        ("conflict: {trigger: {nth: 1}}", "conflict: {requests: {verbs: [get]}}", 24, 37, "this fault concerns", ""),
        ("- quiet: {}", "- pod-kill: {selector: \"a b\", target: pods}", 23, 28, "not a label selector", ""),
        ("- quiet: {}", "- pod-kill: {selector: a=b}", 23, 28, "`target: pods`", ""),
        ("settle: 1s", "normalise: {ignore: [{path: a..b, reason: x}]}", 20, 31, "not a path", ""),
        ("settle: 1s", "normalise: {maskBudgetPercent: 101}", 20, 34, "at most 100", ""),
        ("settle: 1s", "skipOracles: [{id: live, reason: ''}]", 20, 36, "say why", ""),
    ]);
}

#[test]
fn all_mistakes_are_found_at_once() {
    let text = GOOD.replace("name: demo", "name: Demo").replace("nth: 1", "nth: 0").replace("settle: 1s", "settle: 0s");
    let lines: Vec<usize> = problems(&text).iter().map(|problem| problem.line).collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
}

#[test]
fn empty_lists_are_refused() {
    let cut = GOOD.find("    - quiet").unwrap();
    let none = format!("{}    []\n", &GOOD[..cut]);
    assert!(problems(&none)[0].message.contains("nothing would be tested"));
}

#[test]
fn unknown_ids() {
    let text =
        GOOD.replace("  settle: 1s", "  skipOracles: [{id: lively, reason: x}]\n  normalise: {disable: [timez]}");
    let file = parse(&text, Path::new("s.yaml")).unwrap();
    let found = check_ids(&file, &KnownIds { oracles: &["live", "status"], rules: &["times"] });
    let told: Vec<String> = found.iter().map(|p| format!("{} {}", p.line, p.help.as_deref().unwrap_or(""))).collect();
    assert_eq!(told, ["20 did you mean `live`?", "21 did you mean `times`?"]);
    assert_eq!(check_ids(&file, &KnownIds { oracles: &["lively"], rules: &["timez"] }).len(), 0);
}

#[test]
fn the_report_shows_the_line_and_the_help() {
    let text = GOOD.replace("  perturbations:", "  perturbation:");
    let error = parse(&text, Path::new("s.yaml")).unwrap_err();
    assert_eq!(error.to_string(), "s.yaml:22:3: unknown field `perturbation`");
    let label = error.labels().unwrap().next().unwrap();
    assert_eq!(&text[label.offset()..label.offset() + label.len()], "perturbation");
    let mut drawn = String::new();
    let handler = miette::GraphicalReportHandler::new_themed(miette::GraphicalTheme::unicode_nocolor());
    handler.render_report(&mut drawn, &error).unwrap();
    assert!(drawn.contains("did you mean `perturbations`?") && drawn.contains("s.yaml:22:3"), "{drawn}");
}

const CRD: &str = "kind: CustomResourceDefinition\napiVersion: apiextensions.k8s.io/v1\nmetadata: {name: widgets.x.io}\n\
                   spec: {group: x.io, scope: Namespaced, names: {kind: Widget}}\n---\n\
                   kind: Deployment\napiVersion: apps/v1\nmetadata: {name: operator}\n---\n\
                   kind: Namespace\napiVersion: v1\nmetadata: {name: demo}\n";
const WIDGET: &str = "kind: Widget\napiVersion: x.io/v1\nmetadata: {name: w}\nspec: {}\n";

/// The good scenario with its manifests, in a folder of its own.
fn folder(scenario: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [("scenario.yaml", scenario), ("crd.yaml", CRD), ("widget.yaml", WIDGET)] {
        fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

fn context() -> Context {
    Context { target_dir: "/t".into(), cache: "/c".into(), lane: None }
}

fn planned(loaded: &Loaded) -> Plan {
    plan(loaded, Seed(7), None, &context()).unwrap()
}

#[test]
fn plans_what_the_file_says() {
    let dir = folder(GOOD);
    let loaded = load(dir.path()).unwrap();
    let plan = planned(&loaded);
    let kinds: Vec<&str> = plan.operator.install.iter().map(|o| o["kind"].as_str().unwrap()).collect();
    // Namespaces first; the Deployment would run the operator a second time.
    assert_eq!(kinds, ["Namespace", "CustomResourceDefinition"]);
    assert_eq!(plan.operator.command, ["/t/op", "--config={{kubeconfig}}"]);
    assert_eq!(plan.operator.env["HOME_DIR"], fs::canonicalize(dir.path()).unwrap().display().to_string());
    assert_eq!(plan.operator.service_account, Some(("demo".into(), "operator".into())));
    assert_eq!(plan.workload[0].name, "apply Widget demo/w");
    assert_eq!(plan.workload[1].name, "more");
    let PlannedAction::Apply(objects) = &plan.workload[0].action else { panic!("{:?}", plan.workload[0]) };
    assert_eq!(objects[0]["metadata"], json!({"name": "w", "namespace": "demo"}));
    assert_eq!(plan.expect[0].object.namespace.as_deref(), Some("demo"));
    assert_eq!(plan.lane, Lane::Embedded);
    let forced = Context { lane: Some(Lane::K3s), ..context() };
    assert_eq!(super::resolve::plan(&loaded, Seed(7), None, &forced).unwrap().lane, Lane::K3s);
    // A plan is written before its run and read again by `analyze`.
    let text = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
}

#[test]
fn names_perturbations_and_crash_points() {
    let dir = folder(GOOD);
    let list = perturbations(&load(dir.path()).unwrap());
    let named: Vec<(&str, usize)> = list.iter().map(|p| (p.name.as_str(), p.line)).collect();
    assert_eq!(
        named,
        [("quiet", 23), ("conflict", 24), ("conflict-2", 25), ("crash-after-write", 26), ("crash-before-write-2", 27)]
    );
    let points: Vec<String> = expand_crash_points(&list[3], 3).into_iter().map(|p| p.name).collect();
    assert_eq!(points, ["crash-after-write-1", "crash-after-write-2", "crash-after-write-3"]);
    assert_eq!(expand_crash_points(&list[4], 3), [list[4].clone()]);
}

#[test]
fn mistakes_in_manifests_carry_their_own_file() {
    let dir = folder(GOOD);
    fs::write(dir.path().join("widget.yaml"), "kind: Widget\nmetadata: {name: w}\n").unwrap();
    fs::remove_file(dir.path().join("crd.yaml")).unwrap();
    let error = load(dir.path()).unwrap_err();
    let told: Vec<(String, usize)> =
        error.problems().iter().map(|p| (p.file.file_name().unwrap().to_string_lossy().into_owned(), p.line)).collect();
    assert_eq!(told, [("scenario.yaml".to_owned(), 8), ("widget.yaml".to_owned(), 1)], "{error}");
}

#[test]
fn unset_variables_are_found_with_the_plan() {
    let dir = folder(&GOOD.replace("{{scenario}}", "{{env.RECONVERGE_TEST_NEVER_SET}}"));
    let loaded = load(dir.path()).unwrap();
    let error = plan(&loaded, Seed(7), None, &context()).unwrap_err();
    assert_eq!(error.problems()[0].line, 12, "{error}");
}

#[test]
fn discovers_sorted_and_once() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["b", "a/deep", ".hidden"] {
        fs::create_dir_all(dir.path().join(name)).unwrap();
        fs::write(dir.path().join(name).join("scenario.yaml"), "").unwrap();
    }
    let found = discover(&[dir.path().into(), dir.path().join("b")]).unwrap();
    let found: Vec<_> = found.iter().map(|p| p.strip_prefix(dir.path()).unwrap().to_str().unwrap()).collect();
    assert_eq!(found, ["a/deep/scenario.yaml", "b/scenario.yaml"]);
    fs::create_dir(dir.path().join("empty")).unwrap();
    assert!(matches!(discover(&[dir.path().join("empty")]), Err(ScenarioError::NotFound { .. })));
    assert!(matches!(discover(&[dir.path().join("missing")]), Err(ScenarioError::Read { .. })));
}

#[test]
fn the_scenarios_of_this_repository_are_sound() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    for file in discover(&[root]).unwrap() {
        let loaded = load(&file).unwrap_or_else(|error| panic!("{error}: {:?}", error.problems()));
        let first = fs::read_to_string(&file).unwrap().lines().next().unwrap().to_owned();
        let schema = first.strip_prefix("# yaml-language-server: $schema=").expect("the schema on the first line");
        assert!(loaded.dir.join(schema).is_file(), "{}: {schema}", file.display());
    }
}
