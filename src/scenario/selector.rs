//! Label selectors: `app=demo,tier!=db,env in (a, b),!legacy`.
//!
//! # Flow
//! A text in; a [`LabelSelector`] that says whether labels match out. Equality-based and set-based requirements, as
//! the API server reads them; all must hold.

use std::{collections::BTreeSet, str::FromStr};

use serde_json::Value;

/// A parsed selector; the empty one matches everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelSelector(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Exists,
    Absent,
}

/// Why a text is not a label selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a label selector requirement: write key=value, key!=value, key in (a, b), key or !key")]
pub struct SelectorError(String);

impl LabelSelector {
    /// Whether an object's labels match.
    #[must_use]
    pub fn matches(&self, object: &Value) -> bool {
        let labels = object.pointer("/metadata/labels");
        self.0.iter().all(|requirement| {
            let label = labels.and_then(|labels| labels.get(&requirement.key)).and_then(Value::as_str);
            match (&requirement.test, label) {
                (Test::In(values), Some(label)) => values.contains(label),
                (Test::NotIn(values), Some(label)) => !values.contains(label),
                (Test::Exists, label) => label.is_some(),
                (Test::Absent, label) => label.is_none(),
                (Test::In(_), None) => false,
                (Test::NotIn(_), None) => true,
            }
        })
    }
}

impl FromStr for LabelSelector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.trim().is_empty() {
            return Ok(Self(Vec::new()));
        }
        split(text).into_iter().map(requirement).collect::<Result<_, _>>().map(Self)
    }
}

/// At commas that are not within parentheses.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0_i32;
    text.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    })
    .map(str::trim)
    .collect()
}

fn requirement(text: &str) -> Result<Requirement, SelectorError> {
    let wrong = || SelectorError(text.to_owned());
    let (key, test) = if let Some(key) = text.strip_prefix('!') {
        (key, Test::Absent)
    } else if let Some((key, value)) = text.split_once("!=") {
        (key, Test::NotIn(BTreeSet::from([value.trim().to_owned()])))
    } else if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        (key, Test::In(BTreeSet::from([value.trim().to_owned()])))
    } else if let Some((head, values)) = text.split_once('(') {
        let values: BTreeSet<String> = values
            .strip_suffix(')')
            .ok_or_else(wrong)?
            .split(',')
            .map(|value| value.trim().to_owned())
            .filter(|value| !value.is_empty())
            .collect();
        match head.split_whitespace().collect::<Vec<_>>()[..] {
            [_, _] if values.is_empty() => return Err(wrong()),
            [key, "in"] => (key, Test::In(values)),
            [key, "notin"] => (key, Test::NotIn(values)),
            _ => return Err(wrong()),
        }
    } else {
        (text, Test::Exists)
    };
    let key = key.trim();
    let values_fit = match &test {
        Test::In(values) | Test::NotIn(values) => values.iter().all(|value| value.is_empty() || is_name(value)),
        Test::Exists | Test::Absent => true,
    };
    if is_key(key) && values_fit { Ok(Requirement { key: key.to_owned(), test }) } else { Err(wrong()) }
}

/// `name` or `prefix/name`.
fn is_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => {
            is_name(name) && !prefix.is_empty() && prefix.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c))
        }
        None => is_name(key),
    }
}

/// At most 63 letters, digits, `-`, `_`, `.`, with a letter or digit at both ends.
fn is_name(name: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    name.len() <= 63
        && edge(name.chars().next())
        && edge(name.chars().last())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn matches_as_the_api_server_does() {
        let object = json!({"metadata": {"labels": {"app": "demo", "tier": "db", "x.io/y": ""}}});
        let table = [
            ("", true),
            ("app=demo", true),
            ("app == demo , tier=db", true),
            ("app=other", false),
            ("app!=other", true),
            ("missing!=x", true),
            ("missing=x", false),
            ("app in (a, demo)", true),
            ("app notin (a, demo)", false),
            ("missing notin (a)", true),
            ("tier", true),
            ("!tier", false),
            ("!missing,app in (demo),tier", true),
            ("x.io/y=", true),
        ];
        for (text, expected) in table {
            assert_eq!(text.parse::<LabelSelector>().unwrap().matches(&object), expected, "{text}");
        }
        assert!(!"app".parse::<LabelSelector>().unwrap().matches(&json!({})));
    }

    #[test]
    fn refuses_what_is_not_a_selector() {
        for text in
            ["=x", "app=demo,", "app in demo", "app in ()", "app in (a", "a b", "app=de mo", "-a=b", "!", "/a=b"]
        {
            assert!(text.parse::<LabelSelector>().is_err(), "{text}");
        }
    }
}
