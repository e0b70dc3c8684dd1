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
    let mut removed: Vec<String> = leftovers::clean().into_iter().map(|what| format!("ended {what}")).collect();
    removed.extend(envtest::clean().await);
    let containers = k3s::clean(command.all).await;
    if let Ok(cleaned) = &containers {
        removed.extend(cleaned.removed.iter().map(|what| format!("removed {what}")));
        for line in &cleaned.left {
            output::note(line);
        }
    }
    output::result(if removed.is_empty() { "nothing to remove".into() } else { removed.join("\n") }.as_str());
    match containers {
        Ok(_) => Exit::Pass,
        Err(k3s::K3sError::NoEngine(_)) if !k3s::may_be_left() => Exit::Pass,
        Err(error) => {
            output::error(&format!("containers may be left: {}", campaign::chain(&error)));
            Exit::Environment
        }
    }
}
