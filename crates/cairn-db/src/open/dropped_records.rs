//! The part of a log that recovery dropped.

use std::path::PathBuf;

/// A part of a log that recovery did not use; with `best_efforts_recovery`, also of the MANIFEST.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dropped {
    /// The file.
    pub file: PathBuf,
    /// The offset at which the part begins, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// The reason.
    pub reason: String,
}
