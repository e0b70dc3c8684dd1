//! `clean`: what killed invocations have left.

use super::{arguments::Clean as Command, exit::Exit, output};
use crate::{
    campaign,
    cluster::{envtest, k3s},
};

/// `reconverge clean`.
pub async fn clean(command: &Command) -> Exit {
    for line in envtest::clean().await {
        output::result(&line);
    }
    match k3s::clean(command.all).await {
        Ok(cleaned) => {
            for line in &cleaned.left {
                output::note(line);
            }
            let removed = cleaned.removed.iter().map(|what| format!("removed {what}")).collect::<Vec<_>>();
            output::result(if removed.is_empty() { "nothing to remove".into() } else { removed.join("\n") }.as_str());
            Exit::Pass
        }
        Err(error) => {
            output::error(&format!("containers may be left: {}", campaign::chain(&error)));
            Exit::Environment
        }
    }
}
