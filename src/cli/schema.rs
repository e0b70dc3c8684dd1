//! `schema`: the JSON Schema of scenario files.

use super::{exit::Exit, output};
use crate::scenario::schema;

/// `reconverge schema`.
pub fn schema() -> Exit {
    output::result(&format!("{:#}", schema::json_schema()));
    Exit::Pass
}
