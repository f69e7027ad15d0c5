//! Families and options of the soak test.

use cairn::{FamilyDescriptor, FamilyOptions, Options};

/// Options of every family: small memtables and tables, so that every kind of job is frequent.
const COMMON: &str = "merge_operator={id=stringappend;delimiter=,};write_buffer_size=1M;\
    target_file_size_base=512K;max_bytes_for_level_base=2M;level0_file_num_compaction_trigger=3";

/// The shared families with their specific options.
pub const FAMILIES: [(&str, &str); 4] = [
    ("default", "compression=kLZ4Compression"),
    (
        "universal",
        "compaction_style=kCompactionStyleUniversal;compression=kZSTD",
    ),
    (
        "blobs",
        "enable_blob_files=true;min_blob_size=300;enable_blob_garbage_collection=true;\
         blob_garbage_collection_age_cutoff=0.5;blob_file_size=1M",
    ),
    (
        "partitioned",
        "prefix_extractor=fixed:4;memtable_prefix_bloom_size_ratio=0.1;block_based_table_factory={\
         filter_policy=bloomfilter:10:false;index_type=kTwoLevelIndexSearch;partition_filters=true;\
         cache_index_and_filter_blocks=true;block_size=1K}",
    ),
];

/// Database options, used by the opens in turn.
pub const DATABASES: [&str; 6] = [
    "",
    "recycle_log_file_num=2;enable_pipelined_write=true",
    "max_open_files=40;wal_compression=kZSTD",
    "atomic_flush=true;avoid_flush_during_recovery=true",
    "wal_write_mode=kPlain;track_and_verify_wals_in_manifest=true;max_subcompactions=2",
    "avoid_flush_during_shutdown=true;max_total_wal_size=2M;max_manifest_file_size=64K",
];

/// Changes of an open family's options.
pub const FAMILY_CHANGES: [(&str, &str); 8] = [
    ("write_buffer_size", "1M"),
    ("write_buffer_size", "512K"),
    ("level0_file_num_compaction_trigger", "2"),
    ("level0_file_num_compaction_trigger", "4"),
    ("target_file_size_base", "256K"),
    ("target_file_size_base", "512K"),
    ("max_sequential_skip_in_iterations", "2"),
    ("max_sequential_skip_in_iterations", "8"),
];

/// Changes of an open database's options.
pub const DB_CHANGES: [(&str, &str); 4] = [
    ("bytes_per_sync", "256K"),
    ("bytes_per_sync", "0"),
    ("max_total_wal_size", "2M"),
    ("max_total_wal_size", "8M"),
];

/// Returns the options of the shared family `index`.
///
/// # Panics
///
/// Never: the texts are constants that every run parses.
pub fn family_options(index: usize) -> FamilyOptions {
    let text = format!("{COMMON};{}", FAMILIES[index].1);
    let options = Options::default().text(&text);
    options.expect("the options are constants").family
}

/// Returns the descriptors of the shared families.
pub fn descriptors() -> Vec<FamilyDescriptor> {
    let each = FAMILIES.iter().enumerate();
    each.map(|(index, (name, _))| FamilyDescriptor::new(*name, family_options(index)))
        .collect()
}

/// Returns the options of open number `number`.
///
/// # Errors
///
/// A text of [`DATABASES`] is invalid.
pub fn database_options(number: usize) -> Result<Options, String> {
    let text = DATABASES[number % DATABASES.len()];
    let options = Options::default()
        .create_if_missing(true)
        .create_missing_column_families(true)
        .text(text)
        .map_err(|error| format!("{text}: {error}"))?;
    Ok(Options {
        family: family_options(0),
        ..options
    })
}
