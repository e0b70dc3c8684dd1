//! What the readers of these reports demand, written down from their own rules: TestGrid, Prow, GitLab, Jenkins and
//! the actions that publish JUnit. A parser that knows nothing of the writer reads what was written.

use std::{collections::BTreeSet, path::Path};

use regex::Regex;
use roxmltree::{Document as Xml, Node};
use serde_json::Value;

use super::{example, golden};
use crate::{
    report::{
        github,
        json::{self, Document, DocumentError, Invocation},
        junit,
        prow::{self, Job, JobError, Times},
    },
    verdict::{CaseVerdict, Outcome, ScenarioVerdict},
};

/// Every kind of test case: passes, a failure, an inconclusive run, several seeds, a scenario that was never run; with
/// names and sentences that are neither ASCII nor legal in XML, and longer than dashboards show.
fn hostile() -> Vec<ScenarioVerdict> {
    let mut verdict = example();
    verdict.description = "Größe \u{0}\u{1b}[31m调和\u{ffff} ]]>".into();
    verdict.cases[1].findings[0].sentence = format!("Pod «ü» \u{8}{} <&> ends", "größer ".repeat(40));
    verdict.cases[2].reasons[0] = format!("first line\nsecond {}", "x".repeat(300));
    let seeds = verdict.cases.clone().into_iter().map(|case| CaseVerdict { seed: 43, ..case });
    let mut slower: Vec<CaseVerdict> = seeds.collect();
    slower[0].metrics.recovery_ms = Some(1_500);
    verdict.cases.extend(slower);
    let why = format!("the cluster did not come up: {}", "Docker ist müde. ".repeat(30));
    let mut never = ScenarioVerdict::not_run("zweite-日本", "scenarios/zwei.yaml".into(), why);
    never.description = "\u{fffe}".into();
    vec![verdict, never]
}

fn hostile_junit() -> String {
    junit::report(&hostile(), &about()).unwrap()
}

fn about() -> junit::About {
    junit::About {
        tool_version: "0.1.0".into(),
        timestamp: Some("2026-01-02T03:04:05Z".into()),
        hostname: Some("runner".into()),
    }
}

fn invocation(exit: u8) -> Invocation {
    let [started, finished] = ["2026-01-02T03:04:05Z", "2026-01-02T03:09:05Z"].map(|time| time.parse().unwrap());
    Invocation { tool_version: "0.1.0".into(), started, finished, exit }
}

fn times() -> Times {
    Times { started: invocation(0).started, finished: invocation(0).finished }
}

fn job() -> Job {
    Job {
        name: "pull-operator-reconverge".into(),
        build: "1890000000000000001".into(),
        repository: Some("example/operator".into()),
        pull: Some("123".into()),
        revision: Some("4f2c9e0c1d".into()),
        refs: Some("main:9a8b7c6d5e,123:4f2c9e0c1d".into()),
        node: Some("node-1".into()),
        bucket: Some("example-ci".into()),
    }
}

fn elements<'a>(node: Node<'a, 'a>, name: &str) -> Vec<Node<'a, 'a>> {
    node.children().filter(|child| child.has_tag_name(name)).collect()
}

/// The text of one file of a build.
fn file(document: &Document<'_>, job: &Job, path: &str) -> String {
    let files = prow::files(document, job, times(), &about()).unwrap();
    files.into_iter().find(|file| file.path == path).unwrap_or_else(|| panic!("no {path}")).text
}

fn json_file(document: &Document<'_>, job: &Job, path: &str) -> Value {
    serde_json::from_str(&file(document, job, path)).unwrap()
}

