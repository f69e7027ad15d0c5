//! Options of the block-based table format.

use std::sync::Arc;

use cairn_format::filter::FilterPolicy;
use cairn_memory::BlockCache;

use crate::customizable::FlushBlockPolicy;
use crate::enums::{
    ChecksumKind, DataBlockIndexType, IndexBlockSearchType, IndexMode, IndexShortening, IndexType,
    KeyCommonPrefix, PrepopulateBlockCache,
};
use crate::rows::options;
use crate::struct_options::{CacheUsageOptions, MetadataCacheOptions};

options! {
    /// Layout and caching of tables (RocksDB's `BlockBasedTableOptions`).
    TableOptions, "BlockBasedTableOptions" {
        /// Target size of a data block before compression, in bytes.
        block_size: u64 = 4096, dynamic;
        /// Percentage of `block_size` that may stay unused if the next entry does not fit.
        block_size_deviation: i32 = 10, dynamic;
        /// Restart interval of data blocks.
        block_restart_interval: i32 = 16, dynamic;
        /// Restart interval of index blocks.
        index_block_restart_interval: i32 = 1, dynamic;
        /// Target size of an index or filter partition, in bytes.
        metadata_block_size: u64 = 4096, dynamic;
        /// Format version of new tables, 2 to 8. RocksDB 11.10 and later read version 8.
        format_version: u32 = 7, dynamic;
        /// Checksum of new blocks.
        checksum: ChecksumKind = ChecksumKind::Xxh3, dynamic;
        /// Filter policy; `None` for no filters.
        filter_policy: Option<FilterPolicy> = None, dynamic;
        /// True if filters contain whole keys.
        whole_key_filtering: bool = true, dynamic;
        /// True if filters are partitioned. Requires the two-level index.
        partition_filters: bool = false, dynamic;
        /// True if filter partitions end independently of index partitions.
        decouple_partitioned_filters: bool = true, dynamic, recent;
        /// True if filters are sized to allocator size classes.
        optimize_filters_for_memory: bool = true, dynamic, hint;
        /// True if a filter is verified against its keys before it is written, and the hashes of the keys against their
        /// checksum. Requires format version 5.
        detect_filter_construct_corruption: bool = false, dynamic;
        /// Index type.
        index_type: IndexType = IndexType::BinarySearch, dynamic;
        /// Search in index blocks.
        index_block_search_type: IndexBlockSearchType = IndexBlockSearchType::Binary, dynamic, hint, recent;
        /// Maximum coefficient of variation of a block marked as evenly distributed; negative for
        /// never.
        uniform_cv_threshold: f64 = -1.0, dynamic, hint, recent;
        /// Shortening of index keys.
        index_shortening: IndexShortening = IndexShortening::ShortenSeparators, dynamic;
        /// True if index blocks are compressed.
        enable_index_compression: bool = true, dynamic;
        /// Index of a data block.
        data_block_index_type: DataBlockIndexType = DataBlockIndexType::BinarySearch, dynamic;
        /// Keys per bucket of a data block hash index.
        data_block_hash_table_util_ratio: f64 = 0.75, dynamic;
        /// True if keys are delta encoded.
        use_delta_encoding: bool = true, dynamic, recent;
        /// Blocks that store the common prefix of their user keys once. Requires format version 8,
        /// `use_delta_encoding` and a comparator without timestamps.
        optimize_key_common_prefix: KeyCommonPrefix = KeyCommonPrefix::IfFastSeek, dynamic, recent;
        /// True if data blocks store keys and values separately.
        separate_key_value_in_data_block: bool = false, dynamic, recent;
        /// True if blocks smaller than a page do not cross page boundaries.
        block_align: bool = false, dynamic;
        /// Alignment of super blocks, in bytes; 0 for none.
        super_block_alignment_size: u64 = 0, dynamic, recent;
        /// At most one in this many bytes is padding for that alignment; 0 for no padding. 1 to 3 are rejected.
        super_block_alignment_space_overhead_ratio: u64 = 128, dynamic, recent;
        /// True if compressed blocks are verified by decompression before they are written.
        verify_compression: bool = false, dynamic;
        /// Block cache; `None` creates a cache of 32 MiB when the family is opened.
        block_cache: Option<Arc<BlockCache>> = None, unwritten;
        /// Memory outside of the block cache that is charged to it.
        cache_usage_options: CacheUsageOptions = CacheUsageOptions::default(), unwritten;
        /// True if there is no block cache.
        no_block_cache: bool = false, dynamic;
        /// True if indexes and filters are stored in the block cache instead of the open table.
        cache_index_and_filter_blocks: bool = false, dynamic;
        /// True if cached indexes and filters are evicted after data blocks.
        cache_index_and_filter_blocks_with_high_priority: bool = true, dynamic;
        /// True if the cached indexes and filters of level 0 are pinned.
        pin_l0_filter_and_index_blocks_in_cache: bool = false, dynamic;
        /// True if the top level of a cached partitioned index or filter is pinned.
        pin_top_level_index_and_filter: bool = true, dynamic;
        /// Pinning tiers, which supersede the two options above.
        metadata_cache_options: MetadataCacheOptions = MetadataCacheOptions::default(), dynamic;
        /// Insertion of new blocks into the cache as they are written, so that their first reads find them.
        /// Data blocks of flushes are like those that are read, data blocks of compactions the first to leave.
        prepopulate_block_cache: PrepopulateBlockCache = PrepopulateBlockCache::Disable, dynamic;
        /// Maximum automatic readahead of an iterator, in bytes.
        max_auto_readahead_size: u64 = 256 << 10, dynamic;
        /// Initial automatic readahead, in bytes.
        initial_auto_readahead_size: u64 = 8 << 10, dynamic;
        /// Number of sequential reads that starts automatic readahead.
        num_file_reads_for_auto_readahead: u64 = 2, dynamic;
        /// Bytes per bit of the bitmaps that estimate read amplification for the tickers `rocksdb.read.amp.*`, rounded down
        /// to a power of two; 0 for none. For tables that are opened with statistics.
        read_amp_bytes_per_bit: u32 = 0, dynamic;
        /// The rule by which data blocks end.
        flush_block_policy_factory: FlushBlockPolicy = FlushBlockPolicy::BySize;
        /// Factory of a user-defined index.
        user_defined_index_factory: String = "nullptr".to_owned(), missing, recent;
        /// True if a table without the user-defined index is rejected.
        fail_if_no_udi_on_open: bool = false, missing, recent;
        /// True if the user-defined index replaces the built-in one.
        use_udi_as_primary_index: bool = false, missing, recent;
        /// The index with which a table is opened.
        index_mode: IndexMode = IndexMode::StandardDefault, hint, recent;
    }
}
