//! Sources: the locations of the tables and blob files of a family, the way they are opened, and their
//! caches.
//!
//! [`Sources`] owns the objects that all families share: the table of open files, the block cache of families
//! without their own, the memory budget. From these and the options of a family it creates the first view of
//! the family, and a new view when options change.
//!
//! Invariants: the key order of a family and its blob source never change; a view has the sources of the
//! options that were current when it was created.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::{ArcSwapOption, Guard};
use cairn_memory::{BlockCache, ChargePolicy, MemoryUses};
use cairn_memtable::Memtable;
use cairn_observe::logger::Logger;
use cairn_observe::statistics::Ticker;
use cairn_options::{DbOptions, DefaultCache, FamilyOptions, TableOptions};
use cairn_platform::fs::{FileMode, missing_dirs, sync_name, unsynced_name};
use cairn_platform::{FileSystem, Random};
use cairn_read::{BlobCache, BlobSource, LazySeeks, Reading, RowCache, View, ViewEnd};
use cairn_types::Result;
use cairn_version::manifest::RecoveredFamily;
use cairn_version::{OpenTables, TableSource, Version};

use super::family::{Families, FamilyState};
use crate::context::DbContext;
use crate::locks::Rank;
use crate::memory::budget::Budget;
use crate::options::settings::Settings;
use crate::telemetry::Telemetry;

/// The sources of the tables and blob files of a database.
pub(crate) struct Sources {
    context: Arc<DbContext>,
    telemetry: Arc<Telemetry>,
    settings: Arc<Settings>,
    /// The open tables of all families.
    open_tables: Arc<OpenTables>,
    /// The cache of families without their own. `None` once the database is released.
    default_cache: ArcSwapOption<BlockCache>,
    /// The memory budget, if there is one.
    budget: Option<Arc<Budget>>,
    /// The mark set by the end of a view.
    view_end: ViewEnd,
}

/// The number of tables that may be open, and of those that may be kept open under that limit. A budget limits them
/// unless `max_open_files` does. The tables of a database that only reads stay open, because its primary may delete
/// their files.
fn open_table_limit(
    context: &DbContext,
    options: &DbOptions,
    budget: Option<&Budget>,
) -> (Option<usize>, usize) {
    match (options.open_table_limit(), budget) {
        (None, Some(budget)) if !context.read_only => {
            let limit = budget.of.open_tables();
            (Some(limit), limit / 2)
        }
        (limit, _) => (limit, 0),
    }
}

impl Sources {
    /// Creates the sources of a database without families. Without a budget, the default block cache is `default_cache`, if
    /// it is given: the current options do not refer to it, so that it is released when the database is closed. `view_end`
    /// is the mark set by views.
    pub(super) fn new(
        context: Arc<DbContext>,
        telemetry: Arc<Telemetry>,
        settings: Arc<Settings>,
        budget: Option<Arc<Budget>>,
        default_cache: Option<DefaultCache>,
        view_end: ViewEnd,
    ) -> Sources {
        let options = settings.get();
        let default_cache = match &budget {
            Some(budget) => budget.of.cache().clone(),
            None => default_cache.unwrap_or_default().get(),
        };
        let (limit, keeps) = open_table_limit(&context, &options, budget.as_deref());
        Sources {
            open_tables: OpenTables::new(limit, keeps),
            default_cache: ArcSwapOption::from(Some(default_cache)),
            context,
            telemetry,
            settings,
            budget,
            view_end,
        }
    }

    /// Returns the current options.
    fn options(&self) -> Guard<Arc<DbOptions>> {
        self.settings.get()
    }

    /// Limits the number of open tables.
    pub(crate) fn limit_open_tables(&self, options: &DbOptions) {
        let (limit, keeps) = open_table_limit(&self.context, options, self.budget.as_deref());
        self.open_tables.set_limit(limit, keeps);
    }

    /// Releases the default cache of a closed database.
    pub(super) fn release(&self) {
        self.default_cache.store(None);
    }

    /// Sets the default cache in `options` if they have none and use one.
    fn fill_in_cache(&self, options: &mut FamilyOptions) {
        if options.table.block_cache.is_none() && !options.table.no_block_cache {
            options.table.block_cache = self.default_cache.load_full();
        }
    }

