//! Families that come and go, new logs, and the end of an open database.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_format::log::Predecessor;
use cairn_format::manifest::{FamilyChange, VersionEdit};
use cairn_format::names::FileName;
use cairn_memtable::{FilterOptions, Memtable};
use cairn_observe::FlushReason;
use cairn_observe::callback::{self, Within};
use cairn_observe::statistics::Ticker;
use cairn_options::{DbOptions, FamilyOptions, MemtableFactory, WalWriteMode};
use cairn_platform::Random;
use cairn_platform::fs::FileMode;
use cairn_read::{BlobCache, BlobSource, Reading, RowCache, View};
use cairn_types::{Error, FileNumber, Result, SequenceNumber};
use cairn_version::manifest::{self, Manifest, RecoveredFamily};
use cairn_version::{TableSource, TreeEdit, Version};
use cairn_wal::WalOptions;

use crate::family::FamilyDescriptor;
use crate::family::FamilyState;
use crate::invariants::check_version;
use crate::locks::Rank;
use crate::shared::{FamilyTree, Shared};
use crate::ttl;
use crate::write::log::{CurrentLog, Expected};

/// A column family to create: checked options, and the tables that it begins with.
pub(crate) struct NewFamily {
    pub(crate) name: String,
    pub(crate) options: FamilyOptions,
    pub(crate) tables: TreeEdit,
}

impl NewFamily {
    /// The MANIFEST records of the family as `id`, whose first log is `log`.
    fn records(&self, id: u32, log: FileNumber) -> Vec<VersionEdit> {
        let mut records = vec![VersionEdit {
            comparator: Some(self.options.comparator.name().to_owned()),
            family_change: Some(FamilyChange::Add {
                name: self.name.clone(),
            }),
            log_number: Some(log),
            max_family: Some(id),
            persist_timestamps: Some(true),
            ..VersionEdit::of_family(id)
        }];
        assert!(
            self.tables.deleted.is_empty(),
            "a new family deletes no table"
        );
        if !self.tables.is_empty() {
            let mut record = self.tables.record(id);
            let added = self.tables.added.iter();
            record.last_sequence = added.map(|(_, file)| file.largest_seq).max();
            records.push(record);
        }
        records
    }
}

impl Shared {
    /// The state of a family with `version` and an empty memtable, for writes after `last`.
    pub(super) fn new_family(
        &self,
        family: &RecoveredFamily,
        mut options: FamilyOptions,
        version: Version,
        last: SequenceNumber,
    ) -> FamilyState {
        if options.table.block_cache.is_none() && !options.table.no_block_cache {
            options.table.block_cache = self.default_cache.load_full();
        }
        self.signals.note_options(&options);
        assert_eq!(
            options.comparator.name(),
            version.order().name(),
            "the tables of family {:?} are in the order of its options",
            family.name
        );
        let tables = Arc::new(self.table_source(&options));
        let reading = Reading {
            family: family.name.clone(),
            order: options.comparator.clone(),
            merge_operator: options.merge_operator.clone(),
            dated: self.context.dated,
            prefix_extractor: options.prefix_extractor.clone(),
            max_sequential_skip: options.max_sequential_skip_in_iterations,
            memtable_op_scan_flush_trigger: options.memtable_op_scan_flush_trigger,
            memtable_avg_op_scan_flush_trigger: options.memtable_avg_op_scan_flush_trigger,
            read_sampler: self.read_sampler(&options),
            tables: tables.clone(),
            blobs: Arc::new(self.blob_source(&options, &tables)),
            row_cache: self.row_cache(&options),
            io: self.context.io.clone(),
            clock: self.context.world.clock.clone(),
            statistics: self.telemetry.statistics().cloned(),
        };
        let view = View {
            memtable: self.new_memtable(&options, last),
            immutables: Vec::new(),
            version: Arc::new(version),
            family: Arc::new(reading),
            number: 1,
            end: self.purge_hint.view_end(),
        };
        // The first epoch is that of files that are ingested behind.
        let reserved = u64::from(options.allows_ingest_behind(&self.options()));
        FamilyState::new(family, Arc::new(options), view, tables, reserved)
    }

    /// The sampler of the reads that are counted on the files of a family of `options`, if any are.
    pub(crate) fn read_sampler(&self, options: &FamilyOptions) -> Option<Arc<dyn Random>> {
        (options.read_triggered_compaction_threshold > 0.0)
            .then(|| self.context.world.random.clone())
    }

    /// The source of the blob files of a family of `options`.
    fn blob_source(&self, options: &FamilyOptions, tables: &TableSource) -> BlobSource {
        let cache = options.blob_cache.clone().map(|cache| BlobCache {
            cache,
            salt: self.context.world.random.next_u64(),
            lowest_tier: self.options().lowest_used_cache_tier.into(),
        });
        let dir = self.table_dirs(options).swap_remove(0);
        BlobSource::new(self.context.world.fs.clone(), dir, tables.mode, cache)
            .counting(self.telemetry.meter())
    }

