//! One resolved API call: the resource, who calls, and the options of writes.

use std::sync::Arc;

use crate::{auth::Identity, discovery::ResourceType, resource::Gvr, status::ApiError};

use super::target::Query;

/// What is done about unknown and duplicate fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// A call to one resource.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub kind: Arc<ResourceType>,
    pub namespace: String,
    pub name: String,
    pub subresource: String,
    pub user: Identity,
    /// The field manager that the write is recorded for.
    pub manager: String,
    /// The request itself named the manager.
    pub named_manager: bool,
    pub dry_run: bool,
    pub force: bool,
    pub validation: FieldValidation,
    /// Texts of `Warning` headers.
    pub warnings: Vec<String>,
}

impl Call {
    /// A call without options, as built-in clients make it.
    pub fn internal(kind: Arc<ResourceType>, namespace: &str, name: &str, user: Identity, manager: &str) -> Self {
        Self {
            kind,
            namespace: namespace.into(),
            name: name.into(),
            subresource: String::new(),
            user,
            manager: manager.into(),
            named_manager: !manager.is_empty(),
            dry_run: false,
            force: false,
            validation: FieldValidation::Ignore,
            warnings: Vec::new(),
        }
    }

    /// Reads the options of a write from its query.
    ///
    /// # Errors
    /// 422 for a value that the API does not know.
    pub fn read_options(&mut self, query: &Query, user_agent: &str) -> Result<(), ApiError> {
        self.dry_run = match query.get("dryRun") {
            "" => false,
            "All" => true,
            other => return Err(bad_option("dryRun", other, &["All"])),
        };
        self.validation = match query.get("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => return Err(bad_option("fieldValidation", other, &["Ignore", "Strict", "Warn"])),
        };
        self.force = query.flag("force");
        self.named_manager = !query.get("fieldManager").is_empty();
        self.manager = match query.get("fieldManager") {
            "" => default_manager(user_agent),
            given => given.to_owned(),
        };
        Ok(())
    }

    pub fn gvr(&self) -> &Gvr {
        &self.kind.gvr
    }
}

/// The part of the user agent before the first slash, at most 128 bytes, as managers are named by default.
fn default_manager(user_agent: &str) -> String {
    let name = user_agent.split('/').next().unwrap_or_default();
    let printable: String = name.chars().filter(|c| !c.is_control()).take(128).collect();
    if printable.is_empty() { "unknown".into() } else { printable }
}

fn bad_option(option: &str, value: &str, known: &[&str]) -> ApiError {
    let known: Vec<String> = known.iter().map(|k| format!("\"{k}\"")).collect();
    let cause = crate::status::Cause::new(
        "FieldValueNotSupported",
        option,
        format!("Unsupported value: \"{value}\": supported values: {}", known.join(", ")),
    );
    ApiError::invalid("meta.k8s.io", "PatchOptions", "", vec![cause])
}
