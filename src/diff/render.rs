//! A delta for people: one block per object, one hunk per place, as unified diffs look.

use std::fmt::Write as _;

use owo_colors::{OwoColorize as _, Style};
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use super::delta::{Changed, Delta, Lone};
use crate::normalise::CanonicalKey;

/// Lines of one object that only one side has; the rest is counted.
const OBJECT_LINES: usize = 16;
/// Lines around a change in a long text.
const CONTEXT: usize = 2;

/// Writes the delta: `-` is the reference, `+` this run.
#[must_use]
pub fn render(delta: &Delta, color: bool) -> String {
    let mut page = Page { text: String::new(), color };
    for lone in &delta.missing {
        page.lone(lone, '-', "missing: the reference has it, this run has not");
    }
    for lone in &delta.extra {
        page.lone(lone, '+', "extra: this run has it, the reference has not");
    }
    let mut last: Option<&CanonicalKey> = None;
    for change in &delta.changed {
        if last != Some(&change.object) {
            page.line(Style::new().bold(), &format!("--- reference  {}", change.object));
            page.line(Style::new().bold(), &format!("+++ this run   {}", change.object));
            last = Some(&change.object);
        }
        page.change(change);
    }
    page.text
}

/// A value in a few words, for sentences.
#[must_use]
pub fn short(value: Option<&Value>) -> String {
    const LONGEST: usize = 32;
    let text = match value {
        None | Some(Value::Null) => return "nothing".into(),
        Some(Value::String(text)) => format!("`{}`", text.lines().next().unwrap_or_default()),
        Some(Value::Array(list)) => format!("{} entries", list.len()),
        Some(Value::Object(map)) => format!("{} fields", map.len()),
        Some(other) => other.to_string(),
    };
    if text.chars().count() <= LONGEST {
        return text;
    }
    let cut: String = text.chars().take(LONGEST - 2).collect();
    format!("{cut}…`")
}

struct Page {
    text: String,
    color: bool,
}

impl Page {
    fn line(&mut self, style: Style, line: &str) {
        // Writing to a String cannot fail.
        let _ = if self.color { writeln!(self.text, "{}", line.style(style)) } else { writeln!(self.text, "{line}") };
    }

    fn signed(&mut self, sign: char, line: &str) {
        let style = match sign {
            '-' => Style::new().red(),
            '+' => Style::new().green(),
            _ => Style::new(),
        };
        self.line(style, format!("{sign}{line}").trim_end());
    }

    fn lone(&mut self, lone: &Lone, sign: char, what: &str) {
        self.line(Style::new().bold(), &format!("{} is {what}", lone.object));
        let text = yaml(&lone.value);
        let lines: Vec<&str> = text.lines().collect();
        for line in lines.iter().take(OBJECT_LINES) {
            self.signed(sign, &format!(" {line}"));
        }
        if lines.len() > OBJECT_LINES {
            self.line(Style::new().dimmed(), &format!("  … and {} lines more", lines.len() - OBJECT_LINES));
        }
    }

    fn change(&mut self, change: &Changed) {
        self.line(Style::new().cyan(), &format!("@@ {} @@", change.path));
        let text = |value: &Option<Value>| value.as_ref().map(yaml).unwrap_or_default();
        let (before, after) = (text(&change.before), text(&change.after));
        let diff = TextDiff::from_lines(before.as_str(), after.as_str());
        for (position, group) in diff.grouped_ops(CONTEXT).iter().enumerate() {
            if position > 0 {
                self.line(Style::new().dimmed(), " …");
            }
            for op in group {
                for piece in diff.iter_changes(op) {
                    let sign = match piece.tag() {
                        ChangeTag::Delete => '-',
                        ChangeTag::Insert => '+',
                        ChangeTag::Equal => ' ',
                    };
                    self.signed(sign, piece.value().trim_end_matches('\n'));
                }
            }
        }
    }
}

