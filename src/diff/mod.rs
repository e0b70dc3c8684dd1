//! The semantic difference of two canonical states.
