//! The built-in rules, one per file, listed once.

mod allocated_addresses;
mod ca_bundle;
mod cluster_builtins;
mod container_restarts;
mod deployment_revision;
mod empty_values;
mod endpoints;
mod events;
mod finished_job_pods;
mod framework_bookkeeping;
mod generated_names;
mod generated_secrets;
mod harness_marks;
mod job_labels;
mod last_applied;
mod leases;
mod managed_fields;
mod namespace_defaults;
mod observed_generation;
mod owner_uid;
mod quantities;
mod resource_version;
mod revision_history;
mod server_metadata;
mod set_order;
mod status_times;
mod template_hash;
mod token_volumes;

#[cfg(test)]
mod tests;

pub use framework_bookkeeping::is_bookkeeping;

use super::ruleset::Rule;

/// Id of the rule that renames objects; canonical keys depend on it.
pub(super) const GENERATED_NAMES: &str = generated_names::RULE.id;

/// Every built-in rule, in the order in which they are applied.
pub static RULES: &[&Rule] = &[
    // Objects.
    &events::RULE,
    &leases::RULE,
    &namespace_defaults::RULE,
    &cluster_builtins::RULE,
    &endpoints::RULE,
    &revision_history::RULE,
    &finished_job_pods::RULE,
    // Owners before names, because they look up the UIDs that names replaces.
    &owner_uid::RULE,
    &generated_names::RULE,
    &managed_fields::RULE,
    &resource_version::RULE,
    &server_metadata::RULE,
    &observed_generation::RULE,
    &last_applied::RULE,
    &deployment_revision::RULE,
    &framework_bookkeeping::RULE,
    &harness_marks::RULE,
    &template_hash::RULE,
    &job_labels::RULE,
    &allocated_addresses::RULE,
    &token_volumes::RULE,
    &generated_secrets::RULE,
    &ca_bundle::RULE,
    &container_restarts::RULE,
    &status_times::RULE,
    // Spelling and order last, when nothing random is left to sort by.
    &quantities::RULE,
    &empty_values::RULE,
    &set_order::RULE,
];
