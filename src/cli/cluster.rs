//! `cluster`: the embedded lane alone, until Ctrl-C.

use super::{arguments::Cluster as Command, exit::Exit, interrupt, output};
use crate::{
    campaign,
    cluster::{Cluster, embedded::Embedded, kubeconfig},
};

/// `reconverge cluster`.
pub async fn cluster(command: Command) -> Exit {
    let cancel = match interrupt::watch() {
        Ok(cancel) => cancel,
        Err(error) => {
            output::error(&format!("could not watch for signals: {error}"));
            return Exit::Environment;
        }
    };
    let cluster = match Embedded::start_on(command.seed, command.port).await {
        Ok(cluster) => cluster,
        Err(error) => {
            output::error(&campaign::chain(&error));
            return Exit::Environment;
        }
    };
    let config = kubeconfig(cluster.endpoint(), &cluster.admin_token(), "default");
    match &command.kubeconfig {
        None => output::result(&config),
        Some(path) => {
            if let Err(error) = std::fs::write(path, &config) {
                output::error(&format!("could not write {}: {error}", path.display()));
                Box::new(cluster).shutdown().await;
                return Exit::Environment;
            }
            let _ = std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600));
            output::result(&format!("export KUBECONFIG={}", path.display()));
        }
    }
    output::note(&format!("{} at {}; Ctrl-C ends it", cluster.describe(), cluster.endpoint().url));
    cancel.cancelled().await;
    Box::new(cluster).shutdown().await;
    Exit::Pass
}
