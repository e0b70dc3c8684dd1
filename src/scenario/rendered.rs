//! Directories whose manifests a tool renders: kustomizations and Helm charts.
//!
//! # Flow
//! A directory in; the tool's output out, or nothing where no tool is asked for.
//!
//! # Guarantees
//! The tool is the user's own, found on the `PATH`. What is missing or fails is an error with the tool's last words.

use std::{path::Path, process::Command};

use super::error::{Problem, ScenarioError};

const KUSTOMIZATIONS: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// Programs that render a directory, in order of preference, with the arguments before it.
type Tools = &'static [(&'static str, &'static [&'static str])];

const KUSTOMIZE: Tools = &[("kustomize", &["build"]), ("kubectl", &["kustomize"])];
const HELM: Tools = &[("helm", &["template", "reconverge"])];

/// The rendered manifests of a kustomization or a chart.
///
/// # Errors
/// When its tool is not at hand, or fails.
pub fn render(directory: &Path) -> Result<Option<String>, ScenarioError> {
    let has = |name: &str| directory.join(name).is_file();
    let (what, tools) = if KUSTOMIZATIONS.into_iter().any(has) {
        ("a kustomization", KUSTOMIZE)
    } else if has("Chart.yaml") {
        ("a Helm chart", HELM)
    } else {
        return Ok(None);
    };
    for (program, arguments) in tools {
        match Command::new(program).args(*arguments).arg(directory).output() {
            Ok(output) if output.status.success() => {
                return Ok(Some(String::from_utf8_lossy(&output.stdout).into_owned()));
            }
            Ok(output) => {
                let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                return wrong(directory, format!("`{program}` could not render {what}: {words}"));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return wrong(directory, format!("could not run `{program}`: {error}")),
        }
    }
    let names: Vec<String> = tools.iter().map(|(program, _)| format!("`{program}`")).collect();
    wrong(directory, format!("{what} needs {} on the PATH", names.join(" or ")))
}

fn wrong<T>(directory: &Path, message: String) -> Result<T, ScenarioError> {
    Err(ScenarioError::Invalid { problems: vec![Problem::of_file(directory.to_owned(), message)] })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Whether the tool is here or not, the answer is the rendered manifest or says what is missing.
    #[test]
    fn a_kustomization_is_rendered_or_names_its_tool() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(render(dir.path()).unwrap(), None);
        fs::write(dir.path().join("one.yaml"), "{apiVersion: v1, kind: ConfigMap, metadata: {name: one}}").unwrap();
        fs::write(dir.path().join("kustomization.yaml"), "{namePrefix: my-, resources: [one.yaml]}").unwrap();
        match render(dir.path()) {
            Ok(text) => assert!(text.unwrap().contains("name: my-one")),
            Err(error) => {
                let said = error.problems()[0].to_string();
                assert!(said.contains("needs `kustomize` or `kubectl`"), "{said}");
            }
        }
    }
}
