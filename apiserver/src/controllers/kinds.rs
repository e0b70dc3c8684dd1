//! The resources that the built-in controllers work with.

use crate::resource::Gvr;

macro_rules! resources {
    ($($name:ident = $group:literal $version:literal $resource:literal;)*) => {
        $(pub(super) fn $name() -> Gvr { Gvr::new($group, $version, $resource) })*
    };
}

resources! {
    pods = "" "v1" "pods";
    nodes = "" "v1" "nodes";
    namespaces = "" "v1" "namespaces";
    services = "" "v1" "services";
    endpoints = "" "v1" "endpoints";
    secrets = "" "v1" "secrets";
    config_maps = "" "v1" "configmaps";
    service_accounts = "" "v1" "serviceaccounts";
    claims = "" "v1" "persistentvolumeclaims";
    volumes = "" "v1" "persistentvolumes";
    storage_classes = "storage.k8s.io" "v1" "storageclasses";
    endpoint_slices = "discovery.k8s.io" "v1" "endpointslices";
    replica_sets = "apps" "v1" "replicasets";
    deployments = "apps" "v1" "deployments";
    stateful_sets = "apps" "v1" "statefulsets";
    daemon_sets = "apps" "v1" "daemonsets";
    controller_revisions = "apps" "v1" "controllerrevisions";
    jobs = "batch" "v1" "jobs";
    cron_jobs = "batch" "v1" "cronjobs";
    disruption_budgets = "policy" "v1" "poddisruptionbudgets";
}

/// Whether `gvr` is that resource, in any version.
pub(super) fn is(gvr: &Gvr, other: &Gvr) -> bool {
    gvr.group == other.group && gvr.resource == other.resource
}
