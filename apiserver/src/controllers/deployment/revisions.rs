//! Which ReplicaSet is the new one, which are old, and the revision numbers on them.

use serde_json::{Map, Value, json};

use super::Rollout;
use crate::{
    controllers::{
        claim::Owner,
        condition::{self, Condition, Times},
        kinds,
        object::{
            annotation, delete, generation, get, int, is_controlled_by, is_terminating, key, map, name, opt_int,
            status_of, text, uid,
        },
        template,
    },
    status::ApiError,
};

pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
pub(super) const MAX: &str = "deployment.kubernetes.io/max-replicas";
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
const TEMPLATE_HASH: &str = "pod-template-hash";

/// Annotations that a Deployment does not pass on to its ReplicaSets.
const OWN_ANNOTATIONS: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MAX,
    "deprecated.deployment.rollback.to",
];

/// A Deployment's ReplicaSets.
#[derive(Debug, Default)]
pub(super) struct Sets {
    pub new: Option<Value>,
    /// Oldest first.
    pub old: Vec<Value>,
}

impl Sets {
    pub(super) fn of(deployment: &Value, mut all: Vec<Value>) -> Self {
        all.sort_by_key(age);
        let wanted = &deployment["spec"]["template"];
        let at = all.iter().position(|s| template::same_template(&s["spec"]["template"], wanted));
        let new = at.map(|i| all.remove(i));
        Self { new, old: all }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Value> {
        self.old.iter().chain(&self.new)
    }
}

pub(super) fn age(set: &Value) -> (String, String) {
    (text(set, "/metadata/creationTimestamp").into(), name(set).into())
}

pub(super) fn revision(object: &Value) -> i64 {
    annotation(object, REVISION).and_then(|r| r.parse().ok()).unwrap_or(0)
}

pub(super) fn size(set: &Value) -> i64 {
    opt_int(set, "/spec/replicas").unwrap_or(1)
}

impl Rollout<'_> {
    /// Brings the new ReplicaSet's annotations up to date, or creates it when `create` is set.
    ///
    /// False when the Deployment was written instead and the step has to end.
    pub(super) fn find_new(&mut self, create: bool) -> Result<bool, ApiError> {
        let newest_old = self.sets.old.iter().map(revision).max().unwrap_or(0);
        if let Some(set) = self.sets.new.clone() {
            let next = self.annotated(&set, newest_old + 1);
            let set = if next == set { set } else { self.client.update(&kinds::replica_sets(), "", &next)? };
            let message = format!("Found new replica set \"{}\"", name(&set));
            self.mark(revision(&set), "FoundNewReplicaSet", &message, false)?;
            self.sets.new = Some(set);
            return Ok(true);
        }
        if !create {
            return Ok(true);
        }
        let object = self.build(newest_old + 1);
        match self.client.create(&kinds::replica_sets(), self.namespace(), &object) {
            Ok(set) => {
                let message = format!("Created new replica set \"{}\"", name(&set));
                self.mark(revision(&set), "NewReplicaSetCreated", &message, true)?;
                self.sets.new = Some(set);
                Ok(true)
            }
            Err(e) if e.reason == "AlreadyExists" => self.collide(&object),
            Err(e) => {
                self.mark_failure(&e)?;
                Err(e)
            }
        }
    }

    /// The name is taken. If by our own set of the same template, use it; else count a collision.
    fn collide(&mut self, object: &Value) -> Result<bool, ApiError> {
        let there = get(self.client, &kinds::replica_sets(), &key(object))?;
        if let Some(set) = there
            && is_controlled_by(&set, uid(&self.deployment))
            && template::same_template(&set["spec"]["template"], &self.deployment["spec"]["template"])
        {
            self.sets.new = Some(set);
            return Ok(true);
        }
        let mut next = self.deployment.clone();
        let mut status = status_of(&next);
        status["collisionCount"] = json!(int(&status, "/collisionCount") + 1);
        next["status"] = status;
        self.client.update(&kinds::deployments(), "status", &next)?;
        Ok(false)
    }

