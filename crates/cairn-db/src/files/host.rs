//! The open database, as seen by operations on files outside of the tree.
//!
//! A [`Host`] provides its [`Components`] and two services of six functions each: the write path
//! ([`WriteHost`]) and jobs ([`JobHost`]). The database implements them (`files_host.rs`). The tests of this
//! folder implement them with a catalog on a simulated disk, the numbers of logs, and no jobs.

use std::sync::Arc;

use cairn_format::manifest::LogReach;
use cairn_jobs::pick::InProgress;
use cairn_observe::FlushReason;
use cairn_types::{FileNumber, Result, SequenceNumber};
use cairn_version::manifest::WriteFailed;

use super::capture::Capture;
use crate::catalog::Catalog;
use crate::catalog::create::NewFamily;
use crate::catalog::env::CatalogEnv;
use crate::catalog::family::FamilyState;
use crate::context::DbContext;
use crate::options::settings::Settings;
use crate::telemetry::Telemetry;
use crate::write::commit::Lead;

/// The components of a database that files use.
#[derive(Clone, Copy)]
pub(crate) struct Components<'a> {
    pub(crate) context: &'a DbContext,
    pub(crate) telemetry: &'a Telemetry,
    pub(crate) settings: &'a Settings,
    pub(crate) catalog: &'a Catalog,
}

/// The end of the logs while no write is in progress.
pub(crate) struct LogEnd {
    /// The last write.
    pub(crate) last: SequenceNumber,
    /// The logs that recovery needs, with their lengths, oldest first.
    pub(crate) needed: Vec<(FileNumber, u64)>,
    /// The last log with records, and the end of its records.
    pub(crate) reach: Option<LogReach>,
}

/// The write path of a database.
pub(crate) trait WriteHost {
    /// # Errors
    ///
    /// The reason why the database cannot be written to.
    fn check_writable(&self) -> Result<()>;

    /// Acquires the lead: no write is in progress, and none begins before the result is dropped.
    ///
    /// # Errors
    ///
    /// `Busy` in a callback that may not write.
    fn lead_alone(&self) -> Result<Lead<'_>>;

    /// Waits while `lock_wal` blocks writes. The caller leads.
    fn wait_for_log(&self) -> Result<()>;

    /// Passes the buffered part of the log to the kernel; with `sync`, makes it durable.
    fn flush_wal(&self, sync: bool) -> Result<()>;

    /// Returns the end of the logs. The caller leads.
    fn log_end(&self) -> LogEnd;

    /// Creates families, durably: all of them or none. The caller leads, and then calls [`Host::record_families`]. After an
    /// error, it keeps the tables of the families if it is in doubt whether the MANIFEST has them.
    fn create_families_led(
        self: &Arc<Self>,
        new: Vec<NewFamily>,
    ) -> Result<Vec<Arc<FamilyState>>, WriteFailed>;

    /// Records new families in the log and the OPTIONS file. They exist even if this fails. The caller leads.
    fn record_families(&self, created: &[Arc<FamilyState>]) -> Result<()>;
}

/// The jobs of a database.
pub(crate) trait JobHost {
    /// Flushes `families`, and those that have to be flushed with them, and waits for the flush.
    fn flush(self: &Arc<Self>, families: &[Arc<FamilyState>]) -> Result<()>;

    /// [`JobHost::flush`] for a caller that leads and keeps the lead.
    fn flush_led(
        self: &Arc<Self>,
        families: &[Arc<FamilyState>],
        reason: FlushReason,
    ) -> Result<()>;

    /// Flushes all families for a copy of the database if the logs have at least `wal_bytes`, or do not have
    /// all writes; together if `atomic`.
    fn flush_for_copy(self: &Arc<Self>, wal_bytes: u64, atomic: bool) -> Result<()>;

    /// Calls `change` with the files and ranges used by compactions of `family`, under the lock under which
    /// compactions choose theirs; `None` if the family was dropped.
    fn with_inputs<T>(
        &self,
        family: &FamilyState,
        change: impl FnOnce(&mut InProgress) -> T,
    ) -> Option<T>;

    /// Starts the jobs that are due after a change of the tree or of the inputs.
    fn schedule_due(self: &Arc<Self>);

    /// Deletes files that neither readers nor recovery need. The caller holds no lock.
    fn purge(&self);
}

/// An open database.
pub(crate) trait Host: CatalogEnv + WriteHost + JobHost {
    /// Its components.
    fn components(&self) -> Components<'_>;

    /// Calls `work`, which creates or deletes files. The directory is not released meanwhile; `None` if it has been.
    fn while_open<T>(&self, work: impl FnOnce() -> T) -> Option<T>;

    /// Returns the files read by the opening of a read-only database.
    ///
    /// # Errors
    ///
    /// `NotSupported` if its MANIFEST is incomplete.
    fn opened_files(&self) -> Result<Capture>;
}
