//! The injected source of randomness: uids, generated names, tokens and jitter, all from one seed.

use std::sync::{Arc, Mutex, PoisonError};

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Alphabet of generated name suffixes: no vowels and no look-alikes, as API servers use.
const SUFFIX_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// A seeded random source that may be shared between threads.
#[derive(Debug, Clone)]
pub struct Entropy(Arc<Mutex<ChaCha8Rng>>);

impl Entropy {
    /// The source that belongs to `seed`.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(ChaCha8Rng::seed_from_u64(seed))))
    }

    /// A source of its own with the same state, for a forked cluster.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self(Arc::new(Mutex::new(self.lock().clone())))
    }

    /// 64 random bits.
    pub fn next_u64(&self) -> u64 {
        self.lock().next_u64()
    }

    /// A number in `0..bound` (0 when `bound` is 0).
    pub fn below(&self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next_u64() % bound }
    }

    /// Fills `out` with random bytes.
    pub fn fill(&self, out: &mut [u8]) {
        self.lock().fill_bytes(out);
    }

    /// A version 4 UUID in its usual spelling.
    #[must_use]
    pub fn uuid(&self) -> String {
        let mut b = [0_u8; 16];
        self.fill(&mut b);
        b[6] = (b[6] & 0x0f) | 0x40;
        b[8] = (b[8] & 0x3f) | 0x80;
        let hex: String = b.iter().map(|x| format!("{x:02x}")).collect();
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    /// A suffix of `length` characters for `generateName`.
    #[must_use]
    pub fn suffix(&self, length: usize) -> String {
        (0..length)
            .map(|_| {
                let i = self.below(SUFFIX_ALPHABET.len() as u64) as usize;
                char::from(SUFFIX_ALPHABET[i])
            })
            .collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ChaCha8Rng> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
