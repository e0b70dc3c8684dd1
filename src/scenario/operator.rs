//! The operator's part of a plan: as a process, or as a Deployment in the cluster.
//!
//! # Guarantees
//! On a lane that runs pods for real the deployment is taken, where the scenario has one; else the process. A scenario
//! that has only a deployment is planned with it on every lane; the lane says then that it cannot.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    duration::Span,
    error::ScenarioError,
    fill::Filler,
    format::{DeploymentSpec, Lane, ProcessSpec},
    manifest::{runs_pods, sort_for_install},
    placeholder::{PlaceholderError, fill_in},
    plan::{DeploymentPlan, OperatorPlan},
    resolve::{Context, Loaded, values},
};
use crate::object::metadata;

/// Longer than a pod takes on a busy machine, image and all.
const START_POD: Span = Span::from_secs(120);
/// The grace period of a pod is 30 s, where nobody says otherwise.
const STOP_POD: Span = Span::from_secs(40);

/// # Errors
/// When a placeholder has no value, or it is not clear which Deployment is the operator.
pub(super) fn plan(
    loaded: &Loaded,
    lane: Lane,
    context: &Context,
    filler: &Filler,
) -> Result<OperatorPlan, ScenarioError> {
    let spec = &loaded.scenario.spec.operator;
    let words = Words { loaded, values: values(loaded, context) };
    match (&spec.process, &spec.deployment) {
        (Some(process), deployment) if lane != Lane::K3s || deployment.is_none() => words.process(process, filler),
        (_, Some(deployment)) => words.deployment(deployment, filler),
        (_, None) => Err(loaded.problem("spec.operator", "the operator has neither `process` nor `deployment`")),
    }
}

/// Fills in what the file leaves to the plan.
struct Words<'a> {
    loaded: &'a Loaded,
    values: BTreeMap<&'static str, String>,
}

impl Words<'_> {
    fn fill(&self, place: &str, text: &str) -> Result<String, ScenarioError> {
        fill_in(text, &self.values).map_err(|error: PlaceholderError| self.loaded.problem(place, error.to_string()))
    }

    fn list(&self, place: &str, words: &[String]) -> Result<Vec<String>, ScenarioError> {
        let place = |index| format!("spec.operator.{place}[{index}]");
        words.iter().enumerate().map(|(index, word)| self.fill(&place(index), word)).collect()
    }

    fn env(&self, place: &str, env: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, ScenarioError> {
        let filled = env
            .iter()
            .map(|(name, value)| Ok((name.clone(), self.fill(&format!("spec.operator.{place}.{name}"), value)?)));
        filled.collect()
    }

    fn process(&self, process: &ProcessSpec, filler: &Filler) -> Result<OperatorPlan, ScenarioError> {
        let account = self.loaded.scenario.spec.operator.service_account.as_deref();
        let account = account.and_then(|account| account.split_once('/'));
        Ok(OperatorPlan {
            install: to_install(self.loaded.install.iter().filter(|object| !runs_pods(object)), filler),
            service_account: account.map(|(namespace, name)| (namespace.to_owned(), name.to_owned())),
            command: self.list("process.command", &process.command)?,
            build: self.list("process.build", &process.build)?,
            env: self.env("process.env", &process.env)?,
            working_directory: self.loaded.dir.join(process.working_directory.as_deref().unwrap_or(".")),
            start_timeout: process.start_timeout,
            stop_timeout: process.stop_timeout,
            exclusive: process.exclusive,
            deployment: None,
        })
    }

    fn deployment(&self, spec: &DeploymentSpec, filler: &Filler) -> Result<OperatorPlan, ScenarioError> {
        let mut all = to_install(self.loaded.install.iter().chain(&self.loaded.manifests), filler);
        let is_operator = |object: &Value| {
            let name = format!("{}/{}", metadata(object, "namespace"), metadata(object, "name"));
            object.get("kind").and_then(Value::as_str) == Some("Deployment")
                && spec.name.as_ref().is_none_or(|wanted| *wanted == name)
        };
        let found: Vec<usize> = (0..all.len()).filter(|index| is_operator(&all[*index])).collect();
        let object = match (found.as_slice(), &spec.name) {
            ([one], _) => all.remove(*one),
            ([], Some(name)) => {
                let message = format!("the manifests have no Deployment {name}");
                return Err(self.loaded.problem("spec.operator.deployment.name", message));
            }
            // The build command may still make it.
            ([], None) if !self.loaded.is_prepared() => Value::Null,
            (found, _) => {
                let message = format!("the manifests have {} Deployments; name the operator's", found.len());
                return Err(self.loaded.problem("spec.operator.deployment", message));
            }
        };
        Ok(OperatorPlan {
            install: all,
            service_account: None,
            command: Vec::new(),
            build: self.list("deployment.build", &spec.build)?,
            env: self.env("deployment.env", &spec.env)?,
            working_directory: self.loaded.dir.join(spec.working_directory.as_deref().unwrap_or(".")),
            start_timeout: spec.start_timeout.unwrap_or(START_POD),
            stop_timeout: spec.stop_timeout.unwrap_or(STOP_POD),
            exclusive: false,
            deployment: Some(DeploymentPlan {
                namespace: metadata(&object, "namespace").to_owned(),
                name: metadata(&object, "name").to_owned(),
                object,
                images: self.list("deployment.images", &spec.images)?,
                fixed_address: spec.fixed_address,
            }),
        })
    }
}

