//! Option presets, equivalent to RocksDB's functions of the same names.

use std::sync::Arc;

use cairn_format::filter::FilterPolicy;
use cairn_memory::{BlockCache, CacheOptions};
use cairn_platform::{Executor, Priority};

use crate::db::DbOptions;
use crate::enums::{
    CompactionPri, CompactionStyle, Compression, DataBlockIndexType, IndexType, TableKind,
    WalRecoveryMode,
};
use crate::family::FamilyOptions;
use crate::table::TableOptions;

const MIB: u64 = 1 << 20;
/// Block cache size of a small database.
const SMALL_CACHE: usize = 16 << 20;

fn cache(bytes: usize) -> Option<Arc<BlockCache>> {
    Some(Arc::new(BlockCache::new(bytes, CacheOptions::default())))
}

/// True if the release `version` (major, minor) is older than `other`.
fn older(version: (u32, u32), other: (u32, u32)) -> bool {
    version < other
}

impl DbOptions {
    /// Lets flushes and compactions use `threads` threads in total. RocksDB recommends the number
    /// of cores.
    ///
    /// ```
    /// let mut options = cairn_options::DbOptions::default();
    /// options.increase_parallelism(8);
    /// assert_eq!(options.max_background_jobs, 8);
    /// ```
    pub fn increase_parallelism(&mut self, threads: i32) -> &mut DbOptions {
        self.max_background_jobs = threads;
        self
    }

    /// Tunes for a database of less than a gigabyte with a small memory footprint.
    pub fn optimize_for_small_db(&mut self) -> &mut DbOptions {
        self.max_file_opening_threads = 1;
        self.max_open_files = 5000;
        self
    }

    /// Restores the defaults of RocksDB release `major.minor`.
    pub fn old_defaults(&mut self, major: u32, minor: u32) -> &mut DbOptions {
        let version = (major, minor);
        if older(version, (4, 7)) {
            self.max_file_opening_threads = 1;
            self.table_cache_numshardbits = 4;
        }
        if older(version, (5, 2)) {
            self.delayed_write_rate = 2 * MIB;
        } else if older(version, (5, 6)) {
            self.delayed_write_rate = 16 * MIB;
        }
        self.max_open_files = 5000;
        self.wal_recovery_mode = WalRecoveryMode::TolerateCorruptedTailRecords;
        self
    }
}

impl FamilyOptions {
    /// Tunes for point lookups without range scans: hash indexes in blocks, filters, and a cache of
    /// `block_cache_size_mb` MiB.
    ///
    /// ```
    /// let mut options = cairn_options::FamilyOptions::default();
    /// options.optimize_for_point_lookup(64);
    /// assert!(options.table.filter_policy.is_some());
    /// ```
    pub fn optimize_for_point_lookup(&mut self, block_cache_size_mb: u64) -> &mut FamilyOptions {
        let bytes = block_cache_size_mb.saturating_mul(MIB);
        self.table_factory = TableKind::BlockBased;
        self.table = TableOptions {
            data_block_index_type: DataBlockIndexType::BinaryAndHash,
            data_block_hash_table_util_ratio: 0.75,
            filter_policy: Some(FilterPolicy::Bloom { bits_per_key: 10.0 }),
            block_cache: cache(usize::try_from(bytes).unwrap_or(usize::MAX)),
            ..TableOptions::default()
        };
        self.memtable_prefix_bloom_size_ratio = 0.02;
        self.memtable_whole_key_filtering = true;
        self
    }

    /// Tunes for heavy writes with leveled compaction, with about `memtable_memory_budget` bytes of
    /// memtables. RocksDB's default budget is 512 MiB.
    pub fn optimize_level_style_compaction(
        &mut self,
        memtable_memory_budget: u64,
    ) -> &mut FamilyOptions {
        self.set_memtable_budget(memtable_memory_budget);
        self.level0_file_num_compaction_trigger = 2;
        self.target_file_size_base = memtable_memory_budget / 8;
        self.max_bytes_for_level_base = memtable_memory_budget;
        self.compaction_style = CompactionStyle::Level;
        let compression = |level| match level {
            0 | 1 => Compression::None,
            _ => Compression::FAST,
        };
        self.compression_per_level = (0..self.num_levels).map(compression).collect();
        self
    }

    /// Tunes for heavy writes with universal compaction, with about `memtable_memory_budget` bytes
    /// of memtables. RocksDB's default budget is 512 MiB.
    pub fn optimize_universal_style_compaction(
        &mut self,
        memtable_memory_budget: u64,
    ) -> &mut FamilyOptions {
        self.set_memtable_budget(memtable_memory_budget);
        self.compaction_style = CompactionStyle::Universal;
        self.compaction_options_universal.compression_size_percent = 80;
        self
    }

    fn set_memtable_budget(&mut self, bytes: u64) {
        self.write_buffer_size = usize::try_from(bytes / 4).unwrap_or(usize::MAX);
        self.min_write_buffer_number_to_merge = 2;
        self.max_write_buffer_number = 6;
    }

    /// Tunes for a database of less than a gigabyte with a small memory footprint. Column families
    /// that share `block_cache` share its memory; without one, the family gets its own.
    pub fn optimize_for_small_db(
        &mut self,
        block_cache: Option<Arc<BlockCache>>,
    ) -> &mut FamilyOptions {
        self.write_buffer_size = 2 << 20;
        self.target_file_size_base = 2 * MIB;
        self.max_bytes_for_level_base = 10 * MIB;
        self.soft_pending_compaction_bytes_limit = 256 * MIB;
        self.hard_pending_compaction_bytes_limit = 1 << 30;
        self.table_factory = TableKind::BlockBased;
        self.table = TableOptions {
            block_cache: block_cache.or_else(|| cache(SMALL_CACHE)),
            cache_index_and_filter_blocks: true,
            index_type: IndexType::TwoLevelIndexSearch,
            ..TableOptions::default()
        };
        self
    }

