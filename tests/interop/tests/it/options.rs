//! OPTIONS files: RocksDB loads every option in the files that Cairn writes.

use cairn::options::Options as _;
use cairn::{Db, FamilyOptions, Options};
use cairn_bench::rocksdb::families_of_latest_options;

/// Options of every kind: structs, objects, lists, enums, numbers.
const TEXT: &str = "write_buffer_size=8M;compression_opts={level=3};prefix_extractor=fixed:4;\
    merge_operator=uint64add;compression_per_level=kNoCompression:kZSTD;\
    bottommost_compression=kZSTD;max_background_jobs=5;wal_recovery_mode=kAbsoluteConsistency;\
    compaction_options_universal={size_ratio=7;max_read_amp=9};\
    compaction_options_fifo={max_table_files_size=77};\
    block_based_table_factory={filter_policy=ribbonfilter:10:2;block_size=8K;\
    cache_index_and_filter_blocks=true}";

#[test]
fn rocksdb_loads_the_options_of_a_running_database() {
    let Some(library) = crate::library() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let options = Options::default()
        .create_if_missing(true)
        .text(TEXT)
        .unwrap();
    let db = Db::open(&path, &options).unwrap();
    let loaded = || families_of_latest_options(&library, &path).unwrap();
    assert_eq!(loaded(), ["default"]);
    db.set_options(&[
        ("ttl", "1234"),
        ("table_factory.block_restart_interval", "5"),
        ("compression_opts", "{checksum=true}"),
        (
            "compaction_options_universal",
            "{reduce_file_locking=false}",
        ),
    ])
    .unwrap();
    db.set_db_options(&[("max_total_wal_size", "99M")]).unwrap();
    assert_eq!(loaded(), ["default"]);
    let family = FamilyOptions::from_text("comparator=rocksdb.ReverseBytewiseComparator").unwrap();
    db.create_family("a # \"b\"", &family).unwrap();
    assert_eq!(loaded(), ["default", "a # \"b\""]);
    db.close().unwrap();
}