fn to_install<'a>(objects: impl Iterator<Item = &'a Value>, filler: &Filler) -> Vec<Value> {
    let mut install: Vec<Value> = objects.cloned().collect();
    install.iter_mut().for_each(|object| filler.object(object));
    sort_for_install(&mut install);
    install
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;
    use crate::{
        scenario::resolve::{self, load},
        seed::Seed,
    };

    const SCENARIO: &str = r#"apiVersion: reconverge.dev/v1alpha1
kind: Scenario
metadata: {name: demo}
spec:
  namespace: demo
  operator:
    install: [rbac.yaml]
    process: {command: [op]}
    deployment:
      manifests: [operator.yaml]
      images: ["op:{{profile}}"]
      env: {HOME_DIR: "{{scenario}}"}
  workload: [{apply: {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}}]
  expect: [{object: {apiVersion: v1, kind: ConfigMap, name: c}}]
  perturbations: [{quiet: {}}]
"#;
    const MANIFEST: &str = r#"apiVersion: apps/v1
kind: Deployment
metadata: {name: op}
---
apiVersion: batch/v1
kind: Job
metadata: {name: certificates}
"#;

    fn planned(scenario: &str, manifest: &str, lane: Lane) -> Result<OperatorPlan, ScenarioError> {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("scenario.yaml"), scenario).unwrap();
        fs::write(dir.path().join("operator.yaml"), manifest).unwrap();
        fs::write(dir.path().join("rbac.yaml"), "{apiVersion: v1, kind: ServiceAccount, metadata: {name: op}}")
            .unwrap();
        let loaded = load(dir.path())?;
        let context = Context { target_dir: "/t".into(), cache: "/c".into(), lane: Some(lane) };
        Ok(resolve::plan(&loaded, Seed(1), None, &context)?.operator)
    }

    fn message(error: &ScenarioError) -> String {
        error.problems().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn pods_take_the_deployment_and_other_lanes_the_process() {
        let process = planned(SCENARIO, MANIFEST, Lane::Embedded).unwrap();
        assert_eq!((process.words(), process.install.len()), ("op".into(), 1));
        let inside = planned(SCENARIO, MANIFEST, Lane::K3s).unwrap();
        assert_eq!(inside.words(), "Deployment demo/op");
        let kinds: Vec<_> = inside.install.iter().map(|object| object["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["ServiceAccount", "Job"]);
        assert!(Path::new(&inside.env["HOME_DIR"]).is_absolute());
        let deployment = inside.deployment.unwrap();
        assert!(["op:dev", "op:release"].contains(&deployment.images[0].as_str()), "{:?}", deployment.images);
    }

    #[test]
    fn one_deployment_is_the_operator() {
        let two = format!("{MANIFEST}---\n{}", MANIFEST.replace("name: op", "name: webhook"));
        let error = planned(SCENARIO, &two, Lane::K3s).unwrap_err();
        assert!(message(&error).contains("2 Deployments"), "{}", message(&error));
        let named = SCENARIO.replace("    deployment:\n", "    deployment:\n      name: demo/webhook\n");
        assert_eq!(planned(&named, &two, Lane::K3s).unwrap().words(), "Deployment demo/webhook");
        let error = planned(&named, MANIFEST, Lane::K3s).unwrap_err();
        assert!(message(&error).contains("no Deployment demo/webhook"), "{}", message(&error));
    }

    #[test]
    fn what_cannot_be_an_operator_is_refused() {
        for (wrong, said) in [
            (
                SCENARIO.replace("    process: {command: [op]}\n", "").replace("    deployment:", "    deployment_:"),
                "deployment_",
            ),
            (SCENARIO.replace("{{profile}}", "{{port}}").replace("images", "build"), "known for a `process` only"),
            (SCENARIO.replace("      env:", "      name: op\n      env:"), "namespace/name"),
        ] {
            let error = planned(&wrong, MANIFEST, Lane::K3s).unwrap_err();
            assert!(message(&error).contains(said), "{said}: {}", message(&error));
        }
    }
}