    /// Returns the state of a family with `version` and an empty `memtable`.
    pub(super) fn new_family(
        &self,
        family: &RecoveredFamily,
        mut options: FamilyOptions,
        version: Version,
        memtable: Arc<Memtable>,
    ) -> FamilyState {
        self.fill_in_cache(&mut options);
        assert_eq!(
            options.comparator.name(),
            version.order().name(),
            "the tables of family {:?} have the comparator of its options",
            family.name
        );
        let tables = Arc::new(self.table_source(&options));
        let blobs = Arc::new(self.blob_source(&options, &tables));
        let (io, clock) = (self.context.io.clone(), self.context.world.clock.clone());
        let fixed = Reading {
            merge_operator: options.merge_operator.clone(),
            dated: options.value_ttl.is_some(),
            follows: self.context.follows.is_some(),
            row_cache: self.row_cache(&options),
            statistics: self.telemetry.statistics().cloned(),
            ..Reading::new(family.name.clone(), tables.clone(), blobs, io, clock)
        };
        let reading = self.with_options(fixed, &options, tables.clone());
        let view = View {
            memtable,
            immutables: Vec::new(),
            version: Arc::new(version),
            family: Arc::new(reading),
            number: 1,
            end: self.view_end.clone(),
        };
        // The first epoch is that of files ingested behind existing data.
        let reserved = u64::from(options.allows_ingest_behind(&self.options()));
        FamilyState::new(family, Arc::new(options), view, tables, reserved)
    }

    /// Puts `options` of `family` into effect. The caller holds the lock of the tree, under which views
    /// change.
    pub(crate) fn change_options(&self, family: &FamilyState, mut options: FamilyOptions) {
        self.fill_in_cache(&mut options);
        debug_assert!(
            self.context.locks.is_held(Rank::Tree),
            "views change under the lock of the tree"
        );
        assert_eq!(
            options.comparator.name(),
            family.order().name(),
            "the comparator never changes"
        );
        let tables = Arc::new(self.table_source(&options));
        let view = family.view_full();
        let fixed = Reading::clone(&view.family);
        let reading = self.with_options(fixed, &options, tables.clone());
        family.set_options(Arc::new(options), tables);
        family.set_view(View {
            family: Arc::new(reading),
            number: view.number + 1,
            ..View::clone(&view)
        });
    }

    /// Returns `fixed` with what a family takes from its current `options`.
    fn with_options(
        &self,
        fixed: Reading,
        options: &FamilyOptions,
        tables: Arc<TableSource>,
    ) -> Reading {
        Reading {
            prefix_extractor: options.prefix_extractor.clone(),
            max_sequential_skip: options.max_sequential_skip_in_iterations,
            memtable_op_scan_flush_trigger: options.memtable_op_scan_flush_trigger,
            memtable_avg_op_scan_flush_trigger: options.memtable_avg_op_scan_flush_trigger,
            min_tombstones_for_range_conversion: self.range_conversion(options),
            read_sampler: self.read_sampler(options),
            lazy_seeks: LazySeeks::default(),
            tables,
            ..fixed
        }
    }

    /// Returns the number of deletions that iterators over a family with `options` turn into a range tombstone.
    fn range_conversion(&self, options: &FamilyOptions) -> u32 {
        // A tombstone would hide keys that are ingested behind it and that no deletion covers. Memtables that are filled
        // from the logs of another database are not written to.
        let follows = self.context.read_only || self.context.follows.is_some();
        let is_off = follows || options.allows_ingest_behind(&self.options());
        match is_off {
            true => 0,
            false => options.min_tombstones_for_range_conversion,
        }
    }

    /// Returns the sampler of reads per file for a family with `options`, if enabled.
    fn read_sampler(&self, options: &FamilyOptions) -> Option<Arc<dyn Random>> {
        (options.read_triggered_compaction_threshold > 0.0)
            .then(|| self.context.world.random.clone())
    }

    /// Returns a new source of the blob files of `family`, which has no open files and finds none of the cached blobs.
    pub(crate) fn new_blobs(&self, family: &FamilyState) -> Arc<BlobSource> {
        Arc::new(self.blob_source(&family.options(), &family.tables()))
    }

    /// Returns the source of the blob files of a family with `options`.
    fn blob_source(&self, options: &FamilyOptions, tables: &TableSource) -> BlobSource {
        let of_budget = self.budget.as_ref().map(|budget| budget.of.cache().clone());
        let cache = options.blob_cache.clone().or(of_budget);
        let cache = cache.map(|cache| BlobCache {
            cache,
            salt: self.context.world.random.next_u64(),
            lowest_tier: self.options().lowest_used_cache_tier.into(),
        });
        let dir = self.dirs(options).swap_remove(0);
        BlobSource::new(self.context.world.fs.clone(), dir, tables.mode, cache)
            .counting(self.telemetry.meter())
            .charging(tables.charge.clone())
    }

    /// Returns the row cache of a family with `options`, if it has one.
    fn row_cache(&self, options: &FamilyOptions) -> Option<RowCache> {
        let cache = self.options().row_cache.clone();
        let cache = cache.filter(|_| options.comparator.timestamp_size() == 0)?;
        if let Some(budget) = &self.budget {
            budget.of.include_rows(&cache);
        }
        Some(RowCache {
            cache,
            salt: self.context.world.random.next_u64(),
        })
    }

