//! Files exchanged between the engines: external tables and checkpoints.

use std::path::Path;

use cairn::{IngestExternalFileOptions, Options, SstFileReader, SstFileWriter, World};
use cairn_bench::rocksdb::{Db, Library, OpenMode, SstWriter};

/// Table options, each for one part of the format.
const SHAPES: [&str; 4] = [
    "",
    "compression=kZSTD;bottommost_compression=kZSTD",
    "block_based_table_factory={format_version=5;checksum=kCRC32c;filter_policy=bloomfilter:10}",
    "block_based_table_factory={index_type=kTwoLevelIndexSearch;partition_filters=true;\
     filter_policy=ribbonfilter:10:-1;format_version=7;metadata_block_size=256}",
];

fn key(n: u32) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

fn rocksdb(library: &Library, path: &Path, options: &str) -> Db {
    Db::open(library, path, "", &[("default", options)], OpenMode::Create)
        .expect("RocksDB opens the database")
}

fn cairn_options(text: &str) -> Options {
    Options::default()
        .create_if_missing(true)
        .text(text)
        .expect("the options are right")
}

/// Checks a database with the keys 0, 1, 3050 and 5000, into which a table was ingested that has the
/// even keys below 2000, a deletion of key 1 and a range deletion of 3000 to 3100.
fn check(get: impl Fn(&[u8]) -> Option<Vec<u8>>) {
    for n in (0..2000).step_by(2) {
        assert_eq!(get(&key(n)), Some(b"ingested".to_vec()), "key {n}");
    }
    assert_eq!(get(&key(1)), None);
    assert_eq!(get(&key(3050)), None);
    assert_eq!(get(&key(5000)), Some(b"old".to_vec()));
}

#[test]
fn rocksdb_ingests_what_cairn_writes_and_opens_its_checkpoints() {
    let Some(library) = crate::library() else {
        return;
    };
    for shape in SHAPES {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.sst");
        let options = cairn_options(shape);
        let mut writer = SstFileWriter::new(&World::posix(), &options.db, &options.family);
        writer.open(&file).unwrap();
        writer.delete_range(&key(3000), &key(3100)).unwrap();
        for n in (0..2000).step_by(2) {
            writer.put(&key(n), b"ingested").unwrap();
            if n == 0 {
                writer.delete(&key(1)).unwrap();
            }
        }
        writer.finish().unwrap();
        let path = folder.path().join("rocksdb");
        for again in [false, true] {
            let db = rocksdb(&library, &path, shape);
            let family = db.family("default").unwrap();
            if !again {
                for n in [0, 1, 3050, 5000] {
                    db.put(family, &key(n), b"old").unwrap();
                }
                db.ingest(family, &file).unwrap();
            }
            check(|key| db.get(family, key).unwrap().map(|value| value.to_vec()));
        }

        // The same with Cairn, and checkpoints of it for RocksDB.
        let db = cairn::Db::open(folder.path().join("cairn"), &options).unwrap();
        for n in [0, 1, 3050, 5000] {
            db.put(&key(n), b"old").unwrap();
        }
        db.ingest_external_file([&file], &IngestExternalFileOptions::default())
            .unwrap();
        db.put(&key(5000), b"old").unwrap();
        for (name, limit) in [("logged", u64::MAX), ("flushed", 0)] {
            let copy = folder.path().join(name);
            db.create_checkpoint(&copy, limit).unwrap();
            let copy = rocksdb(&library, &copy, shape);
            let family = copy.family("default").unwrap();
            check(|key| copy.get(family, key).unwrap().map(|value| value.to_vec()));
        }
    }
}

