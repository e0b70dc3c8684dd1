//! What a scenario file must satisfy beyond its grammar.
//!
//! # Flow
//! A parsed [`ScenarioFile`] in; every mistake in it, with its place, out.
//!
//! # Guarantees
//! All mistakes are found in one pass. A scenario without any can be planned, up to its manifests and the environment.
//!
//! # Not done
//! Whether a lane is at hand is the cluster stage's matter; the ids of oracles and rules are checked by [`check_ids`],
//! since the stages that know them stand to the right of this one.

use super::{
    duration::Span,
    error::{Problem, suggestion},
    format::{
        ACTIONS, API_VERSION, Action, DeploymentSpec, Expectation, KillTarget, Manifest, ObjectRef, Perturbation,
        ProcessSpec, Selector, Spec, Step, Trigger,
    },
    manifest::objection,
    names::{LEAF_PATH, is_dns_label, is_dns_subdomain, is_leaf_path},
    parse::ScenarioFile,
    placeholder::{self, PlaceholderError},
    predicate::Predicate,
    selector::LabelSelector,
};
use crate::event::Verb;

/// Ids that later stages know.
#[derive(Debug, Clone, Copy)]
pub struct KnownIds<'a> {
    pub oracles: &'a [&'a str],
    /// Normalise rules.
    pub rules: &'a [&'a str],
}

/// Every mistake in a scenario, in no particular order.
#[must_use]
pub fn check(file: &ScenarioFile) -> Vec<Problem> {
    let mut checker = Checker { file, problems: Vec::new() };
    checker.header();
    checker.times(&file.scenario.spec);
    checker.operator(&file.scenario.spec);
    checker.workload(&file.scenario.spec);
    checker.perturbations(&file.scenario.spec);
    checker.judgement(&file.scenario.spec);
    checker.problems
}

/// Ids in `skipOracles` and `normalise.disable` that do not exist.
#[must_use]
pub fn check_ids(file: &ScenarioFile, known: &KnownIds<'_>) -> Vec<Problem> {
    let spec = &file.scenario.spec;
    let oracles = spec.skip_oracles.iter().enumerate();
    let oracles = oracles.map(|(i, skip)| ("oracle", format!("spec.skipOracles[{i}].id"), &skip.id, known.oracles));
    let rules = spec.normalise.disable.iter().enumerate();
    let rules = rules.map(|(i, id)| ("normalise rule", format!("spec.normalise.disable[{i}]"), id, known.rules));
    oracles
        .chain(rules)
        .filter(|(_, _, id, known)| !known.contains(&id.as_str()))
        .map(|(what, path, id, known)| {
            file.problem(&path, format!("there is no {what} `{id}`")).with_help(suggestion(id, known))
        })
        .collect()
}

struct Checker<'a> {
    file: &'a ScenarioFile,
    problems: Vec<Problem>,
}

