//! Every report of one verdict, compared with the examples in `reports/`. `RECONVERGE_BLESS=1` writes them anew.

mod consumers;

use std::path::Path;

use serde_json::json;

use super::{explain, github, json, junit, terminal};
use crate::{
    event::{Phase, Verb},
    observe::record::SnapshotLabel,
    verdict::{CaseVerdict, ORACLES, Outcome, ScenarioVerdict, judge_scenario, sample::Sample},
};

/// One run of each outcome, and one with two findings.
fn example() -> ScenarioVerdict {
    let named = |name: &str, line: usize, run: Sample| {
        let run = run.change(|run| {
            run.name = name.into();
            let planned = run.plan.perturbation.as_mut().unwrap();
            planned.name = name.into();
            planned.line = line;
        });
        run.build()
    };
    let references = ["reference-1", "reference-2", "reference-3"]
        .map(|name| Sample::reference().change(|run| run.name = name.into()).build());
    let extra = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "x-worker-bcdfg", "namespace": "default", "generateName": "x-worker-", "labels": {"app": "x"}},
        "spec": {"containers": [{"name": "app", "image": "demo:1"}]},
    });
    let broken = Sample::perturbed()
        .phase("Failed")
        .object(SnapshotLabel::Final, extra.clone())
        .object(SnapshotLabel::Rested, extra)
        .write(Verb::Update, "demos", 3_500, Phase::Rest);
    let mut verdict = judge_scenario(
        &references,
        &[
            named("conflict", 12, Sample::perturbed()),
            named("conflict-2", 15, broken),
            named("conflict-3", 18, Sample::perturbed().change(|run| run.history.faults[0].fired = 0)),
        ],
    );
    for case in &mut verdict.cases {
        case.replay = Some(format!("reconverge replay --seed 42 --run {} scenarios/demo/scenario.yaml", case.name));
    }
    verdict
}

fn golden(name: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("reports/examples").join(name);
    if std::env::var_os("RECONVERGE_BLESS").is_some() {
        std::fs::write(&path, actual).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        expected == actual,
        "reports/examples/{name} is not up to date; with RECONVERGE_BLESS=1 it is written anew:\n{actual}"
    );
}

#[test]
fn the_examples_are_up_to_date() {
    let verdicts = [example()];
    let text = terminal::scenario(&verdicts[0], false) + "\n" + &terminal::total(&verdicts, false);
    golden("terminal.txt", &text);
    golden("verdict.json", &json::Document::new(&verdicts, None).text().unwrap());
    let about = junit::About { tool_version: "0.1.0".into(), ..junit::About::default() };
    golden("junit.xml", &junit::report(&verdicts, &about).unwrap());
    golden("annotations.txt", &github::annotations(&verdicts));
    golden("summary.md", &github::summary(&verdicts));
}

#[test]
fn verdicts_survive_their_own_format() {
    let verdict = example();
    let text = json::scenario(&verdict).unwrap();
    assert_eq!(serde_json::from_str::<ScenarioVerdict>(&text).unwrap(), verdict);
}

#[test]
fn colour_only_adds_colour() {
    let verdict = example();
    let coloured = terminal::scenario(&verdict, true);
    assert!(coloured.contains("\u{1b}[31m"), "a diff has red lines");
    let mut plain = String::new();
    let mut rest = coloured.as_str();
    while let Some(start) = rest.find('\u{1b}') {
        plain.push_str(&rest[..start]);
        rest = &rest[start + rest[start..].find('m').unwrap() + 1..];
    }
    plain.push_str(rest);
    assert_eq!(plain, terminal::scenario(&verdict, false));
}

#[test]
fn junit_holds_only_what_xml_can_and_counts_right() {
    let mut verdict = example();
    verdict.cases[1].findings[0].sentence = "bad \u{1}\u{fffe}\u{1b}[31mcharacters ]]> & <tags>".into();
    let about = junit::About { timestamp: Some("2026-01-02T03:04:05Z".into()), ..junit::About::default() };
    let text = junit::report(&[verdict], &about).unwrap();
    assert!(text.contains("bad characters ]]&gt; &amp; &lt;tags&gt;"), "{text}");
    let report = quick_junit::Report::deserialize_from_str(&text).unwrap();
    let suite = &report.test_suites[0];
    assert_eq!((suite.tests, suite.failures, suite.errors, suite.skipped), (6, 1, 1, 0));
    assert_eq!(text.matches("<testsuite ").count(), 1);
    for case in &suite.test_cases {
        assert!(case.classname.is_some() && case.time.is_some(), "{}", case.name.as_str());
        assert!(!case.name.as_str().contains("42"), "seeds are properties");
    }
    let case = text.find("name=\"conflict-2\"").map(|at| &text[at..]).unwrap();
    assert!(case.find("<properties>") < case.find("<failure"), "properties come first");
}

#[test]
fn annotations_are_escaped_and_bounded() {
    let mut verdict = example();
    verdict.cases[1].findings[0].sentence = "50 % gone,\nreally".into();
    let failing = verdict.cases[1].clone();
    verdict.cases.extend((0..11).map(|n| CaseVerdict { name: format!("more-{n}"), ..failing.clone() }));
    let text = github::annotations(&[verdict]);
    assert!(text.contains("title=demo%3A conflict-2::50 %25 gone,%0Areally"), "{text}");
    assert_eq!(text.matches("::error ").count(), 10);
    assert!(text.contains("::2 more of level error"), "{text}");
}

/// Twenty seeds of one perturbation are one row and one annotation, with the worst of them and its replay line.
#[test]
fn seeds_of_one_perturbation_are_one_entry() {
    let mut verdict = example();
    let pass = CaseVerdict { name: "conflict-2".into(), seed: 7, ..verdict.cases[0].clone() };
    verdict.cases.insert(0, pass);
    let verdicts = [verdict];
    let annotations = github::annotations(&verdicts);
    assert_eq!(annotations.matches("::error ").count(), 1);
    assert!(annotations.contains("conflict-2::Pod default/x-worker-bcdfg"), "{annotations}");
    assert!(annotations.contains("(1 of 2 seeds passed)"), "{annotations}");
    let summary = github::summary(&verdicts);
    assert_eq!(summary.matches("| demo | conflict-2 |").count(), 1);
    assert!(summary.contains("(1 of 2 seeds passed)") && summary.contains("--seed 42 --run conflict-2"), "{summary}");
    let terminal = terminal::scenario(&verdicts[0], false);
    assert!(terminal.contains("1 of 2 seeds passed"), "{terminal}");
    assert!(junit::report(&verdicts, &junit::About::default()).unwrap().contains("seeds_passed"));
}

#[test]
fn a_summary_has_a_bound_and_safe_fences() {
    let mut verdict = example();
    verdict.cases[1].findings[0].detail = "```".repeat(400_000);
    let text = github::summary(&[verdict]);
    assert!(text.len() < 1024 * 1024 && text.ends_with("The rest is in the report files.\n"));
    let mut verdict = example();
    verdict.cases[1].findings[0].detail = "````".into();
    assert!(github::summary(&[verdict]).contains("\n`````diff\n"));
}

#[test]
fn everything_can_be_explained() {
    assert!(explain::topics().len() > ORACLES.len());
    for (id, _) in explain::topics() {
        assert!(explain::topic(id).is_some_and(|text| text.contains(id)), "{id}");
    }
    assert_eq!(explain::topic("nonsense"), None);
}

#[test]
fn nothing_is_no_success() {
    assert!(terminal::total(&[], false).starts_with("INCONCLUSIVE"));
    assert_eq!(example().outcome, Outcome::Fail);
}
