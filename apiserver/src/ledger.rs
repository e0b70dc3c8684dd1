//! What this server does exactly, what it models, and what it refuses: the source of `LEDGER.md`.
//!
//! # Guarantees
//! Each row names the test that shows it; a test of this module fails when one of them does not exist, or when the
//! file is not what the table says.

use std::fmt::Write as _;

/// How well something is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grade {
    /// As the real server does it, as far as a client can see.
    Exact,
    /// Simplified in the way that the row says.
    Modelled,
    /// Answered with 501 and the reason `EmbeddedUnsupported`.
    Refused,
}

impl Grade {
    fn text(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Modelled => "modelled",
            Self::Refused => "refused",
        }
    }
}

/// One feature of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    pub area: &'static str,
    pub feature: &'static str,
    pub grade: Grade,
    /// What differs from the real server; empty for what is exact.
    pub note: &'static str,
    /// Name of a test of this crate.
    pub test: &'static str,
}

const fn row(area: &'static str, feature: &'static str, grade: Grade, note: &'static str, test: &'static str) -> Row {
    Row { area, feature, grade, note, test }
}

use Grade::{Exact, Modelled, Refused};

/// Every row, in the order of the file.
#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    row("Reading", "get, list, one global decimal resourceVersion", Exact, "", "an_object_lives_through_its_verbs"),
    row("Reading", "label and field selectors", Exact, "", "selectors_choose"),
    row("Reading", "limit and continue at one revision, 410 for old tokens", Exact, "", "pages_are_of_one_revision"),
    row("Reading", "resourceVersionMatch Exact and NotOlderThan, 504 for the future", Exact, "", "revisions_of_lists_follow_the_rules"),
    row("Reading", "PartialObjectMetadata", Exact, "", "other_forms_are_negotiated"),
    row("Reading", "Table", Modelled, "custom resources, and kinds with the columns name and age; other kinds answer with objects", "other_forms_are_negotiated"),
    row("Reading", "answers in YAML, protobuf or CBOR", Modelled, "JSON answers a client that also or only takes protobuf; 406 for others", "the_first_known_form_wins"),
    row("Watching", "from a revision, from now, with initial events and their bookmark", Exact, "", "initial_events_end_with_a_bookmark"),
    row("Watching", "selector transitions, order, deletions with their revision", Exact, "", "leaving_the_selector_looks_like_a_deletion"),
    row("Watching", "bookmarks and timeouts", Modelled, "a bookmark every 60 s; without a timeout the watch ends after 30 min", "an_idle_watch_sends_bookmarks_and_times_out"),
    row("Watching", "410 for old revisions", Modelled, "the last 4096 events of a table are kept, however old", "a_watch_continues_after_a_revision"),
    row("Watching", "WebSocket", Modelled, "the upgrade is ignored and the answer streamed", "a_watch_tells_what_happens_in_order"),
    row("Writing", "create, update with optimistic locking, delete", Exact, "", "an_object_lives_through_its_verbs"),
    row("Writing", "no-op writes keep the resourceVersion", Exact, "", "a_write_without_a_change_keeps_the_revision"),
    row("Writing", "generateName, namespace and kind checks", Exact, "", "creates_are_checked_against_the_url"),
    row("Writing", "dryRun", Modelled, "addresses and ports are drawn and forgotten", "a_dry_run_leaves_nothing_behind"),
    row("Writing", "fieldValidation with warnings; duplicate and unknown fields", Exact, "", "duplicate_fields_warn_or_fail"),
    row("Writing", "JSON patch and merge patch", Exact, "", "the_dialect_of_the_real_server"),
    row("Writing", "strategic merge patch", Exact, "", "the_real_library_agrees"),
    row("Writing", "server-side apply and managedFields on every write", Exact, "", "the_real_field_managers_agree"),
    row("Writing", "server-side apply of scales", Refused, "", "scale_reads_and_writes_replicas"),
    row("Writing", "protobuf bodies", Exact, "", "golden_bodies_give_the_json_of_go"),
    row("Writing", "generation", Exact, "", "generations_count_changes_of_what_is_desired"),
    row("Deleting", "preconditions, propagation policies, finalizers", Exact, "", "preconditions_and_policies_are_honoured"),
    row("Deleting", "grace of pods", Exact, "", "a_scheduled_pod_dies_gracefully"),
    row("Deleting", "deletecollection", Modelled, "limit and continue are ignored: all that matches goes at once", "collections_are_deleted_by_selector"),
    row("Deleting", "namespaces through finalize", Exact, "", "namespaces_end_through_finalize"),
    row("Subresources", "status", Exact, "", "custom_resources_are_served_as_soon_as_they_are_defined"),
    row("Subresources", "scale", Exact, "", "scale_reads_and_writes_replicas"),
    row("Subresources", "pods/binding", Modelled, "annotations and labels of the binding are not merged", "a_scheduled_pod_dies_gracefully"),
    row("Subresources", "pods/eviction with budgets", Modelled, "unhealthyPodEvictionPolicy is not read", "evictions_respect_budgets"),
    row("Subresources", "serviceaccounts/token", Modelled, "HS256 instead of RS256; bound tokens are refused", "tokens_are_of_their_account"),
    row("Subresources", "pods/log", Modelled, "simulated pods print nothing", "what_is_not_done_is_refused_loudly"),
    row("Subresources", "pods/exec, attach, portforward, proxy, ephemeralcontainers, resize", Refused, "", "what_is_not_done_is_refused_loudly"),
    row("Access", "bearer tokens; 401 without", Modelled, "no anonymous user beyond health and version", "public_paths_need_nobody_and_the_rest_somebody"),
    row("Access", "RBAC with aggregation, escalation and bind checks", Exact, "", "an_account_may_do_what_its_role_says"),
    row("Access", "access reviews, TokenReview, SelfSubjectReview", Exact, "", "access_reviews_say_what_the_authoriser_says"),
    row("Access", "impersonation", Refused, "", "impersonation_is_refused"),
    row("Admission", "namespace life cycle, ServiceAccount, Priority, default tolerations", Exact, "", "pods_get_an_account_and_a_token_volume"),
    row("Admission", "default storage class, storage protection", Exact, "", "claims_get_the_default_class"),
    row("Admission", "cluster IPs and node ports", Modelled, "10.96.0.0/16 and IPv4 only", "services_get_addresses_and_ports"),
    row("Admission", "IPv6 and dual-stack services", Refused, "", "dual_stack_services_are_refused"),
    row("Admission", "LimitRange, ResourceQuota", Refused, "the objects are stored; pods beside them are refused", "pods_under_limits_are_refused"),
    row("Admission", "admission webhooks and policies", Refused, "the objects are stored; a request that one matches is refused", "a_matching_webhook_refuses_the_request"),
    row("Admission", "pod security, DefaultIngressClass, RuntimeClass overhead, taints of new nodes", Modelled, "not done", "pods_get_an_account_and_a_token_volume"),
    row("Custom resources", "prune, default, validate, ratchet, CEL", Exact, "", "each_keyword_has_the_words_of_the_real_server"),
    row("Custom resources", "CEL functions beyond the engine", Refused, "", "a_rule_beyond_the_engine_is_refused_not_judged"),
    row("Custom resources", "served at once, conditions, discovery, OpenAPI v3", Modelled, "names are accepted in the create, not after it; names never conflict", "custom_resources_are_served_as_soon_as_they_are_defined"),
    row("Custom resources", "deletion of a definition with its objects", Modelled, "no Terminating condition", "a_definition_waits_for_held_objects"),
    row("Custom resources", "several versions, conversion None", Modelled, "defaults are filled in at writes, not at reads", "versions_of_a_custom_resource_differ_in_name_only"),
    row("Custom resources", "conversion webhooks", Refused, "at the definition, when more than one version is served", "a_definition_takes_its_objects_along"),
    row("Built-in kinds", "decoding, defaulting, spelling of values", Exact, "", "defaulting_gives_what_the_real_server_stores"),
    row("Built-in kinds", "validation", Modelled, "the common rules; rarer ones are absent, so an invalid object may pass", "validation_finds_what_the_real_server_finds"),
    row("Built-in kinds", "events in both groups", Exact, "", "events_are_one_table_under_two_names"),
    row("Built-in kinds", "autoscaling/v1 HorizontalPodAutoscaler", Refused, "use autoscaling/v2", "unknown_conversions_are_refused"),
    row("Built-in kinds", "APIService", Modelled, "stored, never proxied to", "bootstrap_objects_are_there"),
    row("Built-in kinds", "certificates, flow control, dynamic resource allocation, CSI", Modelled, "stored and validated by type; nothing acts on them", "bootstrap_objects_are_there"),
    row("Discovery", "plain and aggregated, with custom resources", Exact, "", "discovery_lists_built_in_and_custom_resources"),
    row("Discovery", "OpenAPI v2 and v3", Modelled, "custom resources are absent from the protobuf form of v2", "recorded_documents_are_served_as_they_are"),
    row("Discovery", "/metrics, /logs, OIDC discovery", Refused, "", "what_is_not_done_is_refused_loudly"),
    row("Controllers", "workloads: Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob", Modelled, "see the controllers' own documentation", "a_deployment_becomes_available_and_its_pods_go_with_it"),
    row("Controllers", "garbage collection and namespace deletion", Modelled, "at once, without the real delays", "dependents_are_collected_or_orphaned"),
    row("Controllers", "scheduler and kubelet", Modelled, "one simulated node; pods wait for what they refer to", "a_pod_waits_for_what_it_refers_to"),
    row("Transport", "TLS with HTTP/1.1 and HTTP/2", Exact, "", "both_protocols_are_spoken_and_watches_stream"),
    row("Transport", "client certificates", Modelled, "not asked for; bearer tokens only", "both_protocols_are_spoken_and_watches_stream"),
];

