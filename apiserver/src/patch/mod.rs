//! The patch formats other than apply: JSON patch, JSON merge patch, strategic merge patch.
//!
//! In: the current object, the patch, and for the strategic form the type. Out: the patched object, not defaulted nor
//! validated. Guaranteed: pure; the outcome, and the status code of a refusal, are the real server's. Deliberately not
//! done: decoding and field validation, which follow for every format alike.

mod json;
mod merge;
mod order;
mod strategic;

pub use json::json_patch;
pub use merge::merge_patch;
pub use strategic::strategic_merge;
