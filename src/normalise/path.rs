//! Places inside an object: concrete paths, and patterns of them as scenario files write them.
//!
//! # Syntax
//! Keys are joined by dots; a key with other characters than letters, digits, `-` and `_` stands in brackets and
//! quotes. Elements of lists are named by their keys, or by their index:
//! `spec.containers[name=app].ports[containerPort=80,protocol=TCP]`, `metadata.annotations["a.b/c"]`, `args[0]`.
//! In patterns, `*` stands for any key, and `[*]` for any element.

use std::fmt;

use serde_json::Value;

/// One step into a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    Key(String),
    Index(usize),
    /// The element of a list whose keys have these values.
    Where(Vec<(String, String)>),
}

/// Steps from the root of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(pub Vec<Step>);

impl Path {
    /// This path and one step more.
    #[must_use]
    pub fn join(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }

    /// The first key, such as `spec`.
    #[must_use]
    pub fn section(&self) -> &str {
        match self.0.first() {
            Some(Step::Key(key)) => key,
            _ => "",
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_steps(f, &self.0)
    }
}

/// Writes steps in the syntax of this module.
pub(super) fn write_steps(f: &mut impl fmt::Write, steps: &[Step]) -> fmt::Result {
    for (position, step) in steps.iter().enumerate() {
        match step {
            Step::Key(key) if is_plain(key) => {
                if position > 0 {
                    f.write_char('.')?;
                }
                f.write_str(key)?;
            }
            Step::Key(key) => write!(f, "[{key:?}]")?,
            Step::Index(index) => write!(f, "[{index}]")?,
            Step::Where(keys) => {
                let keys: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
                write!(f, "[{}]", keys.join(","))?;
            }
        }
    }
    Ok(())
}

fn is_plain(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

/// Why a text is not a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("the path `{0}` is empty or has an empty key")]
    Empty(String),
    #[error("the path `{0}` has a bracket or a quote that is not closed")]
    Unclosed(String),
    #[error("the path `{0}` would hide a whole object")]
    WholeObject(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Any,
    Key(String),
    Index(usize),
    Where(Vec<(String, String)>),
}

/// A path with wildcards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    parts: Vec<Part>,
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// When it is empty, has an unclosed bracket, or is nothing but `*`.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let mut parts = Vec::new();
        let mut rest = text;
        let mut key_expected = true;
        while !rest.is_empty() {
            if let Some(inner) = rest.strip_prefix('[') {
                let (part, after) = bracket(inner).ok_or_else(|| PathError::Unclosed(text.into()))?;
                parts.push(part);
                rest = after;
                key_expected = false;
            } else if !key_expected && let Some(after) = rest.strip_prefix('.') {
                rest = after;
                key_expected = true;
                if rest.is_empty() {
                    return Err(PathError::Empty(text.into()));
                }
            } else {
                let end = rest.find(['.', '[']).unwrap_or(rest.len());
                let key = &rest[..end];
                if key.is_empty() {
                    return Err(PathError::Empty(text.into()));
                }
                parts.push(if key == "*" { Part::Any } else { Part::Key(key.into()) });
                rest = &rest[end..];
                key_expected = false;
            }
        }
        match parts.as_slice() {
            [] => Err(PathError::Empty(text.into())),
            [Part::Any] => Err(PathError::WholeObject(text.into())),
            _ => Ok(Self { parts }),
        }
    }

    /// Whether it names exactly this place.
    #[must_use]
    pub fn matches(&self, steps: &[Step], element: &Value) -> bool {
        self.parts.len() == steps.len()
            && self.parts.iter().zip(steps).enumerate().all(|(position, (part, step))| match (part, step) {
                (Part::Any, _) => true,
                (Part::Key(wanted), Step::Key(key)) => wanted == key,
                (Part::Index(wanted), Step::Index(index)) => wanted == index,
                // Only the last step can be looked at by its content; others were matched on the way down.
                (Part::Where(wanted), Step::Index(_)) if position + 1 == steps.len() => has_keys(element, wanted),
                (Part::Where(wanted), Step::Where(keys)) => wanted.iter().all(|pair| keys.contains(pair)),
                _ => false,
            })
    }

    /// Removes all that it names, and says what that was.
    pub fn remove_from(&self, value: &mut Value) -> Vec<Path> {
        let mut removed = Vec::new();
        remove(value, &self.parts, &mut Vec::new(), &mut removed);
        removed
    }
}

