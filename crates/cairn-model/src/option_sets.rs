//! Named option sets, one row each, which must not change the answers to any script.

use cairn_types::{Error, Result};

/// Named options that override those of a script.
#[derive(Debug)]
pub struct NamedSet {
    /// The name.
    pub name: &'static str,
    /// Database options.
    pub db: &'static str,
    /// Options of every family.
    pub family: &'static str,
    /// Table options of every family.
    pub table: &'static str,
}

/// All named sets.
pub const SETS: &[NamedSet] = &[
    NamedSet {
        name: "script",
        db: "",
        family: "",
        table: "",
    },
    NamedSet {
        name: "eager",
        db: "max_subcompactions=3;reuse_manifest_on_open=true",
        family: "min_tombstones_for_range_conversion=2;level0_file_num_compaction_trigger=1;disable_auto_compactions=false;\
                 target_file_size_base=2048;max_bytes_for_level_base=8192",
        table: "block_size=256",
    },
    NamedSet {
        name: "idle",
        db: "avoid_flush_during_recovery=true;avoid_flush_during_shutdown=true;\
             reuse_manifest_on_open=true",
        family: "memtable_factory=vector;disable_auto_compactions=true;max_write_buffer_number=4;\
                 min_write_buffer_number_to_merge=3",
        table: "no_block_cache=true",
    },
    NamedSet {
        name: "static-levels",
        db: "wal_compression=kZSTD",
        family: "level_compaction_dynamic_level_bytes=false;max_bytes_for_level_base=8192;\
                 max_bytes_for_level_multiplier=2;level0_file_num_compaction_trigger=2;\
                 disable_auto_compactions=false",
        table: "format_version=7;checksum=kXXH3",
    },
    NamedSet {
        name: "partitioned",
        db: "",
        family: "level0_file_num_compaction_trigger=2;disable_auto_compactions=false",
        table: "format_version=8;index_type=kTwoLevelIndexSearch;partition_filters=true;\
                metadata_block_size=128;\
                filter_policy=ribbonfilter:10:1;block_size=256",
    },
    NamedSet {
        name: "hashed",
        db: "",
        family: "min_tombstones_for_range_conversion=1;prefix_extractor=fixed:3;compression=kZSTD;\
                 memtable_prefix_bloom_size_ratio=0.1;memtable_factory=prefix_hash",
        table: "data_block_index_type=kDataBlockBinaryAndHash;filter_policy=bloomfilter:10:false;\
                index_type=kBinarySearchWithFirstKey",
    },
    NamedSet {
        name: "old-format",
        db: "",
        family: "compression=kSnappyCompression;\
                 memtable_prefix_bloom_size_ratio=0.25;memtable_whole_key_filtering=true",
        table: "format_version=2;checksum=kCRC32c;filter_policy=bloomfilter:10:true",
    },
    NamedSet {
        name: "many-logs",
        db: "max_total_wal_size=16384;max_manifest_file_size=1024;max_manifest_space_amp_pct=100;\
             track_and_verify_wals_in_manifest=true;max_compaction_trigger_wakeup_seconds=60;\
             reuse_manifest_on_open=true",
        family: "write_buffer_size=65536;compaction_pri=kRoundRobin;\
                 memtable_op_scan_flush_trigger=3;memtable_avg_op_scan_flush_trigger=1;\
                 read_triggered_compaction_threshold=0.001",
        table: "separate_key_value_in_data_block=true",
    },
    NamedSet {
        name: "blobs",
        db: "",
        family: "enable_blob_files=true;min_blob_size=12;blob_file_size=4096;\
                 blob_compression_type=kLZ4Compression;enable_blob_garbage_collection=true;\
                 blob_garbage_collection_age_cutoff=0.5;\
                 blob_garbage_collection_force_threshold=0.3;disable_auto_compactions=false;\
                 level0_file_num_compaction_trigger=2",
        table: "",
    },
    NamedSet {
        name: "rows",
        db: "row_cache=1M",
        family: "min_tombstones_for_range_conversion=3;level0_file_num_compaction_trigger=3;disable_auto_compactions=false;\
                 target_file_size_base=2048",
        table: "block_size=256",
    },
    NamedSet {
        name: "few-rows",
        db: "row_cache=3000",
        family: "enable_blob_files=true;min_blob_size=12;disable_auto_compactions=true",
        table: "no_block_cache=true;partition_filters=true;index_type=kTwoLevelIndexSearch;\
                filter_policy=bloomfilter:10:false;metadata_block_size=128",
    },
    NamedSet {
        name: "warm",
        db: "",
        family: "uncache_aggressiveness=100;prepopulate_blob_cache=kFlushOnly;blob_cache=8000;\
                 enable_blob_files=true;min_blob_size=20;disable_auto_compactions=false;\
                 level0_file_num_compaction_trigger=2;target_file_size_base=2048",
        table: "prepopulate_block_cache=kFlushAndCompaction;cache_index_and_filter_blocks=true;\
                no_block_cache=false;block_cache=30000;format_version=8;block_size=256;index_type=kTwoLevelIndexSearch;\
                partition_filters=true;filter_policy=bloomfilter:10:false;metadata_block_size=128",
    },
    NamedSet {
        name: "tiers",
        db: "lowest_used_cache_tier=kVolatileCompressedTier",
        family: "blob_cache={capacity=6000;secondary_cache={id=CompressedSecondaryCache;capacity=20000}};\
                 enable_blob_files=true;min_blob_size=20;disable_auto_compactions=false;\
                 level0_file_num_compaction_trigger=2;target_file_size_base=2048;uncache_aggressiveness=100",
        table: "no_block_cache=false;block_cache={id=HyperClockCache;capacity=20000;compressed_secondary_ratio=0.5};\
                cache_index_and_filter_blocks=true;block_size=256;index_type=kTwoLevelIndexSearch;\
                partition_filters=true;filter_policy=bloomfilter:10:false;metadata_block_size=128",
    },
    NamedSet {
        name: "bounded-blobs",
        db: "max_subcompactions=3",
        family: "enable_blob_files=true;min_blob_size=0;blob_space_target=1.2;\
                 enable_blob_columns=true;max_successive_merges=2;num_levels=4;\
                 preclude_last_level_data_seconds=2;\
                 blob_compaction_readahead_size=4096;disable_auto_compactions=false;\
                 level0_file_num_compaction_trigger=2;target_file_size_base=2048",
        table: "",
    },
    NamedSet {
        name: "dated",
        db: "",
        family: "value_ttl=0;enable_blob_files=true;min_blob_size=24;max_successive_merges=3;\
                 level0_file_num_compaction_trigger=2;disable_auto_compactions=false;\
                 target_file_size_base=2048",
        table: "",
    },
    NamedSet {
        name: "checked",
        db: "",
        family: "min_tombstones_for_range_conversion=1;memtable_protection_bytes_per_key=4;memtable_verify_per_key_checksum_on_seek=true;\
                 paranoid_memory_checks=true;block_protection_bytes_per_key=2;disable_auto_compactions=false;\
                 level0_file_num_compaction_trigger=2",
        table: "block_size=256;no_block_cache=false;separate_key_value_in_data_block=true",
    },
    NamedSet {
        name: "universal",
        db: "max_subcompactions=3;max_background_jobs=4",
        family: "min_tombstones_for_range_conversion=2;compaction_style=kCompactionStyleUniversal;disable_auto_compactions=false;\
                 level0_file_num_compaction_trigger=2;target_file_size_base=2048;\
                 compaction_options_universal={size_ratio=20;allow_trivial_move=true}",
        table: "",
    },
    NamedSet {
        name: "universal-parts",
        db: "",
        family: "compaction_style=kCompactionStyleUniversal;disable_auto_compactions=false;\
                 level0_file_num_compaction_trigger=2;target_file_size_base=1024;\
                 max_compaction_bytes=8192;num_levels=3;preclude_last_level_data_seconds=1;\
                 compaction_options_universal={incremental=true;\
                 max_size_amplification_percent=25}",
        table: "",
    },
    NamedSet {
        name: "one-level",
        db: "",
        family: "compaction_style=kCompactionStyleUniversal;num_levels=1;\
                 disable_auto_compactions=false;level0_file_num_compaction_trigger=2;\
                 compaction_options_universal={max_size_amplification_percent=100}",
        table: "block_size=256",
    },
    NamedSet {
        name: "fifo",
        db: "",
        family: "compaction_style=kCompactionStyleFIFO;num_levels=1;\
                 disable_auto_compactions=false;level0_file_num_compaction_trigger=2;\
                 compaction_options_fifo={allow_compaction=true;file_temperature_age_thresholds=\
                 {{age=1;temperature=kWarm}:{age=2;temperature=kCold}}}",
        table: "",
    },
    NamedSet {
        name: "fifo-tiers",
        db: "",
        family: "compaction_style=kCompactionStyleFIFO;num_levels=1;max_compaction_bytes=8192;\
                 enable_blob_files=true;min_blob_size=20;\
                 disable_auto_compactions=false;level0_file_num_compaction_trigger=2;\
                 compaction_options_fifo={allow_compaction=true;use_kv_ratio_compaction=true;\
                 max_data_files_size=1G}",
        table: "",
    },
    NamedSet {
        name: "direct-blobs",
        db: "",
        family: "enable_blob_files=true;enable_blob_direct_write=true;blob_direct_write_partitions=3;min_blob_size=12;\
                 blob_file_size=4096;blob_file_starting_level=0;blob_compression_type=kLZ4Compression;\
                 enable_blob_garbage_collection=true;blob_garbage_collection_age_cutoff=0.5;\
                 disable_auto_compactions=false;level0_file_num_compaction_trigger=2",
        table: "",
    },
];

/// Returns the set of this name.
///
/// # Errors
///
/// `InvalidArgument` if it does not exist.
pub fn find(name: &str) -> Result<&'static NamedSet> {
    let found = SETS.iter().find(|set| set.name == name);
    found.ok_or_else(|| {
        let names: Vec<&str> = SETS.iter().map(|set| set.name).collect();
        Error::invalid_argument(format!(
            "unknown option set {name:?}, expected one of {}",
            names.join(", ")
        ))
    })
}
