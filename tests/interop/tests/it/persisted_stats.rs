//! The history of statistics in a column family: each engine goes on with that of the other.

use std::path::Path;
use std::time::Duration;

use cairn::observe::Ticker;
use cairn::{Db, Options};
use cairn_bench::rocksdb::{self, Library, OpenMode};

const STATS: &str = "___rocksdb_stats_history___";
const OPTIONS: &str =
    "persist_stats_to_disk=true;stats_persist_period_sec=1;statistics=BasicStatistics";

/// The entries of the family according to RocksDB.
fn shown_by_rocksdb(library: &Library, path: &Path) -> Vec<(String, String)> {
    let families = [("default", ""), (STATS, "")];
    let db = rocksdb::Db::open(library, path, "", &families, OpenMode::Existing).unwrap();
    let mut iter = db.iter(db.family(STATS).unwrap());
    iter.seek_to_first();
    let mut rows = Vec::new();
    while iter.valid() {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        rows.push((text(iter.key()), text(iter.value())));
        iter.next();
    }
    iter.status().unwrap();
    rows
}

/// The number of intervals that Cairn finds, and the keys that were written in them.
fn found_by_cairn(db: &Db) -> (usize, u64) {
    let slices = db.stats_history(0, u64::MAX).unwrap();
    let written = slices.iter();
    let written = written.map(|slice| slice.ticker(Ticker::NumberKeysWritten));
    (slices.len(), written.sum())
}

#[test]
fn each_engine_continues_the_history_of_the_other() {
    let Some(library) = crate::library() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let default = [("default", "")];
    let db = rocksdb::Db::open(&library, &path, OPTIONS, &default, OpenMode::Create).unwrap();
    // RocksDB's first interval ends after two periods.
    for n in 0..60_u32 {
        db.put(db.family("default").unwrap(), &n.to_be_bytes(), b"1")
            .unwrap();
        std::thread::sleep(Duration::from_millis(60));
    }
    drop(db);
    let rows = shown_by_rocksdb(&library, &path);
    let by_rocksdb = rows
        .iter()
        .filter(|(key, _)| key.ends_with("#rocksdb.number.keys.written"));
    let by_rocksdb = by_rocksdb.count();
    assert!(by_rocksdb > 0, "{rows:?}");

    assert_eq!(Db::list_families(&path).unwrap(), ["default", STATS]);
    let options = Options::default().text(OPTIONS).unwrap();
    let db = Db::open(&path, &options).unwrap();
    let (intervals, written) = found_by_cairn(&db);
    assert_eq!(intervals, by_rocksdb);
    assert!(written > 10, "{written}");
    while found_by_cairn(&db).0 == intervals {
        db.put(b"k", b"v").unwrap();
        std::thread::sleep(Duration::from_millis(50));
    }
    let (all, _) = found_by_cairn(&db);
    db.close().unwrap();

    let after = shown_by_rocksdb(&library, &path);
    let kept = after.iter().filter(|row| rows.contains(row)).count();
    assert_eq!(kept, rows.len(), "the history of RocksDB is there");
    let now = after
        .iter()
        .filter(|(key, _)| key.ends_with("#rocksdb.number.keys.written"));
    assert!(now.count() >= all);
    // RocksDB opens it without being told of the family, and begins it again only if it does not know its version.
    drop(rocksdb::Db::open(&library, &path, OPTIONS, &default, OpenMode::Existing).unwrap());
    let last = shown_by_rocksdb(&library, &path);
    assert!(after.iter().all(|row| last.contains(row)));
    // Neither does Cairn need to be told.
    Db::open(&path, &Options::default())
        .unwrap()
        .close()
        .unwrap();
}
