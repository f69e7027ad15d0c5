//! Write times that are preserved: each engine decodes the samples in the other's tables, passes them on in its
//! compactions, keeps the sequence numbers of young entries, and leaves young data above the last level.

use std::collections::BTreeMap;
use std::path::Path;

use cairn::compaction::BottommostLevelCompaction;
use cairn::{CompactRangeOptions, Db, Options};
use cairn_bench::rocksdb::{self, Library, OpenMode};
use cairn_format::seqno_times::SeqnoTimes;

const FAMILY: &str = "preserve_internal_time_seconds=1000000;disable_auto_compactions=true";

fn cairn(path: &Path, family: &str) -> Db {
    let options = Options::default()
        .create_if_missing(true)
        .text(family)
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

    let db = cairn(&path, FAMILY);
    let (theirs, first) = shown(&db);
    assert_eq!(theirs.len(), 1);
    let samples = theirs[0].samples();
    let last = samples
        .last()
        .expect("RocksDB takes a sample when it opens a database");
    assert!(
        last.seq <= first && (now() - 100..=now()).contains(&last.time),
        "{last:?}"
    );
    db.put(b"ours", b"2").unwrap();
    db.flush().unwrap();
    let (two, second) = shown(&db);
    assert_eq!((two.len(), second), (2, first + 1));
    // Forced, because the tables would be moved otherwise.
    let rewriting = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    db.compact_range(None, None, &rewriting).unwrap();
    let (ours, kept) = shown(&db);
    assert_eq!(
        (ours.len(), kept),
        (1, second),
        "young entries keep their numbers"
    );
    // A sample of the same second replaces an earlier one.
    assert_eq!(ours[0].samples()[samples.len() - 1].time, last.time);
    db.close().unwrap();

    let db = reference(&library, &path);
    let default = db.family("default").unwrap();
    // Around the others, so that the compaction does not move the table.
    db.put(default, b"later", b"3").unwrap();
    db.put(default, b"zero", b"4").unwrap();
    db.flush(default).unwrap();
    db.compact(default);
    for (key, value) in [
        (&b"theirs"[..], &b"1"[..]),
        (b"ours", b"2"),
        (b"later", b"3"),
        (b"zero", b"4"),
    ] {
        assert_eq!(db.get(default, key).unwrap().as_deref(), Some(value));
    }
    drop(db);
    let db = cairn(&path, FAMILY);
    let (again, kept) = shown(&db);
    assert_eq!((again.len(), kept), (1, second + 2));
    assert!(again[0].samples().len() >= samples.len().min(99));
    db.close().unwrap();
}

const TIERED: &str =
    "preclude_last_level_data_seconds=1000000;num_levels=4;disable_auto_compactions=true";
const LAST: usize = 3;

/// The levels that have files, according to Cairn.
fn levels(db: &Db) -> Vec<usize> {
    let files = db.live_files_metadata();
    let mut levels: Vec<usize> = files.iter().map(|file| file.level).collect();
    levels.sort_unstable();
    levels.dedup();
    levels
}

#[test]
fn young_data_stays_above_the_last_level_whichever_engine_compacts() {
    let Some(library) = crate::library() else {
        return;
    };
    for style in ["kCompactionStyleLevel", "kCompactionStyleUniversal"] {
        let options = format!("{TIERED};compaction_style={style}");
        let aged = options.replace("1000000", "0");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let mut expected = BTreeMap::new();
        let theirs = |expected: &mut BTreeMap<String, String>, options: &str, round: u32| {
            let families = [("default", options)];
            let text = "create_if_missing=true";
            let db = rocksdb::Db::open(&library, &path, text, &families, OpenMode::Create).unwrap();
            let default = db.family("default").unwrap();
            for n in (0..300).step_by(2 + round as usize) {
                let (key, value) = (format!("key{n:05}"), format!("theirs {round} {n}"));
                db.put(default, key.as_bytes(), value.as_bytes()).unwrap();
                expected.insert(key, value);
            }
            db.flush(default).unwrap();
            db.compact(default);
            for (key, value) in expected.iter() {
                let found = db.get(default, key.as_bytes()).unwrap();
                assert_eq!(found.as_deref(), Some(value.as_bytes()), "{style} {key}");
            }
        };
        let ours = |expected: &mut BTreeMap<String, String>, options: &str, round: u32| {
            let db = cairn(&path, options);
            let found = levels(&db);
            for n in (0..300).step_by(3 + round as usize) {
                let (key, value) = (format!("key{n:05}"), format!("ours {round} {n}"));
                db.put(key.as_bytes(), value.as_bytes()).unwrap();
                expected.insert(key, value);
            }
            db.flush().unwrap();
            db.compact_range(None, None, &CompactRangeOptions::default())
                .unwrap();
            for (key, value) in expected.iter() {
                let found = db.get(key.as_bytes()).unwrap();
                assert_eq!(found.as_deref(), Some(value.as_bytes()), "{style} {key}");
            }
            let left = levels(&db);
            db.close().unwrap();
            (found, left)
        };
        theirs(&mut expected, &options, 0);
        for round in 1..4 {
            let (found, left) = ours(&mut expected, &options, round);
            assert_eq!(found, [LAST - 1], "{style}: left by RocksDB");
            assert_eq!(left, [LAST - 1], "{style}: left by Cairn");
            theirs(&mut expected, &options, round);
        }
        // Without the limit of age, either engine moves all data down.
        let (_, left) = ours(&mut expected, &aged, 4);
        assert_eq!(left, [LAST], "{style}");
        theirs(&mut expected, &options, 5);
        theirs(&mut expected, &aged, 6);
        let (found, _) = ours(&mut expected, &aged, 6);
        assert_eq!(found, [LAST], "{style}");
    }
}
