//! Exit codes, as `--help` documents them.

use std::process::ExitCode;

use crate::verdict::Outcome;

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Pass = 0,
    Fail = 1,
    Inconclusive = 2,
    /// What the harness needs is missing or broke: an operator that does not start, a port, a file.
    Environment = 3,
    /// Nothing was selected; running nothing is not success.
    Nothing = 4,
    /// A wrong argument or scenario file.
    Usage = 64,
    Interrupted = 130,
}

impl Exit {
    /// The exit of a judged scenario.
    #[must_use]
    pub fn of(outcome: Outcome, allow_inconclusive: bool) -> Self {
        match outcome {
            Outcome::Pass => Self::Pass,
            Outcome::Fail => Self::Fail,
            Outcome::Inconclusive if allow_inconclusive => Self::Pass,
            Outcome::Inconclusive => Self::Inconclusive,
        }
    }

    /// Of several scenarios, the one that the program reports: an interrupt above all, then a failure, then what
    /// could not be judged.
    #[must_use]
    pub fn worst(self, other: Self) -> Self {
        if other.rank() > self.rank() { other } else { self }
    }

    fn rank(self) -> u8 {
        match self {
            Self::Pass => 0,
            Self::Nothing => 1,
            Self::Inconclusive => 2,
            Self::Environment => 3,
            Self::Usage => 4,
            Self::Fail => 5,
            Self::Interrupted => 6,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fail_beats_inconclusive_beats_pass() {
        assert_eq!(Exit::Pass.worst(Exit::Inconclusive), Exit::Inconclusive);
        assert_eq!(Exit::Inconclusive.worst(Exit::Fail), Exit::Fail);
        assert_eq!(Exit::Fail.worst(Exit::Environment), Exit::Fail);
        assert_eq!(Exit::Fail.worst(Exit::Interrupted), Exit::Interrupted);
    }

    #[test]
    fn inconclusive_fails_a_gate_unless_allowed() {
        assert_eq!(Exit::of(Outcome::Inconclusive, false), Exit::Inconclusive);
        assert_eq!(Exit::of(Outcome::Inconclusive, true), Exit::Pass);
        assert_eq!(Exit::of(Outcome::Fail, true), Exit::Fail);
    }
}
