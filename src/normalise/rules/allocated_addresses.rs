//! Addresses, ports, nodes and ids that the cluster hands out.

use crate::normalise::{Context, Edit, Effect, Rule, Scope, Step, Subject, last_key, under};

pub(super) static RULE: Rule = Rule {
    id: "allocated-addresses",
    reason: "The cluster allocates IPs, node ports, nodes, volumes and container ids anew in each run; that there is one is compared.",
    scope: Scope::AcrossRuns,
    effect: Effect::Values(apply),
};

fn apply(subject: &mut Subject<'_>, context: &Context<'_>) {
    let (service, pod) = (subject.is("", "Service"), subject.is("", "Pod"));
    let volumes = subject.is("", "PersistentVolumeClaim") || subject.is("", "PersistentVolume");
    subject.edit(|steps, value| {
        let allocated =
            (service && in_service(steps, value)) || (pod && in_pod(steps)) || (volumes && in_volume(steps));
        if allocated {
            return Edit::Replace("<allocated>".into());
        }
        value.as_str().and_then(|text| context.names.replace_addresses(text)).map_or(Edit::Keep, Edit::Replace)
    });
}

fn in_service(steps: &[Step], value: &serde_json::Value) -> bool {
    // `None` makes a Service headless: that is a choice.
    let ip = value.as_str().is_some_and(|text| !text.is_empty() && text != "None");
    let in_list = matches!(steps, [_, Step::Key(key), Step::Index(_)] if key == "clusterIPs");
    match last_key(steps) {
        "clusterIP" => ip,
        "nodePort" | "healthCheckNodePort" => value.as_u64().is_some_and(|port| port > 0),
        "ingress" => under(steps, "status"),
        _ => in_list && ip,
    }
}

fn in_pod(steps: &[Step]) -> bool {
    match last_key(steps) {
        "podIP" | "podIPs" | "hostIP" | "hostIPs" | "containerID" | "imageID" => under(steps, "status"),
        "nodeName" => steps.len() == 2,
        _ => false,
    }
}

fn in_volume(steps: &[Step]) -> bool {
    let annotation = matches!(steps.get(1), Some(Step::Key(key)) if key == "annotations");
    match last_key(steps) {
        "volumeName" => steps.len() == 2,
        "resourceVersion" | "uid" => matches!(steps.get(1), Some(Step::Key(key)) if key == "claimRef"),
        "volume.kubernetes.io/selected-node" => true,
        name => annotation && name.starts_with("pv.kubernetes.io/"),
    }
}
