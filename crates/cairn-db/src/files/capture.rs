//! The files that contain a consistent state of a database, and their relevant lengths.

use cairn_types::{FileNumber, SequenceNumber};

use crate::catalog::live_files::LiveFiles;

/// A consistent state of a database, as contained in its files.
#[derive(Clone)]
pub(crate) struct Capture {
    pub(crate) files: LiveFiles,
    /// Logs with their relevant lengths.
    pub(crate) logs: Vec<(FileNumber, u64)>,
    /// The last sequence number in it.
    pub(crate) last: SequenceNumber,
}
