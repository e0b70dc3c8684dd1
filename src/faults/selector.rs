//! Which requests a fault concerns.
//!
//! # Guarantees
//! Leases, events, reviews, discovery and health are left alone unless the scenario says `includeBackground`; one slow
//! lease renewal kills many operators and would turn every delay into a crash. Matching looks at the request only.

use crate::{
    event::{self, Target},
    scenario::format::Selector,
};

/// The verbs that a selector without `verbs` stands for; each rule has its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultVerbs {
    All,
    /// Create, update, patch, delete, deletecollection.
    Writes,
}

/// Whether a request for `target` by `user_agent` is one of those that the selector names.
#[must_use]
pub fn matches(selector: &Selector, default_verbs: DefaultVerbs, target: &Target, user_agent: &str) -> bool {
    let verb = if selector.verbs.is_empty() {
        default_verbs == DefaultVerbs::All || target.verb.is_mutating()
    } else {
        selector.verbs.contains(&target.verb)
    };
    let subresource = selector.subresources.as_ref().is_none_or(|list| list.contains(&target.subresource));
    let agent = selector.user_agent.as_ref().is_none_or(|part| user_agent.contains(part.as_str()));
    verb && subresource
        && agent
        && (selector.include_background || !event::is_background(target))
        && any(&selector.api_groups, &target.group)
        && any(&selector.resources, &target.resource)
        && any(&selector.namespaces, &target.namespace)
        && any(&selector.names, &target.name)
}

fn any(allowed: &[String], value: &str) -> bool {
    allowed.is_empty() || allowed.iter().any(|one| one == value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{event::Verb, faults::fixture::target};

    fn selector(edit: impl FnOnce(&mut Selector)) -> Selector {
        let mut selector = Selector::default();
        edit(&mut selector);
        selector
    }

    fn hits(selector: &Selector, verbs: DefaultVerbs, verb: Verb, resource: &str) -> bool {
        matches(selector, verbs, &target(verb, resource, "a"), "kopf/1.0")
    }

    #[test]
    fn background_is_left_alone_unless_named() {
        let lease = Target { group: "coordination.k8s.io".into(), ..target(Verb::Update, "leases", "l") };
        assert!(!matches(&Selector::default(), DefaultVerbs::All, &lease, ""));
        assert!(matches(&selector(|s| s.include_background = true), DefaultVerbs::All, &lease, ""));
        assert!(!hits(&Selector::default(), DefaultVerbs::All, Verb::Create, "events"));
    }

    #[test]
    fn default_verbs_are_the_rules_own() {
        let any = Selector::default();
        assert!(hits(&any, DefaultVerbs::All, Verb::List, "pods"));
        assert!(!hits(&any, DefaultVerbs::Writes, Verb::List, "pods"));
        let lists = selector(|s| s.verbs = vec![Verb::List]);
        assert!(hits(&lists, DefaultVerbs::Writes, Verb::List, "pods"));
        assert!(!hits(&lists, DefaultVerbs::Writes, Verb::Create, "pods"));
    }

    #[test]
    fn each_list_narrows() {
        for (matching, other) in [
            (selector(|s| s.resources = vec!["pods".into()]), selector(|s| s.resources = vec!["nodes".into()])),
            (selector(|s| s.names = vec!["a".into()]), selector(|s| s.names = vec!["b".into()])),
            (selector(|s| s.namespaces = vec!["demo".into()]), selector(|s| s.namespaces = vec!["x".into()])),
            (selector(|s| s.api_groups = vec![String::new()]), selector(|s| s.api_groups = vec!["apps".into()])),
            (
                selector(|s| s.subresources = Some(vec![String::new()])),
                selector(|s| s.subresources = Some(vec!["status".into()])),
            ),
            (selector(|s| s.user_agent = Some("kopf".into())), selector(|s| s.user_agent = Some("helm".into()))),
        ] {
            assert!(hits(&matching, DefaultVerbs::All, Verb::Get, "pods"), "{matching:?}");
            assert!(!hits(&other, DefaultVerbs::All, Verb::Get, "pods"), "{other:?}");
        }
    }
}
