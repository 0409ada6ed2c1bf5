use crate::{Error, InvalidWindow};

/// Why a run of the pruner ended. Chunks before it are done; the one under way was rolled back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PruneError {
    /// A window is too short. Nothing was removed.
    #[error(transparent)]
    Window(#[from] InvalidWindow),

    /// The table of claims is missing, or the database failed.
    #[error("pruning stopped: {0}")]
    Database(#[source] Error),

    /// The archive cannot be written. The claims that it should have held are still in the table.
    #[error(
        "pruning stopped, since the archive cannot be written: {0}; the claims are still in the table"
    )]
    Archive(#[source] std::io::Error),
}

impl PruneError {
    /// Whether a later run may succeed with nothing changed in the program. [`Pruner::run`](crate::Pruner::run) goes on after these.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Window(_) => false,
            Self::Database(error) => error.is_transient(),
            // The disk may be full, or the share away.
            Self::Archive(_) => true,
        }
    }
}