    /// The row cache of a family of `options`, if it has one.
    fn row_cache(&self, options: &FamilyOptions) -> Option<RowCache> {
        let db = self.options();
        let cache = db.row_cache.clone();
        let cache = cache.filter(|_| options.comparator.timestamp_size() == 0)?;
        Some(RowCache {
            cache,
            salt: self.context.world.random.next_u64(),
        })
    }

    /// The source of the tables of a family of `options`.
    pub(crate) fn table_source(&self, options: &FamilyOptions) -> TableSource {
        let db = self.options();
        TableSource {
            fs: self.context.world.fs.clone(),
            paths: self.table_dirs(options),
            order: options.comparator.clone(),
            prefix_extractor: options.prefix_extractor.clone(),
            cache: options.table.block_cache.clone(),
            lowest_tier: db.lowest_used_cache_tier.into(),
            options: Arc::new(options.table.clone()),
            verify_unique_id: db.verify_sst_unique_id_in_manifest,
            mode: FileMode {
                direct: db.use_direct_reads,
                mapped: db.allow_mmap_reads,
                ..FileMode::default()
            },
            advise_random: db.advise_random_on_open,
            meter: self.telemetry.meter(),
            last_level: usize::try_from(options.num_levels - 1).unwrap_or(0),
            open_tables: self.open_tables.clone(),
            uncache_aggressiveness: options.uncache_aggressiveness,
        }
    }

    /// A memtable for a family of `options`, for writes after `last`.
    pub(crate) fn new_memtable(
        &self,
        options: &cairn_options::FamilyOptions,
        last: SequenceNumber,
    ) -> Arc<Memtable> {
        let memtable = cairn_memtable::MemtableOptions {
            arena_block_size: options.arena_block_size,
            filter: memtable_filter(options),
            sort_on_read: options.memtable_factory == MemtableFactory::Vector,
        };
        let memtable = Memtable::new(options.comparator.clone(), memtable).created_after(last);
        Arc::new(match &self.writes.buffers {
            Some(buffers) => memtable.accounted(buffers.clone()),
            None => memtable,
        })
    }

    /// The directories of the tables of a family with these options, by path id.
    pub(crate) fn table_dirs(&self, family: &FamilyOptions) -> Vec<PathBuf> {
        table_dirs(&self.context.dir, &self.options(), family)
    }

    /// The directories of the tables of all families.
    pub(crate) fn all_table_dirs(&self) -> BTreeSet<PathBuf> {
        let families = self.families.load();
        families
            .iter()
            .flat_map(|family| self.table_dirs(&family.options()))
            .collect()
    }

    /// Makes the directories of a family's tables.
    pub(crate) fn create_table_dirs(&self, family: &FamilyOptions) -> Result<()> {
        family.check_paths(&self.options())?;
        family.check_ingest_behind(&self.options())?;
        let dirs = self.table_dirs(family);
        let others = dirs.iter().filter(|dir| **dir != self.context.dir);
        others
            .into_iter()
            .try_for_each(|dir| super::create_dir(&*self.context.world.fs, dir, false))
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
        self.create_table_dirs(&options)?;
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
        let mut manifest = self.manifest.lock();
        let mut families = (*self.families.load_full()).clone();
        let first_id = self.tree.lock().max_family + 1;
        let tables = new.iter().flat_map(|family| &family.tables.added);
        let largest = tables.map(|(_, file)| file.largest_seq).max();
        let mut records = Vec::new();
        let mut created = Vec::new();
        for (id, family) in (first_id..).zip(new) {
            if families.named(&family.name).is_some() {
                return Err(Error::invalid_argument(format!(
                    "column family {:?} exists already",
                    family.name
                )));
            }
            records.extend(family.records(id, log));
            let state = Arc::new(self.created(id, family, log)?);
            families.insert(state.clone());
            created.push(state);
        }
        self.log_edits(&mut manifest, records)?;
        {
            let mut tree = self.tree.lock();
            for state in &created {
                assert!(
                    tree.max_family < state.id(),
                    "the id {} was never used: the largest is {}",
                    state.id(),
                    tree.max_family
                );
                tree.max_family = state.id();
                let before = tree.families.insert(state.id(), FamilyTree::new(log));
                assert!(before.is_none(), "a new family has no tree yet");
            }
        }
        self.families.store(families);
        self.check_tree(&self.tree.lock());
        self.state_timestamp_sizes(&created)?;
        if let Some(largest) = largest {
            // A reader that sees the number sees the family that has it.
            self.writes.commits.skip_to(largest);
        }
        self.update_wal_limit();
        drop(manifest);
        self.begin_timers();
        self.write_options_file()?;
        Ok(created)
    }

