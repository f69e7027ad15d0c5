//! The option sets of the scripts, one row each.

/// The C callbacks of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callback {
    /// Nothing.
    None,
    /// A merge operator.
    Merge,
    /// A merge operator and a reverse comparator.
    Reverse,
    /// A compaction filter.
    Filter,
}

/// The transactions of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transactions {
    /// None.
    None,
    /// With locks.
    Pessimistic,
    /// With checks at the commit.
    Optimistic,
}

/// A row: the options of the databases, and what scripts may do with them.
#[derive(Debug)]
pub struct Set {
    /// The name, a part of every token.
    pub name: &'static str,
    /// Database and family options, in RocksDB's text form.
    pub options: &'static str,
    /// The C callbacks.
    pub callback: Callback,
    /// No background work, so that the shape of the tree is deterministic.
    pub still: bool,
    /// There is a merge operator.
    pub merges: bool,
    /// There is a prefix extractor: unbounded scans need `total_order_seek`.
    pub prefixes: bool,
    /// Some writes skip the WAL.
    pub no_log: bool,
    /// The transactions of scripts.
    pub transactions: Transactions,
    /// It runs only if it is named: long runs meet differences that no rule describes.
    pub by_name: bool,
}

const PLAIN: Set = Set {
    name: "",
    options: "",
    callback: Callback::None,
    still: false,
    merges: false,
    prefixes: false,
    no_log: false,
    transactions: Transactions::None,
    by_name: false,
};

/// All rows.
pub static SETS: [Set; 16] = [
    Set {
        name: "default",
        options: "write_buffer_size=65536",
        ..PLAIN
    },
    Set {
        name: "still",
        options: "disable_auto_compactions=true;level0_slowdown_writes_trigger=1000;\
                  level0_stop_writes_trigger=1000;merge_operator=stringappend",
        still: true,
        merges: true,
        ..PLAIN
    },
    Set {
        name: "nowal",
        options: "disable_auto_compactions=true;level0_slowdown_writes_trigger=1000;\
                  level0_stop_writes_trigger=1000",
        still: true,
        no_log: true,
        ..PLAIN
    },
    Set {
        name: "universal",
        options: "compaction_style=kCompactionStyleUniversal;write_buffer_size=32768;\
                  num_levels=4;merge_operator=stringappend",
        merges: true,
        ..PLAIN
    },
    Set {
        name: "fifo",
        options: "compaction_style=kCompactionStyleFIFO;write_buffer_size=65536;\
                  compaction_options_fifo={max_table_files_size=1073741824;allow_compaction=true};\
                  level0_slowdown_writes_trigger=1000;level0_stop_writes_trigger=1000",
        ..PLAIN
    },
    Set {
        name: "blobs",
        options: "enable_blob_files=true;min_blob_size=40;write_buffer_size=65536;\
                  enable_blob_garbage_collection=true;blob_garbage_collection_age_cutoff=0.5;\
                  blob_compression_type=kLZ4Compression;merge_operator=stringappend",
        merges: true,
        ..PLAIN
    },
    Set {
        name: "prefix",
        options: "prefix_extractor=fixed:3;memtable_prefix_bloom_size_ratio=0.1;\
                  write_buffer_size=65536;\
                  block_based_table_factory={filter_policy=bloomfilter:10:false;\
                  whole_key_filtering=false;block_size=512}",
        prefixes: true,
        ..PLAIN
    },
    Set {
        name: "hashes",
        options: "prefix_extractor=fixed:3;write_buffer_size=65536;\
                  block_based_table_factory={filter_policy=ribbonfilter:10;block_size=1024;\
                  index_type=kHashSearch;data_block_index_type=kDataBlockBinaryAndHash}",
        prefixes: true,
        ..PLAIN
    },
    Set {
        name: "merge",
        options: "write_buffer_size=65536;max_successive_merges=3",
        callback: Callback::Merge,
        merges: true,
        ..PLAIN
    },
    Set {
        name: "reverse",
        options: "write_buffer_size=65536",
        callback: Callback::Reverse,
        merges: true,
        ..PLAIN
    },
    Set {
        name: "filter",
        options: "disable_auto_compactions=true;level0_slowdown_writes_trigger=1000;\
                  level0_stop_writes_trigger=1000",
        callback: Callback::Filter,
        still: true,
        ..PLAIN
    },
    Set {
        name: "static",
        options: "level_compaction_dynamic_level_bytes=false;write_buffer_size=16384;\
                  target_file_size_base=16384;max_bytes_for_level_base=65536;\
                  max_bytes_for_level_multiplier=4;inplace_update_support=false;\
                  enable_pipelined_write=true;max_subcompactions=2",
        ..PLAIN
    },
    Set {
        name: "parts",
        options: "write_buffer_size=65536;compression=kZSTD;\
                  block_based_table_factory={format_version=6;index_type=kTwoLevelIndexSearch;\
                  partition_filters=true;filter_policy=bloomfilter:10:false;metadata_block_size=256;\
                  block_size=256;checksum=kxxHash64;cache_index_and_filter_blocks=true};\
                  optimize_filters_for_hits=true;merge_operator=max",
        merges: true,
        ..PLAIN
    },
    Set {
        name: "old",
        options: "write_buffer_size=65536;compression=kSnappyCompression;memtable_whole_key_filtering=true;\
                  memtable_prefix_bloom_size_ratio=0.1;wal_recovery_mode=kAbsoluteConsistency;\
                  block_based_table_factory={format_version=2;block_size=600;block_restart_interval=3;\
                  index_block_restart_interval=4;checksum=kCRC32c;no_block_cache=true}",
        ..PLAIN
    },
    Set {
        name: "pessimistic",
        options: "disable_auto_compactions=true;level0_slowdown_writes_trigger=1000;\
                  level0_stop_writes_trigger=1000;merge_operator=stringappend",
        still: true,
        merges: true,
        transactions: Transactions::Pessimistic,
        // Records added to a prepared transaction: RocksDB does not log them, Cairn does.
        by_name: true,
        ..PLAIN
    },
    Set {
        name: "optimistic",
        options: "disable_auto_compactions=true;level0_slowdown_writes_trigger=1000;\
                  level0_stop_writes_trigger=1000;merge_operator=stringappend",
        still: true,
        merges: true,
        transactions: Transactions::Optimistic,
        ..PLAIN
    },
];

/// The row called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Set> {
    SETS.iter().find(|set| set.name == name)
}
