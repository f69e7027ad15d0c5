//! Shared parts of flush and compaction jobs: their context, the priority of their I/O, and the error of a job that ends
//! because the database is being closed.

use std::sync::Arc;

use cairn_jobs::{BlobGc, Cancel, History, JobContext, JobDatabase, JobFamily};
use cairn_platform::IoPriority;
use cairn_platform::fs::FileMode;
use cairn_types::{Code, Error};
use cairn_version::TableRef;

use crate::catalog::family::FamilyState;
use crate::shared::Shared;
use crate::write::stall::Condition;

impl Shared {
    /// The context of a job of `family`.
    pub(crate) fn job_context(self: &Arc<Self>, family: &FamilyState) -> JobContext {
        let options = self.options();
        let mode = FileMode {
            direct: options.use_direct_io_for_flush_and_compaction
                || options.use_direct_io_for_compaction_reads,
            ..FileMode::default()
        };
        let tables = family.tables().clone();
        let io = self.context.io.clone();
        let apart = mode.direct && !options.use_direct_reads;
        let shared = self.clone();
        JobContext {
            world: self.context.world.clone(),
            io: self.context.io.clone(),
            io_priority: IoPriority::High,
            open: Arc::new(move |file, level| match apart {
                true => tables.open_apart(file, Some(level), mode, &io),
                false => tables.open(file, level, &io).map(TableRef::into_arc),
            }),
            new_number: Arc::new(move || shared.catalog.numbers.take()),
            family: JobFamily {
                id: family.id(),
                name: family.name().to_owned(),
                order: family.order().clone(),
                options: family.options().clone(),
                dirs: family.tables().paths.clone(),
                blobs: family.view().family.blobs.clone(),
                charge: family.tables().charge.clone(),
            },
            database: JobDatabase {
                options: self.options().clone(),
                id: self.context.db_id.clone(),
                session_id: self.context.session_id.clone(),
                host_id: self.context.host_id.clone(),
            },
            blob_gc: BlobGc::new(&family.options()),
            snapshots: self.catalog.snapshots.list(),
            history: History {
                low: family.view().version.history_low().to_vec(),
                trim: None,
            },
            seqno_times: self.seqno_times(&family.options()),
            events: None,
            cancel: Cancel::any([self.lifecycle.cancel_flag()]),
            meter: self.telemetry.meter(),
            request_thread: None,
        }
    }

    /// Returns the I/O priorities of the reads and writes of a job for a rate limiter: `usual`, or that of
    /// users while users have to wait for jobs.
    pub(crate) fn io_priority(&self, usual: IoPriority) -> IoPriority {
        if self.options().rate_limiter.is_none() {
            return usual;
        }
        match self.tree.lock().condition {
            Condition::Normal => usual,
            Condition::Delayed(_) | Condition::Stopped(_) => IoPriority::User,
        }
    }

    /// Returns the error of a job that ended with `error` because the database is being closed.
    pub(crate) fn cut_short(&self, error: Error) -> Error {
        if error.code() == Code::Aborted && !error.is_panic() && self.lifecycle.is_closing() {
            return Error::shutdown("the job was cancelled by the closing of the database");
        }
        error
    }
}
