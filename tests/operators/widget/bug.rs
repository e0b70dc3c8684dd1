//! What the specimen can do wrong: kinds of mistakes that public operators made, one at a time.

use clap::ValueEnum;

/// One bug; its name on the command line is that of its scenario folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Bug {
    /// The time of the pass is rendered into the ConfigMap, so each pass that runs in another second writes.
    TimestampInChild,
    /// A child gets a generated name that is only recorded at the end of the pass; a crash in between forgets it.
    RandomNameOnCreate,
    /// Cleans up, but never lets go of the finalizer.
    FinalizerNeverRemoved,
    /// The time of the pass is written to the status, which triggers the next pass.
    StatusWrittenEveryPass,
    /// A conflict on the Deployment is logged, and the pass counts as done.
    ConflictSwallowed,
    /// The Service is made only when the ConfigMap has just been made.
    CrashLeavesHalfState,
    /// A fresh token is made whenever a process sees a Widget for the first time.
    SecretRotatedAtStart,
    /// Lets go of the finalizer without removing the registration.
    OrphanLeft,
    /// After one error a Widget is not looked at again until the next start.
    DeafAfterError,
    /// A Widget that is ready when a process sees it for the first time counts as finished for good.
    DeafAfterRestart,
    /// After an error the pass sleeps before it ends, so that nothing else can start another one.
    SlowAfterError,
    /// A conflict on the Deployment, which "cannot happen", ends the process.
    PanicOnConflict,
    /// `observedGeneration` is only written the first time.
    StaleGeneration,
    /// Changes of the ConfigMaps and the Service are not watched.
    ChildUnwatched,
}
