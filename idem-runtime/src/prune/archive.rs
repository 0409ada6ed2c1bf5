#[cfg(feature = "archive")]
mod json_lines;

use std::fmt;

#[cfg(feature = "archive")]
use json_lines::JsonLines;

use super::PruneError;
use super::chunks::{Removed, Takes};

/// Where claims go before they are removed.
///
/// A claim is in the table or in the archive at any time, and never in neither: into a table it moves in one transaction; a file is
/// written and synced to the disk before the transaction that removes its claims is committed. If the process dies between the two, the
/// next run writes those claims a second time.
#[derive(Clone)]
pub struct Archive(pub(super) Place);

#[derive(Clone)]
pub(super) enum Place {
    None,
    Table,
    #[cfg(feature = "archive")]
    File(JsonLines),
}

impl Archive {
    pub(crate) fn none() -> Self {
        Self(Place::None)
    }

    /// The table `processed_messages_archive`, which is created if it is missing. It has the columns of the table of claims and `archived_at`.
    #[must_use]
    pub fn table() -> Self {
        Self(Place::Table)
    }

    /// A file with one JSON object per claim and line, which is created, or appended to:
    ///
    /// ```json
    /// {"consumer":"billing","message_id":"evt-1","processed_at":"2026-11-30T08:46:20.000000Z"}
    /// ```
    ///
    /// `day`, `fingerprint` (in hexadecimal) and `result` (the stored JSON, as a string) are there where the claim has them. The file
    /// belongs to one machine: let the other processes that prune write to files of their own. It may be moved away at any time, as log files
    /// are. A file that is there and is no archive is left as it is, and an error. Writing blocks the thread for the time of a write and a sync
    /// for each chunk.
    #[cfg(feature = "archive")]
    #[must_use]
    pub fn json_lines(path: impl Into<std::path::PathBuf>) -> Self {
        Self(Place::File(JsonLines::new(path.into(), false)))
    }

    /// As [`json_lines`](Archive::json_lines), compressed with gzip. Each chunk is a member of its own, which every reader of gzip joins; one
    /// that was cut off when a process died is removed before the next is written.
    #[cfg(feature = "archive")]
    #[must_use]
    pub fn json_lines_gz(path: impl Into<std::path::PathBuf>) -> Self {
        Self(Place::File(JsonLines::new(path.into(), true)))
    }

    /// Writes down what is about to be removed.
    #[cfg_attr(
        not(feature = "archive"),
        allow(clippy::unnecessary_wraps, reason = "a file may fail")
    )]
    pub(crate) fn write(&self, claims: &[Removed]) -> Result<(), PruneError> {
        match &self.0 {
            #[cfg(feature = "archive")]
            Place::File(file) if !claims.is_empty() => {
                file.append(claims).map_err(PruneError::Archive)
            }
            _ => {
                let _ = claims;
                Ok(())
            }
        }
    }

    #[cfg(feature = "postgres")]
    pub(crate) fn is_table(&self) -> bool {
        matches!(self.0, Place::Table)
    }

    #[cfg(feature = "postgres")]
    pub(crate) fn is_file(&self) -> bool {
        !matches!(self.0, Place::None | Place::Table)
    }

    /// How the statement that removes claims has to answer.
    pub(super) fn takes(&self) -> Takes {
        match &self.0 {
            Place::None => Takes::Nothing,
            Place::Table => Takes::Copies,
            #[cfg(feature = "archive")]
            Place::File(_) => Takes::Rows,
        }
    }
}

impl fmt::Debug for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::None => f.write_str("none"),
            Place::Table => f.write_str("table"),
            #[cfg(feature = "archive")]
            Place::File(file) => file.fmt(f),
        }
    }
}
