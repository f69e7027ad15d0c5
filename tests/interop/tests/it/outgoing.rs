//! RocksDB's library and tools read the files of a closed or killed engine with the content of the
//! model, and two engines can alternate on one directory.

use std::path::Path;

use cairn_bench::rocksdb::Library;
use cairn_interop::content::{difference, without_columns};
use cairn_interop::engine::{Cairn, RocksDb};
use cairn_interop::workload::{Durable, Engine, FAMILIES, Generator, Model};
use cairn_interop::{dir_snapshot, reference};

/// Table formats: a name, and options of every family.
const SHAPES: [(&str, &str); 18] = [
    (
        "plain",
        "compression=kNoCompression;block_based_table_factory={format_version=7}",
    ),
    (
        "version 6",
        "compression=kZSTD;block_based_table_factory={format_version=6;filter_policy=bloomfilter:10:false}",
    ),
    (
        "partitioned",
        "block_based_table_factory={index_type=kTwoLevelIndexSearch;partition_filters=true;\
         filter_policy=ribbonfilter:10;metadata_block_size=512;block_size=512}",
    ),
    (
        "hashed",
        "compression=kLZ4Compression;block_based_table_factory={format_version=5;\
         data_block_index_type=kDataBlockBinaryAndHash;checksum=kxxHash64;block_size=1024}",
    ),
    (
        "version 2",
        "compression=kSnappyCompression;block_based_table_factory={format_version=2}",
    ),
    (
        "small",
        "compression=kZlibCompression;target_file_size_base=8192;max_bytes_for_level_base=16384;\
         level0_file_num_compaction_trigger=2;block_based_table_factory={format_version=5;block_size=256}",
    ),
    (
        "version 3",
        "compression=kLZ4HCCompression;block_based_table_factory={format_version=3;checksum=kXXH3;\
         filter_policy=bloomfilter:10:false;index_type=kBinarySearchWithFirstKey;block_size=700}",
    ),
    (
        "version 4",
        "compression=kBZip2Compression;prefix_extractor=fixed:5;memtable_prefix_bloom_size_ratio=0.1;\
         block_based_table_factory={format_version=4;checksum=kNoChecksum;index_type=kHashSearch;\
         filter_policy=ribbonfilter:8;whole_key_filtering=false}",
    ),
    (
        "dictionaries",
        "compression=kZSTD;compression_opts={max_dict_bytes=2048;zstd_max_train_bytes=8192;level=3};\
         bottommost_compression=kLZ4Compression;optimize_filters_for_hits=true;\
         block_based_table_factory={format_version=5;filter_policy=ribbonfilter:10:1;block_size=800}",
    ),
    (
        "bounded",
        "compression_per_level=kNoCompression:kSnappyCompression:kZSTD;num_levels=4;\
         level_compaction_dynamic_level_bytes=false;target_file_size_base=12000;\
         max_bytes_for_level_base=30000;level0_file_num_compaction_trigger=3;\
         block_based_table_factory={format_version=6;partition_filters=true;\
         index_type=kTwoLevelIndexSearch;filter_policy=bloomfilter:10;metadata_block_size=300;\
         index_block_restart_interval=4;block_restart_interval=3}",
    ),
    (
        "version 7",
        "compression=kZSTD;block_based_table_factory={format_version=7;checksum=kXXH3;\
         filter_policy=bloomfilter:12;data_block_index_type=kDataBlockBinaryAndHash;\
         index_shortening=kNoShortening;block_size=2048}",
    ),
    (
        "blobs",
        "enable_blob_files=true;min_blob_size=12;blob_file_size=20000;\
         blob_compression_type=kLZ4Compression;enable_blob_garbage_collection=true;\
         blob_garbage_collection_age_cutoff=0.6;blob_garbage_collection_force_threshold=0.4;\
         target_file_size_base=8192;max_bytes_for_level_base=16384;\
         level0_file_num_compaction_trigger=2;\
         block_based_table_factory={format_version=5;block_size=512}",
    ),
    (
        "blobs of lower levels",
        "enable_blob_files=true;min_blob_size=0;blob_file_starting_level=2;\
         blob_compression_type=kZSTD;enable_blob_garbage_collection=true;\
         blob_compaction_readahead_size=65536;blob_garbage_collection_age_cutoff=1;\
         level_compaction_dynamic_level_bytes=false;target_file_size_base=8192;\
         max_bytes_for_level_base=16384;level0_file_num_compaction_trigger=2;\
         block_based_table_factory={format_version=6;block_size=512}",
    ),
    (
        "blobs that stay",
        "enable_blob_files=true;min_blob_size=30;blob_file_size=5000;\
         level0_file_num_compaction_trigger=2;block_based_table_factory={format_version=7}",
    ),
    (
        "version 8",
        "block_based_table_factory={format_version=8;filter_policy=bloomfilter:10;block_size=700}",
    ),
    (
        "version 8, partitioned",
        "compression=kZSTD;block_based_table_factory={format_version=8;\
         optimize_key_common_prefix=kEnabled;index_type=kTwoLevelIndexSearch;\
         partition_filters=true;filter_policy=ribbonfilter:10;metadata_block_size=300;\
         block_size=400;index_block_restart_interval=7;block_restart_interval=4}",
    ),
    (
        "version 8, apart and hashed",
        "compression_opts={auto_skip=true;auto_skip_min_sample_every=3};\
         block_based_table_factory={format_version=8;separate_key_value_in_data_block=true;\
         data_block_index_type=kDataBlockBinaryAndHash;block_size=900;block_restart_interval=2;\
         index_type=kBinarySearchWithFirstKey;index_block_restart_interval=5}",
    ),
    (
        "version 8, padded",
        "compression=kNoCompression;block_based_table_factory={format_version=8;block_size=500;\
         super_block_alignment_size=2048;super_block_alignment_space_overhead_ratio=4;\
         index_block_restart_interval=16;index_shortening=kShortenSeparatorsAndSuccessor}",
    ),
];

