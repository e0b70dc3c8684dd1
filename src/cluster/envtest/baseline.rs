//! What a control plane has stored when nobody has used it yet, and the way back to that.

use std::collections::{BTreeMap, BTreeSet};

use super::etcd::Keys;

/// Keys that programs of the control plane keep writing about themselves; nobody else's business.
const MOVING: [&str; 2] = ["/registry/leases/kube-system/apiserver-", "/registry/masterleases/"];
/// Traces of earlier actions: never part of a baseline.
const TRACES: &str = "/registry/events/";

/// Keys with their values, as they were after the start.
#[derive(Debug, Default)]
pub(super) struct Baseline(Keys);

/// What has to be done to be back at the baseline.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Difference {
    pub delete: Vec<String>,
    pub restore: Vec<(String, Vec<u8>)>,
}

impl Difference {
    pub(super) fn is_empty(&self) -> bool {
        self.delete.is_empty() && self.restore.is_empty()
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.delete.iter().map(String::as_str).chain(self.restore.iter().map(|(key, _)| key.as_str()))
    }

    /// Some of the keys, for messages.
    pub(super) fn in_words(&self) -> String {
        let all: Vec<&str> = self.keys().collect();
        let more = all.len().saturating_sub(5);
        let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{}{tail}", all[..all.len() - more].join(", "))
    }
}

impl Baseline {
    pub(super) fn new(stored: Keys) -> Self {
        Self(stored.into_iter().filter(|(key, _)| !is_moving(key) && !key.starts_with(TRACES)).collect())
    }

    /// What is there now compared with what was; keys are compared by the revision of their last change.
    pub(super) fn difference(&self, now: &Keys) -> Difference {
        let extra = now.keys().filter(|key| !is_moving(key) && !self.0.contains_key(*key));
        let other = self.0.iter().filter(|(key, was)| now.get(*key).is_none_or(|is| is.revision != was.revision));
        Difference {
            delete: extra.cloned().collect(),
            restore: other.map(|(key, was)| (key.clone(), was.value.clone())).collect(),
        }
    }

    /// Notes that the keys were restored with that revision.
    pub(super) fn restored(&mut self, difference: &Difference, revision: i64) {
        for (key, _) in &difference.restore {
            if let Some(stored) = self.0.get_mut(key) {
                stored.revision = revision;
            }
        }
    }

    /// How many keys there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

fn is_moving(key: &str) -> bool {
    MOVING.iter().any(|prefix| key.starts_with(prefix))
}

/// Revisions by key, without what never rests; two equal ones say that nobody wrote in between.
pub(super) fn fingerprint(now: &Keys) -> BTreeMap<&str, i64> {
    now.iter().filter(|(key, _)| !is_moving(key)).map(|(key, is)| (key.as_str(), is.revision)).collect()
}

/// The storage folders that a difference touches, such as `pods`, `services/specs` or `example.com/widgets`.
pub(super) fn folders(difference: &Difference) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for key in difference.keys() {
        let mut parts = key.trim_start_matches("/registry/").split('/');
        let first = parts.next().unwrap_or_default();
        let nested = first.contains('.') || first == "services" || first == "ranges";
        found.insert(if nested { format!("{first}/{}", parts.next().unwrap_or_default()) } else { first.to_owned() });
    }
    found
}

/// The API groups of the CRDs that a difference deletes.
pub(super) fn groups_of_definitions(difference: &Difference) -> BTreeSet<String> {
    let names = difference
        .delete
        .iter()
        .filter_map(|key| key.strip_prefix("/registry/apiextensions.k8s.io/customresourcedefinitions/"));
    names.filter_map(|name| name.split_once('.')).map(|(_, group)| group.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::{super::etcd::Stored, *};

    fn keys(all: &[(&str, i64, &str)]) -> Keys {
        let stored = |revision, value: &str| Stored { revision, value: value.into() };
        all.iter().map(|(key, revision, value)| ((*key).to_owned(), stored(*revision, value))).collect()
    }

    #[test]
    fn the_way_back_deletes_what_is_new_and_restores_what_changed_or_went() {
        let mut baseline = Baseline::new(keys(&[
            ("/registry/pods/a/same", 1, "same"),
            ("/registry/pods/a/changed", 2, "before"),
            ("/registry/pods/a/gone", 3, "gone"),
            ("/registry/events/a/e", 4, "e"),
            ("/registry/leases/kube-system/apiserver-x", 5, "l"),
        ]));
        assert_eq!(baseline.len(), 3);
        let now = keys(&[
            ("/registry/pods/a/same", 1, ""),
            ("/registry/pods/a/changed", 9, ""),
            ("/registry/pods/a/new", 10, ""),
            ("/registry/events/a/e", 4, ""),
            ("/registry/leases/kube-system/apiserver-x", 11, ""),
        ]);
        let difference = baseline.difference(&now);
        assert_eq!(difference.delete, ["/registry/events/a/e", "/registry/pods/a/new"]);
        let restored: Vec<(&str, &[u8])> =
            difference.restore.iter().map(|(key, value)| (key.as_str(), value.as_slice())).collect();
        assert_eq!(
            restored,
            [("/registry/pods/a/changed", b"before".as_slice()), ("/registry/pods/a/gone", b"gone".as_slice())]
        );
        baseline.restored(&difference, 20);
        let after = keys(&[
            ("/registry/pods/a/same", 1, ""),
            ("/registry/pods/a/changed", 20, ""),
            ("/registry/pods/a/gone", 20, ""),
        ]);
        assert!(baseline.difference(&after).is_empty());
    }

    #[test]
    fn a_difference_names_what_it_touches() {
        let difference = Difference {
            delete: vec![
                "/registry/apiextensions.k8s.io/customresourcedefinitions/widgets.example.com".into(),
                "/registry/example.com/widgets/a/w".into(),
                "/registry/services/specs/a/s".into(),
            ],
            restore: vec![("/registry/ranges/servicenodeports".into(), Vec::new())],
        };
        let found: Vec<String> = folders(&difference).into_iter().collect();
        assert_eq!(
            found,
            [
                "apiextensions.k8s.io/customresourcedefinitions",
                "example.com/widgets",
                "ranges/servicenodeports",
                "services/specs"
            ]
        );
        assert_eq!(groups_of_definitions(&difference).into_iter().collect::<Vec<_>>(), ["example.com"]);
    }
}
