//! Writes: the checks before a batch is committed, and the services of the database for the commit pipeline
//! ([`commit`]).
//!
//! ```text
//! batch -> [checked] -> [held back while its families are behind] -> commit pipeline -> [listeners notified]
//! ```
//!
//! The pipeline runs over [`DbEnv`]: room in memtables and log ([`room`]), the log ([`log`]), insertions ([`insert`]). A
//! large transaction can be committed without insertions ([`bypass`]), a write can have callbacks ([`user_callback`]), and
//! large values can be written directly to blob files ([`separate`], [`direct_blobs`]). [`batch`] has the batches of a
//! program, [`two_phase`] the transactions that are decided later, [`ttl`] adds write times, and [`awaited_writes`] executes
//! the writes of futures.

pub(crate) mod archive;
pub(crate) mod awaited_writes;
pub(crate) mod batch;
pub(crate) mod buffers;
pub(crate) mod bypass;
pub(crate) mod callbacks;
pub(crate) mod commit;
pub(crate) mod delay;
pub(crate) mod direct_blobs;
pub(crate) mod early_switch;
pub(crate) mod entry;
pub(crate) mod family;
pub(crate) mod insert;
mod insert_protected;
mod limits;
pub(crate) mod log;
pub(crate) mod log_set;
mod log_state;
#[cfg(loom)]
mod loomed;
pub(crate) mod moved_sections;
mod new_log;
mod new_memtable;
pub(crate) mod order;
pub(crate) mod pace;
pub(crate) mod protection;
pub(crate) mod queue;
pub(crate) mod room;
pub(crate) mod sections;
mod separate;
pub(crate) mod signals;
pub(crate) mod stall;
mod stall_conditions;
pub(crate) mod stopwatch;
pub(crate) mod successive_merges;
pub(crate) mod ttl;
pub(crate) mod two_phase;
pub(crate) mod user_callback;
pub(crate) mod wal_control;
pub(crate) mod wal_locks;
pub(crate) mod write_callback;

use std::cell::Cell;
use std::sync::Arc;

use cairn_format::batch::Record;
use cairn_format::dated;
use cairn_memory::{CacheCharge, MemoryUse};
use cairn_observe::BackgroundErrorReason;
use cairn_observe::perf::PerfMetric;
use cairn_observe::statistics::{Began, Histogram};
use cairn_options::WriteOptions;
use cairn_options::enums::IoCharge;
use cairn_platform::{IoKind, IoPriority};
use cairn_types::{Error, Result, SequenceNumber};

use crate::jobs::background::guarded;
use crate::locks::Rank;
use crate::shared::{Shared, Writer};
use crate::telemetry::GroupCounts;
use crate::write::batch::WriteBatch;
use commit::{CommitEnv, Company, Lead, LoggedGroup};
use log::CurrentLog;
use protection::Protection;
use queue::{Batch, Mode};

/// Writes that take at least this many microseconds are logged.
const LONG_MICROS: u64 = 50_000;

/// A condition for a write: see [`Db::write_if`].
///
/// [`Db::write_if`]: crate::Db::write_if
type Check<'a> = &'a mut dyn FnMut() -> Result<()>;

impl Shared {
    /// Writes `batch`.
    #[inline]
    pub(crate) fn write(
        self: &Arc<Self>,
        batch: &WriteBatch,
        options: &WriteOptions,
    ) -> Result<()> {
        self.write_if(batch, options, None)
    }

    /// Writes `batch` if `check`, if there is one, succeeds; see [`CommitPipeline::commit_if`].
    ///
    /// [`CommitPipeline::commit_if`]: commit::CommitPipeline::commit_if
    #[inline]
    pub(crate) fn write_if(
        self: &Arc<Self>,
        batch: &WriteBatch,
        options: &WriteOptions,
        check: Option<Check<'_>>,
    ) -> Result<()> {
        self.with_stored(batch, |batch| self.write_dated_if(batch, options, check))
    }

    /// [`Shared::write_if`] for a batch in its stored form: with a date after each value, if the database has a time to
    /// live.
    #[inline]
    pub(crate) fn write_dated_if(
        self: &Arc<Self>,
        batch: &WriteBatch,
        options: &WriteOptions,
        check: Option<Check<'_>>,
    ) -> Result<()> {
        self.check_write(batch, options)?;
        cairn_wal::check_record(batch.data().len() as u64)?;
        if self.trace.is_on() {
            return self.trace_write(batch.data(), check, |check| {
                self.write_stored(batch, options, check)
            });
        }
        self.write_stored(batch, options, check)
    }

