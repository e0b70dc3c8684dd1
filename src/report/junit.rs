//! JUnit XML, in the dialect that Jenkins, GitLab, GitHub actions, TestGrid and Prow all read.
//!
//! # Guarantees
//! Exactly one level of suites, one per scenario; one test case per run. `name`, `classname` and `time` are always
//! there; a failure or error always has a message of one line, a type and a body. A message is no longer than
//! dashboards show it, and what had to be cut stands whole in the body. A violated oracle is a `failure`, an
//! inconclusive run an `error`. Names hold no seed, time or id. Characters that XML 1.0 cannot hold are left out.
//!
//! Every run says as numbers how many faults were fired, how many writes came after it had settled, and, where that
//! was measured, how long it took to recover. A fault-free run has nothing to recover from, and one that never did has
//! no time: a number that stands for neither would spoil a dashboard's curve.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestSuite, XmlString};

use super::seeds::{Group, groups};
use super::words::{body, did, seconds};
use crate::verdict::{CaseVerdict, Classification, Outcome, ScenarioVerdict};

/// Dashboards cut a longer message, TestGrid in its middle.
const MESSAGE: usize = 140;

/// What a report says about its making.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// Of this program.
    pub tool_version: String,
    /// RFC 3339; left out where reports shall be equal byte by byte.
    pub timestamp: Option<String>,
    pub hostname: Option<String>,
}

/// Writes all scenarios as one report.
///
/// # Errors
/// When the XML writer fails, which writing to memory does not.
pub fn report(verdicts: &[ScenarioVerdict], about: &About) -> Result<String, quick_junit::SerializeError> {
    let mut report = Report::new("reconverge");
    report.set_time(Duration::from_millis(verdicts.iter().map(|verdict| verdict.duration_ms).sum()));
    for verdict in verdicts {
        report.add_test_suite(suite(verdict, about));
    }
    report.to_string()
}

fn suite(verdict: &ScenarioVerdict, about: &About) -> TestSuite {
    let mut suite = TestSuite::new(legal(&verdict.scenario));
    suite.set_time(Duration::from_millis(verdict.duration_ms));
    suite.extra.insert("file".into(), legal(&verdict.file).into());
    for (name, value) in [("timestamp", &about.timestamp), ("hostname", &about.hostname)] {
        if let Some(value) = value {
            suite.extra.insert(name.into(), legal(value).into());
        }
    }
    suite.add_property(property("tool.version", &about.tool_version));
    suite.add_property(property("cluster", &verdict.cluster));
    suite.add_property(property("description", &verdict.description));
    if !verdict.reasons.is_empty() {
        suite.add_test_case(stability(verdict));
    }
    for group in groups(verdict.all()) {
        suite.add_test_case(test_case(verdict, &group));
    }
    suite
}

/// Stands for the scenario as a whole where nothing can be said about it.
fn stability(verdict: &ScenarioVerdict) -> TestCase {
    let first = verdict.reasons.first().map(String::as_str).unwrap_or_default();
    let status = not_passed(NonSuccessKind::Error, first, "Inconclusive", &verdict.reasons.join("\n"));
    named(verdict, "stable-reference", None, 0, status)
}

fn test_case(verdict: &ScenarioVerdict, group: &Group<'_>) -> TestCase {
    let case = group.shown;
    let status = match case.outcome {
        Outcome::Pass => TestCaseStatus::success(),
        Outcome::Inconclusive => not_passed(NonSuccessKind::Error, case.headline(), "Inconclusive", &body(case)),
        Outcome::Fail => {
            let kind = case.findings.first().map_or("Failure", |finding| type_name(finding.classification));
            not_passed(NonSuccessKind::Failure, case.headline(), kind, &body(case))
        }
    };
    let mut test = named(verdict, &case.name, case.line, case.duration_ms, status);
    test.add_properties(properties(case));
    if group.runs > 1 {
        test.add_properties([
            property("seeds", &group.runs.to_string()),
            property("seeds_passed", &group.passed.to_string()),
        ]);
        test.add_properties(group.slowest_ms.map(|ms| property("recovery_seconds_max", &seconds(ms))));
    }
    let oracles = case.oracles.iter().map(|oracle| {
        let judgement = serde_json::to_value(oracle.judgement).unwrap_or_default();
        format!("{}: {} {}", oracle.id, judgement.as_str().unwrap_or_default(), oracle.reason).trim_end().to_owned()
    });
    let hits = case.faults.iter().flat_map(|fault| fault.hits.iter().map(|hit| format!("fault: {hit}")));
    let lines: Vec<String> = std::iter::once(did(case)).chain(hits).chain(oracles).collect();
    test.set_system_out(legal(&lines.join("\n")));
    test
}

