//! Events that a job reports while it runs.

use std::path::Path;

use cairn_format::table::properties::Properties;
use cairn_platform::sync::Arc;
use cairn_types::{Error, FileNumber};
use cairn_version::{BlobFileMeta, FileMeta};

use crate::stats::JobStats;

/// Receiver of job events. Called on the threads that run the job, without locks held.
pub trait JobEvents: Send + Sync {
    /// Runs `work` on a helper thread of the job.
    fn within_job(&self, work: &mut dyn FnMut()) {
        work();
    }

    /// Called before a table is created.
    fn table_started(&self, number: FileNumber, path: &Path);

    /// Called after a table has been written and synced.
    fn table_created(&self, path: &Path, file: &FileMeta, properties: &Arc<Properties>);

    /// Called after a table written by another process was moved into the database.
    fn table_received(&self, path: &Path, file: &FileMeta, properties: &Arc<Properties>) {
        let _ = (path, file, properties);
    }

    /// Called before a blob file is created.
    fn blob_started(&self, number: FileNumber, path: &Path);

    /// Called after a blob file has been written and synced.
    fn blob_created(&self, path: &Path, file: &BlobFileMeta);

    /// Called before a subcompaction starts.
    fn subcompaction_began(&self, number: usize);

    /// Called after a subcompaction has ended, with its statistics or its error.
    fn subcompaction_completed(&self, number: usize, result: Result<JobStats, &Error>);
}
