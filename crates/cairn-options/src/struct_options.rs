//! Struct options: `compression_opts={level=3;...}`.

use cairn_memory::{MemoryUse, MemoryUses};

use crate::enums::{ChargeDecision, CompactionStopStyle, PinningTier};
use crate::rows::options;
use crate::temperature::FileTemperatureAges;

options! {
    /// Compression options.
    CompressionOptions, "CompressionOptions" {
        /// Window size of zlib, as zlib's `windowBits`.
        window_bits: i32 = -14, dynamic;
        /// Compression level; 32767 for the codec's default.
        level: i32 = 32767, dynamic;
        /// Zlib's strategy. Accepted without effect.
        strategy: i32 = 0, dynamic;
        /// Maximum size of the compression dictionary of a table, in bytes; 0 for none.
        max_dict_bytes: u32 = 0, dynamic;
        /// Size of training samples, in bytes; 0 uses the samples as the dictionary.
        zstd_max_train_bytes: u32 = 0, dynamic;
        /// Number of threads that compress the blocks of a table; 1 for the thread that builds it. Without effect for
        /// fast codecs: Snappy, LZ4, and zstd at negative levels.
        parallel_threads: u32 = 1, dynamic;
        /// True if these options apply to the bottommost level.
        enabled: bool = false, dynamic;
        /// Maximum data buffered for sampling, in bytes; 0 for no limit.
        max_dict_buffer_bytes: u64 = 0, dynamic;
        /// True if zstd's trainer builds the dictionary from the samples, false if the samples are the dictionary.
        use_zstd_dict_trainer: bool = true, dynamic;
        /// A block is stored compressed if its size is at most this many 1024ths of the original.
        max_compressed_bytes_per_kb: i32 = 896, dynamic, recent;
        /// True if compression is skipped for most blocks while it saves too little.
        auto_skip: bool = false, dynamic, recent;
        /// Sampling interval of skipped blocks; 0 for 64.
        auto_skip_min_sample_every: i32 = 0, dynamic, recent;
        /// True if each zstd frame has a checksum.
        checksum: bool = false, dynamic, recent;
    }
}

options! {
    /// Universal compaction options.
    UniversalCompactionOptions, "CompactionOptionsUniversal" {
        /// Tolerance for runs of similar size, in percent.
        size_ratio: u32 = 1, dynamic;
        /// Minimum number of runs in a compaction.
        min_merge_width: u32 = 2, dynamic;
        /// Maximum number of runs in a compaction.
        max_merge_width: u32 = u32::MAX, dynamic;
        /// Maximum size of obsolete data, in percent of live data.
        max_size_amplification_percent: u32 = 200, dynamic;
        /// Percentage of data to compress; -1 for all.
        compression_size_percent: i32 = -1, dynamic;
        /// Maximum number of sorted runs; -1 derives it.
        max_read_amp: i32 = -1, dynamic, recent;
        /// Stop condition.
        stop_style: CompactionStopStyle = CompactionStopStyle::TotalSize, dynamic;
        /// True if files without overlap are moved instead of rewritten.
        allow_trivial_move: bool = false, dynamic;
        /// True if large runs are compacted incrementally.
        incremental: bool = false, dynamic;
        /// True if queued compactions do not lock their files.
        reduce_file_locking: bool = true, dynamic, recent;
    }
}

options! {
    /// FIFO compaction options.
    FifoCompactionOptions, "CompactionOptionsFIFO" {
        /// Total table size at which the oldest file is deleted, in bytes.
        max_table_files_size: u64 = 1 << 30, dynamic;
        /// Total size of tables and blob files at which the oldest file is deleted; 0 for tables only.
        max_data_files_size: u64 = 0, dynamic, recent;
        /// True if small files are merged.
        allow_compaction: bool = false, dynamic;
        /// Age of warm data, in seconds; superseded by the thresholds below.
        age_for_warm: u64 = 0, dynamic;
        /// The temperatures of files whose data has reached an age, in the order of their ages.
        file_temperature_age_thresholds: FileTemperatureAges = FileTemperatureAges::default(), dynamic, recent;
        /// True if a change of temperature may copy the file unchanged; it rewrites the file in either case.
        allow_trivial_copy_when_change_temperature: bool = false, dynamic, recent;
        /// Buffer size of that copy, in bytes.
        trivial_copy_buffer_size: u64 = 4096, dynamic, recent;
        /// True if compactions are sized by the ratio of keys to values.
        use_kv_ratio_compaction: bool = false, dynamic, recent;
    }
}

options! {
    /// Pinning of metadata blocks in the block cache.
    MetadataCacheOptions, "MetadataCacheOptions" {
        /// The top level of a partitioned index or filter.
        top_level_index_pinning: PinningTier = PinningTier::Fallback, dynamic;
        /// Partitions of an index or filter.
        partition_pinning: PinningTier = PinningTier::Fallback, dynamic;
        /// Indexes and filters without partitions.
        unpartitioned_pinning: PinningTier = PinningTier::Fallback, dynamic;
    }
}

options! {
    /// Memory outside of the block cache that is charged to it (RocksDB's `CacheUsageOptions`).
    CacheUsageOptions, "CacheUsageOptions" {
        /// The decision for the other roles. If enabled, all memory is charged, including memory for which
        /// RocksDB has no role.
        options: ChargeDecision = ChargeDecision::Fallback;
        /// Blocks buffered to train a compression dictionary. Charged by default.
        compression_dictionary_building_buffer("kCompressionDictionaryBuildingBuffer"): ChargeDecision = ChargeDecision::Fallback;
        /// Construction of filters.
        filter_construction("kFilterConstruction"): ChargeDecision = ChargeDecision::Fallback;
        /// Open tables: properties, and index and filter blocks outside of the cache.
        block_based_table_reader("kBlockBasedTableReader"): ChargeDecision = ChargeDecision::Fallback;
        /// Metadata of table files.
        file_metadata("kFileMetadata"): ChargeDecision = ChargeDecision::Fallback;
        /// A blob cache apart from the block cache.
        blob_cache("kBlobCache"): ChargeDecision = ChargeDecision::Fallback;
    }
}

impl CacheUsageOptions {
    /// Returns the uses of memory that are charged.
    #[must_use]
    pub fn charged(&self) -> MemoryUses {
        let by_default = match self.options {
            ChargeDecision::Enabled => MemoryUses::ALL,
            ChargeDecision::Disabled => MemoryUses::NONE,
            ChargeDecision::Fallback => {
                MemoryUses::NONE.with(MemoryUse::CompressionDictionaryBuffer)
            }
        };
        let overrides = [
            (
                MemoryUse::CompressionDictionaryBuffer,
                self.compression_dictionary_building_buffer,
            ),
            (MemoryUse::FilterConstruction, self.filter_construction),
            (MemoryUse::TableReader, self.block_based_table_reader),
            (MemoryUse::FileMetadata, self.file_metadata),
            (MemoryUse::BlobCache, self.blob_cache),
        ];
        overrides
            .iter()
            .fold(by_default, |uses, (what, decision)| match decision {
                ChargeDecision::Enabled => uses.with(*what),
                ChargeDecision::Disabled => uses.without(*what),
                ChargeDecision::Fallback => uses,
            })
    }
}