fn named(verdict: &ScenarioVerdict, name: &str, line: Option<usize>, ms: u64, status: TestCaseStatus) -> TestCase {
    let mut test = TestCase::new(legal(name), status);
    test.set_classname(legal(&format!("reconverge.{}", verdict.scenario)));
    test.set_time(Duration::from_millis(ms));
    test.extra.insert("file".into(), legal(&verdict.file).into());
    if let Some(line) = line {
        test.extra.insert("line".into(), line.to_string().into());
    }
    test
}

fn not_passed(kind: NonSuccessKind, message: &str, type_name: &str, body: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(kind);
    status.set_message(headline(message)).set_type(type_name).set_description(legal(body));
    status
}

/// One line that nobody has to cut.
fn headline(message: &str) -> String {
    // What the XML crate leaves out must not count.
    let visible = XmlString::new(legal(message));
    let one_line = visible.as_str().split_whitespace().collect::<Vec<_>>().join(" ");
    if one_line.chars().count() <= MESSAGE {
        return one_line;
    }
    let cut: String = one_line.chars().take(MESSAGE - 1).collect();
    format!("{}…", cut.trim_end())
}

fn properties(case: &CaseVerdict) -> Vec<Property> {
    let metrics = &case.metrics;
    let mut list = vec![
        // The prefix keeps dashboards from averaging seeds.
        property("seed", &format!("s-{}", case.seed)),
        property("faults_scheduled", &metrics.faults_scheduled.to_string()),
        property("faults_fired", &metrics.faults_fired.to_string()),
    ];
    if let Some(took) = metrics.recovery_ms {
        list.push(property("recovery_seconds", &seconds(took)));
        list.push(property("recovery_budget_seconds", &seconds(metrics.recovery_bound_ms)));
    }
    list.push(property("requests_seen", &metrics.requests_seen.to_string()));
    list.push(property("writes_after_settle", &metrics.writes_after_settle.to_string()));
    if let Some(finding) = case.findings.first() {
        list.push(property("classification", finding.classification.as_str()));
        list.push(property("oracle", &finding.oracle));
    }
    if let Some(confirmation) = &case.confirmation {
        list.push(property("confirmation", &confirmation.in_words()));
    }
    if case.outcome == Outcome::Inconclusive {
        list.push(property("inconclusive", "true"));
    }
    list.push(property("lifecycle", "blocking"));
    list
}

fn property(name: &str, value: &str) -> Property {
    Property::new(name, legal(value))
}

fn type_name(classification: Classification) -> &'static str {
    match classification {
        Classification::ConvergenceDiff => "ConvergenceDiff",
        Classification::NotIdempotent => "NotIdempotent",
        Classification::SlowRecovery => "SlowRecovery",
        Classification::CrashLoop => "CrashLoop",
        Classification::StuckDeletion => "StuckDeletion",
        Classification::BypassedProxy => "BypassedProxy",
        Classification::Unresponsive => "Unresponsive",
        Classification::Orphan => "Orphan",
    }
}

/// Leaves out what XML 1.0 cannot hold. (The XML crate does the control characters, but not these two.)
fn legal(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, '\u{fffe}' | '\u{ffff}')).collect()
}