    /// Returns the source of the tables of a family with `options`.
    fn table_source(&self, options: &FamilyOptions) -> TableSource {
        let db = self.options();
        if let (Some(budget), Some(cache)) = (&self.budget, &options.table.block_cache) {
            budget.of.include_cache(cache);
        }
        if let Some(cache) = &options.table.block_cache {
            self.count_simulated(cache);
        }
        TableSource {
            fs: self.context.world.fs.clone(),
            paths: self.dirs(options),
            order: options.comparator.clone(),
            prefix_extractor: options.prefix_extractor.clone(),
            cache: options.table.block_cache.clone(),
            lowest_tier: db.lowest_used_cache_tier.into(),
            charge: self.charge_policy(&options.table),
            options: Arc::new(match &self.budget {
                Some(budget) => budget.table_options(&options.table),
                None => options.table.clone(),
            }),
            flat_filter_bits: options.flat_filter_bits(),
            block_checksum_len: options.block_checksum_len(),
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
            default_temperature: options.default_temperature.number(),
            uncache_aggressiveness: options.uncache_aggressiveness,
            cache_tracer: Some(self.context.traces.block_cache.clone()),
        }
    }

    /// Counts the lookups of a simulation of `cache` in the statistics. Those of a cache that several databases share
    /// are counted by each of them.
    fn count_simulated(&self, cache: &BlockCache) {
        let (Some(simulation), Some(statistics)) = (
            cache.simulation(),
            self.telemetry.meter().statistics().cloned(),
        ) else {
            return;
        };
        let id = Arc::as_ptr(&statistics).addr();
        let statistics = Arc::downgrade(&statistics);
        simulation.observe(id, move |is_hit| {
            let ticker = match is_hit {
                true => Ticker::SimBlockCacheHit,
                false => Ticker::SimBlockCacheMiss,
            };
            let Some(statistics) = statistics.upgrade() else {
                return false;
            };
            statistics.update(|update| update.add(ticker, 1));
            true
        });
    }

    /// The memory of a family of `options` that is charged. Under a memory budget that is all of it, and the cache is
    /// the budget's, also for families without a cache or with one of their own.
    fn charge_policy(&self, options: &TableOptions) -> ChargePolicy {
        match &self.budget {
            Some(budget) => ChargePolicy::new(Some(budget.of.cache().clone()), MemoryUses::ALL),
            None => ChargePolicy::new(
                options.block_cache.clone(),
                options.cache_usage_options.charged(),
            ),
        }
    }

    /// Returns the directories of the tables of a family with these options, by path id.
    pub(crate) fn dirs(&self, family: &FamilyOptions) -> Vec<PathBuf> {
        table_dirs(&self.context.dir, &self.options(), family)
    }

    /// Returns the directories of the tables of all `families`.
    pub(crate) fn dirs_of(&self, families: &Families) -> BTreeSet<PathBuf> {
        families
            .iter()
            .flat_map(|family| self.dirs(&family.options()))
            .collect()
    }

    /// Creates the directories of a family's tables.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the options of the family are incompatible with those of the database; `IoError`.
    pub(crate) fn create_dirs(&self, family: &FamilyOptions) -> Result<()> {
        family.check_paths(&self.options())?;
        family.check_ingest_behind(&self.options())?;
        let dirs = self.dirs(family);
        for dir in dirs.iter().filter(|dir| **dir != self.context.dir) {
            let unsynced = create_dir(&*self.context.world.fs, dir, false)?;
            warn_of_unsynced(&self.context.info, &unsynced);
        }
        Ok(())
    }
}

/// Returns the directories of the tables of a `family` of the database in `dir`, by path id.
pub(crate) fn table_dirs(dir: &Path, options: &DbOptions, family: &FamilyOptions) -> Vec<PathBuf> {
    match family.paths_of(options) {
        [] => vec![dir.to_owned()],
        paths => paths.iter().map(|place| place.path.clone()).collect(),
    }
}

/// Creates `dir` durably if it is missing. Its name is synced even if it exists, unless the database is
/// `known`: an earlier opening may have failed between creating and syncing it. Returns the directories whose names
/// could not be synced, for [`warn_of_unsynced`].
pub(crate) fn create_dir(fs: &dyn FileSystem, dir: &Path, known: bool) -> Result<Vec<PathBuf>> {
    let mut names = missing_dirs(fs, dir)?;
    match names.is_empty() {
        true if known => return Ok(Vec::new()),
        true => names.push(dir),
        // The directories above that existed are not synced: they are not the database's.
        false => fs.create_dir_all(dir)?,
    }
    let mut unsynced = Vec::new();
    for name in names {
        if !sync_name(fs, name)? {
            unsynced.push(name.to_owned());
        }
    }
    Ok(unsynced)
}

/// Warns that the names of the directories `unsynced` were not synced.
pub(crate) fn warn_of_unsynced(info: &Logger, unsynced: &[PathBuf]) {
    for dir in unsynced {
        info.warn(format_args!("{}", unsynced_name(dir)));
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