    /// Writes `batch`, in its stored form, which has passed the checks.
    #[inline]
    pub(crate) fn write_stored(
        self: &Arc<Self>,
        batch: &WriteBatch,
        options: &WriteOptions,
        check: Option<Check<'_>>,
    ) -> Result<()> {
        let began = self.telemetry.began();
        let written = match self.signals.writes_blobs() {
            false => self.write_whole(batch, options, check),
            true => self.write_separated(batch, options, check),
        };
        self.record_write(batch, began);
        written
    }

    /// Writes `batch`, which has passed the checks, as it is.
    #[inline]
    fn write_whole(
        self: &Arc<Self>,
        batch: &WriteBatch,
        options: &WriteOptions,
        check: Option<Check<'_>>,
    ) -> Result<()> {
        let protection = batch.protection();
        let parts = Batch {
            protection: protection.as_ref(),
            ..Batch::whole(batch.data())
        };
        self.write_checked(batch, parts, options, check)
    }

    /// Records the duration of the write of `batch`, which began at `began`.
    #[inline]
    fn record_write(&self, batch: &WriteBatch, began: Began) {
        let micros = self.telemetry.time_since(began, Histogram::DbWrite);
        if let Some(micros) = micros.filter(|micros| *micros >= LONG_MICROS) {
            self.log_slow_write(batch.data().len(), micros);
        }
    }

    /// Calls `write` with the stored form of `batch`: with a date after each value, if the database has a time to live.
    #[inline]
    pub(crate) fn with_stored<T>(
        &self,
        batch: &WriteBatch,
        write: impl FnOnce(&WriteBatch) -> Result<T>,
    ) -> Result<T> {
        match self.context.dated {
            false => write(batch),
            true => write(&self.dated(batch)?),
        }
    }

    /// Returns `batch` with a date after each value.
    #[cold]
    fn dated(&self, batch: &WriteBatch) -> Result<WriteBatch> {
        let now = self.context.world.clock.wall_seconds();
        if !dated::is_date(now) {
            return Err(Error::aborted(format!(
                "the clock is wrong: values cannot be dated {now} seconds after 1970"
            )));
        }
        batch.dated(now)
    }

    /// Checks `batch`, in its stored form, and the options of its write, and delays it if it has low priority or is
    /// limited.
    pub(crate) fn check_write(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        self.context.check_process()?;
        if options.sync && options.disable_wal {
            return Err(Error::invalid_argument(
                "a synced write needs the WAL: sync and disableWAL are both set",
            ));
        }
        // Sequence numbers in logs would have gaps, but recovery recognizes the old content of a recycled log
        // by them.
        if options.disable_wal && self.options().recycle_log_file_num > 0 {
            return Err(Error::invalid_argument(
                "WriteOptions::disableWAL option is not supported if \
                 DBOptions::recycle_log_file_num > 0",
            ));
        }
        batch.check()?;
        self.check_families(batch, options.ignore_missing_column_families)?;
        // Relaxed: a batch for a family is written after the creation of the family.
        if self.signals.has_timestamps() || !batch.stamped().is_empty() {
            self.check_timestamps(batch)?;
        }
        if batch.has_ranges() {
            self.check_ranges(batch)?;
        }
        if batch.has_merges() {
            self.check_merges(batch)?;
        }
        options.check_supported()?;
        if options.low_pri {
            self.delay_low_pri_write(batch.data().len(), options.no_slowdown)?;
        }
        if options.rate_limiter_priority != IoCharge::Uncharged {
            self.charge_log_write(batch.data().len(), options)?;
        }
        Ok(())
    }

    /// Checks that no range deletion of `batch` ends before its start. RocksDB fails such a write when it inserts it, and
    /// stops all writes.
    #[cold]
    fn check_ranges(&self, batch: &WriteBatch) -> Result<()> {
        let families = self.catalog.families();
        // The comparator of a family may panic.
        guarded("comparing the ends of ranges", || {
            for record in batch.records() {
                if let Record::DeleteRange { family, begin, end } = record?
                    && let Some(family) = families.get(family)
                    && family.order().compare_without_timestamp(begin, end).is_gt()
                {
                    return Err(Error::invalid_argument(
                        "end key comes before start key: a range deletion of the batch is reversed",
                    ));
                }
            }
            Ok(())
        })
    }

    /// Checks that the families of all merge operands of `batch` have merge operators. RocksDB fails such a write when it
    /// inserts it, and stops all writes.
    fn check_merges(&self, batch: &WriteBatch) -> Result<()> {
        let families = self.catalog.families();
        let lacks_operator = |id| {
            let family = families.get(id);
            family.is_some_and(|family| family.options().merge_operator.is_none())
        };
        let stamped = batch.stamped().iter().map(|&(id, _)| id);
        let default = batch.writes_plain_to(0).then_some(0);
        let mut written = batch
            .families()
            .iter()
            .copied()
            .chain(stamped)
            .chain(default);
        if !written.any(lacks_operator) {
            return Ok(());
        }
        for record in batch.records() {
            if let Record::Merge { family, .. } = record?
                && lacks_operator(family)
            {
                return Err(Error::invalid_argument(format!(
                    "the batch has a merge operand for column family {family}, which has no merge operator"
                )));
            }
        }
        Ok(())
    }

