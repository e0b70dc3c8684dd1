//! One thing that an oracle found, with its evidence.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::object::ObjectKey;

/// Longest sentence: what test dashboards show without cutting it.
const SENTENCE: usize = 140;

/// What kind of bug it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Classification {
    /// The final state is another one.
    ConvergenceDiff,
    /// Writes, or changes, although nothing is left to do.
    NotIdempotent,
    SlowRecovery,
    /// The operator exits by itself.
    CrashLoop,
    /// A deleted object does not go.
    StuckDeletion,
    BypassedProxy,
    /// It does nothing any more.
    Unresponsive,
    /// Something is left that nobody will delete.
    Orphan,
}

impl Classification {
    /// As it stands in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ConvergenceDiff => "convergence-diff",
            Self::NotIdempotent => "not-idempotent",
            Self::SlowRecovery => "slow-recovery",
            Self::CrashLoop => "crash-loop",
            Self::StuckDeletion => "stuck-deletion",
            Self::BypassedProxy => "bypassed-proxy",
            Self::Unresponsive => "unresponsive",
            Self::Orphan => "orphan",
        }
    }
}

impl fmt::Display for Classification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What an oracle found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Id of the oracle.
    pub oracle: String,
    pub classification: Classification,
    pub object: Option<ObjectKey>,
    /// One sentence of at most 140 characters.
    pub sentence: String,
    /// A diff or a list of requests, of several lines.
    pub detail: String,
    /// `seq` of the requests that it rests on.
    pub evidence: Vec<u64>,
    /// Why a real cluster may do what was done to the operator.
    pub legal_because: Option<String>,
}

impl Finding {
    /// A finding without object and evidence yet. `cause` says after what it happened; it is left out where the
    /// sentence would become too long.
    #[must_use]
    pub fn new(oracle: &str, classification: Classification, what: &str, cause: &Cause) -> Self {
        Self {
            oracle: oracle.to_owned(),
            classification,
            object: None,
            sentence: sentence(what, cause),
            detail: String::new(),
            evidence: Vec::new(),
            legal_because: cause.legal_because.clone(),
        }
    }

    #[must_use]
    pub fn about(mut self, object: Option<ObjectKey>) -> Self {
        self.object = object;
        self
    }

    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    #[must_use]
    pub fn with_evidence(mut self, evidence: Vec<u64>) -> Self {
        self.evidence = evidence;
        self
    }
}

/// What was done to the operator, in words of decreasing length.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cause {
    /// Such as `after 409 on update deployments.apps default/web`; then `after conflict`.
    pub phrases: Vec<String>,
    pub legal_because: Option<String>,
}

fn sentence(what: &str, cause: &Cause) -> String {
    let one_line = what.split_whitespace().collect::<Vec<_>>().join(" ");
    let full = cause.phrases.iter().map(|phrase| format!("{one_line}, {phrase}"));
    let fits = |text: &String| text.chars().count() <= SENTENCE;
    full.clone().find(fits).unwrap_or_else(|| {
        if fits(&one_line) {
            return one_line.clone();
        }
        let cut: String = one_line.chars().take(SENTENCE - 1).collect();
        format!("{cut}…")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_fit_and_keep_what_matters() {
        let cause = Cause {
            phrases: vec![format!("after 409 on update {}", "x".repeat(80)), "after conflict".into()],
            legal_because: None,
        };
        for (what, sentence) in [
            ("short".to_owned(), format!("short, after 409 on update {}", "x".repeat(80))),
            ("w".repeat(100), format!("{}, after conflict", "w".repeat(100))),
            ("w".repeat(139), "w".repeat(139)),
            ("w".repeat(200), format!("{}…", "w".repeat(139))),
            ("two\nlines".to_owned(), format!("two lines, after 409 on update {}", "x".repeat(80))),
        ] {
            assert_eq!(Finding::new("o", Classification::Orphan, &what, &cause).sentence, sentence);
        }
    }
}
