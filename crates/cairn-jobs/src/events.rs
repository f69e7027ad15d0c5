//! Whom a job tells what it does while it does it.

use std::path::Path;

use cairn_format::table::properties::Properties;
use cairn_platform::sync::Arc;
use cairn_types::{Error, FileNumber};
use cairn_version::{BlobFileMeta, FileMeta};

use crate::stats::JobStats;

/// Is told of the tables and parts of a job, on the threads that work on it. No lock is held.
pub trait JobEvents: Send + Sync {
    /// Runs `work`, which a thread beside that of the job does for it.
    fn within_job(&self, work: &mut dyn FnMut()) {
        work();
    }

    /// A table is about to be written.
    fn table_started(&self, number: FileNumber, path: &Path);

    /// A table was written and synced.
    fn table_created(&self, path: &Path, file: &FileMeta, properties: &Arc<Properties>);

    /// A blob file is about to be written.
    fn blob_started(&self, number: FileNumber, path: &Path);

    /// A blob file was written and synced.
    fn blob_created(&self, path: &Path, file: &BlobFileMeta);

    /// A part of a compaction begins.
    fn subcompaction_began(&self, part: usize);

    /// A part of a compaction has ended: what it did, or why it failed.
    fn subcompaction_completed(&self, part: usize, result: Result<JobStats, &Error>);
}