    /// Takes the bytes of a batch from the rate limiter, which may have to wait.
    #[cold]
    fn charge_log_write(&self, bytes: usize, options: &WriteOptions) -> Result<()> {
        let own = self.options();
        if options.disable_wal || own.manual_wal_flush {
            return Err(Error::invalid_argument(
                "WriteOptions::rate_limiter_priority limits the writes of records to logs: it excludes \
                 disableWAL and manual_wal_flush",
            ));
        }
        if let Some(limiter) = &own.rate_limiter {
            let clock = &*self.context.world.clock;
            limiter.request(clock, bytes as u64, IoPriority::User, IoKind::Write);
        }
        Ok(())
    }

    /// Writes a line about a slow write to the LOG, at most once per second. Stalls and slow appends have
    /// lines of their own; otherwise the write waited for memory, for its turn or for a CPU.
    #[cold]
    fn log_slow_write(&self, bytes: usize, micros: u64) {
        let now = self.context.world.clock.monotonic_nanos();
        if !self.telemetry.may_log_long_write(now) {
            return;
        }
        let slow = {
            let writer = self.writes.writer.lock();
            writer.log.as_ref().and_then(CurrentLog::slow_append)
        };
        let millis = micros / 1000;
        match slow.filter(|(ended, _)| *ended >= now.saturating_sub(micros * 1000)) {
            Some((_, nanos)) => self.context.info.info(format_args!(
                "a write of {bytes} bytes took {millis} ms: {} of them an append to the log",
                nanos / 1_000_000
            )),
            None => self.context.info.info(format_args!(
                "a write of {bytes} bytes took {millis} ms, not because of an append to the log"
            )),
        }
    }

    /// Writes the `parts` of a batch that has passed the checks.
    pub(crate) fn write_checked(
        self: &Arc<Self>,
        batch: &WriteBatch,
        parts: Batch<'_>,
        options: &WriteOptions,
        check: Option<Check<'_>>,
    ) -> Result<()> {
        self.delay_write(batch, options.no_slowdown)?;
        self.write_parts(parts, options, check)
    }

    /// Writes the `parts` of a batch that has passed the checks and was delayed.
    pub(crate) fn write_parts(
        self: &Arc<Self>,
        parts: Batch<'_>,
        options: &WriteOptions,
        check: Option<Check<'_>>,
    ) -> Result<()> {
        self.may_write()?;
        let mut protection = None;
        let parts = protected(parts, options, &mut protection)?;
        let env = DbEnv::new(self);
        let mode = mode_of(options);
        let commits = &self.writes.commits;
        let committed = match check {
            None => commits.commit(&env, parts, mode),
            Some(check) => commits.commit_if(&env, parts, mode, check),
        };
        if env.notifies.get() {
            // Without the lead, and with the write visible, since a listener may write.
            self.telemetry.deliver();
        }
        committed
    }

    /// Returns an error for a batch with dropped families, unless `ignores_missing`, or with families that are written by
    /// ingestion only, before any of it is logged.
    fn check_families(&self, batch: &WriteBatch, ignores_missing: bool) -> Result<()> {
        if batch.families().is_empty() && batch.stamped().is_empty() {
            return Ok(());
        }
        let families = self.catalog.families();
        let stamped = batch.stamped().iter().map(|(id, _)| id);
        for id in batch.families().iter().chain(stamped) {
            match families.get(*id) {
                Some(family) => family.check_takes_writes()?,
                None if ignores_missing => {}
                None => {
                    return Err(Error::invalid_argument(format!(
                        "the batch writes to column family {id}, which does not exist or was dropped"
                    )));
                }
            }
        }
        Ok(())
    }

    /// Takes the lead for an exclusive operation, with all earlier writes inserted and visible, until the
    /// result is dropped.
    ///
    /// # Errors
    ///
    /// `Busy` in a callback that must not write, and in one of a job while the leader waits for a job.
    pub(crate) fn lead_alone(&self) -> Result<Lead<'_>> {
        self.may_write()?;
        self.writes.commits.lead_alone(|| self.may_wait())
    }

    /// Appends `batches` to the log, and syncs it with `sync`.
    fn append(
        &self,
        writer: &mut Writer,
        batches: &[(SequenceNumber, &[u8])],
        sync: bool,
    ) -> Result<()> {
        let log = writer
            .log
            .as_mut()
            .ok_or_else(|| Error::shutdown("the database is closed"))?;
        self.telemetry
            .perf_timed(PerfMetric::WriteWalTime, || log.append(batches, sync))?;
        debug_assert!(writer.unflushed_log_bytes <= log.len(), "a log grows");
        writer.unflushed_log_bytes = log.len();
        if writer.unflushed_log_bytes >= writer.check_log_at {
            self.signals.request_attention();
        }
        if sync {
            let began = self.telemetry.wal_sync_begins();
            log.file().sync(&*self.context.world.fs)?;
            self.telemetry.record_wal_sync(began);
            Ok(())
        } else {
            Ok(())
        }
    }
}