    /// Restores the defaults of RocksDB release `major.minor`.
    pub fn old_defaults(&mut self, major: u32, minor: u32) -> &mut FamilyOptions {
        let version = (major, minor);
        if older(version, (5, 19)) {
            self.compaction_pri = CompactionPri::ByCompensatedSize;
        }
        if older(version, (4, 7)) {
            self.write_buffer_size = 4 << 20;
            self.target_file_size_base = 2 * MIB;
            self.max_bytes_for_level_base = 10 * MIB;
            self.soft_pending_compaction_bytes_limit = 0;
            self.hard_pending_compaction_bytes_limit = 0;
        }
        if older(version, (5, 0)) {
            self.level0_stop_writes_trigger = 24;
        } else if older(version, (5, 2)) {
            self.level0_stop_writes_trigger = 30;
        }
        self
    }

    /// Disables expensive checks. Cairn keeps them enabled.
    pub fn disable_extra_checks(&mut self) -> &mut FamilyOptions {
        self.force_consistency_checks = false;
        self
    }
}

/// [`DbOptions::increase_parallelism`], as the C and Java interfaces of RocksDB have it: also sets the low-priority pool
/// of `executor` to `threads` threads and its high-priority pool to one. Opening a database may raise both.
pub fn increase_parallelism(db: &mut DbOptions, executor: &dyn Executor, threads: i32) {
    db.increase_parallelism(threads);
    executor.set_threads(Priority::Low, usize::try_from(threads).unwrap_or(0));
    executor.set_threads(Priority::High, 1);
}

/// Configures bulk loading: no automatic compaction, no write stalls. Compact the whole range manually
/// afterwards.
pub fn prepare_for_bulk_load(db: &mut DbOptions, family: &mut FamilyOptions) {
    const NEVER: i32 = 1 << 30;
    family.level0_file_num_compaction_trigger = NEVER;
    family.level0_slowdown_writes_trigger = NEVER;
    family.level0_stop_writes_trigger = NEVER;
    family.soft_pending_compaction_bytes_limit = 0;
    family.hard_pending_compaction_bytes_limit = 0;
    family.disable_auto_compactions = true;
    family.max_compaction_bytes = 1 << 60;
    family.num_levels = 2;
    family.max_write_buffer_number = 6;
    family.min_write_buffer_number_to_merge = 1;
    family.target_file_size_base = 256 * MIB;
    db.max_background_flushes = 4;
    db.max_background_compactions = 2;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every preset passes validation.
    #[test]
    fn presets_make_valid_options() {
        let (mut db, mut family) = (DbOptions::default(), FamilyOptions::default());
        prepare_for_bulk_load(&mut db, &mut family);
        assert!(db.validate().is_ok() && family.validate().is_ok());
        let presets: [fn(&mut FamilyOptions) -> &mut FamilyOptions; 5] = [
            |family| family.optimize_for_point_lookup(8),
            |family| family.optimize_level_style_compaction(64 << 20),
            |family| family.optimize_universal_style_compaction(64 << 20),
            |family| family.optimize_for_small_db(None),
            |family| family.old_defaults(4, 6),
        ];
        for preset in presets {
            let mut family = FamilyOptions::default();
            preset(&mut family);
            assert!(family.validate().is_ok());
        }
    }

    #[test]
    fn parallelism_sets_the_sizes_of_pools() {
        let pools = cairn_platform::thread_pool::ThreadPool::new();
        pools.set_threads(Priority::High, 3);
        pools.set_threads(Priority::Low, 6);
        let mut db = DbOptions::default();
        increase_parallelism(&mut db, &pools, 4);
        assert_eq!(db.max_background_jobs, 4);
        assert_eq!(pools.threads(Priority::Low), 4);
        assert_eq!(pools.threads(Priority::High), 1);
    }

    /// Regression: the presets of block-based tables kept the other kinds of tables.
    #[test]
    fn presets_of_block_based_tables_replace_other_kinds() {
        for kind in [TableKind::Plain, TableKind::Cuckoo] {
            let mut family = FamilyOptions {
                table_factory: kind,
                ..FamilyOptions::default()
            };
            family.optimize_for_point_lookup(8);
            assert_eq!(family.table_factory, TableKind::BlockBased);
            family.table_factory = kind;
            family.optimize_for_small_db(None);
            assert_eq!(family.table_factory, TableKind::BlockBased);
        }
    }

    #[test]
    fn old_defaults_know_their_releases() {
        let stop = |major, minor| {
            let mut family = FamilyOptions::default();
            family.old_defaults(major, minor).level0_stop_writes_trigger
        };
        assert_eq!(
            [stop(4, 9), stop(5, 1), stop(5, 2), stop(8, 0)],
            [24, 30, 36, 36]
        );
        let rate = |major, minor| {
            let mut db = DbOptions::default();
            db.old_defaults(major, minor).delayed_write_rate
        };
        assert_eq!([rate(5, 1), rate(5, 5), rate(5, 6)], [2 * MIB, 16 * MIB, 0]);
    }
}
