//! Workloads, one row each: fixed options, enabled and disabled operation kinds, and the durability of
//! writes.

use cairn_types::{Error, Result};

/// Durability of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Chosen by the seed: writes are usually logged, and some are synced.
    Any,
    /// All writes are logged, some synced.
    Logged,
    /// Every write is synced.
    Synced,
    /// No write is logged.
    Unlogged,
}

/// A workload.
#[derive(Debug)]
pub struct Workload {
    /// Its name on the command line and in tokens.
    pub name: &'static str,
    /// Database options of every open, overriding those of the seed.
    pub db: &'static str,
    /// Options of every family.
    pub family: &'static str,
    /// Table options of every family.
    pub table: &'static str,
    /// Durability of writes.
    pub durability: Durability,
    /// Number of families created at the start, besides the default one.
    pub families: usize,
    /// Switches that are always on.
    pub on: &'static [&'static str],
    /// Switches that are always off.
    pub off: &'static [&'static str],
    /// Operation kinds with factors for their weights.
    pub often: &'static [(&'static str, usize)],
}

/// The unrestricted workload.
pub const FREE: Workload = Workload {
    name: "free",
    db: "",
    family: "",
    table: "",
    durability: Durability::Any,
    families: 0,
    on: &[],
    off: &[],
    often: &[],
};

/// A small logged workload, for tests of the checkers.
pub const SMALL: Workload = Workload {
    name: "small",
    durability: Durability::Logged,
    ..FREE
};

