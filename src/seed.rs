//! The one seed of a plan, and the sub-seeds that each part of it draws from.

use std::{fmt, str::FromStr};

use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Fixes every decision of a plan; it does not fix how an external process interleaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seed(pub u64);

impl Seed {
    /// The seed of a named part, independent of the order in which parts ask.
    #[must_use]
    pub fn derive(self, part: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update(self.0.to_be_bytes());
        hash.update(part.as_bytes());
        let digest = hash.finalize();
        let mut first = [0_u8; 8];
        first.copy_from_slice(&digest[..8]);
        Self(u64::from_be_bytes(first))
    }

    /// The generator that belongs to this seed.
    #[must_use]
    pub fn rng(self) -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(self.0)
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Seed {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_differ_and_repeat() {
        assert_eq!(Seed(1).derive("a"), Seed(1).derive("a"));
        assert_ne!(Seed(1).derive("a"), Seed(1).derive("b"));
        assert_ne!(Seed(1).derive("a"), Seed(2).derive("a"));
    }
}
