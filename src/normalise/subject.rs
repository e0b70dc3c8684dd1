//! The object that a rule works on: edits that keep account of what they hid.

use serde_json::Value;

use super::{
    canonical::{CanonicalKey, Hidden},
    path::{Step, write_steps},
};

/// What to do with one value inside an object.
#[derive(Debug, Clone, PartialEq)]
pub enum Edit {
    /// Leave it, and look at what it contains.
    Keep,
    /// Put this text in its place: its presence is compared, its value is not.
    Replace(String),
    Remove,
}

/// One object in the hands of one rule.
#[derive(Debug)]
pub struct Subject<'a> {
    pub object: &'a mut Value,
    pub key: &'a CanonicalKey,
    pub(super) rule: &'static str,
    pub(super) hidden: &'a mut Vec<Hidden>,
}

impl Subject<'_> {
    /// Whether it is an object of that group and kind.
    #[must_use]
    pub fn is(&self, group: &str, kind: &str) -> bool {
        self.key.group == group && self.key.kind == kind
    }

    /// Decides about every value in it, from the outside inwards.
    pub fn edit(&mut self, mut decide: impl FnMut(&[Step], &Value) -> Edit) {
        let mut hits = Vec::new();
        visit(self.object, &mut Vec::new(), &mut decide, &mut hits);
        for steps in hits {
            self.note(&steps);
        }
    }

    /// Removes the value under these keys, if there is one.
    pub fn remove(&mut self, keys: &[&str]) {
        self.at(keys, &Edit::Remove);
    }

    /// Puts `text` in place of the value under these keys, if there is one.
    pub fn mask(&mut self, keys: &[&str], text: &str) {
        self.at(keys, &Edit::Replace(text.to_owned()));
    }

    fn at(&mut self, keys: &[&str], edit: &Edit) {
        let Some((last, parents)) = keys.split_last() else { return };
        let parent = parents.iter().try_fold(&mut *self.object, |value, key| value.get_mut(*key));
        let Some(map) = parent.and_then(Value::as_object_mut) else { return };
        let Some(value) = map.get_mut(*last) else { return };
        match edit {
            Edit::Keep => return,
            Edit::Replace(text) => *value = Value::String(text.clone()),
            Edit::Remove => {
                map.remove(*last);
            }
        }
        let steps: Vec<Step> = keys.iter().map(|key| Step::Key((*key).to_owned())).collect();
        self.note(&steps);
    }

    fn note(&mut self, steps: &[Step]) {
        let mut path = String::new();
        // Writing to a String cannot fail.
        let _ = write_steps(&mut path, steps);
        self.hidden.push(Hidden { rule: self.rule.to_owned(), object: self.key.clone(), path });
    }
}

fn visit(
    value: &mut Value,
    at: &mut Vec<Step>,
    decide: &mut impl FnMut(&[Step], &Value) -> Edit,
    hits: &mut Vec<Vec<Step>>,
) {
    match value {
        Value::Object(map) => map.retain(|key, child| {
            at.push(Step::Key(key.clone()));
            let keep = visit_child(child, at, decide, hits);
            at.pop();
            keep
        }),
        Value::Array(list) => {
            let mut index = 0;
            list.retain_mut(|child| {
                at.push(Step::Index(index));
                index += 1;
                let keep = visit_child(child, at, decide, hits);
                at.pop();
                keep
            });
        }
        _ => {}
    }
}

/// Whether the child stays.
fn visit_child(
    child: &mut Value,
    at: &mut Vec<Step>,
    decide: &mut impl FnMut(&[Step], &Value) -> Edit,
    hits: &mut Vec<Vec<Step>>,
) -> bool {
    match decide(at, child) {
        Edit::Keep => {
            visit(child, at, decide, hits);
            true
        }
        Edit::Replace(text) => {
            let text = Value::String(text);
            if *child != text {
                *child = text;
                hits.push(at.clone());
            }
            true
        }
        Edit::Remove => {
            hits.push(at.clone());
            false
        }
    }
}

/// The last key of a path, skipping list positions.
#[must_use]
pub fn last_key(steps: &[Step]) -> &str {
    match steps.last() {
        Some(Step::Key(key)) => key,
        _ => "",
    }
}

/// Whether the path begins with this key.
#[must_use]
pub fn under(steps: &[Step], section: &str) -> bool {
    matches!(steps.first(), Some(Step::Key(key)) if key == section)
}
