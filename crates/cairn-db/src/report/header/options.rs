//! The options as lines of the info log: RocksDB's names in RocksDB's order, which programs search for.
//!
//! The values come from the option tables. A name that is not an option is a case of [`db_value`],
//! [`family_lines`] or [`format_text`]; an option that RocksDB does not print comes after those that it does.
//! A test finds options that are in no list.

use cairn_memory::BlockCache;
use cairn_options::enums::{KeyCommonPrefix, PrepopulateBlockCache, WalRecoveryMode};
use cairn_options::{
    Compression, DataBlockIndexType, DbOptions, FamilyOptions, IndexShortening, IndexType, Options,
    PlainEncodingType, TableKind, TableOptions,
};

/// The options of a database, in RocksDB's order. Names with a dot, or without a row in the option table, are
/// cases of [`db_value`].
const OF_DATABASE: &[&str] = &[
    "error_if_exists",
    "create_if_missing",
    "paranoid_checks",
    "open_files_async",
    "flush_verify_memtable_count",
    "compaction_verify_record_count",
    "track_and_verify_wals_in_manifest",
    "track_and_verify_wals",
    "verify_sst_unique_id_in_manifest",
    "env",
    "fs",
    "info_log",
    "max_file_opening_threads",
    "read_io_executor_threads",
    "statistics",
    "use_fsync",
    "max_log_file_size",
    "log_file_time_to_roll",
    "keep_log_file_num",
    "recycle_log_file_num",
    "async_wal_precreate",
    "allow_fallocate",
    "allow_mmap_reads",
    "allow_mmap_writes",
    "use_direct_reads",
    "use_direct_io_for_compaction_reads",
    "use_direct_io_for_flush_and_compaction",
    "create_missing_column_families",
    "db_log_dir",
    "wal_dir",
    "table_cache_numshardbits",
    "WAL_ttl_seconds",
    "WAL_size_limit_MB",
    "max_write_batch_group_size_bytes",
    "is_fd_close_on_exec",
    "advise_random_on_open",
    "db_write_buffer_size",
    "write_buffer_manager",
    "use_adaptive_mutex",
    "rate_limiter",
    "sst_file_manager.rate_bytes_per_sec",
    "wal_recovery_mode",
    "enable_thread_tracking",
    "enable_pipelined_write",
    "unordered_write",
    "allow_concurrent_memtable_write",
    "enable_write_thread_adaptive_yield",
    "write_thread_max_yield_usec",
    "write_thread_slow_yield_usec",
    "row_cache",
    "wal_filter",
    "avoid_flush_during_recovery",
    "enforce_write_buffer_manager_during_recovery",
    "allow_ingest_behind",
    "two_write_queues",
    "manual_wal_flush",
    "wal_compression",
    "background_close_inactive_wals",
    "atomic_flush",
    "avoid_unnecessary_blocking_io",
    "prefix_seek_opt_in_only",
    "persist_stats_to_disk",
    "write_dbid_to_manifest",
    "reuse_manifest_on_open",
    "write_identity_file",
    "log_readahead_size",
    "file_checksum_gen_factory",
    "best_efforts_recovery",
    "max_bgerror_resume_count",
    "bgerror_resume_retry_interval",
    "allow_data_in_errors",
    "db_host_id",
    "use_session_tmp_dir_for_remote_compaction",
    "enforce_single_del_contracts",
    "metadata_write_temperature",
    "wal_write_temperature",
    "max_background_jobs",
    "max_background_compactions",
    "max_subcompactions",
    "avoid_flush_during_shutdown",
    "writable_file_max_buffer_size",
    "delayed_write_rate ",
    "max_total_wal_size",
    "delete_obsolete_files_period_micros",
    "stats_dump_period_sec",
    "stats_persist_period_sec",
    "stats_history_buffer_size",
    "max_open_files",
    "bytes_per_sync",
    "wal_bytes_per_sync",
    "strict_bytes_per_sync",
    "compaction_readahead_size",
    "max_background_flushes",
    "max_manifest_file_size",
    "max_manifest_space_amp_pct",
    "manifest_preallocation_size",
    "verify_manifest_content_on_close",
    "optimize_manifest_for_recovery",
    "daily_offpeak_time_utc",
    "max_compaction_trigger_wakeup_seconds",
    "periodic_compaction_phase_recovery_percent",
    "fast_sst_open",
    "remote_compaction_manifest_floor",
    // The options from here on are not printed by RocksDB.
    "skip_stats_update_on_db_open",
    "allow_2pc",
    "wal_write_mode",
    "memory_budget",
    "io_mode",
    "dump_malloc_stats",
    "info_log_level",
    "db_paths",
    "lowest_used_cache_tier",
    "follower_refresh_catchup_period_ms",
    "follower_catchup_retry_count",
    "follower_catchup_retry_wait_ms",
    "listeners",
];

