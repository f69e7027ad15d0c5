//! Families that come and go, new logs, and the end of an open database.

use std::sync::Arc;

use cairn_format::log::Predecessor;
use cairn_memtable::{FilterOptions, Memtable};
use cairn_observe::FlushReason;
use cairn_observe::callback::{self, Within};
use cairn_options::{FamilyOptions, MemtableFactory, WalWriteMode};
use cairn_types::{Error, FileNumber, Result, SequenceNumber};
use cairn_version::TreeEdit;
use cairn_wal::WalOptions;

use crate::catalog::create::NewFamily;
use crate::catalog::family::FamilyDescriptor;
use crate::catalog::family::FamilyState;
use crate::locks::Rank;
use crate::shared::Shared;
use crate::ttl;
use crate::write::log::{CurrentLog, Expected};

/// The least number of blocks of memtables in their budget.
const BLOCKS_OF_BUDGET: usize = 32;

impl Shared {
    /// A memtable for a family of `options`, for writes after `last`.
    pub(crate) fn new_memtable(
        &self,
        options: &cairn_options::FamilyOptions,
        last: SequenceNumber,
    ) -> Arc<Memtable> {
        // In small steps under a small budget: the unused end of a block counts.
        let limit = self.writes.buffers.as_ref().filter(|it| it.enabled());
        let step = limit.map_or(usize::MAX, |it| it.buffer_size() / BLOCKS_OF_BUDGET);
        let memtable = cairn_memtable::MemtableOptions {
            arena_block_size: options.arena_block_size.min(step),
            filter: memtable_filter(options),
            sort_on_read: options.memtable_factory == MemtableFactory::Vector,
        };
        let memtable = Memtable::new(options.comparator.clone(), memtable).created_after(last);
        Arc::new(match &self.writes.buffers {
            Some(buffers) => memtable.accounted(buffers.clone()),
            None => memtable,
        })
    }

    /// Creates families, durably: all of them or none.
    pub(crate) fn create_families(
        self: &Arc<Self>,
        given: &[FamilyDescriptor],
    ) -> Result<Vec<Arc<FamilyState>>> {
        if given.is_empty() {
            return Ok(Vec::new());
        }
        self.check_writable()?;
        let new = given
            .iter()
            .map(|family| self.prepare_family(family))
            .collect::<Result<Vec<_>>>()?;
        // With the lead no write is under way, so the families begin with the current log.
        let _lead = self.lead_alone()?;
        self.create_families_led(new)
    }

    /// Checks a family to create and makes the directories of its tables.
    fn prepare_family(&self, given: &FamilyDescriptor) -> Result<NewFamily> {
        let FamilyDescriptor { name, options } = given;
        if name.is_empty() {
            return Err(Error::invalid_argument("a column family needs a name"));
        }
        options.validate()?;
        options.check_supported()?;
        let mut options = options.clone();
        ttl::agree(self.context.dated, name, &mut options)?;
        let options = options.sanitize(&self.options());
        self.catalog.create_table_dirs(&options)?;
        Ok(NewFamily {
            name: name.clone(),
            options,
            tables: TreeEdit::default(),
        })
    }

    /// Creates families with one group of MANIFEST records and one OPTIONS file. The caller leads.
    pub(crate) fn create_families_led(
        self: &Arc<Self>,
        new: Vec<NewFamily>,
    ) -> Result<Vec<Arc<FamilyState>>> {
        debug_assert!(self.context.locks.is_held(Rank::Lead), "the caller leads");
        let log = self
            .writes
            .writer
            .lock()
            .log
            .as_ref()
            .map(CurrentLog::number);
        let log = log.ok_or_else(|| Error::shutdown("the database is closed"))?;
        // A write to a family of `new` must find its options noted.
        new.iter()
            .for_each(|family| self.signals.note_options(&family.options));
        let last = self.published();
        let created = self.catalog.create_families(&**self, new, log, |options| {
            self.new_memtable(options, last)
        })?;
        for family in &created {
            self.log_options_of_family(family.name(), &family.options());
        }
        self.state_timestamp_sizes(&created)?;
        self.update_wal_limit();
        self.begin_timers();
        self.catalog.write_options_file()?;
        Ok(created)
    }

