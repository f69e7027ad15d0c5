//! Options of one column family.

use std::sync::Arc;

use cairn_memory::BlockCache;
use cairn_platform::ConcurrentTaskLimiter;
use cairn_types::{
    CompactionFilter, CompactionFilterFactory, KeyOrder, MergeOperator, PrefixExtractor,
    SstPartitionerFactory,
};

use crate::customizable::DbPath;
use crate::enums::{
    CompactionPri, CompactionStyle, Compression, MemtableFactory, PrepopulateBlobCache, TableKind,
    Temperature,
};
use crate::flat_tables::{CuckooTableOptions, PlainTableOptions};
use crate::plugin::Plugin;
use crate::property_collectors::Collectors;
use crate::rows::options;
use crate::struct_options::{
    CompressionOptions, FifoCompactionOptions, UniversalCompactionOptions,
};
use crate::table::TableOptions;

options! {
    /// Options of one column family (RocksDB's `ColumnFamilyOptions`).
    FamilyOptions, "ColumnFamilyOptions" {
        /// Key order. Fixed at creation.
        comparator: KeyOrder = KeyOrder::Bytewise;
        /// Merge operator.
        merge_operator: Option<Arc<dyn MergeOperator>> = None;
        /// Prefix extractor of prefix filters and prefix seeks.
        prefix_extractor: Option<PrefixExtractor> = None, dynamic;
        /// Memtable size that triggers a flush, in bytes. A memtable filled in key order, about as
        /// fast as it can be flushed, may be switched once it is half full, to save memory.
        write_buffer_size: usize = 64 << 20, dynamic;
        /// Number of memtables, including the active one, at which writes stop.
        max_write_buffer_number: i32 = 2, dynamic;
        /// Number of immutable memtables that triggers a flush.
        min_write_buffer_number_to_merge: i32 = 1;
        /// Total size of memtables, including unflushed ones, up to which flushed ones are kept for
        /// conflict checking, in bytes; negative for the size of `max_write_buffer_number`
        /// memtables.
        max_write_buffer_size_to_maintain: i64 = 0;
        /// The memtable structure: a skiplist, or a vector sorted on first read, for bulk loads.
        /// The skiplist also stands in for the prefix-based structures, whose names are kept in the
        /// OPTIONS file for RocksDB. All structures return the same data.
        memtable_factory: MemtableFactory = MemtableFactory::SkipList;
        /// Size of arena blocks, in bytes; 0 for an eighth of the memtable, at most 1 MiB.
        arena_block_size: usize = 0, dynamic;
        /// Fraction of a memtable used for a Bloom filter, at most a quarter; 0 for none. The
        /// filter contains key prefixes if there is a prefix extractor, and whole keys with
        /// `memtable_whole_key_filtering`. Changes apply to the next memtable. Not used with
        /// comparators under which different byte strings may be equal.
        memtable_prefix_bloom_size_ratio: f64 = 0.0, dynamic;
        /// True if that filter also contains whole keys.
        memtable_whole_key_filtering: bool = false, dynamic;
        /// Number of range deletions in a memtable that triggers a flush; 0 for no limit.
        memtable_max_range_deletions: u32 = 0, dynamic, recent;
        /// Number of hidden memtable entries skipped by one seek or step at which the memtable is
        /// marked for flush, to be switched by the next write; 0 for no limit.
        memtable_op_scan_flush_trigger: u32 = 0, dynamic, recent;
        /// The same trigger, as an average over the steps between two seeks if they skip at least
        /// `memtable_op_scan_flush_trigger` entries in total; 0 for no limit.
        memtable_avg_op_scan_flush_trigger: u32 = 0, dynamic, recent;
        /// Size of the huge pages used for memtables, in bytes; 0 for none.
        memtable_huge_page_size: u64 = 0, dynamic, hint;
        /// True if batched lookups of memtables share work.
        memtable_batch_lookup_optimization: bool = false, hint, recent;
        /// True if searches verify the checksums of the memtable entries that they pass.
        memtable_verify_per_key_checksum_on_seek: bool = false, dynamic, recent;
        /// Bytes of checksum for each entry of a memtable: 0, 1, 2, 4 or 8. Entries that are read are verified.
        memtable_protection_bytes_per_key: u32 = 0, dynamic;
        /// Bytes of checksum for each entry of a data or index block in memory: 0, 1, 2, 4 or 8. Entries that are read
        /// are verified.
        block_protection_bytes_per_key: u32 = 0, dynamic, recent;
        /// True if searches and iterators verify the order of the keys of memtables.
        paranoid_memory_checks: bool = false, dynamic, recent;
        /// Extractor of the prefix whose last insertion serves as a hint for the next.
        memtable_insert_with_hint_prefix_extractor: Option<PrefixExtractor> = None, hint;
        /// Permission to overwrite values in the memtable, which would change what snapshots and pinned values show.
        inplace_update_support: bool = false, hint;
        /// Number of locks for in-place updates.
        inplace_update_num_locks: u64 = 10_000, dynamic, hint;
        /// Garbage ratio at which a memtable is compacted in memory instead of flushed.
        experimental_mempurge_threshold: f64 = 0.0, dynamic, hint;
        /// Locality of the probes of the stored Bloom filters of PlainTable files: 0 for none, otherwise a cache line.
        bloom_locality: u32 = 0;
        /// Compression of tables.
        compression: Compression = Compression::FAST, dynamic;
        /// Compression of the bottommost level; `None` for the regular compression.
        bottommost_compression: Option<Compression> = None, dynamic;
        /// Compression by level; overrides `compression` if not empty.
        compression_per_level: Vec<Compression> = Vec::new(), dynamic;
        /// Compression options.
        compression_opts: CompressionOptions = CompressionOptions::default(), dynamic;
        /// Compression options of the bottommost level, used if `enabled` is set.
        bottommost_compression_opts: CompressionOptions = CompressionOptions::default(), dynamic;
        /// A user-defined compression manager.
        compression_manager: String = "nullptr".to_owned(), dynamic, missing, recent;
        /// Compresses one in this many blocks for statistics; 0 for none.
        sample_for_compression: u64 = 0, dynamic, hint;
        /// The format of new tables.
        table_factory: TableKind = TableKind::BlockBased, dynamic;
        /// Options of the block-based format.
        table("block_based_table_factory"): TableOptions = TableOptions::default(), dynamic, unwritten;
        /// Options of the PlainTable format.
        plain_table("plain_table_factory"): PlainTableOptions = PlainTableOptions::default(), dynamic, unwritten;
        /// Options of the CuckooTable format.
        cuckoo_table("cuckoo_table_factory"): CuckooTableOptions = CuckooTableOptions::default(), dynamic, unwritten;
        /// Compaction style.
        compaction_style: CompactionStyle = CompactionStyle::Level;
        /// File priority of compactions.
        compaction_pri: CompactionPri = CompactionPri::MinOverlappingRatio;
        /// Options of universal compaction.
        compaction_options_universal: UniversalCompactionOptions =
            UniversalCompactionOptions::default(), dynamic;
        /// Options of FIFO compaction.
        compaction_options_fifo: FifoCompactionOptions = FifoCompactionOptions::default(), dynamic;
        /// Number of levels, including level 0. Fixed at creation.
        num_levels: i32 = 7;
        /// Number of level-0 files that triggers a compaction; negative for none.
        level0_file_num_compaction_trigger: i32 = 4, dynamic;
        /// Number of level-0 files that slows down writes.
        level0_slowdown_writes_trigger: i32 = 20, dynamic;
        /// Number of level-0 files that stops writes.
        level0_stop_writes_trigger: i32 = 36, dynamic;
        /// Pending compaction bytes that slow down writes.
        soft_pending_compaction_bytes_limit: u64 = 64 << 30, dynamic;
        /// Pending compaction bytes that stop writes.
        hard_pending_compaction_bytes_limit: u64 = 256 << 30, dynamic;
        /// Target size of level 1, in bytes.
        max_bytes_for_level_base: u64 = 256 << 20, dynamic;
        /// Size ratio between adjacent levels.
        max_bytes_for_level_multiplier: f64 = 10.0, dynamic;
        /// Additional size factors by level.
        max_bytes_for_level_multiplier_additional: Vec<i32> = vec![1; 7], dynamic;
        /// True if level targets are derived from the size of the last level.
        level_compaction_dynamic_level_bytes: bool = true;
        /// Target size of tables in level 1, in bytes.
        target_file_size_base: u64 = 64 << 20, dynamic;
        /// Growth factor of the target size per level.
        target_file_size_multiplier: i32 = 1, dynamic;
        /// True if the target size is an upper bound.
        target_file_size_is_upper_bound: bool = false, dynamic, recent;
        /// Maximum input size of a compaction, in bytes; 0 for 25 tables.
        max_compaction_bytes: u64 = 0, dynamic;
        /// True if only manual compactions run.
        disable_auto_compactions: bool = false, dynamic;
        /// Age at which data is compacted further, in seconds; `u64::MAX - 1` for 30 days.
        ttl: u64 = DEFAULT_TTL, dynamic;
        /// Age at which compactions drop a value, in seconds; 0 or less for never. Each value and
        /// merge operand is then stored with a 4-byte write time, which reads strip: the format of
        /// RocksDB's `DBWithTTL`. `None` for values without a time. Either all column families of a
        /// database have it or none do; only the number of seconds can change. OPTIONS files use
        /// RocksDB's form ([`crate::ttl`]).
        value_ttl: Option<i32> = None, dynamic, unwritten;
        /// Age at which a table is rewritten, in seconds; `u64::MAX - 1` for automatic.
        periodic_compaction_seconds: u64 = DEFAULT_TTL, dynamic;
        /// Wasted reads per byte above which a file is compacted. A read is wasted on a file in
        /// which it finds nothing, a deletion or a merge operand. Sampled at one in 1,024 reads. 0
        /// for never. Not for FIFO.
        read_triggered_compaction_threshold: f64 = 0.0, dynamic, recent;
        /// Delay before bottommost tables are compacted to drop tombstones, in seconds.
        bottommost_file_compaction_delay: u32 = 0, dynamic, recent;
        /// Number of hidden entries of one key after which an iterator seeks instead of stepping.
        max_sequential_skip_in_iterations: u64 = 8, dynamic;
        /// Number of consecutive deleted keys over which a scan adds a range deletion to the active memtable, so that later
        /// scans skip them at once; 0 for never. It changes the result of no read, except of those that ignore range
        /// deletions (`ignore_range_deletions`); iterators with a table filter are rejected. Without effect in a family
        /// whose keys have timestamps, or with `allow_ingest_behind`.
        min_tombstones_for_range_conversion: u32 = 0, dynamic, recent;
        /// Number of merge operands of a key at which a write merges them; 0 for never.
        max_successive_merges: u64 = 0, dynamic;
        /// True if this merge may read files.
        strict_max_successive_merges: bool = false, dynamic, recent;
        /// True if tables of the bottommost level have no filters.
        optimize_filters_for_hits: bool = false;
        /// True if the consistency of levels is checked on each change.
        force_consistency_checks: bool = true, hint;
        /// True if each new table is read back and verified.
        paranoid_file_checks: bool = false, dynamic;
        /// Verification of new tables: the sum of 1 for block checksums, 2 for entries and 4 for the
        /// file checksum, and of 1024 for compaction outputs and 4096 for flush outputs.
        verify_output_flags: u32 = 0, dynamic, recent;
        /// True if file writes of compactions are timed.
        report_bg_io_stats: bool = false, dynamic;
        /// True if large values are stored in blob files.
        enable_blob_files: bool = false, dynamic;
        /// Minimum size of values stored in blob files, in bytes.
        min_blob_size: u64 = 0, dynamic;
        /// Target size of a blob file, in bytes.
        blob_file_size: u64 = 256 << 20, dynamic;
        /// Compression of blobs.
        blob_compression_type: Compression = Compression::None, dynamic;
        /// Compression options of blobs.
        blob_compression_opts: CompressionOptions = CompressionOptions::default(), dynamic, recent;
        /// True if compactions relocate live blobs from old files.
        enable_blob_garbage_collection: bool = false, dynamic;
        /// Fraction of the blob files, oldest first, to relocate from.
        blob_garbage_collection_age_cutoff: f64 = 0.25, dynamic;
        /// Fraction of garbage that forces compactions; 1 for never.
        blob_garbage_collection_force_threshold: f64 = 1.0, dynamic;
        /// Readahead of compactions on blob files, in bytes.
        blob_compaction_readahead_size: u64 = 0, dynamic;
        /// Size of the write buffer of a blob file, in bytes; 0 for
        /// `writable_file_max_buffer_size`.
        blob_file_writable_file_max_buffer_size: u64 = 0, dynamic, hint, recent;
        /// First level that stores values in blob files.
        blob_file_starting_level: i32 = 0, dynamic;
        /// Insertion of new blobs into the cache.
        prepopulate_blob_cache: PrepopulateBlobCache = PrepopulateBlobCache::Disable, dynamic;
        /// Cache of uncompressed blobs; `None` for none. It may be the block cache, in which case
        /// blobs are evicted first.
        blob_cache: Option<Arc<BlockCache>> = None, unwritten;
        /// Target ratio of blob file size to live blobs, for example 1.5; 0 for no limit. Above it,
        /// compactions relocate from the oldest files. Cairn's own option: RocksDB limits garbage by
        /// age only.
        blob_space_target: f64 = 0.0, dynamic, unwritten;
        /// True if large columns of entities are stored in blob files. Cairn's own option: RocksDB
        /// 11.9 and later do so, and older releases cannot read such entities.
        enable_blob_columns: bool = false, dynamic, unwritten;
        /// True if writes store large values directly in blob files, instead of in the log and the
        /// memtable. Requires `enable_blob_files`.
        enable_blob_direct_write: bool = false, recent;
        /// Number of blob files per family that such writes append to, in turn.
        blob_direct_write_partitions: u32 = 1, recent;
        /// Effort to erase the blocks of tables from the block cache when the tables are deleted: 0 for none; 1
        /// stops at the first data block that is not cached; a larger number stops when fewer than
        /// 0.99^(n-1) of the blocks tried were cached (69 for a half, 230 for a tenth); 10000 tries all.
        uncache_aggressiveness: u32 = 0, dynamic, recent;
        /// True if tables keep timestamps.
        persist_user_defined_timestamps: bool = true, recent;
        /// Temperature recorded for new tables of the last level; ignored by FIFO compaction.
        last_level_temperature: Temperature = Temperature::Unknown, dynamic;
        /// Temperature recorded for other new tables.
        default_write_temperature: Temperature = Temperature::Unknown, dynamic, recent;
        /// Temperature that statistics assume for tables without a recorded one.
        default_temperature: Temperature = Temperature::Unknown, recent;
        /// Age below which data is kept above the last level, in seconds; 0 for none.
        preclude_last_level_data_seconds: u64 = 0, dynamic;
        /// Period for which write times are preserved, in seconds; 0 for none.
        preserve_internal_time_seconds: u64 = 0, dynamic;
        /// Compaction filter.
        compaction_filter: Plugin<dyn CompactionFilter> = Plugin::None;
        /// Factory of compaction filters.
        compaction_filter_factory: Plugin<dyn CompactionFilterFactory> = Plugin::None;
        /// Limit on concurrent compactions, which families and databases may share. Manual compactions count, but do not
        /// wait.
        compaction_thread_limiter: Option<Arc<ConcurrentTaskLimiter>> = None, unwritten;
        /// Factory of partitioners, which set table boundaries.
        sst_partitioner_factory: Plugin<dyn SstPartitionerFactory> = Plugin::None;
        /// Factories of table property collectors.
        table_properties_collector_factories: Collectors = Collectors::default(), unwritten;
        /// True if tables with many deletions are compacted soon. Cairn's own option, equivalent to a
        /// `CompactOnDeletion` collector among the factories above.
        deletion_triggered_compaction: bool = true, dynamic, unwritten;
        /// True if files may be ingested behind existing data. The last level is then reserved for
        /// them, and compactions keep all deletions and sequence numbers. For universal compaction
        /// only; must be set when the family is created.
        cf_allow_ingest_behind: bool = false, recent;
        /// True if writes to memtables of the family are rejected.
        disallow_memtable_writes: bool = false, recent;
        /// Directories of the family's tables instead of the database's `db_paths`.
        cf_paths: Vec<DbPath> = Vec::new(), unwritten;
    }
}

/// The automatic value of `ttl` and `periodic_compaction_seconds`.
pub const DEFAULT_TTL: u64 = u64::MAX - 1;
