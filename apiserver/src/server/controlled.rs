//! A server together with its built-in controllers.

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::ApiServer;
use crate::controllers::{
    self,
    driver::{Driver, Progress},
    kubelet::Timing,
};

/// Controllers that run beside a server. Dropping it ends them without waiting.
#[derive(Debug)]
pub struct RunningControllers {
    stop: CancellationToken,
    progress: Progress,
    task: Option<JoinHandle<()>>,
}

impl RunningControllers {
    /// For callers that wait until the controllers have nothing to do.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// Ends the controllers after their present step.
    pub async fn shutdown(mut self) {
        self.stop.cancel();
        if let Some(task) = self.task.take() {
            // A panic of a controller was already printed by the runtime.
            let _ = task.await;
        }
    }
}

impl Drop for RunningControllers {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl ApiServer {
    /// Runs every built-in controller and the simulated kubelet; `ca_pem` is what pods shall trust.
    #[must_use]
    pub fn run_controllers(&self, ca_pem: &str) -> RunningControllers {
        self.run_controllers_with(ca_pem, Timing::default())
    }

    /// [`ApiServer::run_controllers`] with another pace of simulated pods.
    #[must_use]
    pub fn run_controllers_with(&self, ca_pem: &str, timing: Timing) -> RunningControllers {
        // Subscribed before the first list, so that no change falls between the two.
        let changes = self.changes();
        let list = controllers::standard(ca_pem, timing);
        let driver = Driver::new(&self.client_factory(), list, self.clock());
        let progress = driver.progress();
        let stop = CancellationToken::new();
        let task = tokio::spawn(driver.run(changes, stop.clone()));
        RunningControllers { stop, progress, task: Some(task) }
    }
}