/// True if only releases after the fetched one can read tables of this shape; `CAIRN_ROCKSDB_LIB` may
/// name such a release.
fn is_new(shape: &str) -> bool {
    shape.contains("format_version=8")
}

/// Database options, used cyclically.
const DATABASES: [&str; 6] = [
    "",
    "track_and_verify_wals=true",
    "wal_compression=kZSTD;track_and_verify_wals_in_manifest=true",
    "avoid_flush_during_recovery=true",
    "max_total_wal_size=100000;max_subcompactions=3;max_background_jobs=4",
    "wal_recovery_mode=kAbsoluteConsistency;write_dbid_to_manifest=false;max_manifest_file_size=2000",
];

/// The number of rounds with different seeds for every shape; `CAIRN_INTEROP_ROUNDS` for a long run.
fn rounds() -> u64 {
    std::env::var("CAIRN_INTEROP_ROUNDS").map_or(1, |text| text.parse().expect("a number"))
}

/// True if the shape's name contains `CAIRN_INTEROP_SHAPE`, or if that is not set.
fn is_wanted(name: &str) -> bool {
    std::env::var("CAIRN_INTEROP_SHAPE").map_or(true, |part| name.contains(&part))
}

/// Calls `part` with every shape, database options, and a seed.
fn every(first_seed: u64, part: impl Fn(&str, &str, u64)) {
    let library = crate::library();
    let reads_new = library.is_some_and(|library| reference::has_format_8(&library));
    for round in 0..rounds() {
        for (number, (name, shape)) in SHAPES.iter().enumerate() {
            if !is_wanted(name) || (is_new(shape) && !reads_new) {
                continue;
            }
            let seed = first_seed + round * 1000 + number as u64;
            let database = DATABASES[(number + seed as usize) % DATABASES.len()];
            println!("{name}, {database:?}, seed {seed}");
            part(database, shape, seed);
        }
    }
}

/// Memtables are small, so that there are many tables.
fn common(shape: &str) -> String {
    format!("write_buffer_size=65536;{shape}")
}

/// True if RocksDB 7.8 can read tables of this shape.
fn is_old(shape: &str) -> bool {
    (2..=5).any(|version| shape.contains(&format!("format_version={version}")))
}

