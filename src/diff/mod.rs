//! The semantic difference of two canonical states.
//!
//! # Flow
//! Two canonical states and a mask go in; a [`Delta`] comes out: objects that are missing or extra, and values that
//! changed. [`learn`] makes the mask from fault-free runs; [`render`] shows a delta to people.
//!
//! # Guarantees
//! Pure and ordered: sets of objects first, then desired fields, then status. Elements of lists are paired by their
//! keys (`name`, `containerPort` and `protocol`, `type`, ...), so that one more container is one change.

mod compare;
mod delta;
mod mask;
mod render;

pub use compare::compare;
pub use delta::{Changed, Delta, Lone};
pub use mask::{Learned, Mask, MaskEntry, Unstable, learn};
pub use render::{render, short};
