//! Normalisation: from the objects of a snapshot to a state that can be compared.
//!
//! # Flow
//! Objects, a [`Comparison`] and a [`Ruleset`] go in; a [`Canonical`] comes out: objects under stable keys, with the
//! values that say nothing about convergence left out or replaced by a text such as `<time>`.
//!
//! # Guarantees
//! Pure: the same objects give the same canonical state. Everything that was left out is listed with the rule that
//! did it. *Across runs* random values are hidden and objects are known by owner and role; *within a run* almost
//! nothing is hidden, and objects are known by their names. Normalisation never learns which side is the reference.
//!
//! # Not done
//! Server defaults are not filled in: both sides come from a server that did so. `stringData` and `data` are not
//! merged, because a server never returns `stringData`.

mod canonical;
mod names;
pub mod path;
pub mod random;
pub mod rules;
mod ruleset;
mod subject;

pub use canonical::{Canonical, CanonicalKey, Hidden, leaves};
pub use names::Names;
pub use path::Step;
pub use rules::RULES;
pub use ruleset::{Comparison, Context, Effect, NormaliseError, Rule, Ruleset, Scope, canonicalise};
pub use subject::{Edit, Subject, last_key, under};
