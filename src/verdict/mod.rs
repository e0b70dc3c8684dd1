//! Oracles judge recorded data; their judgements make the verdict.
