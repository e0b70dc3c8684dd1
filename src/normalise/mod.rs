//! Normalisation: from a snapshot to its canonical form, by rules with ids and reasons.
