//! Groups of options that are the value of one option: `compression_opts={level=3;...}`.

use crate::enums::{CompactionStopStyle, PinningTier};
use crate::rows::options;

options! {
    /// How blocks are compressed: levels and dictionaries.
    CompressionOptions, "CompressionOptions" {
        /// Zlib's window size, as zlib takes it.
        window_bits: i32 = -14, dynamic;
        /// The codec's level; 32767 for its own default.
        level: i32 = 32767, dynamic;
        /// Zlib's strategy.
        strategy: i32 = 0, dynamic;
        /// Largest compression dictionary of a table, in bytes; 0 for none.
        max_dict_bytes: u32 = 0, dynamic;
        /// Samples given to the dictionary trainer, in bytes; 0 uses samples as the dictionary.
        zstd_max_train_bytes: u32 = 0, dynamic;
        /// Threads that compress the blocks of one table.
        parallel_threads: u32 = 1, dynamic, hint;
        /// True if these options replace the family's for the bottommost level.
        enabled: bool = false, dynamic;
        /// Data buffered to sample from before the dictionary is made, in bytes; 0 for no limit.
        max_dict_buffer_bytes: u64 = 0, dynamic;
        /// True if zstd's trainer makes the dictionary, rather than its finalizer.
        use_zstd_dict_trainer: bool = true, dynamic;
        /// A block is kept compressed if that makes it at most this many 1024ths of its size.
        max_compressed_bytes_per_kb: i32 = 896, dynamic, recent;
        /// True if most blocks are stored as they are while blocks shrink too little.
        auto_skip: bool = false, dynamic, recent;
        /// One in this many blocks is compressed all the same then; 0 for 64.
        auto_skip_min_sample_every: i32 = 0, dynamic, recent;
        /// Zstd's own checksum in each frame.
        checksum: bool = false, dynamic, recent;
    }
}

options! {
    /// How universal compaction chooses runs.
    UniversalCompactionOptions, "CompactionOptionsUniversal" {
        /// Percent by which sizes may differ and still count as similar.
        size_ratio: u32 = 1, dynamic;
        /// Fewest runs in a compaction.
        min_merge_width: u32 = 2, dynamic;
        /// Most runs in a compaction.
        max_merge_width: u32 = u32::MAX, dynamic;
        /// Space that obsolete data may take, in percent of the live data.
        max_size_amplification_percent: u32 = 200, dynamic;
        /// Percent of the data that is compressed; -1 for all of it.
        compression_size_percent: i32 = -1, dynamic;
        /// Most sorted runs a read should meet; -1 derives it.
        max_read_amp: i32 = -1, dynamic, recent;
        /// When enough runs are taken.
        stop_style: CompactionStopStyle = CompactionStopStyle::TotalSize, dynamic;
        /// True if files that overlap nothing are moved without rewriting.
        allow_trivial_move: bool = false, dynamic;
        /// True if large runs are compacted in parts.
        incremental: bool = false, dynamic;
        /// True if files wait in a queue without being locked.
        reduce_file_locking: bool = true, dynamic, recent;
    }
}

options! {
    /// How FIFO compaction drops files.
    FifoCompactionOptions, "CompactionOptionsFIFO" {
        /// Total size of tables at which the oldest is dropped, in bytes.
        max_table_files_size: u64 = 1 << 30, dynamic;
        /// Total size of tables and blob files at which the oldest is dropped; 0 for tables only.
        max_data_files_size: u64 = 0, dynamic, recent;
        /// True if small files are merged.
        allow_compaction: bool = false, dynamic;
        /// Age at which data is warm, in seconds; replaced by the thresholds below.
        age_for_warm: u64 = 0, dynamic;
        /// Temperatures by age.
        file_temperature_age_thresholds: String = String::new(), dynamic, recent;
        /// True if a change of temperature copies the file as it is.
        allow_trivial_copy_when_change_temperature: bool = false, dynamic, recent;
        /// Buffer of that copy, in bytes.
        trivial_copy_buffer_size: u64 = 4096, dynamic, recent;
        /// True if the ratio of keys to values steers compaction.
        use_kv_ratio_compaction: bool = false, dynamic, recent;
    }
}

options! {
    /// Which metadata blocks stay in the block cache.
    MetadataCacheOptions, "MetadataCacheOptions" {
        /// The top level of a partitioned index or filter.
        top_level_index_pinning: PinningTier = PinningTier::Fallback, dynamic;
        /// Partitions of an index or filter.
        partition_pinning: PinningTier = PinningTier::Fallback, dynamic;
        /// Indexes and filters without partitions.
        unpartitioned_pinning: PinningTier = PinningTier::Fallback, dynamic;
    }
}