/// The text of `LEDGER.md`.
#[must_use]
pub fn render() -> String {
    let mut out = String::from(
        "# Ledger\n\nWhat the embedded API server does *exactly*, what it *models* (with the difference), and what it \
         *refuses* with 501 and\nthe reason `EmbeddedUnsupported`, which makes a run inconclusive. Each row names the \
         test that shows it. Generated from\n`src/ledger.rs`; do not edit.\n",
    );
    let mut area = "";
    for row in ROWS {
        if row.area != area {
            area = row.area;
            // Writing to a String cannot fail.
            let _ = write!(out, "\n## {area}\n\n| feature | grade | difference | test |\n|---|---|---|---|\n");
        }
        let _ = writeln!(out, "| {} | {} | {} | `{}` |", row.feature, row.grade.text(), row.note, row.test);
    }
    out
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/LEDGER.md");

    #[test]
    fn the_file_is_what_the_table_says() {
        if std::env::var_os("RECONVERGE_BLESS").is_some() {
            fs::write(FILE, render()).unwrap();
        }
        let file = fs::read_to_string(FILE).unwrap_or_default();
        assert_eq!(
            file,
            render(),
            "LEDGER.md is stale; run `RECONVERGE_BLESS=1 cargo test --package reconverge-apiserver ledger`"
        );
    }

    #[test]
    fn every_row_names_a_test_that_exists() {
        let mut sources = String::new();
        collect(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &mut sources);
        for row in ROWS {
            assert!(sources.contains(&format!("fn {}()", row.test)), "no test is called {}", row.test);
            assert_eq!(
                row.grade == Grade::Modelled,
                !row.note.is_empty() && row.grade != Grade::Refused,
                "{}",
                row.feature
            );
        }
    }

    fn collect(folder: &Path, into: &mut String) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, into);
            } else if path.extension().is_some_and(|e| e == "rs") {
                into.push_str(&fs::read_to_string(&path).unwrap());
            }
        }
    }
}
