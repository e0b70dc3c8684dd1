//! Ctrl-C and SIGTERM: once ends in order, twice aborts.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::{exit::Exit, output};
use crate::{
    cluster::{envtest, k3s},
    operator::process,
};

/// An engine that takes longer is not waited for; its containers can be found again.
const CONTAINERS_WITHIN: Duration = Duration::from_secs(15);

/// A token that the first signal cancels; the second kills every operator, removes containers and ends the program.
///
/// # Errors
/// When the handlers cannot be installed.
pub fn watch() -> std::io::Result<CancellationToken> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let token = CancellationToken::new();
    let cancelled = token.clone();
    tokio::spawn(async move {
        either(&mut interrupt, &mut terminate).await;
        output::note("interrupted: ending the runs and writing the report; once more aborts");
        cancelled.cancel();
        either(&mut interrupt, &mut terminate).await;
        process::kill_everything();
        envtest::kill_everything();
        output::note("removing containers; `reconverge clean` does it, too");
        let _ = tokio::time::timeout(CONTAINERS_WITHIN, k3s::abandon_everything()).await;
        std::process::exit(Exit::Interrupted as i32);
    });
    Ok(token)
}

async fn either(interrupt: &mut Signal, terminate: &mut Signal) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}