/// The options of a family, likewise. The name of a group is followed by the members that RocksDB prints.
const OF_FAMILY: &[&str] = &[
    "comparator",
    "persist_user_defined_timestamps",
    "merge_operator",
    "compaction_filter",
    "compaction_filter_factory",
    "sst_partitioner_factory",
    "memtable_factory",
    "table_factory",
    "table_factory options",
    "write_buffer_size",
    "max_write_buffer_number",
    "compression",
    "bottommost_compression",
    "prefix_extractor",
    "memtable_insert_with_hint_prefix_extractor",
    "num_levels",
    "min_write_buffer_number_to_merge",
    "max_write_buffer_size_to_maintain",
    "bottommost_compression_opts: window_bits level strategy max_dict_bytes zstd_max_train_bytes \
     parallel_threads enabled max_dict_buffer_bytes use_zstd_dict_trainer",
    "compression_opts: window_bits level strategy max_dict_bytes zstd_max_train_bytes \
     use_zstd_dict_trainer parallel_threads enabled max_dict_buffer_bytes",
    "level0_file_num_compaction_trigger",
    "level0_slowdown_writes_trigger",
    "level0_stop_writes_trigger",
    "target_file_size_base",
    "target_file_size_multiplier",
    "target_file_size_is_upper_bound",
    "max_bytes_for_level_base",
    "level_compaction_dynamic_level_bytes",
    "max_bytes_for_level_multiplier",
    "max_bytes_for_level_multiplier_additional",
    "max_sequential_skip_in_iterations",
    "memtable_op_scan_flush_trigger",
    "memtable_avg_op_scan_flush_trigger",
    "min_tombstones_for_range_conversion",
    "max_compaction_bytes",
    "arena_block_size",
    "soft_pending_compaction_bytes_limit",
    "hard_pending_compaction_bytes_limit",
    "disable_auto_compactions",
    "compaction_style",
    "compaction_pri",
    "compaction_options_universal: size_ratio min_merge_width max_merge_width \
     max_size_amplification_percent compression_size_percent stop_style max_read_amp \
     reduce_file_locking",
    "compaction_options_fifo: max_table_files_size allow_compaction",
    "table_properties_collectors",
    "inplace_update_support",
    "inplace_update_num_locks",
    "memtable_prefix_bloom_size_ratio",
    "memtable_whole_key_filtering",
    "memtable_huge_page_size",
    "bloom_locality",
    "max_successive_merges",
    "strict_max_successive_merges",
    "optimize_filters_for_hits",
    "paranoid_file_checks",
    "force_consistency_checks",
    "report_bg_io_stats",
    "disallow_memtable_writes",
    "ttl",
    "periodic_compaction_seconds",
    "default_temperature",
    "preclude_last_level_data_seconds",
    "preserve_internal_time_seconds",
    "enable_blob_files",
    "min_blob_size",
    "blob_file_size",
    "blob_file_writable_file_max_buffer_size",
    "blob_compression_type",
    "blob_compression_opts: level",
    "enable_blob_garbage_collection",
    "blob_garbage_collection_age_cutoff",
    "blob_garbage_collection_force_threshold",
    "blob_compaction_readahead_size",
    "blob_file_starting_level",
    "experimental_mempurge_threshold",
    "memtable_max_range_deletions",
    "cf_allow_ingest_behind",
    "memtable_batch_lookup_optimization",
    "enable_blob_direct_write",
    "blob_direct_write_partitions",
    // The options from here on are not printed by RocksDB.
    "memtable_verify_per_key_checksum_on_seek",
    "memtable_protection_bytes_per_key",
    "block_protection_bytes_per_key",
    "paranoid_memory_checks",
    "read_triggered_compaction_threshold",
    "compression_manager",
    "sample_for_compression",
    "bottommost_file_compaction_delay",
    "verify_output_flags",
    "prepopulate_blob_cache",
    "uncache_aggressiveness",
    "last_level_temperature",
    "default_write_temperature",
    "value_ttl",
    "blob_cache",
    "blob_space_target",
    "enable_blob_columns",
    "deletion_triggered_compaction",
    "cf_paths",
    "compaction_thread_limiter",
];

