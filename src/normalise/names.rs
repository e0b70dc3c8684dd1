//! What objects are called across runs: by owner and role instead of by a generated name.
//!
//! # Guarantees
//! A name is derived from the object, its controller and its labels alone, so that the same role gets the same name
//! in every run. Objects that share a role are told apart by [`CanonicalKey::ordinal`](super::CanonicalKey).

use std::collections::BTreeMap;

use serde_json::Value;

use super::random::mask_name;
use crate::object::{ObjectKey, metadata, owner_references};

/// Owners are followed this far; deeper chains do not occur, and cycles must end.
const DEPTH: usize = 8;

/// The stable names of all objects of a snapshot, and the texts that must be put in their places.
#[derive(Debug, Default)]
pub struct Names {
    canonical: BTreeMap<ObjectKey, String>,
    uids: BTreeMap<String, String>,
    /// Longest first, so that a name is not replaced inside a longer one.
    names: Vec<(String, String)>,
    addresses: Vec<(String, String)>,
}

impl Names {
    /// Names all objects by role.
    #[must_use]
    pub fn by_role(objects: &BTreeMap<ObjectKey, &Value>) -> Self {
        let by_uid: BTreeMap<&str, &Value> = objects
            .values()
            .map(|object| (metadata(object, "uid"), *object))
            .filter(|(uid, _)| !uid.is_empty())
            .collect();
        let mut names = Self::default();
        for (key, object) in objects {
            let role = role_name(object, &by_uid, DEPTH);
            let shown = ObjectKey { name: role.clone(), ..key.clone() };
            if role != key.name {
                names.names.push((key.name.clone(), role.clone()));
            }
            let uid = metadata(object, "uid");
            if !uid.is_empty() {
                names.uids.insert(uid.to_owned(), format!("<uid of {shown}>"));
            }
            for address in addresses(object) {
                names.addresses.push((address.to_owned(), format!("<address of {shown}>")));
            }
            names.canonical.insert(key.clone(), role);
        }
        longest_first(&mut names.names);
        longest_first(&mut names.addresses);
        names
    }

    /// The name to compare under.
    #[must_use]
    pub fn of<'a>(&'a self, key: &'a ObjectKey) -> &'a str {
        self.canonical.get(key).map_or(&key.name, String::as_str)
    }

    /// What an owner's UID is expressed as.
    #[must_use]
    pub fn uid(&self, uid: &str) -> &str {
        self.uids.get(uid).map_or("<uid of an object that is gone>", String::as_str)
    }

    /// The text with generated names and UIDs replaced, if there were any.
    #[must_use]
    pub fn replace_names(&self, text: &str) -> Option<String> {
        let replaced = replace_words(text, &self.names);
        let after_names = replaced.as_deref().unwrap_or(text);
        // UIDs have 36 characters; looking them up one by one costs nothing where none can be.
        let uids = (after_names.len() >= 36).then(|| self.replace_uids(after_names)).flatten();
        uids.or(replaced)
    }

    /// The text with addresses of Pods and Services replaced, if there were any.
    #[must_use]
    pub fn replace_addresses(&self, text: &str) -> Option<String> {
        replace_words(text, &self.addresses)
    }

