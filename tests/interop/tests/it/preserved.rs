//! Write times that are preserved: each engine decodes the samples in the other's tables, passes them on in its
//! compactions, and keeps the sequence numbers of young entries.

use std::path::Path;

use cairn::{CompactRangeOptions, Db, Options};
use cairn_bench::rocksdb::{self, Library, OpenMode};
use cairn_format::seqno_times::SeqnoTimes;

const FAMILY: &str = "preserve_internal_time_seconds=1000000;disable_auto_compactions=true";

fn cairn(path: &Path) -> Db {
    let options = Options::default()
        .create_if_missing(true)
        .text(FAMILY)
        .expect("the options are known");
    Db::builder(path).options(options).open().unwrap()
}

fn reference(library: &Library, path: &Path) -> rocksdb::Db {
    let families = [("default", FAMILY)];
    rocksdb::Db::open(
        library,
        path,
        "create_if_missing=true",
        &families,
        OpenMode::Create,
    )
    .unwrap()
}

/// The samples of the tables according to Cairn, and the largest sequence number in them.
fn shown(db: &Db) -> (Vec<SeqnoTimes>, u64) {
    let tables = db.default_family().properties_of_all_tables().unwrap();
    let times = tables
        .values()
        .map(|properties| SeqnoTimes::decode(&properties.seqno_time_map).unwrap());
    let files = db.live_files_metadata();
    let largest = files.iter().map(|file| file.largest_seqno.0).max();
    (times.collect(), largest.unwrap_or(0))
}

fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap().as_secs()
}

#[test]
fn each_engine_passes_on_the_others_samples() {
    let Some(library) = crate::library() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let db = reference(&library, &path);
    let default = db.family("default").unwrap();
    db.put(default, b"theirs", b"1").unwrap();
    db.flush(default).unwrap();
    drop(db);

    let db = cairn(&path);
    let (theirs, first) = shown(&db);
    assert_eq!(theirs.len(), 1);
    // RocksDB assigns the first numbers of a new database to the past.
    let samples = theirs[0].samples();
    assert!(samples.len() >= 2, "{samples:?}");
    let last = samples.last().unwrap();
    assert!(
        last.seq <= first && (now() - 100..=now()).contains(&last.time),
        "{last:?}"
    );
    db.put(b"ours", b"2").unwrap();
    db.flush().unwrap();
    let (two, second) = shown(&db);
    assert_eq!((two.len(), second), (2, first + 1));
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    let (ours, kept) = shown(&db);
    assert_eq!(
        (ours.len(), kept),
        (1, second),
        "young entries keep their numbers"
    );
    assert_eq!(&ours[0].samples()[..samples.len()], samples);
    db.close().unwrap();

    let db = reference(&library, &path);
    let default = db.family("default").unwrap();
    db.put(default, b"later", b"3").unwrap();
    db.flush(default).unwrap();
    db.compact(default);
    for (key, value) in [
        (&b"theirs"[..], &b"1"[..]),
        (b"ours", b"2"),
        (b"later", b"3"),
    ] {
        assert_eq!(db.get(default, key).unwrap().as_deref(), Some(value));
    }
    drop(db);
    let db = cairn(&path);
    let (again, kept) = shown(&db);
    assert_eq!((again.len(), kept), (1, second + 1));
    assert!(again[0].samples().len() >= samples.len().min(99));
    db.close().unwrap();
}
