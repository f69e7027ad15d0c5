//! The info log begins with the lines of RocksDB's info log, in the same order, for a new and for a
//! reopened database, because programs and people look for them.

use std::fs;
use std::path::Path;

use cairn_bench::rocksdb::Library;
use cairn_interop::cairn;
use cairn_interop::twin::events::RecordingDb;

/// Keys of RocksDB's lines that Cairn does not write: it has no build date and no custom codecs.
const NOT_OURS: [&str; 3] = ["Git sha", "Compile date", "kCustomCompression"];

/// Keys of Cairn's lines that RocksDB 11.1.1 does not write: options of later releases, options that no
/// release prints, and Cairn's own.
const NOT_THEIRS: [&str; 58] = [
    "Options.read_io_executor_threads",
    "Options.async_wal_precreate",
    "Options.use_direct_io_for_compaction_reads",
    "Options.reuse_manifest_on_open",
    "Options.use_session_tmp_dir_for_remote_compaction",
    "Options.optimize_manifest_for_recovery",
    "Options.max_compaction_trigger_wakeup_seconds",
    "Options.periodic_compaction_phase_recovery_percent",
    "Options.fast_sst_open",
    "Options.remote_compaction_manifest_floor",
    "Options.skip_stats_update_on_db_open",
    "Options.allow_2pc",
    "Options.wal_write_mode",
    "Options.memory_budget",
    "Options.io_mode",
    "Options.dump_malloc_stats",
    "Options.info_log_level",
    "Options.db_paths",
    "Options.lowest_used_cache_tier",
    "Options.follower_",
    "Options.listeners",
    "Reads of batches",
    "Options.min_tombstones_for_range_conversion",
    "Options.blob_file_writable_file_max_buffer_size",
    "Options.blob_compression_opts.level",
    "Options.enable_blob_direct_write",
    "Options.blob_direct_write_partitions",
    "optimize_key_common_prefix",
    "use_udi_as_primary_index",
    "decouple_partitioned_filters",
    "optimize_filters_for_memory",
    "detect_filter_construct_corruption",
    "index_block_search_type",
    "separate_key_value_in_data_block",
    "cache_usage_options",
    "metadata_cache_options",
    "index_mode",
    "Options.memtable_verify_per_key_checksum_on_seek",
    "Options.memtable_protection_bytes_per_key",
    "Options.block_protection_bytes_per_key",
    "Options.paranoid_memory_checks",
    "Options.read_triggered_compaction_threshold",
    "Options.compression_manager",
    "Options.sample_for_compression",
    "Options.bottommost_file_compaction_delay",
    "Options.verify_output_flags",
    "Options.prepopulate_blob_cache",
    "Options.uncache_aggressiveness",
    "Options.last_level_temperature",
    "Options.default_write_temperature",
    "Options.value_ttl",
    "Options.blob_cache",
    "Options.blob_space_target",
    "Options.enable_blob_columns",
    "Options.deletion_triggered_compaction",
    "Options.cf_paths",
    "Options.compaction_thread_limiter",
    "DB ID",
];

/// The keys of the lines before the database is open, with the indentation of nested lines. Events and
/// progress messages are left out.
fn heads(dir: &Path) -> Vec<String> {
    let log = fs::read_to_string(dir.join("LOG")).unwrap();
    let mut heads = Vec::new();
    for line in log.lines() {
        // The first line of a message begins with time and thread.
        let bare = match line.get(..5) {
            Some(year) if year.ends_with('/') => line.splitn(3, ' ').nth(2).unwrap_or_default(),
            _ => line,
        };
        // RocksDB prints the source location before the title of a family's options.
        let bare = match bare.find("] -----") {
            Some(at) => &bare[at + 2..],
            None => bare,
        };
        if bare.starts_with("DB pointer") {
            break;
        }
        if bare.is_empty() || bare.starts_with('[') || bare.starts_with("EVENT_LOG") {
            continue;
        }
        let head = bare.split(" supported:").next().unwrap_or_default();
        let head = head.split(": ").next().unwrap_or_default().trim_end();
        let nested =
            bare.starts_with("  ") && !head.contains("Options.") && !head.contains(" options");
        let head = match nested {
            true => head.to_owned(),
            false => head.trim_start().to_owned(),
        };
        heads.push(head.replace(&*dir.to_string_lossy(), "DIR"));
    }
    // RocksDB prints its codecs in no fixed order.
    if let Some(first) = heads.iter().position(|head| is_codec(head)) {
        let count = heads[first..]
            .iter()
            .take_while(|head| is_codec(head))
            .count();
        heads[first..first + count].sort();
    }
    heads
}

/// True for the key of a codec's line.
fn is_codec(head: &str) -> bool {
    head == "kZSTD" || head.starts_with('k') && head.contains("Compression")
}

fn is_one_of(head: &str, names: &[&str]) -> bool {
    names.iter().any(|name| head.trim_start().starts_with(name))
}

/// The index of the last lines, which a failed test shows.
fn at_end(lines: &[&String]) -> usize {
    lines.len().saturating_sub(5)
}

#[test]
fn the_info_log_begins_with_rocksdbs_lines() {
    if crate::library().is_none() {
        return;
    }
    let libraries = [Library::path(), cairn::c_library()];
    let texts = [
        "disable_auto_compactions=true",
        "compression_per_level=kNoCompression:kZSTD;compaction_style=kCompactionStyleUniversal;\
         block_based_table_factory={block_size=8K;filter_policy=bloomfilter:10}",
    ];
    for text in texts {
        let logs = [0, 1].map(|at: usize| {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("db");
            let mut db = RecordingDb::new(&libraries[at], &libraries[1 - at], &path);
            db.open(text, &["default", "two"]);
            let created = heads(&path);
            db.put(0, "a", "1");
            db.flush(0);
            db.put(1, "a", "1");
            db.close();
            db.open(text, &["default", "two"]);
            let reopened = heads(&path);
            db.close();
            [created, reopened]
        });
        let [rocksdb, cairn] = logs;
        for (theirs, ours) in rocksdb.iter().zip(&cairn) {
            let printed = theirs;
            let theirs: Vec<_> = theirs
                .iter()
                .filter(|head| !is_one_of(head, &NOT_OURS))
                .collect();
            let kept: Vec<_> = ours
                .iter()
                .filter(|head| !is_one_of(head, &NOT_THEIRS) || printed.contains(head))
                .collect();
            for (at, (theirs, ours)) in theirs.iter().zip(&kept).enumerate() {
                assert_eq!(theirs, ours, "line {at}: {kept:#?}");
            }
            let ends = [&theirs[at_end(&theirs)..], &kept[at_end(&kept)..]];
            assert_eq!(theirs.len(), kept.len(), "{ends:#?}");
            assert!(theirs.len() > 250, "{theirs:#?}");
        }
    }
}