/// Plain YAML, with texts of several lines as such.
fn yaml(value: &Value) -> String {
    let mut text = String::new();
    block(value, 0, &mut text);
    text
}

fn block(value: &Value, indent: usize, text: &mut String) {
    let pad = "  ".repeat(indent);
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, child) in map {
                let _ = write!(text, "{pad}{key}:");
                nested(child, indent, text);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            for child in list {
                let mut inner = String::new();
                block(child, indent + 1, &mut inner);
                // The dash takes the place of the first element's indentation.
                let _ = write!(text, "{pad}- {}", inner.trim_start());
            }
        }
        Value::String(lines) if lines.contains('\n') => {
            for line in lines.lines() {
                let _ = writeln!(text, "{pad}{line}");
            }
        }
        other => {
            let _ = writeln!(text, "{pad}{}", plain(other));
        }
    }
}

fn nested(child: &Value, indent: usize, text: &mut String) {
    let holds = match child {
        Value::Object(map) => !map.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::String(lines) => lines.contains('\n'),
        _ => false,
    };
    if holds {
        text.push_str(if child.is_string() { " |\n" } else { "\n" });
        block(child, indent + 1, text);
    } else {
        let _ = writeln!(text, " {}", plain(child));
    }
}

/// A scalar; quoted only where it would be read as something else.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => {
            let ambiguous = text.is_empty()
                || text.parse::<f64>().is_ok()
                || matches!(text.as_str(), "true" | "false" | "null" | "yes" | "no")
                || text.trim() != text;
            if ambiguous { Value::from(text.as_str()).to_string() } else { text.clone() }
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(kind: &str, name: &str) -> CanonicalKey {
        CanonicalKey { group: String::new(), kind: kind.into(), namespace: "n".into(), name: name.into(), ordinal: 0 }
    }

    #[test]
    fn reads_like_a_unified_diff() {
        let config = |size: &str| json!(format!("a=1\nb=2\nc=3\nsize={size}\nd=4\ne=5\nf=6\n"));
        let delta = Delta {
            missing: vec![Lone {
                object: key("Service", "web"),
                value: json!({"kind": "Service", "spec": {"ports": [{"port": 80}]}}),
            }],
            extra: vec![],
            changed: vec![
                Changed {
                    object: key("Deployment", "web"),
                    path: "spec.replicas".into(),
                    before: Some(json!(3)),
                    after: Some(json!(2)),
                },
                Changed {
                    object: key("ConfigMap", "web"),
                    path: "data.conf".into(),
                    before: Some(config("1")),
                    after: Some(config("2")),
                },
                Changed {
                    object: key("ConfigMap", "web"),
                    path: "data.new".into(),
                    before: None,
                    after: Some(json!("3")),
                },
            ],
        };
        let expected = "\
Service n/web is missing: the reference has it, this run has not
- kind: Service
- spec:
-   ports:
-     - port: 80
--- reference  Deployment n/web
+++ this run   Deployment n/web
@@ spec.replicas @@
-3
+2
--- reference  ConfigMap n/web
+++ this run   ConfigMap n/web
@@ data.conf @@
 b=2
 c=3
-size=1
+size=2
 d=4
 e=5
@@ data.new @@
+\"3\"
";
        assert_eq!(render(&delta, false), expected);
        let coloured = render(&delta, true);
        assert!(coloured.contains("\u{1b}[31m-3"), "{coloured}");
    }

    #[test]
    fn sentences_get_short_values() {
        for (value, text) in [
            (None, "nothing"),
            (Some(json!("Running")), "`Running`"),
            (Some(json!(3)), "3"),
            (Some(json!([1, 2])), "2 entries"),
            (Some(json!("a".repeat(50))), "`aaaaaaaaaaaaaaaaaaaaaaaaaaaaa…`"),
        ] {
            assert_eq!(short(value.as_ref()), text);
        }
    }
}
