//! Options of one column family.

use std::sync::Arc;

use cairn_memory::BlockCache;
use cairn_types::{
    CompactionFilter, CompactionFilterFactory, KeyOrder, MergeOperator, PrefixExtractor,
    SstPartitionerFactory,
};

use crate::choice::{
    CompactionPri, CompactionStyle, Compression, MemtableFactory, PrepopulateBlobCache, TableKind,
    Temperature,
};
use crate::collectors::Collectors;
use crate::nested::{CompressionOptions, FifoCompactionOptions, UniversalCompactionOptions};
use crate::object::DbPath;
use crate::plugin::Plugin;
use crate::rows::options;
use crate::table::TableOptions;

options! {
    /// Options of one column family (RocksDB's `ColumnFamilyOptions`).
    FamilyOptions, "ColumnFamilyOptions" {
        /// The order of keys. Fixed once the family exists.
        comparator: KeyOrder = KeyOrder::Bytewise;
        /// What combines merge operands with values.
        merge_operator: Option<Arc<dyn MergeOperator>> = None;
        /// The part of a key that prefix filters and prefix scans go by.
        prefix_extractor: Option<PrefixExtractor> = None, dynamic;
        /// Bytes of a memtable before it is flushed. One that is filled in the order of the keys about as fast as it is flushed
        /// ends earlier, from half of it on, so that it and the next one take less memory together.
        write_buffer_size: usize = 64 << 20, dynamic;
        /// Memtables, the active one included, at which writes stop.
        max_write_buffer_number: i32 = 2, dynamic;
        /// Memtables that a flush waits for.
        min_write_buffer_number_to_merge: i32 = 1;
        /// Bytes of memtables up to which flushed ones are kept for conflict checks, those that are not
        /// flushed counted in; below 0 for as many as may be unflushed at once.
        max_write_buffer_size_to_maintain: i64 = 0;
        /// The structure behind memtables: a skip list, or a vector that is sorted when it is first
        /// read, for bulk loads. The skip list serves for structures with prefixes too: their names
        /// are kept in the OPTIONS file, for RocksDB. All structures hold and give back the same.
        memtable_factory: MemtableFactory = MemtableFactory::SkipList;
        /// Size of a memtable's memory chunks, in bytes; 0 for an eighth of the memtable, 1 MiB at most.
        arena_block_size: usize = 0, dynamic;
        /// Part of a memtable that a Bloom filter of its keys takes, a quarter at most; 0 for none.
        /// It knows the prefixes of keys if there is a prefix extractor, and whole keys if
        /// `memtable_whole_key_filtering` is set. Changes take effect with the next memtable. Not
        /// used with a comparator in which keys of different bytes may be equal.
        memtable_prefix_bloom_size_ratio: f64 = 0.0, dynamic;
        /// True if that filter knows whole keys too.
        memtable_whole_key_filtering: bool = false, dynamic;
        /// Range deletions in a memtable at which it is flushed; 0 for any number.
        memtable_max_range_deletions: u32 = 0, dynamic, recent;
        /// Hidden entries of the memtable that a seek or step forward may pass over before it is
        /// marked, and flushed with the next write to it; 0 for any number.
        memtable_op_scan_flush_trigger: u32 = 0, dynamic, recent;
        /// The same as an average over the steps from one seek to the next, where these pass over as
        /// many as one step may; 0 for any number.
        memtable_avg_op_scan_flush_trigger: u32 = 0, dynamic, recent;
        /// Huge pages for memtables, in bytes; 0 for none.
        memtable_huge_page_size: u64 = 0, dynamic, hint;
        /// True if batched lookups of memtables share work.
        memtable_batch_lookup_optimization: bool = false, hint, recent;
        /// True if seeks check entries against their checksums.
        memtable_verify_per_key_checksum_on_seek: bool = false, dynamic, missing, recent;
        /// Bytes of checksum for each entry of a memtable.
        memtable_protection_bytes_per_key: u32 = 0, dynamic, missing;
        /// Bytes of checksum for each entry of a block in memory.
        block_protection_bytes_per_key: u32 = 0, dynamic, missing, recent;
        /// True if lookups check the order of memtables.
        paranoid_memory_checks: bool = false, dynamic, missing, recent;
        /// The prefix whose last insert is where the next one begins to search.
        memtable_insert_with_hint_prefix_extractor: Option<PrefixExtractor> = None, hint;
        /// True if a put may overwrite the value in the memtable.
        inplace_update_support: bool = false, missing;
        /// Locks for that.
        inplace_update_num_locks: u64 = 10_000, dynamic, hint;
        /// Share of garbage at which a memtable is compacted in memory rather than flushed.
        experimental_mempurge_threshold: f64 = 0.0, dynamic, hint;
        /// Where in memory the probes of a key lie together.
        bloom_locality: u32 = 0, hint;
        /// Compression of tables.
        compression: Compression = Compression::FAST, dynamic;
        /// Compression of the bottommost level; none for the same as the others.
        bottommost_compression: Option<Compression> = None, dynamic;
        /// Compression by level; replaces `compression` when it is not empty.
        compression_per_level: Vec<Compression> = Vec::new(), dynamic;
        /// Levels and dictionaries of the codec.
        compression_opts: CompressionOptions = CompressionOptions::default(), dynamic;
        /// The same for the bottommost level, when `enabled` in them is set.
        bottommost_compression_opts: CompressionOptions = CompressionOptions::default(), dynamic;
        /// A choice of codecs of the user's own.
        compression_manager: String = "nullptr".to_owned(), dynamic, missing, recent;
        /// One in this many blocks is compressed for statistics; 0 for none.
        sample_for_compression: u64 = 0, dynamic, hint;
        /// The format of new tables.
        table_factory: TableKind = TableKind::BlockBased, dynamic, missing;
        /// The options of that format.
        table("block_based_table_factory"): TableOptions = TableOptions::default(), dynamic, unwritten;
        /// How compactions shape the tree.
        compaction_style: CompactionStyle = CompactionStyle::Level;
        /// Which file of a level is compacted first.
        compaction_pri: CompactionPri = CompactionPri::MinOverlappingRatio;
        /// Options of universal compaction.
        compaction_options_universal: UniversalCompactionOptions =
            UniversalCompactionOptions::default(), dynamic;
        /// Options of FIFO compaction.
        compaction_options_fifo: FifoCompactionOptions = FifoCompactionOptions::default(), dynamic;
        /// Levels of the tree, level 0 included. Fixed once the family exists.
        num_levels: i32 = 7;
        /// Files in level 0 at which a compaction begins.
        level0_file_num_compaction_trigger: i32 = 4, dynamic;
        /// Files in level 0 at which writes slow down.
        level0_slowdown_writes_trigger: i32 = 20, dynamic;
        /// Files in level 0 at which writes stop.
        level0_stop_writes_trigger: i32 = 36, dynamic;
        /// Bytes waiting for compaction at which writes slow down.
        soft_pending_compaction_bytes_limit: u64 = 64 << 30, dynamic;
        /// Bytes waiting for compaction at which writes stop.
        hard_pending_compaction_bytes_limit: u64 = 256 << 30, dynamic;
        /// Size of level 1, in bytes.
        max_bytes_for_level_base: u64 = 256 << 20, dynamic;
        /// How many times larger each level is than the one above.
        max_bytes_for_level_multiplier: f64 = 10.0, dynamic;
        /// Further factors by level.
        max_bytes_for_level_multiplier_additional: Vec<i32> = vec![1; 7], dynamic;
        /// True if sizes of levels follow the size of the last one.
        level_compaction_dynamic_level_bytes: bool = true;
        /// Size of a table in level 1, in bytes.
        target_file_size_base: u64 = 64 << 20, dynamic;
        /// How many times larger tables are in each further level.
        target_file_size_multiplier: i32 = 1, dynamic;
        /// True if no table is larger than its target.
        target_file_size_is_upper_bound: bool = false, dynamic, recent;
        /// Largest input of a compaction, in bytes; 0 for 25 tables.
        max_compaction_bytes: u64 = 0, dynamic;
        /// True if compactions only run when asked for.
        disable_auto_compactions: bool = false, dynamic;
        /// Seconds after which data is compacted on; `u64::MAX - 1` for 30 days.
        ttl: u64 = DEFAULT_TTL, dynamic;
        /// Seconds after which compactions drop a value; 0 or less for never. Each value and merge
        /// operand is then stored with the time of its writing behind it, in 4 bytes, which reads take
        /// away again: the format of RocksDB's `DBWithTTL`. None for values without a time. Of all
        /// families of a database or of none, and fixed but for the number of seconds. OPTIONS files
        /// say it as RocksDB's do ([`crate::ttl`]).
        value_ttl: Option<i32> = None, dynamic, unwritten;
        /// Seconds after which a table is rewritten; `u64::MAX - 1` lets Cairn choose.
        periodic_compaction_seconds: u64 = DEFAULT_TTL, dynamic;
        /// Reads of a file in vain, for each of its bytes, above which it is compacted: those that found
        /// nothing in it, a deletion or an operand. One of 1,024 reads is counted, as so many. 0 for
        /// never. Not for FIFO.
        read_triggered_compaction_threshold: f64 = 0.0, dynamic, recent;
        /// Seconds that bottommost tables wait before their last tombstones are compacted away.
        bottommost_file_compaction_delay: u32 = 0, dynamic, recent;
        /// Hidden entries of one key after which an iterator seeks instead of stepping.
        max_sequential_skip_in_iterations: u64 = 8, dynamic;
        /// Tombstones in a row that a scan turns into a range deletion; 0 for never.
        min_tombstones_for_range_conversion: u32 = 0, dynamic, missing, recent;
        /// Merge operands of a key at which a write merges them; 0 for never.
        max_successive_merges: u64 = 0, dynamic;
        /// True if that may read files.
        strict_max_successive_merges: bool = false, dynamic, recent;
        /// True if the bottommost level has no filters.
        optimize_filters_for_hits: bool = false, hint;
        /// True if levels are checked as the tree changes.
        force_consistency_checks: bool = true, hint;
        /// True if each new table is read back.
        paranoid_file_checks: bool = false, dynamic;
        /// What of a new table is verified: the sum of 1 for the checksums of blocks, 2 for the entries
        /// and 4 for the checksum of the file, and of 1024 for the tables of compactions and 4096 for
        /// those of flushes.
        verify_output_flags: u32 = 0, dynamic, recent;
        /// True if the calls of compactions that write files are timed, for their reports.
        report_bg_io_stats: bool = false, dynamic;
        /// True if large values go to blob files.
        enable_blob_files: bool = false, dynamic;
        /// Smallest value that does, in bytes.
        min_blob_size: u64 = 0, dynamic;
        /// Size of a blob file, in bytes.
        blob_file_size: u64 = 256 << 20, dynamic;
        /// Compression of blobs.
        blob_compression_type: Compression = Compression::None, dynamic;
        /// Levels of that codec.
        blob_compression_opts: CompressionOptions = CompressionOptions::default(), dynamic, recent;
        /// True if compactions move live blobs out of old files.
        enable_blob_garbage_collection: bool = false, dynamic;
        /// Share of the files, oldest first, that are moved out of.
        blob_garbage_collection_age_cutoff: f64 = 0.25, dynamic;
        /// Share of garbage at which tables are compacted for it.
        blob_garbage_collection_force_threshold: f64 = 1.0, dynamic;
        /// Bytes that compactions read ahead in blob files.
        blob_compaction_readahead_size: u64 = 0, dynamic;
        /// Buffer of blob files that are written, in bytes; 0 for `writable_file_max_buffer_size`.
        blob_file_writable_file_max_buffer_size: u64 = 0, dynamic, hint, recent;
        /// First level whose values go to blob files.
        blob_file_starting_level: i32 = 0, dynamic;
        /// Whether blobs enter the cache as they are written.
        prepopulate_blob_cache: PrepopulateBlobCache = PrepopulateBlobCache::Disable, dynamic;
        /// Where blobs are kept in memory, uncompressed; none keeps none. It may be the cache of
        /// blocks: blobs are then the first to leave it.
        blob_cache: Option<Arc<BlockCache>> = None, unwritten;
        /// Bytes that blob files may take for each byte of live blobs in them, say 1.5; 0 for any
        /// number. When they take more, compactions empty the oldest of them. Cairn's own: RocksDB
        /// bounds garbage by age only.
        blob_space_target: f64 = 0.0, dynamic, unwritten;
        /// True if large columns of entities go to blob files as large values do. Cairn's own:
        /// RocksDB does so from 11.9 on, and older releases cannot read such entities.
        enable_blob_columns: bool = false, dynamic, unwritten;
        /// True if writes put blobs straight into blob files.
        enable_blob_direct_write: bool = false, missing, recent;
        /// Blob files written at once then.
        blob_direct_write_partitions: u32 = 1, hint, recent;
        /// How hard obsolete blocks are driven out of the cache.
        uncache_aggressiveness: u32 = 0, dynamic, hint, recent;
        /// True if tables keep timestamps.
        persist_user_defined_timestamps: bool = true, recent;
        /// Temperature of the last level.
        last_level_temperature: Temperature = Temperature::Unknown, dynamic, missing;
        /// Temperature of new tables.
        default_write_temperature: Temperature = Temperature::Unknown, dynamic, missing, recent;
        /// Temperature of tables that do not say.
        default_temperature: Temperature = Temperature::Unknown, missing, recent;
        /// Seconds for which data stays above the last level; 0 for none.
        preclude_last_level_data_seconds: u64 = 0, dynamic, missing;
        /// Seconds for which the time of writes is kept; 0 for none.
        preserve_internal_time_seconds: u64 = 0, dynamic, missing;
        /// What sees entries as they are compacted.
        compaction_filter: Plugin<dyn CompactionFilter> = Plugin::None;
        /// What makes such filters.
        compaction_filter_factory: Plugin<dyn CompactionFilterFactory> = Plugin::None;
        /// What cuts tables at borders of the user's.
        sst_partitioner_factory: Plugin<dyn SstPartitionerFactory> = Plugin::None;
        /// What sees the entries of tables as they are written.
        table_properties_collector_factories: Collectors = Collectors::default(), unwritten;
        /// True if tables dense with deletions are compacted on soon. Cairn's own: it is as if a
        /// `CompactOnDeletion` collector were among the factories above.
        deletion_triggered_compaction: bool = true, dynamic, unwritten;
        /// True if ingested files may go below existing data. The last level is then kept for them, and
        /// compactions drop no deletion and no sequence number. For universal trees; to be set from
        /// the family's beginning.
        cf_allow_ingest_behind: bool = false, recent;
        /// True if the family refuses writes to its memtable.
        disallow_memtable_writes: bool = false, missing, recent;
        /// Directories of the family's tables in the place of the database's `db_paths`.
        cf_paths: Vec<DbPath> = Vec::new(), unwritten;
    }
}

/// The value of `ttl` and `periodic_compaction_seconds` that stands for "not chosen".
pub const DEFAULT_TTL: u64 = u64::MAX - 1;
