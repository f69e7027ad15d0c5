//! Options of the block-based table format.

use std::sync::Arc;

use cairn_format::filter::FilterPolicy;
use cairn_memory::BlockCache;

use crate::enums::{
    ChecksumKind, DataBlockIndexType, IndexBlockSearchType, IndexMode, IndexShortening, IndexType,
    KeyCommonPrefix, PrepopulateBlockCache,
};
use crate::rows::options;
use crate::struct_options::MetadataCacheOptions;

options! {
    /// How tables are laid out and cached (RocksDB's `BlockBasedTableOptions`).
    TableOptions, "BlockBasedTableOptions" {
        /// Size of a data block before compression, in bytes.
        block_size: u64 = 4096, dynamic;
        /// Percent of `block_size` that may stay empty when the next entry does not fit.
        block_size_deviation: i32 = 10, dynamic;
        /// Entries between two whole keys in a data block.
        block_restart_interval: i32 = 16, dynamic;
        /// Entries between two whole keys in an index block.
        index_block_restart_interval: i32 = 1, dynamic;
        /// Size of a partition of an index or filter, in bytes.
        metadata_block_size: u64 = 4096, dynamic;
        /// Version of the table format that is written, 2 to 8. RocksDB reads version 8 from 11.10 on.
        format_version: u32 = 7, dynamic;
        /// Checksum of blocks that are written.
        checksum: ChecksumKind = ChecksumKind::Xxh3, dynamic;
        /// What kind of filter tables get; none means that every lookup reads a data block.
        filter_policy: Option<FilterPolicy> = None, dynamic;
        /// True if filters know whole keys.
        whole_key_filtering: bool = true, dynamic;
        /// True if filters are cut into partitions. Needs the two-level index.
        partition_filters: bool = false, dynamic;
        /// True if partitions of filters end independently of those of the index.
        decouple_partitioned_filters: bool = true, dynamic, recent;
        /// True if filters are sized to what the allocator hands out.
        optimize_filters_for_memory: bool = true, dynamic, hint;
        /// True if a filter is checked against its keys before it is written.
        detect_filter_construct_corruption: bool = false, dynamic, missing;
        /// The index of a table.
        index_type: IndexType = IndexType::BinarySearch, dynamic;
        /// How index blocks are searched.
        index_block_search_type: IndexBlockSearchType = IndexBlockSearchType::Binary, dynamic, hint, recent;
        /// How evenly keys must be spread for an index block to say so; below 0 it never does.
        uniform_cv_threshold: f64 = -1.0, dynamic, hint, recent;
        /// How short the keys of the index are made.
        index_shortening: IndexShortening = IndexShortening::ShortenSeparators, dynamic;
        /// True if index blocks are compressed.
        enable_index_compression: bool = true, dynamic;
        /// The index inside a data block.
        data_block_index_type: DataBlockIndexType = DataBlockIndexType::BinarySearch, dynamic;
        /// Keys per bucket of that index, when it is a hash table.
        data_block_hash_table_util_ratio: f64 = 0.75, dynamic;
        /// True if keys leave out what they share with the key before.
        use_delta_encoding: bool = true, dynamic, recent;
        /// True if blocks store what all their user keys begin with once. From format version 8 on, with
        /// `use_delta_encoding`, for orders without timestamps.
        optimize_key_common_prefix: KeyCommonPrefix = KeyCommonPrefix::IfFastSeek, dynamic, recent;
        /// True if the keys and the values of a data block lie apart.
        separate_key_value_in_data_block: bool = false, dynamic, recent;
        /// True if blocks that are smaller than a page never cross one.
        block_align: bool = false, dynamic;
        /// Alignment of groups of blocks, in bytes; 0 for none.
        super_block_alignment_size: u64 = 0, dynamic, recent;
        /// At most one in this many bytes is padding for that alignment.
        super_block_alignment_space_overhead_ratio: u64 = 128, dynamic, recent;
        /// True if compressed blocks are decompressed again before they are written.
        verify_compression: bool = false, dynamic;
        /// Where blocks are kept in memory; none makes a cache of 32 MiB when the family is opened.
        block_cache: Option<Arc<BlockCache>> = None, unwritten;
        /// True if there is no block cache at all.
        no_block_cache: bool = false, dynamic;
        /// True if indexes and filters live in the block cache rather than in their open table.
        cache_index_and_filter_blocks: bool = false, dynamic;
        /// True if they are evicted after data blocks.
        cache_index_and_filter_blocks_with_high_priority: bool = true, dynamic;
        /// True if those of level 0 stay in the cache.
        pin_l0_filter_and_index_blocks_in_cache: bool = false, dynamic;
        /// True if the top of partitioned ones stays in the cache.
        pin_top_level_index_and_filter: bool = true, dynamic;
        /// The three pinning rules that replace the two options above.
        metadata_cache_options: MetadataCacheOptions = MetadataCacheOptions::default(), dynamic;
        /// Whether blocks enter the cache as they are written.
        prepopulate_block_cache: PrepopulateBlockCache = PrepopulateBlockCache::Disable, dynamic, missing;
        /// Largest automatic readahead of an iterator, in bytes.
        max_auto_readahead_size: u64 = 256 << 10, dynamic;
        /// First automatic readahead, in bytes.
        initial_auto_readahead_size: u64 = 8 << 10, dynamic;
        /// Sequential reads of a file before readahead begins.
        num_file_reads_for_auto_readahead: u64 = 2, dynamic;
        /// Bytes of a block that one bit of its read-amplification bitmap stands for; 0 for none.
        read_amp_bytes_per_bit: u32 = 0, dynamic, missing;
        /// What decides that a data block is full.
        flush_block_policy_factory: String = "FlushBlockBySizePolicyFactory".to_owned(), missing;
        /// An index of the user's own making.
        user_defined_index_factory: String = "nullptr".to_owned(), missing, recent;
        /// True if a table without that index is refused.
        fail_if_no_udi_on_open: bool = false, missing, recent;
        /// True if that index replaces the built-in one.
        use_udi_as_primary_index: bool = false, missing, recent;
        /// Which of the two a table is opened with.
        index_mode: IndexMode = IndexMode::StandardDefault, hint, recent;
    }
}