/// Runs steps with `E` in three sessions, then reads with RocksDB. The last session is closed or
/// killed, that is, its directory is copied while the database is open.
fn left_by<E: Durable>(database: &str, shape: &str, killed: bool, seed: u64) {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("db"), folder.path().join("copy"));
    let mut model = Model::default();
    // RocksDB 7.8 does not merge operands into entities.
    let mut generator = Generator::new(seed).with_entities(!is_old(shape));
    for session in 0..3 {
        let steps = generator.steps(400);
        model.run(&steps);
        let mut engine = E::open(&path, database, &common(shape)).unwrap();
        engine.run(&steps);
        assert_eq!(
            difference(&engine.shown(model.content()), &engine.content()),
            None,
            "{shape}"
        );
        if session == 2 && killed {
            // Files are copied one after the other, so the directory must not change.
            engine.settle();
            dir_snapshot::copy(&path, &copy);
        }
    }
    if !killed {
        dir_snapshot::copy(&path, &copy);
    }
    if is_old(shape) && !Library::left_out("ldb") {
        read_by_tools(&copy, &mut model, shape);
    }
    let mut rocksdb = RocksDb::open(&copy, database, &common(shape)).unwrap();
    assert_eq!(
        difference(&rocksdb.shown(model.content()), &rocksdb.content()),
        None,
        "{shape}"
    );
}

/// `ldb` prints the same content and finds the tree consistent, and `sst_dump` verifies every block.
fn read_by_tools(path: &Path, model: &mut Model, shape: &str) {
    let expected = without_columns(model.content());
    for family in FAMILIES {
        let rows = reference::ldb(path, family.name).unwrap();
        assert_eq!(
            rows, expected[family.name],
            "{} of {shape} as ldb lists it",
            family.name
        );
    }
    let files = std::fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let tables = files.filter(|file| file.extension().is_some_and(|end| end == "sst"));
    let mut count = 0;
    for table in tables {
        reference::sst_dump_verify(&table).unwrap();
        count += 1;
    }
    assert!(count > 0, "there are tables to look at");
    for command in ["checkconsistency", "manifest_dump", "idump"] {
        reference::ldb_command(path, command).unwrap();
    }
}

/// `A` and `B` alternate on one directory; each finds what the other wrote.
fn turns<A: Durable, B: Durable>(database: &str, shape: &str, turns: usize, seed: u64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let mut model = Model::default();
    // RocksDB 7.8 does not merge operands into entities.
    let mut generator = Generator::new(seed).with_entities(!is_old(shape));
    for turn in 0..turns {
        if turn % 2 == 0 {
            take_turn::<A>(&path, [database, shape], &mut model, &mut generator);
        } else {
            take_turn::<B>(&path, [database, shape], &mut model, &mut generator);
        }
    }
}

fn take_turn<E: Durable>(
    path: &Path,
    [database, shape]: [&str; 2],
    model: &mut Model,
    generator: &mut Generator,
) {
    let mut engine = E::open(path, database, &common(shape)).unwrap();
    assert_eq!(
        difference(&engine.shown(model.content()), &engine.content()),
        None,
        "as the other left it to {}",
        std::any::type_name::<E>()
    );
    let steps = generator.steps(60);
    model.run(&steps);
    engine.run(&steps);
    assert_eq!(
        difference(&engine.shown(model.content()), &engine.content()),
        None,
        "{shape}, after a turn of {}",
        std::any::type_name::<E>()
    );
}

/// A test of the harness, with RocksDB in every role.
#[test]
fn rocksdb_reads_what_rocksdb_left() {
    if crate::library().is_none() {
        return;
    }
    left_by::<RocksDb>("", SHAPES[3].1, false, 1);
    left_by::<RocksDb>("", SHAPES[0].1, true, 2);
    turns::<RocksDb, RocksDb>("", SHAPES[5].1, 4, 3);
}

#[test]
fn rocksdb_reads_what_cairn_closed() {
    if crate::library().is_none() {
        return;
    }
    every(10, |database, shape, seed| {
        left_by::<Cairn>(database, shape, false, seed)
    });
}

#[test]
fn rocksdb_reads_what_a_killed_cairn_left() {
    if crate::library().is_none() {
        return;
    }
    every(30, |database, shape, seed| {
        left_by::<Cairn>(database, shape, true, seed)
    });
}

#[test]
fn cairn_and_rocksdb_take_turns() {
    if crate::library().is_none() {
        return;
    }
    every(50, |database, shape, seed| {
        turns::<RocksDb, Cairn>(database, shape, 12, seed)
    });
}
