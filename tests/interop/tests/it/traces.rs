//! Query traces: RocksDB replays a trace of Cairn, and Cairn one of RocksDB, with the same content afterwards.

use std::path::Path;
use std::process::Command;

use cairn::trace::{ReplayOptions, TraceOptions};
use cairn::{Db, FamilyOptions, Options, ReadOptions, WriteBatch};
use cairn_bench::rocksdb::Library;
use cairn_interop::content::Row;
use cairn_interop::reference;

/// The families that `db_bench` opens with `--num_column_families=2`.
const FAMILIES: [&str; 2] = ["default", "column_family_name_000001"];

/// Runs `db_bench` of RocksDB 7.8, which is in the package of `ldb`, on the database at `db`.
fn db_bench(db: &Path, trace: &Path, arguments: &[&str]) {
    let output = Command::new("db_bench")
        .arg(format!("--db={}", db.display()))
        .arg(format!("--trace_file={}", trace.display()))
        .arg("--num_column_families=2")
        .args(arguments)
        .output()
        .expect("db_bench (Debian package rocksdb-tools) is installed");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(!text.contains("failed"), "{text}");
}

fn open(path: &Path) -> Db {
    open_with(path, Options::default())
}

fn open_with(path: &Path, options: Options) -> Db {
    let options = options
        .create_if_missing(true)
        .text("create_missing_column_families=true")
        .unwrap();
    let mut builder = Db::builder(path).options(options);
    for name in FAMILIES {
        builder = builder.family(name, FamilyOptions::default());
    }
    builder.open().unwrap()
}

fn rows(db: &Db, family: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let family = db.family(family).unwrap();
    let mut iter = family.iter();
    iter.seek_to_first();
    while let Some((key, value)) = iter.entry() {
        rows.push(Row::of(key, value));
        iter.next();
    }
    iter.status().unwrap();
    rows
}

#[test]
fn rocksdb_replays_a_trace_of_cairn() {
    if Library::left_out("ldb") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("queries.trace");
    let db = open(&folder.path().join("cairn"));
    let other = db.family(FAMILIES[1]).unwrap();
    db.start_trace(&trace, &TraceOptions::default()).unwrap();
    for n in 0..100_u32 {
        let key = format!("key{:03}", n * 7 % 100);
        db.put(key.as_bytes(), &n.to_be_bytes()).unwrap();
        other.put(key.as_bytes(), key.as_bytes()).unwrap();
        db.get(key.as_bytes()).unwrap();
    }
    let mut batch = WriteBatch::new();
    batch.delete(b"key003");
    batch.delete_range(b"key010", b"key020");
    batch.put_in(&other, b"binary", &[0, 1, 2, 255]);
    db.write(&batch).unwrap();
    let options = ReadOptions {
        iterate_lower_bound: Some(b"key020".to_vec()),
        ..ReadOptions::default()
    };
    let mut iter = other.iter_with(&options);
    iter.seek(b"key");
    iter.seek_for_prev(b"key030");
    iter.seek_to_first();
    let found = db.multi_get(&["key001", "key003"], &ReadOptions::default());
    assert!(found[0].is_ok() && found[1].is_ok());
    db.end_trace().unwrap();

    let replayed = folder.path().join("rocksdb");
    db_bench(&replayed, &trace, &["--benchmarks=replay", "--num=1"]);
    for family in FAMILIES {
        let found = reference::ldb(&replayed, family).unwrap();
        assert_eq!(found.rows, rows(&db, family), "{family}");
    }
}

#[test]
fn cairn_replays_a_trace_of_rocksdb() {
    if Library::left_out("ldb") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("queries.trace");
    let traced = folder.path().join("rocksdb");
    // Puts, gets and deletions.
    db_bench(
        &traced,
        &trace,
        &[
            "--benchmarks=randomwithverify",
            "--num=500",
            "--compression_type=none",
        ],
    );
    let copy = open(&folder.path().join("cairn"));
    let other = copy.family(FAMILIES[1]).unwrap();
    let mut replayer = copy.replayer(&trace, &[&other]).unwrap();
    replayer.prepare().unwrap();
    let options = ReplayOptions {
        fast_forward: 1e6,
        ..ReplayOptions::default()
    };
    replayer.replay(&options, None).unwrap();
    drop(replayer);
    let traced = open(&traced);
    let written: usize = FAMILIES
        .map(|family| rows(&traced, family).len())
        .iter()
        .sum();
    assert!(written > 50, "{written} keys");
    for family in FAMILIES {
        assert_eq!(rows(&copy, family), rows(&traced, family), "{family}");
    }
}

/// The values that RocksDB replays from a trace of a database with a time to live have their dates.
#[test]
fn rocksdb_replays_a_trace_of_a_database_with_a_time_to_live() {
    if Library::left_out("ldb") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("queries.trace");
    let dated = || Options::default().value_ttl(3_600);
    let db = open_with(&folder.path().join("cairn"), dated());
    let other = db.family(FAMILIES[1]).unwrap();
    db.start_trace(&trace, &TraceOptions::default()).unwrap();
    for n in 0..10_u32 {
        db.put(format!("key{n}").as_bytes(), &n.to_be_bytes())
            .unwrap();
        other.put(format!("key{n}").as_bytes(), b"").unwrap();
    }
    db.delete(b"key3").unwrap();
    db.end_trace().unwrap();

    let replayed = folder.path().join("rocksdb");
    db_bench(&replayed, &trace, &["--benchmarks=replay", "--num=1"]);
    let replayed = open_with(&replayed, dated());
    for family in FAMILIES {
        assert_eq!(rows(&replayed, family), rows(&db, family), "{family}");
    }
    assert_eq!(rows(&db, FAMILIES[0]).len(), 9);
}
