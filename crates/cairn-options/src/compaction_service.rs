//! The interface of remote compactions: a program that sends compactions to other processes.

use std::sync::Arc;

use cairn_observe::CompactionReason;

use crate::text::{NULL, Refusal, Text};

/// The state of a remote compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionServiceJobStatus {
    /// The job succeeded, or was scheduled.
    Success,
    /// The job failed.
    Failure,
    /// The job was aborted.
    Aborted,
    /// The primary is to compact the files itself.
    UseLocal,
}

/// A compaction, or a part of one, to be run by a worker.
#[derive(Clone, Debug)]
pub struct CompactionServiceJobInfo {
    /// The directory of the database.
    pub db_name: String,
    /// The id of the database.
    pub db_id: String,
    /// The id of the session.
    pub db_session_id: String,
    /// The id of the column family.
    pub family_id: u32,
    /// The name of the column family.
    pub family_name: String,
    /// The number of the job, which is unique in the session: that of the compaction in the upper 32 bits, that
    /// of the subcompaction in the lower ones.
    pub job_id: u64,
    /// The reason of the compaction.
    pub compaction_reason: CompactionReason,
    /// True if the inputs are all files of the column family.
    pub is_full_compaction: bool,
    /// True for a manual compaction.
    pub is_manual_compaction: bool,
    /// True if no level below the output level has older versions of the keys.
    pub bottommost_level: bool,
    /// The smallest input level.
    pub base_input_level: usize,
    /// The output level.
    pub output_level: usize,
}

/// The answer to a request to schedule a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionServiceScheduleResponse {
    /// The name of the job for the other calls. It must be unique among all databases and sessions.
    pub scheduled_job_id: String,
    /// `Success` if the job is scheduled.
    pub status: CompactionServiceJobStatus,
}

/// Runs compactions outside of the process of the database.
///
/// 1. For each job, `schedule` is called first. If it succeeds, `wait` is called once, with its job id.
/// 2. If `wait` succeeds, its result is installed or rejected, and `on_installation` is called once.
/// 3. The calls are made by background threads, by several at once, without locks. They must not wait for
///    flushes, compactions or the closing of the database.
/// 4. `cancel_awaiting_jobs` is called when the database is being closed; after it, each `wait` must return
///    soon. The database is closed when all have returned.
pub trait CompactionService: Send + Sync {
    /// Returns the name of the service, for the info log.
    fn name(&self) -> &str;

    /// Schedules the job described by `input`, which is passed to the worker unchanged.
    fn schedule(
        &self,
        info: &CompactionServiceJobInfo,
        input: &[u8],
    ) -> CompactionServiceScheduleResponse;

    /// Waits for a job. Returns its status and the result that the worker returned.
    fn wait(&self, scheduled_job_id: &str) -> (CompactionServiceJobStatus, Vec<u8>);

    /// Makes all calls of `wait` return soon.
    fn cancel_awaiting_jobs(&self) {}

    /// Called when the outputs of a job were moved into the database, or will not be: its output directory
    /// can be deleted.
    fn on_installation(&self, scheduled_job_id: &str, status: CompactionServiceJobStatus) {
        let _ = (scheduled_job_id, status);
    }
}

/// A service is set in code; in texts it is ignored.
impl Text for Option<Arc<dyn CompactionService>> {
    fn parse(text: &str) -> Result<Self, Refusal> {
        match text {
            NULL | "" => Ok(None),
            _ => Err("a compaction service is set in code".to_owned()),
        }
    }

    fn print(&self) -> String {
        NULL.to_owned()
    }

    fn update(&mut self, text: &str) -> Result<(), Refusal> {
        Self::parse(text).map(drop)
    }
}