fn bracket(inner: &str) -> Option<(Part, &str)> {
    if let Some(quoted) = inner.strip_prefix('"') {
        let end = quoted.find("\"]")?;
        return Some((Part::Key(quoted[..end].into()), &quoted[end + 2..]));
    }
    let end = inner.find(']')?;
    let (content, after) = (&inner[..end], &inner[end + 1..]);
    let part = if content == "*" {
        Part::Any
    } else if let Ok(index) = content.parse() {
        Part::Index(index)
    } else if content.contains('=') {
        let pairs: Option<Vec<_>> = content.split(',').map(|pair| pair.split_once('=')).collect();
        Part::Where(pairs?.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
    } else {
        Part::Key(content.into())
    };
    Some((part, after))
}

fn has_keys(element: &Value, wanted: &[(String, String)]) -> bool {
    wanted.iter().all(|(key, value)| element.get(key).is_some_and(|found| scalar(found) == *value))
}

/// A scalar as it stands in a path.
#[must_use]
pub fn scalar(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn remove(value: &mut Value, parts: &[Part], at: &mut Vec<Step>, removed: &mut Vec<Path>) {
    let Some((part, rest)) = parts.split_first() else { return };
    match value {
        Value::Object(map) => {
            let keys: Vec<String> = match part {
                Part::Any => map.keys().cloned().collect(),
                Part::Key(key) if map.contains_key(key) => vec![key.clone()],
                _ => Vec::new(),
            };
            for key in keys {
                at.push(Step::Key(key.clone()));
                if rest.is_empty() {
                    map.remove(&key);
                    removed.push(Path(at.clone()));
                } else if let Some(child) = map.get_mut(&key) {
                    remove(child, rest, at, removed);
                }
                at.pop();
            }
        }
        Value::Array(list) => {
            let named = |index: usize, element: &Value| match part {
                Part::Any => true,
                Part::Index(wanted) => *wanted == index,
                Part::Where(wanted) => has_keys(element, wanted),
                Part::Key(_) => false,
            };
            let hits: Vec<usize> =
                list.iter().enumerate().filter(|(index, element)| named(*index, element)).map(|(i, _)| i).collect();
            for index in hits.into_iter().rev() {
                at.push(Step::Index(index));
                if rest.is_empty() {
                    list.remove(index);
                    removed.push(Path(at.clone()));
                } else {
                    remove(&mut list[index], rest, at, removed);
                }
                at.pop();
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn patterns_remove_what_they_name() {
        let before = json!({
            "metadata": {"annotations": {"a.b/c": "1", "keep": "2"}},
            "spec": {"containers": [{"name": "app", "image": "x", "tag": 1}, {"name": "side", "image": "y"}]},
            "status": {"a": {"time": 1}, "b": {"time": 2}},
        });
        for (pattern, pointer, paths) in [
            (
                r#"metadata.annotations["a.b/c"]"#,
                "/metadata/annotations/a.b~1c",
                vec![r#"metadata.annotations["a.b/c"]"#],
            ),
            ("status.*.time", "/status/a/time", vec!["status.a.time", "status.b.time"]),
            ("spec.containers[name=app].image", "/spec/containers/0/image", vec!["spec.containers[0].image"]),
            (
                "spec.containers[*].image",
                "/spec/containers/1/image",
                vec!["spec.containers[1].image", "spec.containers[0].image"],
            ),
            ("spec.containers[1]", "/spec/containers/1", vec!["spec.containers[1]"]),
            ("status", "/status", vec!["status"]),
        ] {
            let mut after = before.clone();
            let removed = Pattern::parse(pattern).unwrap().remove_from(&mut after);
            assert_eq!(removed.iter().map(ToString::to_string).collect::<Vec<_>>(), paths, "{pattern}");
            assert!(before.pointer(pointer).is_some() && after.pointer(pointer).is_none(), "{pattern}: {after}");
            assert_eq!(after.pointer("/metadata/annotations/keep"), Some(&json!("2")));
        }
    }

    #[test]
    fn a_pattern_that_names_nothing_removes_nothing() {
        let mut value = json!({"spec": {"list": [1]}});
        for pattern in ["spec.other", "spec.list.key", "spec.list[name=x]", "spec.list[4]", "other.*"] {
            assert!(Pattern::parse(pattern).unwrap().remove_from(&mut value).is_empty(), "{pattern}");
        }
        assert_eq!(value, json!({"spec": {"list": [1]}}));
    }

    #[test]
    fn bad_patterns_are_refused() {
        for pattern in ["", ".a", "a..b", "a.", "a[", "a[\"b", "*"] {
            assert!(Pattern::parse(pattern).is_err(), "{pattern}");
        }
    }
}