    /// Records the timestamp sizes of new `families` in the current log.
    fn state_timestamp_sizes(&self, families: &[Arc<FamilyState>]) -> Result<()> {
        let sizes: Vec<_> = families
            .iter()
            .filter_map(|it| timestamp_size(it))
            .collect();
        match &mut self.writes.writer.lock().log {
            Some(log) if !sizes.is_empty() => log
                .state_timestamp_sizes(&sizes)
                .inspect_err(|error| self.log_failed(error)),
            _ => Ok(()),
        }
    }

    /// Drops `family`, durably.
    pub(crate) fn drop_family(self: &Arc<Self>, family: &Arc<FamilyState>) -> Result<()> {
        self.check_writable()?;
        if family.id() == 0 {
            return Err(Error::invalid_argument(
                "the default column family cannot be dropped",
            ));
        }
        let lead = self.lead_alone()?;
        self.catalog.drop_family(&**self, family)?;
        self.update_wal_limit();
        drop(lead);
        self.purge();
        self.catalog.write_options_file()
    }

    pub(crate) fn update_wal_limit(&self) {
        let families = self.catalog.families();
        let options: Vec<_> = families.iter().map(|family| family.options()).collect();
        let limit = self.options().wal_limit(options.iter().map(|one| &***one));
        self.signals.set_wal_limit(limit);
    }

    /// Creates the log `number`, which is likely to be used as `before` was.
    pub(crate) fn create_log(
        &self,
        number: FileNumber,
        predecessor: Option<Predecessor>,
        before: Option<&CurrentLog>,
    ) -> Result<CurrentLog> {
        let recycled = self.tree.lock().logs.next_recycled();
        let options = WalOptions {
            recyclable: self.options().recycle_log_file_num > 0,
            compression: self.options().wal_compression,
            mapped: self.options().wal_write_mode == WalWriteMode::Mapped,
        };
        assert!(
            before.is_none_or(|before| before.number() < number),
            "log {number} is newer than the one before it"
        );
        let synced = before.is_some_and(|before| before.file().was_synced());
        let mut log = CurrentLog::create(
            &*self.context.world.fs,
            &self.context.wal_dir,
            number,
            recycled,
            &options,
            self.options().use_fsync,
            Expected {
                synced: synced || self.syncs_ended_logs(),
                // The zeros of a log that is synced early are written for nothing.
                len: before.filter(|_| !synced).map_or(0, CurrentLog::len),
                before,
            },
        )?;
        log.write_back_every(self.options().wal_bytes_per_sync);
        if self.options().manual_wal_flush {
            log.flush_by_hand();
        }
        if let Some(family) = self.catalog.default_family() {
            log.charge_to(&family.tables().charge);
        }
        if let Some(predecessor) = predecessor {
            log.state_predecessor(&predecessor)?;
        }
        let stamped: Vec<(u32, u16)> = self
            .catalog
            .families()
            .iter()
            .filter_map(|family| timestamp_size(family))
            .collect();
        if !stamped.is_empty() {
            log.state_timestamp_sizes(&stamped)?;
        }
        Ok(log)
    }

    /// The description of `log` for the next log, with `track_and_verify_wals`.
    pub(crate) fn predecessor(&self, log: &CurrentLog) -> Option<Predecessor> {
        self.options()
            .track_and_verify_wals
            .then(|| log.as_predecessor())
    }

