//! `clean`: what killed invocations have left.

use super::{arguments::Clean as Command, exit::Exit, output};
use crate::{
    campaign,
    cluster::{envtest, k3s},
};

/// `reconverge clean`.
pub async fn clean(command: &Command) -> Exit {
    let planes = envtest::clean().await;
    match k3s::clean(command.all).await {
        Ok(cleaned) => {
            for line in &cleaned.left {
                output::note(line);
            }
            let removed = planes.iter().chain(&cleaned.removed).map(|what| format!("removed {what}"));
            let removed = removed.collect::<Vec<_>>();
            output::result(if removed.is_empty() { "nothing to remove".into() } else { removed.join("\n") }.as_str());
            Exit::Pass
        }
        Err(error) => {
            planes.iter().for_each(|what| output::result(&format!("removed {what}")));
            output::error(&format!("containers may be left: {}", campaign::chain(&error)));
            Exit::Environment
        }
    }
}
