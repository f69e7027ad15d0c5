//! The files that hold a database at one moment, and how much of each.

use cairn_types::{FileNumber, SequenceNumber};

use crate::catalog::live_files::LiveFiles;

/// The state of a database at one moment, as its files hold it.
#[derive(Clone)]
pub(crate) struct Capture {
    pub(crate) files: LiveFiles,
    /// Logs with the bytes of them that count.
    pub(crate) logs: Vec<(FileNumber, u64)>,
    /// The last write in it.
    pub(crate) last: SequenceNumber,
}
