//! What oracles and normalisation rules are about, by id.

use crate::{
    normalise::{RULES, Scope},
    verdict::ORACLES,
};

/// Ids and titles of all that can be explained, oracles first.
#[must_use]
pub fn topics() -> Vec<(&'static str, &'static str)> {
    let oracles = ORACLES.iter().map(|oracle| (oracle.id(), oracle.title()));
    oracles.chain(RULES.iter().map(|rule| (rule.id, rule.reason))).collect()
}

/// The explanation of one oracle or rule.
#[must_use]
pub fn topic(id: &str) -> Option<String> {
    if let Some(oracle) = ORACLES.iter().find(|oracle| oracle.id() == id) {
        return Some(format!(
            "oracle {id}\nholds when {}\n\n{}\n\nTo leave it out: skipOracles: [{{id: {id}, reason: ...}}]\n",
            oracle.title(),
            oracle.explain()
        ));
    }
    let rule = RULES.iter().find(|rule| rule.id == id)?;
    let scope = match rule.scope {
        Scope::AcrossRuns => "only when two runs are compared",
        Scope::Both => "when two runs are compared, and within a run",
    };
    Some(format!(
        "normalisation rule {id}\nhides {scope}\n\n{}\n\nTo compare it all the same: normalise: {{disable: [{id}]}}\n",
        rule.reason
    ))
}