/// All workloads.
pub const WORKLOADS: &[Workload] = &[
    FREE,
    Workload {
        name: "plain",
        durability: Durability::Logged,
        off: &["family"],
        ..FREE
    },
    Workload {
        name: "synced",
        durability: Durability::Synced,
        families: 2,
        ..FREE
    },
    Workload {
        name: "unlogged",
        durability: Durability::Unlogged,
        families: 2,
        on: &["flush"],
        often: &[("flush", 3)],
        ..FREE
    },
    Workload {
        name: "families",
        durability: Durability::Logged,
        families: 2,
        on: &["family", "flush", "batch"],
        often: &[("family", 3), ("flush", 2)],
        ..FREE
    },
    Workload {
        name: "dropped",
        durability: Durability::Logged,
        families: 1,
        on: &["family", "flush"],
        often: &[("family", 8), ("flush", 2), ("work", 2)],
        ..FREE
    },
    Workload {
        name: "deep",
        family: "level0_file_num_compaction_trigger=2;disable_auto_compactions=false;\
                 max_bytes_for_level_base=8192;target_file_size_base=2048",
        durability: Durability::Logged,
        on: &["flush", "compact", "deleterange"],
        often: &[("flush", 4), ("compact", 2), ("work", 3)],
        ..FREE
    },
    // Scans add range tombstones, which are not logged.
    Workload {
        name: "converted",
        family: "min_tombstones_for_range_conversion=1;level0_file_num_compaction_trigger=2;\
                 disable_auto_compactions=false;target_file_size_base=2048",
        durability: Durability::Any,
        families: 2,
        on: &["delete", "scan", "flush", "ingest", "snapshot"],
        often: &[("scan", 6), ("flush", 2), ("work", 2)],
        ..FREE
    },
    Workload {
        name: "log-bytes",
        db: "wal_bytes_per_sync=4096;bytes_per_sync=4096",
        durability: Durability::Logged,
        families: 2,
        on: &["sync", "syncwal"],
        ..FREE
    },
    Workload {
        name: "log-plain",
        db: "wal_write_mode=kPlain;max_total_wal_size=16384",
        durability: Durability::Logged,
        families: 2,
        on: &["sync", "syncwal"],
        ..FREE
    },
    Workload {
        name: "log-zstd",
        db: "wal_compression=kZSTD;max_total_wal_size=16384",
        durability: Durability::Logged,
        families: 2,
        on: &["sync", "syncwal"],
        ..FREE
    },
    Workload {
        name: "log-recycled",
        db: "recycle_log_file_num=2;max_total_wal_size=16384",
        durability: Durability::Logged,
        families: 2,
        on: &["sync", "syncwal", "flush"],
        often: &[("flush", 3)],
        ..FREE
    },
    // Many finished logs without syncs, and few flushes.
    Workload {
        name: "log-ended",
        db: "recycle_log_file_num=0",
        family: "max_write_buffer_number=30;min_write_buffer_number_to_merge=4",
        durability: Durability::Logged,
        on: &["switch"],
        off: &["family", "sync", "syncwal", "reopen", "ingest"],
        often: &[("switch", 12)],
        ..FREE
    },
    // The same with several families and occasional flushes.
    Workload {
        name: "log-ended-families",
        db: "recycle_log_file_num=0;max_manifest_file_size=1024",
        family: "max_write_buffer_number=30",
        durability: Durability::Logged,
        families: 2,
        on: &["switch", "flush", "sync", "syncwal"],
        often: &[("switch", 12), ("flush", 2)],
        ..FREE
    },
    Workload {
        name: "log-by-hand",
        db: "manual_wal_flush=true",
        durability: Durability::Logged,
        families: 2,
        on: &["sync", "flushwal", "flush"],
        often: &[("flushwal", 4)],
        ..FREE
    },
    Workload {
        name: "archive",
        db: "WAL_size_limit_MB=1;track_and_verify_wals=true;max_total_wal_size=16384",
        durability: Durability::Logged,
        families: 1,
        on: &["flush", "reopen", "updates"],
        often: &[("flush", 3), ("reopen", 2), ("updates", 3)],
        ..FREE
    },
    Workload {
        name: "buffers",
        db: "db_write_buffer_size=65536;recycle_log_file_num=2",
        family: "memtable_max_range_deletions=2;arena_block_size=4096",
        durability: Durability::Logged,
        families: 2,
        on: &["deleterange", "sync"],
        often: &[("work", 2)],
        ..FREE
    },
    Workload {
        name: "atomic",
        db: "atomic_flush=true",
        durability: Durability::Unlogged,
        families: 2,
        on: &["flush", "batch", "family"],
        often: &[("flush", 3)],
        ..FREE
    },
    Workload {
        name: "atomic-logged",
        db: "atomic_flush=true",
        durability: Durability::Logged,
        families: 2,
        on: &["flush", "batch", "family"],
        often: &[("flush", 3)],
        ..FREE
    },
    Workload {
        name: "prepared",
        db: "allow_2pc=true;atomic_flush=true",
        durability: Durability::Logged,
        families: 2,
        on: &["flush", "batch", "txn", "family"],
        often: &[("flush", 3), ("txn", 6)],
        ..FREE
    },
    // With the write policy "prepared", whose transactions have no range deletions.
    Workload {
        name: "prepared-early",
        db: "allow_2pc=true;two_write_queues=true",
        durability: Durability::Logged,
        families: 2,
        on: &["flush", "batch", "txn", "family", "reopen"],
        off: &["deleterange", "updates"],
        often: &[("flush", 3), ("txn", 6), ("reopen", 2)],
        ..FREE
    },
    Workload {
        name: "manifest",
        db: "max_manifest_file_size=1024;max_manifest_space_amp_pct=100;track_and_verify_wals_in_manifest=true;\
             track_and_verify_wals=true",
        durability: Durability::Logged,
        families: 1,
        on: &["flush", "reopen", "family"],
        often: &[("flush", 3), ("reopen", 4)],
        ..FREE
    },
    Workload {
        name: "manifest-reused",
        db: "reuse_manifest_on_open=true",
        durability: Durability::Logged,
        families: 2,
        on: &["flush", "reopen", "family"],
        often: &[("flush", 3), ("reopen", 6)],
        ..FREE
    },
    Workload {
        name: "steered",
        db: "max_background_jobs=4",
        family: "level0_file_num_compaction_trigger=2;disable_auto_compactions=false;\
                 max_bytes_for_level_base=8192;target_file_size_base=2048",
        durability: Durability::Logged,
        families: 1,
        on: &[
            "flush",
            "compact",
            "steer",
            "hold",
            "dropfiles",
            "deleterange",
        ],
        often: &[("flush", 3), ("steer", 5), ("hold", 2), ("work", 3)],
        ..FREE
    },
    Workload {
        name: "runs",
        family: "compaction_style=kCompactionStyleUniversal;disable_auto_compactions=false;\
                 level0_file_num_compaction_trigger=2;target_file_size_base=2048",
        durability: Durability::Logged,
        families: 1,
        on: &["flush", "compact", "steer", "dropfiles"],
        often: &[("flush", 3), ("steer", 3), ("work", 3)],
        ..FREE
    },
    Workload {
        name: "ingest",
        durability: Durability::Logged,
        families: 2,
        on: &["ingest", "flush", "snapshot", "deleterange"],
        often: &[("ingest", 6), ("stage", 6), ("flush", 2), ("work", 2)],
        ..FREE
    },
    Workload {
        name: "options",
        durability: Durability::Logged,
        families: 1,
        on: &["setoptions", "flush", "reopen"],
        often: &[("setoptions", 12), ("flush", 2), ("work", 2)],
        ..FREE
    },
    Workload {
        name: "checkpoint",
        durability: Durability::Logged,
        families: 1,
        on: &["checkpoint", "rescue", "flush"],
        often: &[("checkpoint", 6), ("rescue", 6)],
        ..FREE
    },
    Workload {
        name: "blobs",
        family: "enable_blob_files=true;min_blob_size=10;blob_file_size=4096;\
                 level0_file_num_compaction_trigger=2;disable_auto_compactions=false;\
                 enable_blob_garbage_collection=true;blob_garbage_collection_age_cutoff=0.5;\
                 blob_garbage_collection_force_threshold=0.3;enable_blob_columns=true",
        durability: Durability::Logged,
        on: &["flush", "compact", "collect", "putentity"],
        often: &[("flush", 4), ("collect", 3), ("work", 3)],
        ..FREE
    },
    Workload {
        name: "dated",
        family: "value_ttl=0;enable_blob_files=true;min_blob_size=24;max_successive_merges=3;\
                 level0_file_num_compaction_trigger=2;disable_auto_compactions=false",
        durability: Durability::Logged,
        on: &["flush", "compact"],
        often: &[("flush", 3), ("work", 3)],
        ..FREE
    },
    Workload {
        name: "timestamps",
        family: "comparator=leveldb.BytewiseComparator.u64ts;level0_file_num_compaction_trigger=2;\
                 disable_auto_compactions=false;target_file_size_base=4096",
        durability: Durability::Logged,
        families: 1,
        on: &["flush", "compact", "deleterange", "merge", "batch"],
        // The past would lack deleted files.
        off: &["putentity", "dropfiles"],
        often: &[("flush", 3), ("timestamps", 2), ("work", 2)],
        ..FREE
    },
    // Timestamps that only memtables have.
    Workload {
        name: "recent-timestamps",
        db: "allow_concurrent_memtable_write=false",
        family: "comparator=leveldb.BytewiseComparator.u64ts;persist_user_defined_timestamps=false;\
                 level0_file_num_compaction_trigger=2;disable_auto_compactions=false",
        durability: Durability::Logged,
        families: 1,
        on: &["flush", "batch"],
        // The past would lack deleted files.
        off: &["putentity", "dropfiles"],
        often: &[("flush", 2), ("timestamps", 2), ("work", 2)],
        ..FREE
    },
    Workload {
        name: "universal",
        family: "compaction_style=kCompactionStyleUniversal;level0_file_num_compaction_trigger=2;\
                 disable_auto_compactions=false;target_file_size_base=4096;num_levels=4;\
                 preclude_last_level_data_seconds=1",
        durability: Durability::Logged,
        families: 1,
        on: &["flush", "compact", "deleterange"],
        often: &[("flush", 4), ("work", 3)],
        ..FREE
    },
    // Values in blob files that no MANIFEST names.
    Workload {
        name: "direct-blobs",
        family: "enable_blob_files=true;enable_blob_direct_write=true;blob_direct_write_partitions=2;min_blob_size=10;\
                 blob_file_size=4096;blob_file_starting_level=0;level0_file_num_compaction_trigger=2;\
                 disable_auto_compactions=false;enable_blob_garbage_collection=true;\
                 blob_garbage_collection_age_cutoff=0.5",
        durability: Durability::Logged,
        families: 1,
        on: &["flush", "compact", "sync", "syncwal", "snapshot", "family"],
        // Options without enable_blob_files are rejected.
        off: &["setoptions"],
        often: &[("flush", 3), ("work", 3), ("syncwal", 2)],
        ..FREE
    },
];

/// Returns the workload of this name.
///
/// # Errors
///
/// `InvalidArgument` if it does not exist.
pub fn find(name: &str) -> Result<&'static Workload> {
    let found = WORKLOADS.iter().find(|workload| workload.name == name);
    found.ok_or_else(|| {
        let names: Vec<&str> = WORKLOADS.iter().map(|workload| workload.name).collect();
        Error::invalid_argument(format!(
            "unknown workload {name:?}, expected one of {}",
            names.join(", ")
        ))
    })
}
