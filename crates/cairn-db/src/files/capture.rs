//! The files that hold a database at one moment, and how much of each.

use std::path::PathBuf;
use std::sync::Arc;

use cairn_types::{FileNumber, SequenceNumber};
use cairn_version::{BlobFileMeta, FileMeta};

/// The state of a database at one moment, as its files hold it.
#[derive(Clone)]
pub(crate) struct Capture {
    pub(crate) tables: Vec<(PathBuf, Arc<FileMeta>)>,
    pub(crate) blobs: Vec<(PathBuf, Arc<BlobFileMeta>)>,
    pub(crate) manifest: (FileNumber, u64),
    /// Logs with the bytes of them that count.
    pub(crate) logs: Vec<(FileNumber, u64)>,
    /// The last write in it.
    pub(crate) last: SequenceNumber,
}