    fn replace_uids(&self, text: &str) -> Option<String> {
        let mut replaced = String::new();
        let mut changed = false;
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let named = (rest.is_char_boundary(36) && rest.len() >= 36).then(|| self.uids.get(&rest[..36])).flatten();
            if let Some(name) = named {
                replaced.push_str(name);
                rest = &rest[36..];
                changed = true;
            } else {
                replaced.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
        changed.then_some(replaced)
    }
}

fn longest_first(words: &mut Vec<(String, String)>) {
    words.sort_by(|a, b| b.0.len().cmp(&a.0.len()).then_with(|| a.cmp(b)));
    words.dedup();
}

fn addresses(object: &Value) -> Vec<&str> {
    let list = |pointer: &str| object.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    let mut found: Vec<&str> = match object.get("kind").and_then(Value::as_str) {
        Some("Service") => {
            list("/spec/clusterIPs").chain(object.pointer("/spec/clusterIP")).filter_map(Value::as_str).collect()
        }
        Some("Pod") => list("/status/podIPs")
            .filter_map(|entry| entry.get("ip"))
            .chain(object.pointer("/status/podIP"))
            .filter_map(Value::as_str)
            .collect(),
        _ => Vec::new(),
    };
    found.retain(|address| super::random::is_address(address));
    found
}

/// Replaces whole words: an occurrence counts only where no letter or digit touches it.
fn replace_words(text: &str, words: &[(String, String)]) -> Option<String> {
    let mut current: Option<String> = None;
    for (word, with) in words {
        let source = current.as_deref().unwrap_or(text);
        if word.len() <= source.len() && source.contains(word.as_str()) {
            let replaced = replace_word(source, word, with);
            if replaced != source {
                current = Some(replaced);
            }
        }
    }
    current
}

fn replace_word(text: &str, word: &str, with: &str) -> String {
    let mut replaced = String::with_capacity(text.len());
    let mut from = 0;
    while let Some(found) = text[from..].find(word) {
        let (start, end) = (from + found, from + found + word.len());
        let touches = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        let free = !touches(text[..start].chars().next_back()) && !touches(text[end..].chars().next());
        replaced.push_str(&text[from..start]);
        replaced.push_str(if free { with } else { word });
        from = end;
    }
    replaced.push_str(&text[from..]);
    replaced
}

fn role_name(object: &Value, by_uid: &BTreeMap<&str, &Value>, depth: usize) -> String {
    let name = metadata(object, "name");
    if object.get("kind").and_then(Value::as_str) == Some("PersistentVolume")
        && let Some(claim) = object.pointer("/spec/claimRef")
    {
        let part = |field: &str| claim.get(field).and_then(Value::as_str).unwrap_or_default();
        return format!("<volume of {}/{}>", part("namespace"), part("name"));
    }
    let generate = metadata(object, "generateName");
    let (stem, tail) = match name.strip_prefix(generate) {
        Some(_) if !generate.is_empty() => (generate, "<random>"),
        _ => (name, ""),
    };
    let owner = controller(object, by_uid).filter(|_| depth > 0);
    let inherited = owner.and_then(|owner| {
        let actual = metadata(owner, "name");
        let rest = stem.strip_prefix(actual)?;
        Some((role_name(owner, by_uid, depth - 1), rest.to_owned()))
    });
    let (prefix, rest) = inherited.unwrap_or_else(|| (String::new(), stem.to_owned()));
    let rest = without_hash(object, &rest);
    if prefix.is_empty() {
        format!("{}{tail}", mask_name(&rest))
    } else {
        // The separator shields the first part, which is generated here, from being taken for a chosen one.
        format!("{prefix}{}{tail}", mask_name(&format!("/{rest}")).trim_start_matches('/'))
    }
}

fn controller<'a>(object: &Value, by_uid: &BTreeMap<&str, &'a Value>) -> Option<&'a Value> {
    let owners = owner_references(object);
    let controller =
        owners.iter().find(|owner| owner.get("controller") == Some(&Value::Bool(true))).or(owners.first())?;
    by_uid.get(controller.get("uid")?.as_str()?).copied()
}

/// The name without the template hash that stands in the object's labels.
fn without_hash(object: &Value, name: &str) -> String {
    let labels = object.pointer("/metadata/labels");
    let hash = ["pod-template-hash", "controller-revision-hash"]
        .iter()
        .find_map(|label| labels?.get(*label)?.as_str())
        .filter(|hash| !hash.is_empty());
    hash.map_or_else(|| name.to_owned(), |hash| replace_word(name, hash, "<hash>"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(kind: &str, name: &str, uid: &str, more: Value) -> Value {
        let mut object =
            json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "n", "uid": uid}});
        json_patch::merge(&mut object, &more);
        object
    }

    fn owned(kind: &str, name: &str, uid: &str) -> Value {
        json!([{"kind": kind, "name": name, "uid": uid, "controller": true}])
    }

    #[test]
    fn children_are_named_after_their_owners() {
        let objects = [
            object("Deployment", "web", "u1", json!({})),
            object(
                "ReplicaSet",
                "web-7c9d8f6b5",
                "u2",
                json!({"metadata": {"labels": {"pod-template-hash": "7c9d8f6b5"}, "ownerReferences": owned("Deployment", "web", "u1")}}),
            ),
            object(
                "Pod",
                "web-7c9d8f6b5-zzzzz",
                "u3",
                json!({"metadata": {"generateName": "web-7c9d8f6b5-", "labels": {"pod-template-hash": "7c9d8f6b5"},
                       "ownerReferences": owned("ReplicaSet", "web-7c9d8f6b5", "u2")}}),
            ),
            object(
                "PersistentVolume",
                "pvc-1",
                "u4",
                json!({"spec": {"claimRef": {"namespace": "n", "name": "data"}}}),
            ),
        ];
        let by_key: BTreeMap<_, _> = objects.iter().map(|o| (ObjectKey::of(o).unwrap(), o)).collect();
        let names = Names::by_role(&by_key);
        let found: Vec<&str> = objects
            .iter()
            .map(|o| metadata(o, "name"))
            .map(|n| names.of(by_key.keys().find(|key| key.name == n).unwrap()))
            .collect();
        assert_eq!(found, ["web", "web-<hash>", "web-<hash>-<random>", "<volume of n/data>"]);
        assert_eq!(
            names.replace_names("pod web-7c9d8f6b5-zzzzz of web-7c9d8f6b5, not web-7c9d8f6b5x").as_deref(),
            Some("pod web-<hash>-<random> of web-<hash>, not web-7c9d8f6b5x"),
        );
        assert_eq!(names.uid("u1"), "<uid of Deployment n/web>");
        assert_eq!(names.replace_names("web"), None);
    }
}
