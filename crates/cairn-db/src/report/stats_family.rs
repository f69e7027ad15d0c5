//! The column family of persisted statistics ([`crate::report::persisted_stats`]): its name and its options.

use cairn_options::{Compression, FamilyOptions};

/// The name of the family with the history of statistics, with `persist_stats_to_disk`.
pub const STATS_FAMILY: &str = "___rocksdb_stats_history___";

/// The options of the family.
pub(crate) fn options() -> FamilyOptions {
    FamilyOptions {
        write_buffer_size: 2 << 20,
        target_file_size_base: 2 << 20,
        max_bytes_for_level_base: 10 << 20,
        soft_pending_compaction_bytes_limit: 256 << 20,
        hard_pending_compaction_bytes_limit: 1 << 30,
        compression: Compression::None,
        ..FamilyOptions::default()
    }
}
