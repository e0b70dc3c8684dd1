//! `clean`: what killed invocations have left.

use super::{arguments::Clean as Command, exit::Exit, output};
use crate::{
    campaign,
    cluster::{envtest, k3s},
    operator::leftovers,
};

/// `reconverge clean`.
pub async fn clean(command: &Command) -> Exit {
    // Operators first, so that they do not write to clusters that are about to go.
    let mut removed = leftovers::clean();
    removed.extend(envtest::clean().await);
    let containers = k3s::clean(command.all).await;
    if let Ok(cleaned) = &containers {
        removed.extend_from_slice(&cleaned.removed);
        for line in &cleaned.left {
            output::note(line);
        }
    }
    // Where no node was ever started, there need not be an engine that could be asked.
    let failed = containers.err().filter(|error| k3s::may_be_left() || !matches!(error, k3s::K3sError::NoEngine(_)));
    if removed.is_empty() && failed.is_none() {
        output::result("nothing to remove");
    }
    for what in removed {
        output::result(&format!("removed {what}"));
    }
    let Some(error) = failed else { return Exit::Pass };
    output::error(&format!("containers may be left: {}", campaign::chain(&error)));
    Exit::Environment
}
