//! Tasks that have an owner: all of them end when it says so, and it can wait for their end.

use std::future::Future;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Counts its tasks, and drops every one of them once `stop` is cancelled.
#[derive(Debug, Clone)]
pub struct Tasks {
    alive: watch::Sender<usize>,
    pub stop: CancellationToken,
}

impl Tasks {
    pub fn new() -> Self {
        Self { alive: watch::Sender::new(0), stop: CancellationToken::new() }
    }

    /// Runs `task` until its own end or the owner's.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.spawn_stopping(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = task => {}
            }
        });
    }

    /// Runs a task that looks at `stop` itself, because it has something to do at its end.
    pub fn spawn_stopping(&self, task: impl Future<Output = ()> + Send + 'static) {
        let alive = Alive::new(&self.alive);
        tokio::spawn(async move {
            task.await;
            // What the task owned is gone by now.
            drop(alive);
        });
    }

    /// The same owner, with an earlier end.
    pub fn within(&self, stop: CancellationToken) -> Self {
        Self { alive: self.alive.clone(), stop }
    }

    /// Ends every task, and waits until the last one is gone.
    pub async fn end(&self) {
        self.stop.cancel();
        // Cannot fail: the sender is here.
        let _ = self.alive.subscribe().wait_for(|alive| *alive == 0).await;
    }

    #[cfg(test)]
    pub fn alive(&self) -> usize {
        *self.alive.borrow()
    }
}

/// Counts one task for as long as it lives, also when the runtime drops it.
struct Alive(watch::Sender<usize>);

impl Alive {
    fn new(count: &watch::Sender<usize>) -> Self {
        count.send_modify(|alive| *alive += 1);
        Self(count.clone())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.send_modify(|alive| *alive -= 1);
    }
}

impl<F> hyper::rt::Executor<F> for Tasks
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, task: F) {
        self.spawn(async move {
            task.await;
        });
    }
}
