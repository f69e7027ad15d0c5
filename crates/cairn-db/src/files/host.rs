//! The open database, as files that enter and leave it need it.
//!
//! A [`Host`] gives its [`Components`], which are used through their own calls, and two services: the write path
//! ([`WriteHost`]) and jobs ([`JobHost`]), six calls each. The database implements them (`files_host.rs`); the tests of this
//! folder do so with a catalog on a simulated disk, logs in name only, and no job.

use std::sync::Arc;

use cairn_format::manifest::LogReach;
use cairn_jobs::pick::InProgress;
use cairn_types::{FileNumber, Result, SequenceNumber};

use super::capture::Capture;
use crate::catalog::Catalog;
use crate::catalog::create::NewFamily;
use crate::catalog::env::CatalogEnv;
use crate::catalog::family::FamilyState;
use crate::context::DbContext;
use crate::settings::Settings;
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

/// The end of the logs while no write is under way.
pub(crate) struct LogEnd {
    /// The last write.
    pub(crate) last: SequenceNumber,
    /// The logs that recovery needs, with their lengths, oldest first.
    pub(crate) needed: Vec<(FileNumber, u64)>,
    /// The last log that has records, and where they end.
    pub(crate) reach: Option<LogReach>,
}

/// The write path of a database.
pub(crate) trait WriteHost {
    /// # Errors
    ///
    /// The reason why the database cannot be written to.
    fn check_writable(&self) -> Result<()>;

    /// Takes the lead: no write is under way, and none begins before the result is dropped.
    ///
    /// # Errors
    ///
    /// `Busy` in a callback that may not write.
    fn lead_alone(&self) -> Result<Lead<'_>>;

    /// Waits while a program holds writes back with `lock_wal`. The caller leads.
    fn wait_for_log(&self) -> Result<()>;

    /// Gives the kernel the part of the log that waits in memory, and with `sync` makes it survive a power cut.
    fn flush_wal(&self, sync: bool) -> Result<()>;

    /// The end of the logs. The caller leads.
    fn log_end(&self) -> LogEnd;

    /// Creates families, durably: all of them or none. The caller leads.
    fn create_families_led(self: &Arc<Self>, new: Vec<NewFamily>) -> Result<Vec<Arc<FamilyState>>>;
}

/// The jobs of a database.
pub(crate) trait JobHost {
    /// Flushes `families`, and those that are flushed with them, and waits for it.
    fn flush(self: &Arc<Self>, families: &[Arc<FamilyState>]) -> Result<()>;

    /// [`JobHost::flush`] for a caller that leads and keeps the lead.
    fn flush_led(self: &Arc<Self>, families: &[Arc<FamilyState>]) -> Result<()>;

    /// Flushes all families for a copy of the database if the logs have at least `wal_bytes`, or miss a write.
    fn flush_for_copy(self: &Arc<Self>, wal_bytes: u64) -> Result<()>;

    /// Calls `change` with the files and ranges that compactions of `family` have in work, under the lock under which
    /// compactions choose theirs; `None` if the family was dropped.
    fn with_inputs<T>(
        &self,
        family: &FamilyState,
        change: impl FnOnce(&mut InProgress) -> T,
    ) -> Option<T>;

    /// Starts the jobs that are due after a change of the tree or of the inputs.
    fn schedule_due(self: &Arc<Self>);

    /// Deletes what no reader and no recovery needs. The caller holds no lock.
    fn purge(&self);
}

/// An open database.
pub(crate) trait Host: CatalogEnv + WriteHost + JobHost {
    /// Its components.
    fn components(&self) -> Components<'_>;

    /// True if the MANIFEST may have an edit that is not shown: the database is read-only then.
    fn is_in_doubt(&self) -> bool;

    /// The files that the opening of a database read that is only read.
    ///
    /// # Errors
    ///
    /// `NotSupported` if its MANIFEST is not whole.
    fn opened_files(&self) -> Result<Capture>;
}