#[test]
fn cairn_ingests_what_rocksdb_writes_and_opens_its_checkpoints() {
    let Some(library) = crate::library() else {
        return;
    };
    for shape in SHAPES {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.sst");
        let mut writer = SstWriter::create(&library, &file, shape).unwrap();
        writer.delete_range(&key(3000), &key(3100)).unwrap();
        for n in (0..2000).step_by(2) {
            writer.put(&key(n), b"ingested").unwrap();
            if n == 0 {
                writer.delete(&key(1)).unwrap();
            }
        }
        writer.finish().unwrap();
        let options = cairn_options(shape);
        let reader = SstFileReader::open(&World::posix(), &file, &options.family).unwrap();
        reader.verify_checksum().unwrap();
        reader.verify_num_entries().unwrap();
        let path = folder.path().join("cairn");
        let db = cairn::Db::open(&path, &options).unwrap();
        for n in [0, 1, 3050, 5000] {
            db.put(&key(n), b"old").unwrap();
        }
        db.ingest_external_file([&file], &IngestExternalFileOptions::default())
            .unwrap();
        check(|key| db.get(key).unwrap().map(|value| value.to_vec()));
        db.close().unwrap();
        // RocksDB continues with it, and Cairn with RocksDB's checkpoint.
        let db = rocksdb(&library, &path, shape);
        let family = db.family("default").unwrap();
        check(|key| db.get(family, key).unwrap().map(|value| value.to_vec()));
        for (name, limit) in [("logged", u64::MAX), ("flushed", 0)] {
            let copy = folder.path().join(name);
            db.checkpoint(&copy, limit).unwrap();
            let copy = cairn::Db::open(&copy, &options).unwrap();
            check(|key| copy.get(key).unwrap().map(|value| value.to_vec()));
        }
    }
}

/// Files ingested behind are in the last level, without sequence numbers, and Cairn keeps the deletions
/// above them: RocksDB reads and compacts them like Cairn.
#[test]
fn rocksdb_opens_what_cairn_ingested_behind() {
    let Some(library) = crate::library() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let family = "compaction_style=kCompactionStyleUniversal;num_levels=4;\
                  cf_allow_ingest_behind=true;disable_auto_compactions=true";
    let options = cairn_options(family);
    let path = folder.path().join("db");
    let db = cairn::Db::open(&path, &options).unwrap();
    for n in (0..1000).step_by(2) {
        db.put(&key(n), b"new").unwrap();
    }
    for n in (0..1000).step_by(4) {
        db.delete(&key(n)).unwrap();
    }
    db.compact_range(None, None, &cairn::CompactRangeOptions::default())
        .unwrap();
    db.put(&key(1), b"logged").unwrap();
    let file = folder.path().join("x.sst");
    let mut writer = SstFileWriter::new(&World::posix(), &options.db, &options.family);
    writer.open(&file).unwrap();
    for n in 0..1500 {
        writer.put(&key(n), b"behind").unwrap();
    }
    writer.finish().unwrap();
    let behind = IngestExternalFileOptions {
        ingest_behind: true,
        ..IngestExternalFileOptions::default()
    };
    db.ingest_external_file([&file], &behind).unwrap();
    db.close().unwrap();

    let check = |get: &dyn Fn(&[u8]) -> Option<Vec<u8>>| {
        for n in 0..1500 {
            let expected = match n {
                1 => Some(&b"logged"[..]),
                n if n < 1000 && n % 4 == 0 => None,
                n if n < 1000 && n % 2 == 0 => Some(&b"new"[..]),
                _ => Some(&b"behind"[..]),
            };
            assert_eq!(get(&key(n)).as_deref(), expected, "key {n}");
        }
    };
    // With and without the option that keeps the last level separate.
    for (turn, options) in [
        family,
        "compaction_style=kCompactionStyleUniversal;num_levels=4;disable_auto_compactions=true",
    ]
    .into_iter()
    .enumerate()
    {
        let copy = folder.path().join(turn.to_string());
        cairn_interop::dir_snapshot::copy(&path, &copy);
        let rocksdb = rocksdb(&library, &copy, options);
        let default = rocksdb.family("default").unwrap();
        let get = |key: &[u8]| {
            rocksdb
                .get(default, key)
                .unwrap()
                .map(|value| value.to_vec())
        };
        check(&get);
        rocksdb.compact(default);
        check(&get);
        drop(rocksdb);
        let db = cairn::Db::open(&copy, &cairn_options(options)).unwrap();
        check(&|key| db.get(key).unwrap().map(|value| value.to_vec()));
    }
}
