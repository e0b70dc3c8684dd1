//! Requests for the tests of this stage.

use crate::{
    event::{Target, Verb},
    faults::Seen,
};

pub fn target(verb: Verb, resource: &str, name: &str) -> Target {
    Target {
        verb,
        group: String::new(),
        version: "v1".into(),
        resource: resource.into(),
        subresource: String::new(),
        namespace: "demo".into(),
        name: name.into(),
        path: String::new(),
    }
}

pub fn seen(verb: Verb, resource: &str, name: &str) -> Seen {
    Seen {
        target: target(verb, resource, name),
        user_agent: "operator/1.0".into(),
        content_type: "application/json".into(),
        precondition: String::new(),
        creates: false,
        dry_run: false,
        ordinal: 1,
        at_ms: 5,
    }
}