/// Reporters of GitHub actions overlook suites within suites; one throws when a suite or a case has no name.
#[test]
fn there_is_one_level_of_suites_and_everything_has_a_name_and_a_time() {
    let text = hostile_junit();
    let xml = Xml::parse(&text).unwrap();
    assert!(text.starts_with(r#"<?xml version="1.0" encoding="UTF-8"?>"#), "TestGrid reads no other encoding");
    assert!(xml.root_element().has_tag_name("testsuites"));
    let plain_seconds = Regex::new(r"^\d+\.\d+$").unwrap();
    let suites = elements(xml.root_element(), "testsuite");
    assert_eq!(suites.len(), 2);
    for suite in suites {
        assert_eq!(elements(suite, "testsuite").len(), 0);
        assert!(!elements(suite, "testcase").is_empty());
        for node in elements(suite, "testcase").into_iter().chain([suite]) {
            assert!(node.attribute("name").is_some_and(|name| !name.trim().is_empty()), "{node:?}");
            assert!(node.attribute("time").is_some_and(|time| plain_seconds.is_match(time)), "{node:?}");
        }
    }
}

/// GitLab uses the first of equal names, Spyglass calls them flaky; counts must be those of the content.
#[test]
fn names_are_unique_and_counts_are_right() {
    let text = hostile_junit();
    let xml = Xml::parse(&text).unwrap();
    for suite in elements(xml.root_element(), "testsuite") {
        let cases = elements(suite, "testcase");
        let names: BTreeSet<_> =
            cases.iter().map(|c| (c.attribute("classname").unwrap(), c.attribute("name"))).collect();
        assert_eq!(names.len(), cases.len());
        let count = |name: &str| cases.iter().filter(|case| !elements(**case, name).is_empty()).count().to_string();
        assert_eq!(suite.attribute("tests").unwrap(), cases.len().to_string());
        assert_eq!(suite.attribute("failures").unwrap(), count("failure"));
        assert_eq!(suite.attribute("errors").unwrap(), count("error"));
    }
    // The same verdict under other seeds and at another time has the same names.
    let mut other = hostile();
    other.iter_mut().flat_map(|verdict| &mut verdict.cases).for_each(|case| case.seed += 1_000);
    let later = junit::About { timestamp: Some("2027-01-02T03:04:05Z".into()), ..about() };
    let again = junit::report(&other, &later).unwrap();
    let names = |text: &str| -> Vec<String> {
        let xml = Xml::parse(text).unwrap();
        let named = xml.descendants().filter(|node| node.has_tag_name("testcase"));
        named.map(|node| format!("{:?}{:?}", node.attribute("classname"), node.attribute("name"))).collect()
    };
    assert_eq!(names(&text), names(&again));
}

/// TestGrid cuts longer messages in their middle; a message of several lines breaks its cells.
#[test]
fn messages_are_short_lines_and_bodies_hold_all_of_it() {
    let text = hostile_junit();
    let xml = Xml::parse(&text).unwrap();
    let mut cut = 0;
    for node in xml.descendants().filter(|node| node.has_tag_name("failure") || node.has_tag_name("error")) {
        let message = node.attribute("message").unwrap();
        assert!((1..=140).contains(&message.chars().count()), "{message}");
        assert!(!message.contains('\n') && !message.contains('\u{8}'), "{message:?}");
        assert!(node.attribute("type").is_some_and(|kind| !kind.is_empty()));
        let body = node.text().unwrap_or_default();
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
        let start = message.trim_end_matches('…');
        assert!(words(body).contains(start), "the body does not hold `{start}`:\n{body}");
        cut += usize::from(message.ends_with('…'));
    }
    assert_eq!(cut, 3, "the failure, the inconclusive run and the scenario that was not run");
    assert!(text.contains("&lt;&amp;&gt; ends"), "the end of the sentence stands in the body");
    assert!(text.contains("zweite-日本") && text.contains("größer"));
}

/// The order of Surefire's schema, which Jenkins checks.
#[test]
fn elements_of_a_test_case_are_in_order() {
    let text = hostile_junit();
    let xml = Xml::parse(&text).unwrap();
    let order = ["properties", "failure", "error", "system-out", "system-err"];
    for case in xml.descendants().filter(|node| node.has_tag_name("testcase")) {
        let names = case.children().filter(Node::is_element).map(|child| child.tag_name().name());
        let places: Vec<usize> = names.map(|name| order.iter().position(|known| *known == name).expect(name)).collect();
        assert!(places.is_sorted(), "{places:?}");
    }
}

/// Dashboards draw curves of them: plain numbers, on every run that has one.
#[test]
fn numbers_are_properties_of_each_run() {
    let text = hostile_junit();
    let xml = Xml::parse(&text).unwrap();
    let value = |case: Node<'_, '_>, name: &str| {
        let property =
            case.descendants().find(|node| node.attribute("name") == Some(name) && node.has_tag_name("property"));
        property.map(|node| node.attribute("value").unwrap_or_default().to_owned())
    };
    let number = |text: Option<String>| text.is_some_and(|text| text.parse::<f64>().is_ok_and(f64::is_finite));
    let mut runs = 0;
    for case in xml.descendants().filter(|node| node.has_tag_name("testcase")) {
        let name = case.attribute("name").unwrap();
        if name == "stable-reference" {
            continue;
        }
        runs += 1;
        assert!(number(value(case, "faults_fired")), "{name}");
        assert!(number(value(case, "writes_after_settle")), "{name}");
        assert_eq!(number(value(case, "recovery_seconds")), !name.starts_with("reference-"), "{name}");
        assert!(value(case, "seed").unwrap().parse::<f64>().is_err(), "a dashboard would average it");
    }
    assert_eq!(runs, 6);
    let conflict = xml.descendants().find(|node| node.attribute("name") == Some("conflict")).unwrap();
    assert_eq!(value(conflict, "recovery_seconds_max").as_deref(), Some("1.500"), "the slowest of both seeds");
}

/// TestGrid and Spyglass find the files of a build by these expressions.
#[test]
fn junit_files_are_found_by_their_names() {
    let verdicts = hostile();
    let document = Document::new(&verdicts, Some(invocation(1)));
    let testgrid =
        Regex::new(r".+/(?:junit((?P<context>_[^_]+)?(?P<time>_\d+-\d+)?(?P<thread>_\d+)?|.+)?\.xml|test.xml)$")
            .unwrap();
    let files = prow::files(&document, &job(), times(), &about()).unwrap();
    let found: Vec<&str> = files.iter().map(|file| file.path.as_str()).filter(|path| testgrid.is_match(path)).collect();
    assert_eq!(found, ["artifacts/junit_reconverge_20260102-0304_01.xml"]);
    assert!(Regex::new(r"^artifacts/junit.*\.xml$").unwrap().is_match(found[0]));
    let parts = testgrid.captures(found[0]).unwrap();
    assert_eq!((&parts["context"], &parts["time"], &parts["thread"]), ("_reconverge", "_20260102-0304", "_01"));
    let of_a_process = format!("artifacts/{}", prow::junit_name(times().started, 4_711));
    assert_eq!(&testgrid.captures(&of_a_process).unwrap()["thread"], "_4711");
}

#[test]
fn a_build_has_the_fields_that_testgrid_reads() {
    let verdicts = [example()];
    let document = Document::new(&verdicts, Some(invocation(1)));
    for name in ["started.json", "finished.json", "testgrid.yaml"] {
        golden(&format!("prow/{name}"), &file(&document, &job(), name));
    }
    let started = json_file(&document, &job(), "started.json");
    assert!(started["timestamp"].is_i64() && started["pull"].is_string(), "{started}");
    let finished = json_file(&document, &job(), "finished.json");
    assert_eq!(finished["timestamp"].as_i64().unwrap() - started["timestamp"].as_i64().unwrap(), 300, "seconds");
    assert!(
        finished["passed"].is_boolean() && finished["metadata"].as_object().unwrap().values().all(Value::is_string)
    );
    assert_eq!(finished["metadata"]["kubernetes"], "1.34.4");
    for name in ["build-log.txt", "artifacts/report.txt"] {
        assert!(file(&document, &job(), name).contains("replay: "), "{name}");
    }
    assert_eq!(json::read(&file(&document, &job(), "artifacts/verdict.json")).unwrap(), document);
}

/// The build passed exactly when the gate did, `--allow-inconclusive` included.
#[test]
fn the_result_of_a_build_is_that_of_the_gate() {
    let mut verdict = example();
    verdict.outcome = Outcome::Inconclusive;
    let verdicts = [verdict];
    for (exit, passed, result) in [
        (Some(0), true, "SUCCESS"),
        (Some(1), false, "FAILURE"),
        (Some(2), false, "FAILURE"),
        (Some(3), false, "FAILURE"),
        (Some(130), false, "ABORTED"),
        (None, false, "FAILURE"),
    ] {
        let finished = json_file(&Document::new(&verdicts, exit.map(invocation)), &job(), "finished.json");
        assert_eq!((&finished["passed"], &finished["result"]), (&passed.into(), &result.into()), "{exit:?}");
    }
}

/// Periodic jobs and pull requests live in different folders; without a bucket the configuration says so.
#[test]
fn a_build_has_its_place_in_the_bucket() {
    assert_eq!(job().place(), "pr-logs/pull/example_operator/123/pull-operator-reconverge/1890000000000000001");
    let nightly = Job { pull: None, bucket: None, ..job() };
    assert_eq!(nightly.place(), "logs/pull-operator-reconverge/1890000000000000001");
    let text = prow::testgrid(&nightly).unwrap();
    assert!(text.starts_with('#') && text.contains("--testgrid-bucket"), "{text}");
    let value: Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(value["test_groups"][0]["gcs_prefix"], "YOUR-BUCKET/logs/pull-operator-reconverge");
}

/// What TestGrid's own check of a configuration refuses.
#[test]
fn the_dashboard_is_one_that_testgrid_takes() {
    let value: Value = serde_saphyr::from_str(&prow::testgrid(&job()).unwrap()).unwrap();
    let (group, board) = (&value["test_groups"][0], &value["dashboards"][0]);
    assert_eq!(group["gcs_prefix"], "example-ci/pr-logs/directory/pull-operator-reconverge");
    assert!(group["days_of_results"].as_i64() > Some(0) && group["num_columns_recent"].as_i64() > Some(0));
    let annotation = group["test_annotations"][0]["short_text"].as_str().unwrap();
    assert!((1..5).contains(&annotation.len()));
    for header in group["column_header"].as_array().unwrap() {
        assert_eq!(header.as_object().unwrap().len(), 1, "one value each");
    }
    let tab = &board["dashboard_tab"][0];
    assert_eq!(tab["test_group_name"], group["name"]);
    assert!(tab["name"] != "Summary" && board["name"].is_string());
}

#[test]
fn names_that_a_bucket_or_testgrid_cannot_hold_are_refused() {
    assert_eq!(job().check(), Ok(()));
    for name in ["folder/job", "", "..", "größe", "two words"] {
        let refused = Job { name: name.into(), ..job() }.check();
        assert!(matches!(refused, Err(JobError::Name { what: "the job", .. })), "{name}: {refused:?}");
    }
    let reserved = Job { name: "Summary-of-all".into(), ..job() }.check();
    assert!(matches!(reserved, Err(JobError::Reserved { prefix: "summary", .. })), "{reserved:?}");
    assert_eq!(Job { repository: None, ..job() }.check(), Err(JobError::PullWithoutRepository));
    let odd = Job { repository: Some("no-slash".into()), ..job() }.check();
    assert_eq!(odd, Err(JobError::Repository("no-slash".into())));
    assert!(Job { pull: Some("../..".into()), ..job() }.check().is_err());
}

#[test]
fn documents_are_read_unless_they_are_something_else() {
    let verdicts = [example()];
    let text = Document::new(&verdicts, None).text().unwrap();
    assert_eq!(json::read(&text).unwrap().invocation, None, "what older versions wrote");
    let newer = json::read(r#"{"version": 2, "outcome": "pass", "scenarios": []}"#);
    assert!(matches!(newer, Err(DocumentError::Newer { found: 2 })));
    let of_one_scenario = json::scenario(&example()).unwrap();
    assert!(matches!(json::read(&of_one_scenario), Err(DocumentError::Parse(_))));
}

/// Each output is one line, whatever a path holds; what nothing can be said about counts as inconclusive.
#[test]
fn outputs_of_the_step_are_lines() {
    let odd = Path::new("/runs/a\nfailed=0");
    let text = github::outputs(&hostile(), 42, odd, Path::new("/runs/junit.xml"));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "outcome=fail",
            "passed=5",
            "failed=2",
            "inconclusive=3",
            "seed=42",
            "report-dir=/runs/a failed=0",
            "junit=/runs/junit.xml"
        ]
    );
}