    fn build(&self, revision: i64) -> Value {
        let deployment = &self.deployment;
        let hash = template::hash(&deployment["spec"]["template"], opt_int(deployment, "/status/collisionCount"));
        let mut pod_template = deployment["spec"]["template"].clone();
        template::add_labels(&mut pod_template, &[(TEMPLATE_HASH, &hash)]);
        let mut selector = deployment["spec"]["selector"].clone();
        if !selector["matchLabels"].is_object() {
            selector["matchLabels"] = json!({});
        }
        selector["matchLabels"][TEMPLATE_HASH] = json!(hash);
        let owner = Owner { object: deployment, api_version: "apps/v1", kind: "Deployment" };
        let mut set = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {
                "name": format!("{}-{hash}", name(deployment)),
                "namespace": self.namespace(),
                "labels": pod_template["metadata"]["labels"],
                "ownerReferences": [owner.reference()],
            },
            "spec": {"replicas": 0, "selector": selector, "template": pod_template},
        });
        if let Some(seconds) = opt_int(deployment, "/spec/minReadySeconds").filter(|s| *s > 0) {
            set["spec"]["minReadySeconds"] = json!(seconds);
        }
        set = self.annotated(&set, revision);
        // Created at its size, unless old sets leave no room for that yet.
        let taken: i64 = self.sets.old.iter().map(size).sum();
        let room = (self.replicas() + self.max_surge() - taken).max(0);
        set["spec"]["replicas"] = json!(self.replicas().min(room));
        set
    }

    /// The set with the annotations it should have.
    fn annotated(&self, set: &Value, at_least: i64) -> Value {
        let mut next = set.clone();
        let mut annotations: Map<String, Value> = map(set, "/metadata/annotations").cloned().unwrap_or_default();
        let fresh = uid(set).is_empty();
        for (k, v) in map(&self.deployment, "/metadata/annotations").into_iter().flatten() {
            if !OWN_ANNOTATIONS.contains(&k.as_str()) {
                annotations.insert(k.clone(), v.clone());
            }
        }
        let old = revision(set);
        if old < at_least {
            annotations.insert(REVISION.into(), json!(at_least.to_string()));
            if old > 0 {
                let history = annotation(set, HISTORY).map_or_else(|| old.to_string(), |h| format!("{h},{old}"));
                annotations.insert(HISTORY.into(), json!(history));
            }
        }
        if fresh {
            for (k, v) in self.size_annotations() {
                annotations.insert(k.into(), json!(v));
            }
        }
        if !annotations.is_empty() {
            next["metadata"]["annotations"] = Value::Object(annotations);
        }
        if !fresh
            && let Some(seconds) = opt_int(&self.deployment, "/spec/minReadySeconds")
            && seconds != int(set, "/spec/minReadySeconds")
        {
            next["spec"]["minReadySeconds"] = json!(seconds);
        }
        next
    }

    /// What a set remembers about the size of its Deployment, to notice scaling by.
    pub(super) fn size_annotations(&self) -> [(&'static str, String); 2] {
        [(DESIRED, self.replicas().to_string()), (MAX, (self.replicas() + self.max_surge()).to_string())]
    }

    /// Puts the revision on the Deployment and, on a new set, restarts the progress deadline.
    fn mark(&mut self, revision: i64, reason: &str, message: &str, created: bool) -> Result<(), ApiError> {
        let mut next = self.deployment.clone();
        let number = revision.to_string();
        if annotation(&next, REVISION) != Some(&number) {
            if map(&next, "/metadata/annotations").is_none() {
                next["metadata"]["annotations"] = json!({});
            }
            next["metadata"]["annotations"][REVISION] = json!(number);
        }
        let mut status = status_of(&next);
        if self.has_deadline() && (created || condition::find(&status, "Progressing").is_none()) {
            let condition = Condition { kind: "Progressing", status: "True", reason, message };
            condition::set(&mut status, &condition, Times::Update, self.client.now());
            next["status"] = status;
        }
        if next == self.deployment {
            return Ok(());
        }
        // The status strategy of a real server keeps annotations, so that this does not bump the generation.
        let stored = self.client.update(&kinds::deployments(), "status", &next)?;
        self.deployment = stored;
        if annotation(&self.deployment, REVISION) != Some(&number) {
            let patch = json!({"metadata": {"annotations": {REVISION: number}}});
            let own = key(&self.deployment);
            self.deployment = self.client.patch(&kinds::deployments(), "", &own.namespace, &own.name, &patch)?;
        }
        Ok(())
    }

    fn mark_failure(&mut self, error: &ApiError) -> Result<(), ApiError> {
        if !self.has_deadline() {
            return Ok(());
        }
        let mut next = self.deployment.clone();
        let mut status = status_of(&next);
        let condition = Condition {
            kind: "Progressing",
            status: "False",
            reason: "ReplicaSetCreateError",
            message: &format!("Failed to create new replica set: {}", error.message),
        };
        condition::set(&mut status, &condition, Times::Update, self.client.now());
        if next.get("status") != Some(&status) {
            next["status"] = status;
            self.deployment = self.client.update(&kinds::deployments(), "status", &next)?;
        }
        Ok(())
    }

    /// Deletes empty old sets beyond `revisionHistoryLimit`.
    pub(super) fn clean_up(&mut self) -> Result<(), ApiError> {
        let limit = usize::try_from(opt_int(&self.deployment, "/spec/revisionHistoryLimit").unwrap_or(10)).unwrap_or(0);
        let mut alive: Vec<&Value> = self.sets.old.iter().filter(|s| !is_terminating(s)).collect();
        alive.sort_by_key(|s| (revision(s), age(s)));
        let surplus = alive.len().saturating_sub(limit);
        for set in &alive[..surplus] {
            let settled = int(set, "/status/observedGeneration") >= generation(set);
            if size(set) == 0 && int(set, "/status/replicas") == 0 && settled {
                delete(self.client, &kinds::replica_sets(), set, None)?;
            }
        }
        Ok(())
    }
}
