//! The JSON Schema of scenario files, for editors.
//!
//! # Guarantees
//! The published file `scenarios/scenario.schema.json` is what this build reads; a test fails when it is stale, and
//! writes it anew when `RECONVERGE_BLESS` is set.

use serde_json::Value;

use super::format::Scenario;

/// The schema, strict: fields that are not listed are errors.
#[must_use]
pub fn json_schema() -> Value {
    let mut schema = schemars::schema_for!(Scenario);
    schema.insert("title".into(), "Reconverge scenario".into());
    schema.to_value()
}

#[cfg(test)]
mod tests {
    use std::{env, fs, path::Path};

    use super::*;

    #[test]
    fn published_schema_is_fresh() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/scenario.schema.json");
        let fresh = serde_json::to_string_pretty(&json_schema()).unwrap() + "\n";
        if env::var_os("RECONVERGE_BLESS").is_some() {
            fs::write(&path, &fresh).unwrap();
        }
        let published = fs::read_to_string(&path).unwrap_or_default();
        assert!(published == fresh, "{} is stale: run the tests with RECONVERGE_BLESS=1", path.display());
    }

    #[test]
    fn every_object_is_strict() {
        // Without `deny_unknown_fields` on a struct, editors would not mark a misspelt key.
        let schema = json_schema();
        for (name, definition) in schema["$defs"].as_object().unwrap() {
            if definition.get("properties").is_some() {
                assert_eq!(definition.get("additionalProperties"), Some(&Value::Bool(false)), "{name}");
            }
        }
        assert_eq!(schema["additionalProperties"], false);
    }
}
