//! Kubernetes protobuf request bodies, read into the JSON object that Go would make of them.
//!
//! # Flow
//! body -> `reader` (wire format) -> envelope (`k8s\0` and a `runtime.Unknown`) -> `walk` over `table` -> JSON object.
//!
//! # Guarantees
//! Every built-in kind, the option kinds and CustomResourceDefinition give the same JSON as Go's own encoder gives
//! after decoding the same bytes: zero values, `omitempty`, times and nulls included. Unknown field numbers are skipped, as
//! protobuf asks. The field table is generated from the Go types (`data/protobuf/`), and so are the golden pairs.
//!
//! # Not done
//! Answers are never written as protobuf. Quantities keep the spelling of the sender. Strings that are not UTF-8
//! are refused, where the real server would store them.

mod reader;
mod table;
mod special;
mod walk;

pub use walk::decode;

#[cfg(test)]
mod tests;