    /// The state of a new family `id` whose first log is `log`.
    fn created(&self, id: u32, family: NewFamily, log: FileNumber) -> Result<FamilyState> {
        let NewFamily {
            name,
            options,
            tables,
        } = family;
        let levels = usize::try_from(options.num_levels).unwrap_or(1).max(1);
        let version = Version::empty(options.comparator.clone(), levels).with_edit(&tables)?;
        check_version(&version);
        let recovered = RecoveredFamily {
            id,
            name,
            version: version.clone(),
            log_number: log,
            full_history_ts_low: Vec::new(),
            persist_timestamps: true,
        };
        let family = self.new_family(&recovered, options, version, self.published());
        self.log_options_of_family(family.name(), &family.options());
        Ok(family)
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
        self.drop_family_led(family)?;
        drop(lead);
        self.purge();
        self.write_options_file()
    }

    fn drop_family_led(self: &Arc<Self>, family: &Arc<FamilyState>) -> Result<()> {
        let mut manifest = self.manifest.lock();
        if family.is_dropped() {
            return Err(Error::invalid_argument(format!(
                "column family {:?} was dropped already",
                family.name()
            )));
        }
        let min_log = self.min_log_without(family);
        let mut record = VersionEdit {
            family_change: Some(FamilyChange::Drop),
            min_log_number_to_keep: Some(min_log),
            ..VersionEdit::of_family(family.id())
        };
        if self.options().track_and_verify_wals_in_manifest {
            record.wals_deleted_before = record.min_log_number_to_keep;
        }
        self.log_edits(&mut manifest, vec![record])?;
        family.mark_dropped();
        let families = self.families.load_full();
        self.families.store(families.without(family.id()));
        let mut tree = self.tree.lock();
        let gone = tree.families.remove(&family.id());
        assert!(
            gone.is_some(),
            "family {:?}, which is dropped, has a tree",
            family.name()
        );
        tree.logs.release_before(min_log);
        tree.dropped_families
            .retain(|dropped| dropped.strong_count() > 0);
        tree.dropped_families.push(Arc::downgrade(family));
        let view = family.view.load_full();
        tree.obsolete
            .add(&family.tables(), &view.family.blobs, &view.version, None);
        drop(view);
        self.purge_hint.note_obsolete();
        self.check_tree(&tree);
        self.update_conditions(&mut tree);
        self.changed.notify_all();
        drop(tree);
        self.update_wal_limit();
        Ok(())
    }

    pub(crate) fn update_wal_limit(&self) {
        let families = self.families.load();
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
        if let Some(predecessor) = predecessor {
            log.state_predecessor(&predecessor)?;
        }
        let stamped: Vec<(u32, u16)> = self
            .families
            .load()
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
        let manifest = self.manifest.lock().take();
        let manifest = manifest.map_or(Ok(()), |manifest| self.close_manifest(manifest));
        self.delete_recycled_logs();
        self.purge();
        self.tree.lock().jobs.give_up_directory();
        self.wait_until(|tree| !tree.jobs.have_purges())?;
        let has_log = self.writes.writer.lock().log.is_some();
        let has_manifest = self.manifest.lock().is_some();
        assert!(
            !has_log && !has_manifest,
            "log and MANIFEST are closed before the directory is released"
        );
        self.space.untrack_all();
        self.lifecycle.release_directory();
        flushed.and(synced).and(manifest)
    }

    /// Closes the MANIFEST; first it is read back if the options say so, and written anew if it is
    /// damaged.
    fn close_manifest(&self, mut manifest: Manifest) -> Result<()> {
        if self.options().reuse_manifest_on_open
            && !self.errors.stop_writes()
            && !manifest.has_failed()
        {
            manifest.end()?;
        }
        let (number, bytes) = (manifest.number(), manifest.size());
        manifest.close()?;
        if !self.options().verify_manifest_content_on_close || self.errors.stop_writes() {
            return Ok(());
        }
        let fs = &*self.context.world.fs;
        match manifest::verify(fs, &self.context.dir, number, bytes) {
            Err(error) if error.is_corruption() => {
                self.telemetry
                    .tick(Ticker::ManifestValidationFailureCount, 1);
                self.context
                    .info
                    .error(format_args!("MANIFEST {number} is written anew: {error}"));
            }
            done => return done,
        }
        let fresh = self.write_manifest(&self.families.load_full(), &[])?;
        let (next, bytes) = (fresh.number(), fresh.size());
        fresh.close()?;
        manifest::verify(fs, &self.context.dir, next, bytes)?;
        self.delete(
            &self
                .context
                .dir
                .join(FileName::Manifest(number).to_string()),
        );
        Ok(())
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
        let families: Vec<_> = self.families.load().iter().cloned().collect();
        self.flush_because(&families, FlushReason::ShutDown);
        self.flush(&families)
    }
}

/// The directories of the tables of a `family` of the database in `dir`, by path id.
pub(super) fn table_dirs(dir: &Path, options: &DbOptions, family: &FamilyOptions) -> Vec<PathBuf> {
    match family.paths_of(options) {
        [] => vec![dir.to_owned()],
        paths => paths.iter().map(|place| place.path.clone()).collect(),
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
