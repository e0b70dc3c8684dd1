//! The node's API server, killed and back again.

use std::time::Duration;

use http::Request;
use kube::Client;

use super::engine::Engine;
use crate::{
    clock::{RunClock, pause},
    cluster::ClusterError,
};

/// Kills the process that the node supervises, and waits until another one has taken its place. A node whose API server is
/// no process of its own (`rancher/k3s` is one program) has no such file.
const KILL: &str = "file=/run/k3s/kube-apiserver.pid; [ -e $file ] || exit 66; kill -9 $(cat $file)";
/// What the script ends with where there is nothing to kill.
const NOTHING: i64 = 66;
/// Several times what it takes on a machine that has nothing else to do.
const BACK_WITHIN: Duration = Duration::from_secs(90);
const LOOK: Duration = Duration::from_millis(200);

/// # Errors
/// When the node has no API server of its own, or it does not come back.
pub async fn restart_api_server(engine: &Engine, node: &str, client: &Client) -> Result<(), ClusterError> {
    let done = engine.exec(node, &["sh", "-c", KILL]).await?;
    if done.code == NOTHING {
        return Err(ClusterError::Unsupported("API server that can be restarted alone"));
    }
    let clock = RunClock::start();
    let deadline = clock.deadline(BACK_WITHIN);
    loop {
        let ready = Request::get("/readyz").body(Vec::new()).map_err(kube::Error::HttpError);
        let answer = match ready {
            Ok(request) => client.request_text(request).await,
            Err(error) => Err(error),
        };
        match answer {
            Ok(_) => return Ok(()),
            Err(error) if deadline.passed(clock) => {
                let within_ms = u64::try_from(BACK_WITHIN.as_millis()).unwrap_or(u64::MAX);
                let doing = "the return of the API server".into();
                return Err(ClusterError::Timeout { doing, within_ms, last: error.to_string() });
            }
            Err(_) => pause(LOOK).await,
        }
    }
}