    /// Closes the database: running jobs end, the log is synced, the lock is given back. A second
    /// call does nothing.
    ///
    /// # Errors
    ///
    /// `Busy`, with nothing done, in a callback that may not wait; those of the log and the MANIFEST.
    pub(crate) fn close(self: &Arc<Self>) -> Result<()> {
        self.context.check_process()?;
        self.may_wait()?;
        callback::may_close(&self.context.info)?;
        self.telemetry.notify_shutdown();
        self.lifecycle.close_once(|| {
            callback::within(&self.context.info, Within::Closing, || self.close_locked())
        })
    }

    /// [`Shared::close`] of a database that is open, by the one thread that does it.
    fn close_locked(self: &Arc<Self>) -> Result<()> {
        let flushed = self.flush_unlogged();
        // What a job has not finished is in the log, or still in its inputs.
        self.lifecycle.begin_closing();
        self.signals.request_attention();
        // A writer that waits for an `unlock_wal` leads.
        drop(self.tree.lock());
        self.changed.notify_all();
        // No thread leads any more once this one has led: the next leader finds the database
        // closing.
        drop(self.lead_alone()?);
        self.wait_until(|tree| tree.jobs.are_over() && !tree.logs.has_ending())?;
        assert_eq!(
            self.published(),
            self.writes.commits.allocated(),
            "no write is under way in a database that is being closed"
        );
        let log = self.writes.writer.lock().log.take();
        let synced = match log {
            Some(log) if !log.has_failed() => log.finish(&*self.context.world.fs),
            Some(log) => log.abandon(),
            None => Ok(()),
        };
        let unsynced = self.tree.lock().logs.take_unsynced();
        let synced = unsynced.into_iter().fold(synced, |synced, log| {
            if log.has_failed() {
                log.forget();
                return synced;
            }
            synced.and(log.finish(&*self.context.world.fs))
        });
        assert!(
            self.tree.lock().jobs.are_over(),
            "no job begins in a database that is being closed"
        );
        let manifest = self
            .catalog
            .close_manifest(&**self, !self.errors.stop_writes());
        self.delete_recycled_logs();
        self.purge();
        self.tree.lock().jobs.give_up_directory();
        self.catalog.give_up_directory();
        self.wait_until(|tree| !tree.jobs.have_purges())?;
        let has_log = self.writes.writer.lock().log.is_some();
        let has_manifest = self.catalog.has_manifest();
        assert!(
            !has_log && !has_manifest,
            "log and MANIFEST are closed before the directory is released"
        );
        self.catalog.space().untrack_all();
        self.lifecycle.release_directory();
        flushed.and(synced).and(manifest)
    }

    /// Flushes what was written without a log, unless the options say that it may be lost.
    pub(crate) fn flush_unlogged(self: &Arc<Self>) -> Result<()> {
        if self.context.read_only
            || self.options().avoid_flush_during_shutdown
            || !self.signals.has_unlogged()
            || self.lifecycle.is_closing()
        {
            return Ok(());
        }
        // Writes without a log are lost then, and the caller that closes the database gets the reason.
        self.check_failure()?;
        let families: Vec<_> = self.catalog.families().iter().cloned().collect();
        self.flush_because(&families, FlushReason::ShutDown);
        self.flush(&families)
    }
}

/// The id of the family and the size of the timestamps of its keys, if they have any.
fn timestamp_size(family: &FamilyState) -> Option<(u32, u16)> {
    let size = u16::try_from(family.order().timestamp_size()).ok()?;
    (size > 0).then_some((family.id(), size))
}

/// The Bloom filter of a memtable of `options`.
fn memtable_filter(options: &FamilyOptions) -> FilterOptions {
    let ratio = options.memtable_prefix_bloom_size_ratio.clamp(0.0, 0.25);
    FilterOptions {
        // A share of what is in memory, far below where the rounding would show.
        bytes: (options.write_buffer_size as f64 * ratio) as usize,
        whole_keys: options.memtable_whole_key_filtering,
        prefix_extractor: options.prefix_extractor.clone(),
    }
}
