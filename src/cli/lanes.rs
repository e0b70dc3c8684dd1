//! The clusters of one invocation: one source for each lane, shared by all scenarios.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    arguments::{JudgeArgument, Keep, LaneArgument, Running},
    output,
};
use crate::{
    campaign::Judge,
    cluster::{self, ClusterError, LaneOptions, Provider, k3s},
    scenario::format::Lane,
};

/// The sources that were needed up to now.
pub struct Lanes {
    options: LaneOptions,
    keep: Keep,
    judge: JudgeArgument,
    open: BTreeMap<Lane, Arc<dyn Provider>>,
}

impl Lanes {
    pub fn new(running: &Running) -> Self {
        let options = LaneOptions {
            image: running.k3s_image.clone(),
            context: running.context.clone(),
            owned: running.i_own_this_cluster,
        };
        Self { options, keep: running.keep, judge: running.judge, open: BTreeMap::new() }
    }

    /// # Errors
    /// When the lane cannot be had here.
    pub fn of(&mut self, lane: Lane) -> Result<Arc<dyn Provider>, ClusterError> {
        if let Some(open) = self.open.get(&lane) {
            return Ok(Arc::clone(open));
        }
        let provider = cluster::provider(lane, &self.options)?;
        self.open.insert(lane, Arc::clone(&provider));
        Ok(provider)
    }

    /// Who confirms findings. With `auto`, a lane that is not at hand is no error.
    ///
    /// # Errors
    /// When the lane that was asked for cannot be had here.
    pub fn judge(&mut self) -> Result<Option<Judge>, ClusterError> {
        let lane = match self.judge {
            JudgeArgument::Off => return Ok(None),
            JudgeArgument::Auto | JudgeArgument::Envtest => Lane::Envtest,
            JudgeArgument::K3s => Lane::K3s,
        };
        let asked = self.judge != JudgeArgument::Auto;
        match self.of(lane) {
            Ok(clusters) => Ok(Some(Judge::Lane { lane, clusters, passes: asked })),
            Err(error) if asked => Err(error),
            Err(error) => Ok(Some(Judge::Missing(format!("no real API server is at hand ({error})")))),
        }
    }

    /// Ends every cluster, but for those that the user wants to keep; says how those are reached.
    pub async fn close(self, failed: bool) {
        let keep = match self.keep {
            Keep::Always => true,
            Keep::OnFailure => failed,
            Keep::Never => false,
        };
        for provider in self.open.values() {
            for line in provider.close(keep).await {
                output::note(&line);
            }
        }
        // A node whose start was interrupted has no provider yet.
        k3s::abandon_everything().await;
    }
}

impl From<LaneArgument> for Lane {
    fn from(argument: LaneArgument) -> Self {
        match argument {
            LaneArgument::Embedded => Self::Embedded,
            LaneArgument::Envtest => Self::Envtest,
            LaneArgument::K3s => Self::K3s,
            LaneArgument::Kubeconfig => Self::Kubeconfig,
        }
    }
}