/// The options of tables, likewise.
const OF_TABLES: &[&str] = &[
    "flush_block_policy_factory",
    "cache_index_and_filter_blocks",
    "cache_index_and_filter_blocks_with_high_priority",
    "pin_l0_filter_and_index_blocks_in_cache",
    "pin_top_level_index_and_filter",
    "index_type",
    "data_block_index_type",
    "optimize_key_common_prefix",
    "index_shortening",
    "data_block_hash_table_util_ratio",
    "checksum",
    "no_block_cache",
    "block_cache",
    "persistent_cache",
    "block_size",
    "block_size_deviation",
    "block_restart_interval",
    "index_block_restart_interval",
    "metadata_block_size",
    "partition_filters",
    "use_delta_encoding",
    "filter_policy",
    "user_defined_index_factory",
    "use_udi_as_primary_index",
    "fail_if_no_udi_on_open",
    "whole_key_filtering",
    "verify_compression",
    "read_amp_bytes_per_bit",
    "format_version",
    "uniform_cv_threshold",
    "enable_index_compression",
    "block_align",
    "super_block_alignment_size",
    "super_block_alignment_space_overhead_ratio",
    "max_auto_readahead_size",
    "prepopulate_block_cache",
    "initial_auto_readahead_size",
    "num_file_reads_for_auto_readahead",
    // The options from here on are not printed by RocksDB.
    "decouple_partitioned_filters",
    "optimize_filters_for_memory",
    "detect_filter_construct_corruption",
    "index_block_search_type",
    "separate_key_value_in_data_block",
    "metadata_cache_options",
    "cache_usage_options",
    "index_mode",
];

/// Switches that RocksDB prints as words.
const WORDS: [&str; 10] = [
    "cf_allow_ingest_behind",
    "enable_blob_direct_write",
    "enable_blob_files",
    "enable_blob_garbage_collection",
    "enabled",
    "enforce_single_del_contracts",
    "memtable_batch_lookup_optimization",
    "persist_user_defined_timestamps",
    "use_session_tmp_dir_for_remote_compaction",
    "use_zstd_dict_trainer",
];

/// Objects that RocksDB prints as `None` if they are not set.
const NONE: [&str; 5] = [
    "compaction_filter",
    "compaction_filter_factory",
    "merge_operator",
    "sst_partitioner_factory",
    "wal_filter",
];

/// Returns the options of a database, one per line; `objects` has the values of names that are not options.
pub(super) fn db_lines(options: &DbOptions, objects: &[(&str, String)]) -> Vec<String> {
    let mut lines = Vec::new();
    for &head in OF_DATABASE {
        let object = objects.iter().find(|(name, _)| *name == head);
        let value = object.map(|(_, value)| value.clone());
        if let Some(value) = value.or_else(|| db_value(head, options)) {
            lines.push(option_line(head, &value));
        }
    }
    lines
}

/// Returns the value for a name in the options of a database.
fn db_value(head: &str, options: &DbOptions) -> Option<String> {
    let name = match head {
        "rate_limiter" => "rate_limiter_bytes_per_sec",
        "row_cache" => {
            let cache = options.row_cache.as_ref();
            let capacity = cache.map(|cache| cache.capacity().to_string());
            return Some(capacity.unwrap_or_else(|| "None".to_owned()));
        }
        head => head.trim_end(),
    };
    let value = (DbOptions::row(name)?.get)(options);
    Some(match (name, value.as_str()) {
        ("wal_recovery_mode", _) => place(WalRecoveryMode::ALL, &value),
        ("wal_compression", _) => {
            Compression::from_option_name(&value).map_or(value, |codec| (codec as u8).to_string())
        }
        ("file_checksum_gen_factory", "nullptr") => "Unknown".to_owned(),
        (
            "statistics" | "rate_limiter_bytes_per_sec" | "write_buffer_manager" | "memory_budget",
            "nullptr",
        ) => "(nil)".to_owned(),
        _ => plain(name, &value),
    })
}

/// Returns the line before the options of a family.
pub(super) fn family_title(name: &str) -> String {
    format!("--------------- Options for column family [{name}]:")
}

