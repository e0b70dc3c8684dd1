//! The processes inside the node's pods.

use futures::future::BoxFuture;

use super::{K3sError, engine::Engine};
use crate::cluster::{ClusterError, Containers};

/// Kills every container of the pod `$1/$2`, and waits until the runtime says that none of those runs. The node's own
/// sandbox container stays, so that the kubelet starts the others again in the same pod.
const KILL: &str = r#"
set -eu
wanted="labels.\"io.kubernetes.pod.namespace\"==$1,labels.\"io.kubernetes.pod.name\"==$2"
ids=$(ctr -n k8s.io containers ls -q "$wanted,labels.\"io.cri-containerd.kind\"==container")
for id in $ids; do
  ctr -n k8s.io tasks kill -s SIGKILL "$id" 2>/dev/null || true
done
for id in $ids; do
  for attempt in 1 2 3 4 5 6 7 8 9 10; do
    ctr -n k8s.io tasks ls | grep "^$id " | grep -q RUNNING || break
    sleep 0.1
  done
done
"#;

/// Reaches into the node's containers by its runtime.
pub struct Pods {
    pub engine: Engine,
    pub node: String,
}

impl Containers for Pods {
    fn kill<'a>(&'a self, namespace: &'a str, pod: &'a str) -> BoxFuture<'a, Result<(), ClusterError>> {
        Box::pin(async move {
            let done = self.engine.exec(&self.node, &["sh", "-c", KILL, "kill", namespace, pod]).await?;
            if done.code == 0 {
                return Ok(());
            }
            let command = format!("ctr tasks kill (Pod {namespace}/{pod})");
            Err(K3sError::Command { command, code: done.code, output: done.stderr }.into())
        })
    }
}
