//! Option values that seeds choose from.

use cairn_sim::Rng;

use crate::merge_kind::MergeKind;
use crate::options::{OptionSet, pairs};

/// An option name and its values.
type Values = (&'static str, &'static [&'static str]);
const DB_OPTIONS: [Values; 19] = [
    ("allow_2pc", &["false", "true"]),
    ("atomic_flush", &["false", "true"]),
    ("max_total_wal_size", &["0", "16384", "100000"]),
    ("wal_bytes_per_sync", &["0", "4096"]),
    ("bytes_per_sync", &["0", "4096"]),
    ("wal_compression", &["kNoCompression", "kZSTD"]),
    ("avoid_flush_during_recovery", &["false", "true"]),
    ("avoid_flush_during_shutdown", &["false", "true"]),
    ("track_and_verify_wals", &["false", "true"]),
    ("track_and_verify_wals_in_manifest", &["false", "true"]),
    ("max_manifest_file_size", &["1024", "1073741824"]),
    ("max_manifest_space_amp_pct", &["100", "500"]),
    ("reuse_manifest_on_open", &["false", "true"]),
    ("verify_manifest_content_on_close", &["false", "true"]),
    ("max_subcompactions", &["1", "3"]),
    ("use_fsync", &["false", "true"]),
    ("recycle_log_file_num", &["0", "2"]),
    // The limit is ten tables.
    ("max_open_files", &["-1", "20"]),
    ("allow_mmap_writes", &["true", "false"]),
];
const FAMILY_OPTIONS: [Values; 30] = [
    // 64 KiB is the minimum.
    ("write_buffer_size", &["65536"]),
    ("max_write_buffer_number", &["2", "4"]),
    ("min_write_buffer_number_to_merge", &["1", "2", "3"]),
    ("target_file_size_base", &["2048", "8192", "65536"]),
    ("max_bytes_for_level_base", &["8192", "32768", "65536"]),
    ("max_bytes_for_level_multiplier", &["2", "10"]),
    (
        "level0_file_num_compaction_trigger",
        // If the number of files triggers no compaction, it must not stop writes either.
        &["1", "2", "4", "-1;level0_stop_writes_trigger=1000000"],
    ),
    ("level_compaction_dynamic_level_bytes", &["true", "false"]),
    ("disable_auto_compactions", &["false", "false", "true"]),
    ("num_levels", &["2", "4", "7"]),
    ("max_compaction_bytes", &["0", "16384"]),
    ("max_sequential_skip_in_iterations", &["8", "0", "2"]),
    (
        "compaction_pri",
        &[
            "kMinOverlappingRatio",
            "kByCompensatedSize",
            "kOldestLargestSeqFirst",
            "kOldestSmallestSeqFirst",
            "kRoundRobin",
        ],
    ),
    (
        "compression",
        &[
            "kNoCompression",
            "kLZ4Compression",
            "kSnappyCompression",
            "kZSTD",
            "kZlibCompression",
        ],
    ),
    ("prefix_extractor", &["nullptr", "fixed:3", "capped:4"]),
    (
        "compaction_style",
        &[
            "kCompactionStyleLevel",
            "kCompactionStyleLevel",
            "kCompactionStyleUniversal",
            "kCompactionStyleFIFO",
            // Without compactions, a write stop would never end.
            "kCompactionStyleNone;level0_stop_writes_trigger=1000000",
        ],
    ),
    (
        "sst_partitioner_factory",
        &["nullptr", "{id=SstPartitionerFixedPrefixFactory;length=3;}"],
    ),
    ("enable_blob_files", &["true", "false"]),
    ("min_blob_size", &["0", "10", "100"]),
    ("blob_file_size", &["1", "4096", "268435456"]),
    (
        "blob_compression_type",
        &["kNoCompression", "kLZ4Compression", "kZSTD"],
    ),
    ("blob_file_starting_level", &["0", "1", "2"]),
    ("enable_blob_garbage_collection", &["true", "false"]),
    ("blob_garbage_collection_age_cutoff", &["0.25", "0.7", "1"]),
    ("blob_garbage_collection_force_threshold", &["1", "0.3"]),
    ("blob_compaction_readahead_size", &["0", "4096"]),
    ("blob_space_target", &["0", "1.3"]),
    ("enable_blob_columns", &["true", "false"]),
    ("max_successive_merges", &["0", "2"]),
    ("inplace_update_support", &["true", "false"]),
];
const TABLE_OPTIONS: [Values; 20] = [
    ("block_size", &["256", "1024", "4096"]),
    ("block_restart_interval", &["1", "4", "16"]),
    ("index_block_restart_interval", &["1", "4"]),
    ("metadata_block_size", &["128", "4096"]),
    ("format_version", &["2", "3", "4", "5", "6", "7", "8"]),
    (
        "checksum",
        &["kCRC32c", "kxxHash", "kxxHash64", "kXXH3", "kNoChecksum"],
    ),
    (
        "filter_policy",
        &["nullptr", "bloomfilter:10:false", "ribbonfilter:10:1"],
    ),
    ("whole_key_filtering", &["true", "false"]),
    ("partition_filters", &["true", "false"]),
    (
        "index_type",
        &[
            "kBinarySearch",
            "kTwoLevelIndexSearch",
            "kBinarySearchWithFirstKey",
        ],
    ),
    (
        "index_shortening",
        &[
            "kNoShortening",
            "kShortenSeparators",
            "kShortenSeparatorsAndSuccessor",
        ],
    ),
    (
        "data_block_index_type",
        &["kDataBlockBinarySearch", "kDataBlockBinaryAndHash"],
    ),
    ("use_delta_encoding", &["true", "false"]),
    ("separate_key_value_in_data_block", &["false", "true"]),
    ("no_block_cache", &["false", "true"]),
    ("enable_index_compression", &["true", "false"]),
    ("pin_top_level_index_and_filter", &["true", "false"]),
    ("detect_filter_construct_corruption", &["true", "false"]),
    (
        "flush_block_policy_factory",
        &[
            "FlushBlockBySizePolicyFactory",
            "FlushBlockEveryKeyPolicyFactory",
        ],
    ),
    ("read_amp_bytes_per_bit", &["0", "1", "32"]),
];

/// Merge operators.
const MERGES: [MergeKind; 4] = [
    MergeKind::Add,
    MergeKind::Append,
    MergeKind::Put,
    MergeKind::Max,
];

/// Returns a random merge operator.
pub fn merge(rng: &mut Rng) -> MergeKind {
    *rng.pick(&MERGES)
}

fn chosen(rng: &mut Rng, options: &[Values]) -> String {
    let mut text = String::new();
    for (name, values) in options {
        if rng.chance(1, 2) {
            text += &format!("{name}={};", rng.pick(values));
        }
    }
    text
}

/// Returns random options for a small tree.
pub fn option_set(rng: &mut Rng, merge: MergeKind) -> OptionSet {
    OptionSet {
        unlogged: false,
        db: chosen(rng, &DB_OPTIONS),
        family: chosen(rng, &FAMILY_OPTIONS),
        table: chosen(rng, &TABLE_OPTIONS),
        merge,
    }
}

/// Family options that cannot change after creation.
const FIXED: [&str; 1] = ["num_levels"];

/// Sets the immutable options of `options` to their values in `first`.
pub fn keep_fixed(options: &mut OptionSet, first: &OptionSet) {
    let is_fixed = |pair: &&str| {
        let name = pair.split_once('=').map_or("", |(name, _)| name);
        FIXED.contains(&name)
    };
    let others = pairs(&options.family)
        .into_iter()
        .filter(|pair| !is_fixed(pair));
    let fixed = pairs(&first.family).into_iter().filter(is_fixed);
    options.family = others.chain(fixed).map(|pair| format!("{pair};")).collect();
    options.unlogged = first.unlogged;
    keep_unlogged(options);
}

/// Flushes unlogged writes on close, since the model does not lose data.
pub fn keep_unlogged(options: &mut OptionSet) {
    if options.unlogged {
        let db = "avoid_flush_during_shutdown=false;recycle_log_file_num=0";
        options.override_with(db, "", "");
    }
}