/// Returns `title` and the options of a family, one per line, with those of its tables as one text.
pub(super) fn family_lines(title: String, options: &FamilyOptions) -> Vec<String> {
    let mut lines = vec![title];
    for &head in OF_FAMILY {
        let (name, members) = head.split_once(": ").unwrap_or((head, ""));
        let row = FamilyOptions::row(name);
        let value = match name {
            // With members that OPTIONS files omit.
            "compaction_options_universal" => options.compaction_options_universal.to_text(),
            _ => row.map(|row| (row.get)(options)).unwrap_or_default(),
        };
        match name {
            _ if !members.is_empty() => {
                for member in members.split_whitespace() {
                    let value = plain(member, member_of(&value, member));
                    lines.push(option_line(&format!("{name}.{member}"), &value));
                }
            }
            "table_factory options" => lines.push(option_line(name, &format_text(options))),
            "persist_user_defined_timestamps" if options.comparator.timestamp_size() == 0 => {}
            "compression" if !options.compression_per_level.is_empty() => {
                for (level, codec) in options.compression_per_level.iter().enumerate() {
                    lines.push(option_line(
                        &format!("compression[{level}]"),
                        codec.property_name(),
                    ));
                }
            }
            "max_bytes_for_level_multiplier_additional" => {
                for (level, times) in value.split(':').enumerate() {
                    let head = format!("max_bytes_for_level_multiplier_addtl[{level}]");
                    lines.push(option_line(&head, times));
                }
            }
            "table_properties_collectors" => {
                let collectors = options.table_properties_collector_factories.all();
                let names = collectors.iter().map(|factory| factory.describe());
                lines.push(option_line(name, &names.collect::<Vec<_>>().join("; ")));
            }
            _ => lines.push(option_line(name, &plain(name, &value))),
        }
    }
    lines
}

/// Returns the options of tables, which RocksDB writes as one text of many lines.
fn format_text(options: &FamilyOptions) -> String {
    match options.table_factory {
        TableKind::Plain => flat_text(&options.plain_table),
        TableKind::Cuckoo => flat_text(&options.cuckoo_table),
        _ => table_text(&options.table),
    }
}

/// Returns the options of tables without blocks.
fn flat_text<S: Options>(options: &S) -> String {
    let mut text = String::new();
    for row in S::rows() {
        let value = (row.get)(options);
        let value = match row.name {
            "encoding_type" => place(PlainEncodingType::ALL, &value),
            name => plain(name, &value),
        };
        text += &format!("  {}: {value}\n", row.name);
    }
    text
}

/// Returns the options of block-based tables.
fn table_text(options: &TableOptions) -> String {
    let mut text = String::new();
    for &name in OF_TABLES {
        let Some(row) = TableOptions::row(name) else {
            if name == "persistent_cache" {
                text += "  persistent_cache: (nil)\n";
            }
            continue;
        };
        let value = (row.get)(options);
        let value = match name {
            "index_type" => place(IndexType::ALL, &value),
            "data_block_index_type" => place(DataBlockIndexType::ALL, &value),
            "index_shortening" => place(IndexShortening::ALL, &value),
            "optimize_key_common_prefix" => place(KeyCommonPrefix::ALL, &value),
            "prepopulate_block_cache" => place(PrepopulateBlockCache::ALL, &value),
            "checksum" => (options.checksum as u8).to_string(),
            "data_block_hash_table_util_ratio" => {
                format!("{:.6}", options.data_block_hash_table_util_ratio)
            }
            "block_cache" => {
                text += &cache_text(options, &value);
                continue;
            }
            _ => plain(name, &value),
        };
        text += &format!("  {name}: {value}\n");
    }
    text
}

/// Returns the block cache, with its options indented one more step.
fn cache_text(options: &TableOptions, described: &str) -> String {
    let Some(cache) = &options.block_cache else {
        return "  block_cache: (nil)\n".to_owned();
    };
    let strict = plain("", member_of(described, "strict_capacity_limit"));
    let cache: &BlockCache = cache;
    let allocator = match cache.options().memory.is_undumped() {
        true => "JemallocNodumpAllocator",
        false => "None",
    };
    format!(
        "  block_cache: {cache:p}\n  block_cache_name: CairnCache\n  block_cache_options:\n    \
         capacity : {}\n    num_shard_bits : {}\n    strict_capacity_limit : {strict}\n    \
         memory_allocator : {allocator}\n",
        cache.capacity(),
        member_of(described, "num_shard_bits"),
    )
}

