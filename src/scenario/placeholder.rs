//! Placeholders such as `{{scenario}}` in the operator's command, build and environment.
//!
//! # Guarantees
//! Every placeholder is known or is an error; nothing is left half filled. `{{kubeconfig}}` and `{{port}}` are left to
//! the start of the operator.

use std::collections::BTreeMap;

/// Filled in when the operator is started.
pub const LATER: [&str; 2] = ["kubeconfig", "port"];
/// Filled in with the plan.
pub const NOW: [&str; 5] = ["scenario", "target", "namespace", "profile", "cache"];
const ENV: &str = "env.";

/// Why a text cannot be filled in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlaceholderError {
    #[error("unknown placeholder `{{{{{0}}}}}`")]
    Unknown(String),
    #[error("the environment variable `{0}` is not set")]
    NoVariable(String),
    #[error("`{{{{` without `}}}}`")]
    Open,
}

/// Replaces each placeholder by what `value` gives for its name; those that are for later stay.
///
/// # Errors
/// For a name that `value` does not know.
pub fn fill(
    text: &str,
    mut value: impl FnMut(&str) -> Result<String, PlaceholderError>,
) -> Result<String, PlaceholderError> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("{{") {
        let end = rest[start..].find("}}").ok_or(PlaceholderError::Open)? + start;
        let name = rest[start + 2..end].trim();
        filled.push_str(&rest[..start]);
        if LATER.contains(&name) {
            filled.push_str(&format!("{{{{{name}}}}}"));
        } else {
            filled.push_str(&value(name)?);
        }
        rest = &rest[end + 2..];
    }
    Ok(filled + rest)
}

/// Whether all placeholders of a text exist; their values do not matter.
///
/// # Errors
/// For the first that does not.
pub fn check(text: &str) -> Result<(), PlaceholderError> {
    fill(text, |name| {
        let known = NOW.contains(&name) || name.strip_prefix(ENV).is_some_and(|variable| !variable.is_empty());
        if known { Ok(String::new()) } else { Err(PlaceholderError::Unknown(name.to_owned())) }
    })
    .map(drop)
}

/// Fills in the values of a plan, and the harness's environment.
///
/// # Errors
/// For a placeholder or an environment variable that does not exist.
pub fn fill_in(text: &str, values: &BTreeMap<&str, String>) -> Result<String, PlaceholderError> {
    fill(text, |name| match (values.get(name), name.strip_prefix(ENV)) {
        (Some(value), _) => Ok(value.clone()),
        (None, Some(variable)) => {
            std::env::var(variable).map_err(|_| PlaceholderError::NoVariable(variable.to_owned()))
        }
        (None, None) => Err(PlaceholderError::Unknown(name.to_owned())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_in_now_and_leaves_the_rest() {
        let values = BTreeMap::from([("scenario", "/s".to_owned()), ("profile", "dev".to_owned())]);
        let filled = fill_in("{{scenario}}/x --kubeconfig={{ kubeconfig }} {{profile}}:{{port}}", &values);
        assert_eq!(filled.as_deref(), Ok("/s/x --kubeconfig={{kubeconfig}} dev:{{port}}"));
    }

    #[test]
    fn refuses_unknown_and_open_ones() {
        let values = BTreeMap::new();
        assert_eq!(fill_in("{{scenari}}", &values), Err(PlaceholderError::Unknown("scenari".into())));
        assert_eq!(fill_in("a {{scenario", &values), Err(PlaceholderError::Open));
        let unset = "RECONVERGE_TEST_NEVER_SET";
        assert_eq!(
            fill_in("{{env.RECONVERGE_TEST_NEVER_SET}}", &values),
            Err(PlaceholderError::NoVariable(unset.into()))
        );
        assert_eq!(PlaceholderError::Unknown("x".into()).to_string(), "unknown placeholder `{{x}}`");
        assert_eq!(PlaceholderError::Open.to_string(), "`{{` without `}}`");
        assert!(check("{{env.HOME}} {{target}} {{port}}").is_ok());
        assert!(check("{{env.}}").is_err());
    }
}
