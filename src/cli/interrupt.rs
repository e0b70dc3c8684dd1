//! Ctrl-C and SIGTERM: once ends in order, twice aborts.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::{exit::Exit, output};
use crate::operator::process;

/// A token that the first signal cancels; the second kills every operator and ends the program.
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
        crate::cluster::envtest::kill_everything();
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
