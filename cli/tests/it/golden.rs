//! Databases written by RocksDB, read from the command line.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use tempfile::TempDir;

use crate::{printed, refused, text};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden")
}

/// Unpacks a golden database to `db` in the directory.
pub(crate) fn unpacked(name: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let file = fs::File::open(golden().join(format!("{name}.tar.gz"))).unwrap();
    tar::Archive::new(GzDecoder::new(file))
        .unpack(dir.path())
        .unwrap();
    dir
}

fn expected(name: &str) -> String {
    let file = fs::File::open(golden().join(format!("{name}.expected.jsonl.gz"))).unwrap();
    let mut lines = String::new();
    GzDecoder::new(file).read_to_string(&mut lines).unwrap();
    lines
}

/// Returns all files of a directory with their content.
fn content(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect()
}

/// Databases with various comparators, entities, timestamps, merges, blobs, and unflushed WALs.
const NAMES: &[&str] = &[
    "v1109_multi_cf",
    "v1109_rev_comparator",
    "v1109_wide_columns",
    "v1109_udt_flushed",
    "v0708_blob_zstd",
    "v1109_wal_only",
    "v1109_value_types",
];

#[test]
fn a_scan_prints_what_rocksdb_reads_without_changing_the_directory() {
    for name in NAMES {
        let dir = unpacked(name);
        let db = dir.path().join("db");
        let before = content(&db);
        let rows = printed(&[
            "scan",
            "--db",
            text(&db),
            "--all-families",
            "--format",
            "jsonl",
        ]);
        assert!(
            rows == expected(name),
            "{name}: {} lines",
            rows.lines().count()
        );
        assert_eq!(content(&db), before, "{name}");
    }
}

#[test]
fn readers_do_not_change_the_directory() {
    let dir = unpacked("v1109_multi_cf");
    let db = dir.path().join("db");
    let before = content(&db);
    let families = printed(&["list-families", "--db", text(&db)]);
    assert_eq!(families, "default\none\ntwo\nZoé-utf8\n");
    assert!(printed(&["list-families", "--long", "--db", text(&db)]).contains("id 3"));
    assert!(printed(&["verify", "--db", text(&db)]).ends_with("no damage\n"));
    printed(&["get", "--db", text(&db), "--format", "hex", "key00000000"]);
    refused(&["get", "--db", text(&db), "no such key"]);
    printed(&["properties", "--db", text(&db)]);
    for (path, _) in content(&db) {
        if !path.ends_with("LOCK") {
            printed(&["inspect", "--entries", text(&path)]);
        }
    }
    assert_eq!(content(&db), before);
}

#[test]
fn damage_is_reported_with_file_and_offset() {
    let dir = unpacked("v0708_corrupt_block");
    let db = dir.path().join("db");
    let said = refused(&["verify", "--db", text(&db)]);
    assert!(
        said.contains("000009.sst") && said.contains("527"),
        "{said}"
    );
    let said = refused(&["scan", "--db", text(&db), "--format", "jsonl"]);
    let rows: Vec<&str> = said.lines().collect();
    assert!(
        rows[7].starts_with("{\"cf\":\"default\",\"error\":\"Corruption"),
        "{said}"
    );
    let wanted = expected("v0708_corrupt_block");
    assert_eq!(rows[..7], wanted.lines().take(7).collect::<Vec<_>>()[..]);
}