/// Returns the value of a member in the text of its group.
fn member_of<'a>(group: &'a str, member: &str) -> &'a str {
    let inner = group.trim_start_matches('{').trim_end_matches('}');
    let mut members = inner.split(';').filter_map(|one| one.split_once('='));
    members
        .find(|(name, _)| *name == member)
        .map_or("", |(_, value)| value)
}

/// Returns the number of an enum value, as text.
fn place<T>(all: &[(T, &str)], value: &str) -> String {
    let place = all.iter().position(|(_, word)| *word == value);
    place.map_or(value.to_owned(), |place| place.to_string())
}

/// Returns a value as RocksDB prints most of them: booleans are numbers, codecs have the names used for
/// tables.
fn plain(name: &str, value: &str) -> String {
    let value = match (name, value) {
        (_, "false" | "true") if WORDS.contains(&name) => value,
        (_, "false") => "0",
        (_, "true") => "1",
        (_, "nullptr") if NONE.contains(&name) => "None",
        ("bottommost_compression", "kDisableCompressionOption") => "Disabled",
        ("compression" | "bottommost_compression" | "blob_compression_type", _) => {
            let codec = Compression::from_option_name(value);
            codec.map_or(value, |codec| codec.property_name())
        }
        _ => value,
    };
    value.to_owned()
}

/// Returns a line of an option, with the name right-aligned as in RocksDB.
fn option_line(head: &str, value: &str) -> String {
    match head {
        "table_factory options" => format!("           {head}: {value}"),
        _ => format!("{:>60}: {value}", format!("Options.{head}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of `S` that are not in `lines`.
    fn unlogged<S: Options + 'static>(lines: &[&str]) -> Vec<&'static str> {
        let heads = lines
            .iter()
            .map(|line| line.split(':').next().map(str::trim));
        let heads: Vec<_> = heads.flatten().collect();
        let rows = S::rows().iter().map(|row| row.name);
        rows.filter(|name| !heads.contains(name)).collect()
    }

    #[test]
    fn the_options_of_each_table_format_are_printed() {
        let lines = |text| {
            let options = FamilyOptions::from_text(text).unwrap();
            family_lines(family_title("default"), &options).join("\n")
        };
        let plain = lines("table_factory={id=PlainTable;encoding_type=kPrefix;user_key_len=8}");
        assert!(plain.contains("  user_key_len: 8\n") && plain.contains("  encoding_type: 1\n"));
        assert!(!plain.contains("  block_size:"));
        let cuckoo = lines("table_factory={id=CuckooTable;hash_table_ratio=0.5}");
        assert!(cuckoo.contains("  hash_table_ratio: 0.500000\n"));
    }

    /// Regression: members that OPTIONS files omit had no value.
    #[test]
    fn every_member_has_a_value() {
        let lines = family_lines(family_title("default"), &FamilyOptions::default());
        let value = |member: &str| {
            let head = format!("Options.compaction_options_universal.{member}: ");
            lines
                .iter()
                .find_map(|line| line.trim().strip_prefix(&head))
        };
        assert_eq!(value("size_ratio"), Some("1"));
        assert_eq!(value("max_read_amp"), Some("-1"));
        assert_eq!(value("reduce_file_locking"), Some("1"));
        let unvalued = |line: &&String| line.matches('.').count() == 2 && line.ends_with(": ");
        let unvalued: Vec<_> = lines.iter().filter(unvalued).collect();
        assert!(unvalued.is_empty(), "{unvalued:?}");
    }

    #[test]
    fn every_option_has_a_line() {
        let none: [&str; 0] = [];
        assert_eq!(unlogged::<TableOptions>(OF_TABLES), none);
        // Levels have a line each, and two have RocksDB's names.
        let others = [
            "compression_per_level",
            "block_based_table_factory",
            "plain_table_factory",
            "cuckoo_table_factory",
            "table_properties_collector_factories",
        ];
        assert_eq!(unlogged::<FamilyOptions>(OF_FAMILY), others);
        // Two have RocksDB's names, and RocksDB has no line for the others.
        let others = [
            "default_block_cache",
            "sst_file_manager",
            "rate_limiter_bytes_per_sec",
            "checksum_handoff_file_types",
            "compaction_service",
        ];
        assert_eq!(unlogged::<DbOptions>(OF_DATABASE), others);
    }
}
