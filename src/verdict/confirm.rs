//! Two verdicts on the same runs, one of the embedded API server and one of a real one, made into one.
//!
//! # Guarantees
//! A failure that a real server confirms stays a failure; one that it does not share is inconclusive, since then the
//! model is in doubt before the operator is. A pass that fails on a real server fails.

use super::{
    Confirmation, Outcome,
    wire::{CaseVerdict, ScenarioVerdict},
};

/// Runs that a real server shall be asked about: each perturbation that failed, under the first seed that did, and of
/// those that passed the first `passes`.
#[must_use]
pub fn to_ask(verdict: &ScenarioVerdict, passes: usize) -> Vec<(u64, String)> {
    let mut asked: Vec<(u64, String)> = Vec::new();
    for outcome in [Outcome::Fail, Outcome::Pass] {
        let mut left = if outcome == Outcome::Fail { usize::MAX } else { passes };
        for case in verdict.cases.iter().filter(|case| case.outcome == outcome) {
            if left > 0 && !asked.iter().any(|(_, name)| *name == case.name) {
                asked.push((case.seed, case.name.clone()));
                left -= 1;
            }
        }
    }
    asked
}

/// Says of every failure that nobody could be asked.
pub fn without(verdict: &mut ScenarioVerdict, why: &str) {
    let all = verdict.references.iter_mut().chain(&mut verdict.cases);
    for case in all.filter(|case| case.outcome == Outcome::Fail) {
        case.confirmation = Some(Confirmation::NoCluster { why: why.to_owned() });
    }
}

/// Puts what the real server says to the runs that it was asked about.
pub fn confirm(verdict: &mut ScenarioVerdict, real: &ScenarioVerdict) {
    let cluster = real.cluster.clone();
    let broken = real.references.iter().find(|case| case.outcome == Outcome::Fail);
    let unsound = real.references.iter().find(|case| case.outcome != Outcome::Pass);
    for case in verdict.references.iter_mut().filter(|case| case.outcome == Outcome::Fail) {
        case.confirmation = Some(match (broken, unsound) {
            (Some(_), _) => Confirmation::Confirmed { cluster: cluster.clone() },
            (None, Some(case)) => Confirmation::Unknown { cluster: cluster.clone(), why: case.headline().to_owned() },
            (None, None) => Confirmation::ModelOnly { cluster: cluster.clone() },
        });
    }
    for case in &mut verdict.cases {
        match real.cases.iter().find(|there| there.name == case.name && there.seed == case.seed) {
            Some(there) => put(case, there, &cluster),
            // Its fault-free runs fail there: on the real server the operator does not come as far as here.
            None if case.outcome == Outcome::Fail => {
                let why = unsound.map(CaseVerdict::headline).or(real.reasons.first().map(String::as_str));
                let why = why.unwrap_or("it was not run there").to_owned();
                case.confirmation = Some(Confirmation::Unknown { cluster: cluster.clone(), why });
            }
            None => {}
        }
    }
    let all = verdict.references.iter_mut().chain(&mut verdict.cases);
    for case in all.filter(|case| matches!(case.confirmation, Some(Confirmation::ModelOnly { .. }))) {
        case.outcome = Outcome::Inconclusive;
    }
    if let Some(reference) = broken.filter(|_| verdict.references.iter().all(|case| case.outcome == Outcome::Pass)) {
        let why = format!("the fault-free runs pass here and fail on {cluster}: {}", reference.headline());
        verdict.reasons.push(why);
    }
    let worst = verdict.all().map(|case| case.outcome).max().unwrap_or(Outcome::Pass);
    verdict.outcome = if verdict.reasons.is_empty() { worst } else { worst.max(Outcome::Inconclusive) };
}

fn put(case: &mut CaseVerdict, there: &CaseVerdict, cluster: &str) {
    let cluster = cluster.to_owned();
    case.confirmation = Some(match (case.outcome, there.outcome) {
        (Outcome::Fail, Outcome::Pass) => Confirmation::ModelOnly { cluster },
        (Outcome::Pass, Outcome::Fail) => {
            case.outcome = Outcome::Fail;
            case.findings.clone_from(&there.findings);
            Confirmation::Contradicted { cluster }
        }
        (_, Outcome::Inconclusive) => Confirmation::Unknown { cluster, why: there.headline().to_owned() },
        _ => Confirmation::Confirmed { cluster },
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::{judge_scenario, sample::Sample};

    /// Under the names given: the good run and the bad one.
    fn verdict(good: &[&str], bad: &[&str]) -> ScenarioVerdict {
        let references = [Sample::reference().build(), Sample::reference().build(), Sample::reference().build()];
        let named = |name: &&str, sample: Sample| {
            let name = (*name).to_owned();
            sample.change(|run| run.name = name).build()
        };
        let good = good.iter().map(|name| named(name, Sample::perturbed()));
        let bad = bad.iter().map(|name| named(name, Sample::perturbed().phase("Failed")));
        let mut verdict = judge_scenario(&references, &good.chain(bad).collect::<Vec<_>>());
        verdict.cluster = "envtest (kube-apiserver 1.34.4)".into();
        verdict
    }

    fn words(case: &CaseVerdict) -> String {
        case.confirmation.as_ref().map(Confirmation::in_words).unwrap_or_default()
    }

    #[test]
    fn failures_are_asked_about_first_and_passes_by_sample() {
        let both = verdict(&["a", "b", "c"], &["d"]);
        let names: Vec<_> = to_ask(&both, 2).into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["d", "a", "b"]);
    }

    #[test]
    fn what_both_find_is_confirmed() {
        let mut here = verdict(&["a"], &["b"]);
        confirm(&mut here, &verdict(&["a"], &["b"]));
        assert_eq!(
            here.cases.iter().map(words).collect::<Vec<_>>(),
            vec!["confirmed on envtest (kube-apiserver 1.34.4)"; 2]
        );
        assert_eq!(here.outcome, Outcome::Fail);
    }

    #[test]
    fn a_failure_of_the_model_alone_is_inconclusive() {
        let mut here = verdict(&[], &["a"]);
        confirm(&mut here, &verdict(&["a"], &[]));
        assert!(words(&here.cases[0]).starts_with("model-only"), "{}", words(&here.cases[0]));
        assert_eq!((here.cases[0].outcome, here.outcome), (Outcome::Inconclusive, Outcome::Inconclusive));
    }

    #[test]
    fn a_pass_that_fails_for_real_fails() {
        let mut here = verdict(&["a"], &[]);
        confirm(&mut here, &verdict(&[], &["a"]));
        assert!(matches!(here.cases[0].confirmation, Some(Confirmation::Contradicted { .. })));
        assert!(!here.cases[0].findings.is_empty());
        assert_eq!(here.outcome, Outcome::Fail);
    }

    #[test]
    fn without_an_answer_it_is_said_that_there_is_none() {
        let mut here = verdict(&["a"], &["b"]);
        confirm(&mut here, &verdict(&[], &[]));
        assert!(words(&here.cases[1]).starts_with("not confirmed on"), "{}", words(&here.cases[1]));
        assert_eq!((words(&here.cases[0]).as_str(), here.outcome), ("", Outcome::Fail));
        without(&mut here, "no binaries");
        assert_eq!(words(&here.cases[1]), "not confirmed: no binaries");
    }
}
