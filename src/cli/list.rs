//! `list`, and the selection of scenarios that other commands share.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use regex::Regex;
use serde_json::json;

use super::{
    arguments::{Format, Paths, Selection},
    exit::Exit,
    output,
};
use crate::{
    normalise::RULES,
    scenario::{
        check::KnownIds,
        error::suggestion,
        resolve::{self, Loaded},
    },
    verdict::ORACLES,
};

/// A scenario that was selected, and the path under which it was found.
pub struct Selected {
    pub loaded: Loaded,
    pub path: PathBuf,
}

/// `reconverge list`.
pub fn list(command: &Paths) -> Exit {
    let selected = match select(&command.selection) {
        Ok(selected) => selected,
        Err(exit) => return exit,
    };
    match command.output {
        Format::Text => {
            let mut text = String::new();
            for Selected { loaded, path } in &selected {
                let names: Vec<String> = resolve::perturbations(loaded).into_iter().map(|p| p.name).collect();
                let name = &loaded.scenario.metadata.name;
                text.push_str(&format!("{name:<40} {}\n    {}\n", path.display(), names.join(", ")));
            }
            output::result(&text);
        }
        Format::Json => {
            let all: Vec<_> = selected
                .iter()
                .map(|Selected { loaded, path }| {
                    let names: Vec<String> = resolve::perturbations(loaded).into_iter().map(|p| p.name).collect();
                    json!({
                        "name": loaded.scenario.metadata.name,
                        "path": path,
                        "labels": loaded.scenario.metadata.labels,
                        "perturbations": names,
                    })
                })
                .collect();
            output::result(&format!("{:#}", json!(all)));
        }
    }
    Exit::Pass
}

/// Finds and loads scenarios; tells the user about every mistake.
///
/// # Errors
/// The exit that the program shall end with.
pub fn select(selection: &Selection) -> Result<Vec<Selected>, Exit> {
    let filter = pattern(selection.filter.as_deref())?;
    let exclude = pattern(selection.exclude.as_deref())?;
    let label = match &selection.selector {
        None => None,
        Some(text) => Some(text.split_once('=').ok_or_else(|| {
            output::error(&format!("--selector takes KEY=VALUE, not `{text}`"));
            Exit::Usage
        })?),
    };
    let paths = resolve::discover(&selection.paths).map_err(refuse)?;
    let mut selected = Vec::new();
    let mut wrong = None;
    for path in paths {
        match load(&path) {
            Ok(one) => {
                let metadata = &one.loaded.scenario.metadata;
                let wanted = filter.as_ref().is_none_or(|f| f.is_match(&metadata.name))
                    && !exclude.as_ref().is_some_and(|e| e.is_match(&metadata.name))
                    && label.is_none_or(|(key, value)| metadata.labels.get(key).is_some_and(|v| v == value));
                if wanted {
                    selected.push(one);
                }
            }
            Err(exit) => wrong = Some(exit),
        }
    }
    match wrong {
        Some(exit) => Err(exit),
        None if selected.is_empty() => {
            output::error("no scenario was selected");
            Err(Exit::Nothing)
        }
        None => Ok(selected),
    }
}

/// The scenarios that may have one of these runs; all of them when no run is named.
///
/// # Errors
/// When no scenario may have a run of that name; the user is told, with the name that was probably meant.
pub fn with_runs(selected: Vec<Selected>, names: &[String]) -> Result<Vec<Selected>, Exit> {
    for name in names {
        if selected.iter().any(|one| resolve::may_have_run(&one.loaded, name)) {
            continue;
        }
        let entries: Vec<_> = selected.iter().flat_map(|one| resolve::perturbations(&one.loaded)).collect();
        let known: BTreeSet<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        let known: Vec<&str> = known.into_iter().collect();
        let hint = suggestion(name, &known).map(|hint| format!("; {hint}")).unwrap_or_default();
        output::error(&format!("no selected scenario has a run `{name}`{hint}"));
        return Err(Exit::Nothing);
    }
    let wanted = |one: &Selected| names.is_empty() || names.iter().any(|name| resolve::may_have_run(&one.loaded, name));
    Ok(selected.into_iter().filter(wanted).collect())
}

/// Loads one scenario; tells the user about its mistakes.
///
/// # Errors
/// The exit that the program shall end with.
pub fn load(path: &Path) -> Result<Selected, Exit> {
    let loaded = resolve::load(path).map_err(refuse)?;
    let oracles: Vec<&str> = ORACLES.iter().map(|oracle| oracle.id()).collect();
    let rules: Vec<&str> = RULES.iter().map(|rule| rule.id).collect();
    loaded.check_ids(&KnownIds { oracles: &oracles, rules: &rules }).map_err(refuse)?;
    Ok(Selected { loaded, path: path.to_owned() })
}

fn refuse(error: crate::scenario::ScenarioError) -> Exit {
    output::diagnostic(error);
    Exit::Usage
}

fn pattern(text: Option<&str>) -> Result<Option<Regex>, Exit> {
    text.map(Regex::new).transpose().map_err(|error| {
        output::error(&format!("not a regular expression: {error}"));
        Exit::Usage
    })
}