/// Returns `parts` with checksums, which are kept in `protection`, if `options` require them and the batch has none.
#[inline]
fn protected<'a>(
    parts: Batch<'a>,
    options: &WriteOptions,
    protection: &'a mut Option<Protection>,
) -> Result<Batch<'a>> {
    if options.protection_bytes_per_key == 0 || parts.protection.is_some() {
        return Ok(parts);
    }
    let made = Protection::of(parts.logged, parts.inserted)?;
    Ok(Batch {
        protection: Some(protection.insert(made)),
        ..parts
    })
}

/// The mode of a write with `options`.
#[inline]
fn mode_of(options: &WriteOptions) -> Mode {
    Mode {
        sync: options.sync,
        disable_wal: options.disable_wal,
        no_slowdown: options.no_slowdown,
    }
}

/// The environment of the commit pipeline for one write.
struct DbEnv<'a> {
    shared: &'a Arc<Shared>,
    /// Set if listeners may have to be notified after the write.
    notifies: Cell<bool>,
}

impl<'a> DbEnv<'a> {
    #[inline]
    fn new(shared: &'a Arc<Shared>) -> DbEnv<'a> {
        DbEnv {
            shared,
            notifies: Cell::new(false),
        }
    }
}

impl CommitEnv for DbEnv<'_> {
    fn charge_batch(&self, bytes: usize) -> Option<CacheCharge> {
        let family = self.shared.catalog.default_family()?;
        family.charge(MemoryUse::WriteBatch, bytes)
    }

    fn may_wait(&self) -> Result<()> {
        self.shared.may_wait()
    }

    #[inline]
    fn prepare(&self, no_slowdown: bool) -> Result<()> {
        self.shared.make_room(no_slowdown, &self.notifies)
    }

    /// A small write does not have to wait for a large group.
    fn group_limit(&self, bytes: usize) -> usize {
        let limit = self.shared.options().max_write_batch_group_size_bytes;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        match bytes <= limit / 8 {
            true => bytes + limit / 8,
            false => limit,
        }
    }

    #[inline]
    fn log(&self, group: &LoggedGroup<'_>) -> Result<()> {
        let shared = self.shared;
        let LoggedGroup {
            batches,
            keys,
            mode,
        } = *group;
        debug_assert!(shared.context.locks.is_held(Rank::Lead), "the leader logs");
        debug_assert!(
            !(mode.sync && mode.disable_wal),
            "a write that skips the log is not synced"
        );
        debug_assert!(
            batches
                .first()
                .is_some_and(|(first, _)| { *first == shared.writes.commits.allocated().plus(1) }),
            "a group takes the numbers that follow those assigned"
        );
        shared.telemetry.record_group(&GroupCounts {
            batches: batches.len(),
            keys,
            bytes: batches.iter().map(|(_, batch)| batch.len()).sum(),
            logged: !mode.disable_wal,
        });
        shared.context.unsynced_blobs.check(batches)?;
        match mode.disable_wal {
            true => shared.signals.note_unlogged(),
            false => {
                let appended = shared.append(&mut shared.writes.writer.lock(), batches, mode.sync);
                // After a failure it is unknown whether the group was logged, and the database is read-only.
                appended.inspect_err(|error| shared.log_failed(error))?;
            }
        }
        shared.telemetry.record_keys(keys);
        Ok(())
    }

    #[inline]
    fn inserts_in_turn(&self) -> bool {
        self.shared.inserts_in_turn()
    }

    #[inline]
    fn insert(&self, batch: Batch<'_>, first: SequenceNumber, company: Company) -> Result<()> {
        let (timed, bytes) = (&self.shared.telemetry, batch.inserted);
        timed.perf_timed(PerfMetric::WriteMemtableTime, || match batch.protection {
            None => self.shared.insert_guarded(bytes, first, company),
            Some(protection) => {
                let shared = self.shared;
                shared.insert_protected(bytes, protection, first, company)
            }
        })
    }

    /// Writes must stop: the group is logged but not in the memtables.
    #[cold]
    fn insertion_failed(&self, error: &Error) {
        self.shared
            .background_error(BackgroundErrorReason::MemTable, error);
    }
}