impl Checker<'_> {
    fn wrong(&mut self, path: &str, message: impl Into<String>) {
        self.problems.push(self.file.problem(path, message));
    }

    fn wrong_with_help(&mut self, path: &str, message: impl Into<String>, help: Option<String>) {
        self.problems.push(self.file.problem(path, message).with_help(help));
    }

    fn require(&mut self, holds: bool, path: &str, message: &str) {
        if !holds {
            self.wrong(path, message);
        }
    }

    fn header(&mut self) {
        let scenario = &self.file.scenario;
        if scenario.api_version != API_VERSION {
            let message = format!("apiVersion `{}` is not known to this build", scenario.api_version);
            self.wrong_with_help("apiVersion", message, Some(format!("write `{API_VERSION}`")));
        }
        if scenario.kind != "Scenario" {
            let message = format!("kind `{}` is not known here", scenario.kind);
            self.wrong_with_help("kind", message, Some("write `Scenario`".into()));
        }
        self.dns_name("metadata.name", &scenario.metadata.name);
        self.dns_name("spec.namespace", &scenario.spec.namespace);
    }

    fn dns_name(&mut self, path: &str, name: &str) {
        if is_dns_label(name) {
            return;
        }
        let fitting: String =
            name.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(63).collect();
        let fitting = fitting.trim_matches('-');
        let help = is_dns_label(fitting).then(|| format!("`{fitting}` would do"));
        let message = format!("`{name}` is not a name: use at most 63 lower-case letters, digits and `-`");
        self.wrong_with_help(path, message, help);
    }

    fn times(&mut self, spec: &Spec) {
        for (path, span) in [
            ("spec.settle", spec.settle),
            ("spec.deadline", spec.deadline),
            ("spec.recovery.within", spec.recovery.within),
        ] {
            self.positive(path, span);
        }
        if spec.settle >= spec.deadline {
            let message =
                format!("settling takes {}, which the deadline of {} does not allow", spec.settle, spec.deadline);
            self.wrong("spec.settle", message);
        }
        self.require(
            spec.references >= 3,
            "spec.references",
            "at least three reference runs are needed to tell chance from change",
        );
    }

    fn positive(&mut self, path: &str, span: Span) {
        self.require(!span.0.is_zero(), path, "must be longer than nothing");
    }

    fn operator(&mut self, spec: &Spec) {
        let operator = &spec.operator;
        let either = operator.process.is_some() || operator.deployment.is_some();
        self.require(either, "spec.operator", "the operator has neither `process` nor `deployment`");
        if let Some(process) = &operator.process {
            self.process(process);
        }
        if let Some(deployment) = &operator.deployment {
            self.deployment(deployment);
        }
        if let Some(account) = &operator.service_account {
            let fits = account.split_once('/').is_some_and(|(ns, name)| is_dns_label(ns) && is_dns_subdomain(name));
            self.require(fits, "spec.operator.serviceAccount", "write the ServiceAccount as `namespace/name`");
        }
    }

    fn process(&mut self, process: &ProcessSpec) {
        let place = "spec.operator.process";
        self.positive(&format!("{place}.startTimeout"), process.start_timeout);
        self.positive(&format!("{place}.stopTimeout"), process.stop_timeout);
        self.require(!process.command.is_empty(), &format!("{place}.command"), "the operator's command is empty");
        for (field, words) in [("command", &process.command), ("build", &process.build)] {
            for (index, word) in words.iter().enumerate() {
                self.placeholders(&format!("{place}.{field}[{index}]"), word);
            }
        }
        for (name, value) in &process.env {
            self.placeholders(&format!("{place}.env.{name}"), value);
        }
    }

    fn deployment(&mut self, deployment: &DeploymentSpec) {
        let place = "spec.operator.deployment";
        for (field, span) in [("startTimeout", deployment.start_timeout), ("stopTimeout", deployment.stop_timeout)] {
            if let Some(span) = span {
                self.positive(&format!("{place}.{field}"), span);
            }
        }
        let words = deployment.build.iter().enumerate().map(|(i, word)| (format!("{place}.build[{i}]"), word));
        let env = deployment.env.iter().map(|(name, value)| (format!("{place}.env.{name}"), value));
        for (path, text) in words.chain(env) {
            self.placeholders(&path, text);
            for name in placeholder::LATER {
                let message = format!("`{{{{{name}}}}}` is known for a `process` only");
                self.require(!text.contains(&format!("{{{{{name}}}}}")), &path, &message);
            }
        }
        if let Some(name) = &deployment.name {
            let fits = name.split_once('/').is_some_and(|(ns, name)| is_dns_label(ns) && is_dns_subdomain(name));
            self.require(fits, &format!("{place}.name"), "write the Deployment as `namespace/name`");
        }
    }

    fn placeholders(&mut self, path: &str, text: &str) {
        if let Err(error) = placeholder::check(text) {
            let help = match &error {
                PlaceholderError::Unknown(name) => {
                    let known: Vec<&str> =
                        placeholder::NOW.into_iter().chain(placeholder::LATER).chain(["env.NAME"]).collect();
                    suggestion(name, &known)
                }
                _ => None,
            };
            self.wrong_with_help(path, error.to_string(), help);
        }
    }

    fn workload(&mut self, spec: &Spec) {
        self.require(!spec.workload.is_empty(), "spec.workload", "the workload has no step");
        for (index, step) in spec.workload.iter().enumerate() {
            self.step(&format!("spec.workload[{index}]"), step);
        }
    }

    fn step(&mut self, path: &str, step: &Step) {
        let actions = step.actions();
        if actions.len() != 1 {
            let found = if actions.is_empty() { "this has none".into() } else { format!("this has {}", actions.len()) };
            let help = format!("the actions are {}", ACTIONS.join(", "));
            self.wrong_with_help(path, format!("a step has exactly one action, {found}"), Some(help));
        }
        for action in actions {
            match action {
                Action::Apply(Manifest::File(_)) => {}
                Action::Apply(Manifest::Object(object)) => {
                    if let Some((message, help)) = objection(&object.into()) {
                        self.wrong_with_help(&format!("{path}.apply"), message, help);
                    }
                }
                Action::Patch(patch) => {
                    self.single(&format!("{path}.patch.target"), &patch.target);
                    self.require(!patch.merge.is_empty(), &format!("{path}.patch.merge"), "the patch changes nothing");
                }
                Action::Delete(object) => {
                    let path = format!("{path}.delete");
                    self.object(&path, &object);
                    let bounded = object.name.is_some() || object.selector.is_some();
                    self.require(bounded, &path, "name the object, or give a `selector`");
                }
                Action::Scale(scale) => self.single(&format!("{path}.scale.target"), &scale.target),
                Action::Wait(wait) => {
                    self.expectation(&format!("{path}.wait.for"), &wait.condition);
                    if let Some(timeout) = wait.timeout {
                        self.positive(&format!("{path}.wait.timeout"), timeout);
                    }
                }
            }
        }
    }

    /// A reference that must mean one object.
    fn single(&mut self, path: &str, object: &ObjectRef) {
        self.object(path, object);
        self.require(object.name.is_some(), path, "this needs the `name` of one object");
    }

    fn object(&mut self, path: &str, object: &ObjectRef) {
        let api_version = &object.api_version;
        let version = api_version.rsplit('/').next().unwrap_or_default();
        let fits = version.starts_with('v') && api_version.matches('/').count() <= 1 && !api_version.starts_with('/');
        if !fits {
            let message = format!("`{api_version}` is not an apiVersion: write `v1` or `group/version`");
            self.wrong(&format!("{path}.apiVersion"), message);
        }
        if !object.kind.starts_with(|c: char| c.is_ascii_uppercase())
            || !object.kind.chars().all(|c| c.is_ascii_alphanumeric())
        {
            let message = format!("`{}` is not a kind: kinds begin with a capital, such as `ConfigMap`", object.kind);
            self.wrong(&format!("{path}.kind"), message);
        }
        if object.name.is_some() && object.selector.is_some() {
            self.wrong(&format!("{path}.selector"), "a `name` and a `selector` exclude each other");
        }
        if let Some(selector) = &object.selector {
            self.selector(&format!("{path}.selector"), selector);
        }
    }

    fn selector(&mut self, path: &str, text: &str) {
        if let Err(error) = text.parse::<LabelSelector>() {
            self.wrong(path, error.to_string());
        }
    }

    fn expectation(&mut self, path: &str, expectation: &Expectation) {
        self.object(&format!("{path}.object"), &expectation.object);
        let mut expectation = expectation.clone();
        // The selector has been judged above.
        expectation.object.selector = None;
        if let Err(error) = Predicate::compile(&expectation) {
            self.wrong(&format!("{path}.that"), error.to_string());
        }
    }

    fn perturbations(&mut self, spec: &Spec) {
        let missing = "no perturbation is listed, so nothing would be tested";
        self.require(!spec.perturbations.is_empty(), "spec.perturbations", missing);
        for (index, perturbation) in spec.perturbations.iter().enumerate() {
            self.perturbation(&format!("spec.perturbations[{index}].{}", perturbation.id()), perturbation);
        }
    }

    fn perturbation(&mut self, path: &str, perturbation: &Perturbation) {
        match perturbation {
            Perturbation::Quiet(quiet) => self.positive(&format!("{path}.for"), quiet.duration),
            Perturbation::Partition(partition) => self.positive(&format!("{path}.for"), partition.duration),
            Perturbation::ApiRestart(_) => {}
            Perturbation::ForceReapply(reapply) => {
                self.at_least_one(&format!("{path}.times"), Some(reapply.times.into()))
            }
            Perturbation::Restart(restart) => self.at_least_one(&format!("{path}.times"), Some(restart.times.into())),
            Perturbation::CrashAfterWrite(crash) => self.at_least_one(&format!("{path}.write"), crash.write),
            Perturbation::PodKill(kill) => {
                self.at_least_one(&format!("{path}.times"), Some(kill.times.into()));
                if let Some(selector) = &kill.selector {
                    let path = format!("{path}.selector");
                    self.selector(&path, selector);
                    self.require(kill.target == KillTarget::Pods, &path, "a `selector` needs `target: pods`");
                }
            }
            Perturbation::Conflict(conflict) => {
                self.writes_only(path, &conflict.requests);
                self.trigger(path, &conflict.trigger);
            }
            Perturbation::LostReply(lost) => {
                self.writes_only(path, &lost.requests);
                self.trigger(path, &lost.trigger);
            }
            Perturbation::Latency(latency) => {
                self.trigger(path, &latency.trigger);
                let some = !latency.delay.0.is_zero() || !latency.jitter.0.is_zero();
                self.require(some, &format!("{path}.delay"), "must be longer than nothing");
            }
            Perturbation::ApiError(error) => {
                self.trigger(path, &error.trigger);
                let known = [429, 500, 503, 504].contains(&error.status);
                self.require(known, &format!("{path}.status"), "the status must be 429, 500, 503 or 504");
                let whole = error.retry_after.is_none_or(|after| after.0.subsec_nanos() == 0 && !after.0.is_zero());
                self.require(whole, &format!("{path}.retryAfter"), "`Retry-After` is in whole seconds, at least 1s");
            }
        }
    }

    fn at_least_one(&mut self, path: &str, number: Option<u64>) {
        self.require(number.is_none_or(|n| n >= 1), path, "counts from 1");
    }

    fn writes_only(&mut self, path: &str, requests: &Selector) {
        for (index, verb) in requests.verbs.iter().enumerate() {
            let fits = matches!(verb, Verb::Create | Verb::Update | Verb::Patch | Verb::Delete);
            let path = format!("{path}.requests.verbs[{index}]");
            self.require(fits, &path, "this fault concerns create, update, patch and delete only");
        }
    }

    fn trigger(&mut self, path: &str, trigger: &Trigger) {
        let path = format!("{path}.trigger");
        self.at_least_one(&format!("{path}.nth"), trigger.nth);
        self.at_least_one(&format!("{path}.every"), trigger.every);
        self.at_least_one(&format!("{path}.max"), trigger.max);
        if let Some(probability) = trigger.probability {
            let fits = probability > 0.0 && probability <= 1.0;
            self.require(fits, &format!("{path}.probability"), "a probability is above 0 and at most 1");
        }
        let kinds = [trigger.nth.is_some(), trigger.every.is_some(), trigger.probability.is_some()];
        let one = kinds.into_iter().filter(|is| *is).count() <= 1;
        self.require(one, &path, "`nth`, `every` and `probability` exclude each other");
    }

    fn judgement(&mut self, spec: &Spec) {
        self.require(!spec.expect.is_empty(), "spec.expect", "nothing is expected, so nothing could be judged");
        for (index, expectation) in spec.expect.iter().enumerate() {
            self.expectation(&format!("spec.expect[{index}]"), expectation);
        }
        if let Some(probe) = &spec.probe {
            self.single("spec.probe.patch.target", &probe.patch.target);
            self.require(!probe.patch.merge.is_empty(), "spec.probe.patch.merge", "the patch changes nothing");
            self.require(!probe.expect.is_empty(), "spec.probe.expect", "a probe must expect something");
            for (index, expectation) in probe.expect.iter().enumerate() {
                self.expectation(&format!("spec.probe.expect[{index}]"), expectation);
            }
        }
        for (index, rule) in spec.normalise.ignore.iter().enumerate() {
            let path = format!("spec.normalise.ignore[{index}]");
            self.require(is_leaf_path(&rule.path), &format!("{path}.path"), LEAF_PATH);
            self.require(!rule.reason.trim().is_empty(), &format!("{path}.reason"), "say why this may differ");
        }
        let budget = spec.normalise.mask_budget_percent.unwrap_or(0);
        self.require(budget <= 100, "spec.normalise.maskBudgetPercent", "a share is at most 100 percent");
        for (index, skip) in spec.skip_oracles.iter().enumerate() {
            let path = format!("spec.skipOracles[{index}].reason");
            self.require(!skip.reason.trim().is_empty(), &path, "say why this oracle does not apply");
        }
    }
}
