//! What an engine leaves on disk, closed or killed, is read by RocksDB's library and tools with the
//! content that the model has; and two engines can take turns on one directory.

use std::path::Path;

use cairn_interop::content::difference;
use cairn_interop::engine::{Cairn, RocksDb};
use cairn_interop::workload::{Durable, Engine, FAMILIES, Generator, Model};
use cairn_interop::{folder, reference};

/// What tables of the workload look like: a name, and options of every family.
const SHAPES: [(&str, &str); 6] = [
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
];

/// Memtables are small, so that there are many tables.
fn common(shape: &str) -> String {
    format!("write_buffer_size=65536;{shape}")
}

/// Whether RocksDB 7.8 knows everything in tables of this shape.
fn is_old(shape: &str) -> bool {
    (2..=5).any(|version| shape.contains(&format!("format_version={version}")))
}

/// Carries out steps with `E` in three sessions, then lets RocksDB read. The last session is closed,
/// or killed: then what lies in the directory is copied while the database is open.
fn left_by<E: Durable>(shape: &str, killed: bool, seed: u64) {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("db"), folder.path().join("copy"));
    let (mut model, mut generator) = (Model::default(), Generator::new(seed));
    for session in 0..3 {
        let steps = generator.steps(400);
        model.run(&steps);
        let mut engine = E::open(&path, "", &common(shape)).unwrap();
        engine.run(&steps);
        assert_eq!(
            difference(&model.content(), &engine.content()),
            None,
            "{shape}"
        );
        if session == 2 && killed {
            folder::copy(&path, &copy);
        }
    }
    if !killed {
        folder::copy(&path, &copy);
    }
    if is_old(shape) {
        read_by_tools(&copy, &mut model, shape);
    }
    let mut rocksdb = RocksDb::open(&copy, "", &common(shape)).unwrap();
    assert_eq!(
        difference(&model.content(), &rocksdb.content()),
        None,
        "{shape}"
    );
}

/// `ldb` lists the same, `sst_dump` finds every block sound.
fn read_by_tools(path: &Path, model: &mut Model, shape: &str) {
    let expected = model.content();
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
}

/// `A` and `B` take turns on one directory; each finds what the other left.
fn turns<A: Durable, B: Durable>(shape: &str, turns: usize, seed: u64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let (mut model, mut generator) = (Model::default(), Generator::new(seed));
    for turn in 0..turns {
        if turn % 2 == 0 {
            take_turn::<A>(&path, shape, &mut model, &mut generator);
        } else {
            take_turn::<B>(&path, shape, &mut model, &mut generator);
        }
    }
}

fn take_turn<E: Durable>(path: &Path, shape: &str, model: &mut Model, generator: &mut Generator) {
    let mut engine = E::open(path, "", &common(shape)).unwrap();
    assert_eq!(
        difference(&model.content(), &engine.content()),
        None,
        "as the other left it"
    );
    let steps = generator.steps(60);
    model.run(&steps);
    engine.run(&steps);
    assert_eq!(
        difference(&model.content(), &engine.content()),
        None,
        "{shape}"
    );
}

/// A rehearsal: the harness itself is right when RocksDB plays every part.
#[test]
fn rocksdb_reads_what_rocksdb_left() {
    if crate::library().is_none() {
        return;
    }
    left_by::<RocksDb>(SHAPES[3].1, false, 1);
    left_by::<RocksDb>(SHAPES[0].1, true, 2);
    turns::<RocksDb, RocksDb>(SHAPES[5].1, 4, 3);
}

#[test]
fn rocksdb_reads_what_cairn_closed() {
    if crate::library().is_none() {
        return;
    }
    for (number, (_, shape)) in SHAPES.iter().enumerate() {
        left_by::<Cairn>(shape, false, 10 + number as u64);
    }
}

#[test]
fn rocksdb_reads_what_a_killed_cairn_left() {
    if crate::library().is_none() {
        return;
    }
    for (number, (_, shape)) in SHAPES.iter().enumerate() {
        left_by::<Cairn>(shape, true, 20 + number as u64);
    }
}

#[test]
fn cairn_and_rocksdb_take_turns() {
    if crate::library().is_none() {
        return;
    }
    for (number, (_, shape)) in SHAPES.iter().enumerate() {
        turns::<RocksDb, Cairn>(shape, 34, 30 + number as u64);
    }
}
