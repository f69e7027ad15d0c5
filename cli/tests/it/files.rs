//! `inspect` and `verify` on single files.

use std::cmp::Ordering;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_options::{CompactRangeOptions, FamilyOptions};
use cairn_types::{Comparator, KeyOrder};

use crate::golden::unpacked;
use crate::{printed, refused, text};

#[test]
fn a_table_is_shown_with_its_properties_and_entries() {
    let dir = unpacked("v1109_rev_comparator");
    let table = dir.path().join("db/000009.sst");
    let shown = printed(&["inspect", "--entries", text(&table)]);
    assert!(
        shown.contains("rocksdb.comparator = rocksdb.ReverseBytewiseComparator"),
        "{shown}"
    );
    assert!(shown.contains("key0000") && shown.ends_with("all checksums match\n"));
}

/// Compares the lengths of keys first.
struct ByLength;

impl Comparator for ByLength {
    fn name(&self) -> &str {
        "by.length"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.len().cmp(&b.len()).then_with(|| a.cmp(b))
    }
}

/// Regression: `verify` took tables in the order of a program for damaged, `inspect` failed, and `list-families` reported
/// the order of bytes.
#[test]
fn files_in_the_order_of_a_program_can_be_verified_and_shown() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let options = FamilyOptions {
        comparator: KeyOrder::Custom(Arc::new(ByLength)),
        ..FamilyOptions::default()
    };
    let db = cairn::Db::builder(&path)
        .create_if_missing(true)
        .family("default", options)
        .open()
        .unwrap();
    for run in 0..3 {
        for key in ["zz", "aaa", "b", "cccc"] {
            db.put(format!("{key}{run}").as_bytes(), b"1").unwrap();
        }
        db.delete_range(b"y", b"aa").unwrap();
        db.flush().unwrap();
    }
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    db.close().unwrap();
    assert!(printed(&["verify", "--db", text(&path)]).ends_with("no damage\n"));
    assert!(printed(&["list-families", "--db", text(&path), "--long"]).contains("by.length"));
    let mut shown = String::new();
    for entry in fs::read_dir(&path).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_some_and(|extension| extension == "sst") {
            shown += &printed(&["inspect", "--entries", text(&file)]);
        }
    }
    assert!(shown.contains("rocksdb.comparator = by.length"), "{shown}");
    let at = |key| shown.find(key).unwrap();
    assert!(at("b0") < at("zz1") && at("zz1") < at("aaa2"), "{shown}");
}

#[test]
fn a_log_is_shown_record_by_record() {
    let dir = unpacked("v1109_two_pc");
    let logs = fs::read_dir(dir.path().join("db"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let shown: String = logs
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .map(|path| printed(&["inspect", text(&path)]))
        .collect();
    assert!(
        shown.contains("begin prepare") && shown.contains("roll back"),
        "{shown}"
    );
}

/// Regression: logs in another directory were not verified, and tables there were missing or not verified.
#[test]
fn files_in_other_directories_are_verified() {
    let dir = tempfile::tempdir().unwrap();
    let [db, logs, tables] = ["db", "logs", "tables"].map(|name| dir.path().join(name));
    let options = format!("wal_dir={};db_paths={},1000", text(&logs), text(&tables));
    let put = [
        "put",
        "--db",
        text(&db),
        "--create",
        "--options",
        &options,
        "a",
        "1",
    ];
    printed(&put);
    printed(&["flush", "--db", text(&db), "--options", &options]);
    printed(&put);
    let verify = ["verify", "--db", text(&db), "--options", &options];
    assert!(printed(&verify).ends_with("no damage\n"));
    assert!(
        refused(&verify[..3]).contains("refers to 00"),
        "the paths are not recorded"
    );
    let damaged = |path: &Path, at: usize| {
        let intact = fs::read(path).unwrap();
        let mut bytes = intact.clone();
        bytes[at] ^= 1;
        fs::write(path, bytes).unwrap();
        let said = refused(&verify);
        assert!(
            said.contains(text(path)) && said.contains("1 damage"),
            "{said}"
        );
        fs::write(path, intact).unwrap();
    };
    damaged(&only(&logs, "log"), 12);
    damaged(&only(&tables, "sst"), 3);
}

#[test]
fn a_blob_file_is_shown_and_its_damage_found() {
    let dir = unpacked("v0708_blob_no");
    let blobs = fs::read_dir(dir.path().join("db"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut blobs = blobs.filter(|path| {
        path.extension()
            .is_some_and(|extension| extension == "blob")
    });
    let blob = blobs.next().unwrap();
    let shown = printed(&["inspect", "--entries", text(&blob)]);
    assert!(shown.contains("compression NoCompression") && shown.contains(" bytes at offset "));
    let mut bytes = fs::read(&blob).unwrap();
    bytes[100] ^= 1;
    fs::write(&blob, bytes).unwrap();
    refused(&["inspect", text(&blob)]);
    let said = refused(&["verify", text(&blob)]);
    assert!(
        said.contains(".blob") && said.contains("1 damage"),
        "{said}"
    );
}

#[test]
fn other_files_are_shown_as_text() {
    let dir = unpacked("v1109_leveled");
    let db = dir.path().join("db");
    assert!(printed(&["inspect", text(&db.join("CURRENT"))]).contains("MANIFEST-"));
    assert!(printed(&["inspect", text(&db.join("OPTIONS-000007"))]).contains("[DBOptions]"));
    let manifest = printed(&["inspect", text(&db.join("MANIFEST-000005"))]);
    assert!(manifest.contains("level 0: add") && manifest.contains("remove"));
    assert!(refused(&["inspect", "/dev/null"]).contains("000012.sst"));
}

/// Recycled logs end with previous content; files of `db_bench` name its listeners.
#[test]
fn only_damage_is_reported() {
    for name in [
        "v0708_wal_recycled",
        "v0708_wal_zstd_recycled",
        "v1109_dbbench_mix",
    ] {
        let dir = unpacked(name);
        let db = dir.path().join("db");
        printed(&["verify", "--db", text(&db)]);
        for entry in fs::read_dir(&db).unwrap() {
            printed(&["inspect", text(&entry.unwrap().path())]);
        }
    }
    let dir = unpacked("v1109_wal_corrupt_mid_pointintimerecovery");
    let said = refused(&["verify", "--db", text(&dir.path().join("db"))]);
    assert!(
        said.contains("000004.log") && said.contains("1 damage"),
        "{said}"
    );
}

/// Regression: a torn tail of a MANIFEST was reported as damage. It is one only if complete records follow.
#[test]
fn a_torn_manifest_is_intact() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let put = ["put", "--db", text(&db), "--create", "a", "1"];
    printed(&put);
    let files = fs::read_dir(&db).unwrap();
    let mut files = files.map(|entry| entry.unwrap().path());
    let manifest = files.find(|path| text(path).contains("MANIFEST")).unwrap();
    let whole = fs::read(&manifest).unwrap();
    fs::write(&manifest, &whole[..whole.len() - 3]).unwrap();
    for target in [
        &["verify", "--db", text(&db)][..],
        &["verify", text(&manifest)],
    ] {
        let said = printed(target);
        assert!(
            said.contains("interrupted write") && said.ends_with("no damage\n"),
            "{said}"
        );
    }
    printed(&["get", "--db", text(&db), "a"]);
    // A damaged length hides the records after it.
    let mut damaged = whole;
    damaged[5] = 0x7f;
    fs::write(&manifest, &damaged).unwrap();
    assert!(refused(&["verify", text(&manifest)]).contains("1 damage"));
}

/// The file in `dir` with the extension `kind`.
fn only(dir: &Path, kind: &str) -> PathBuf {
    let files = fs::read_dir(dir).unwrap();
    let mut files = files.map(|entry| entry.unwrap().path());
    let file = files.find(|path| path.extension().is_some_and(|end| end == kind));
    file.unwrap()
}

fn file_len(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len()
}

/// Cuts `by` bytes off the end of a file.
fn shorten(path: &Path, by: u64) {
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(file_len(path) - by).unwrap();
}

/// Regression: a database that had lost a part of its logs was reported as intact, although every open rejected it because
/// its tables were ahead of the logs.
#[test]
fn logs_that_an_opening_rejects_are_damage() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let mut options = cairn::Options::default().create_if_missing(true);
    options.db.track_and_verify_wals_in_manifest = true;
    let db = cairn::Db::open(&path, &options).unwrap();
    let other = db.create_family("f", &FamilyOptions::default()).unwrap();
    other.put(b"a", b"1").unwrap();
    other.put(b"b", b"2").unwrap();
    db.put(b"c", b"3").unwrap();
    db.sync_wal().unwrap();
    db.default_family().flush().unwrap();
    other.put(b"d", b"4").unwrap();
    db.sync_wal().unwrap();
    // The state after a crash.
    let crashed = |name: &str| {
        let copy = dir.path().join(name);
        fs::create_dir(&copy).unwrap();
        let mut logs = Vec::new();
        for entry in fs::read_dir(&path).unwrap() {
            let from = entry.unwrap().path();
            let to = copy.join(from.file_name().unwrap());
            fs::copy(&from, &to).unwrap();
            logs.extend(to.extension().is_some_and(|end| end == "log").then_some(to));
        }
        logs.sort();
        assert_eq!(
            logs.len(),
            2,
            "the family that is not flushed needs the first log"
        );
        (copy, logs)
    };
    let (copy, logs) = crashed("whole");
    assert!(printed(&["verify", "--db", text(&copy)]).ends_with("no damage\n"));
    shorten(&logs[1], 3);
    let untracked = "track_and_verify_wals_in_manifest=false";
    let said = printed(&["verify", "--db", text(&copy), "--options", untracked]);
    assert!(
        said.contains("interrupted write") && said.ends_with("no damage\n"),
        "a torn last log: {said}"
    );
    // The log is synced, so that only the MANIFEST tells where it ends.
    type Change = fn(&Path);
    let changes: [(&str, Change, &[&str]); 3] = [
        ("torn", |log| shorten(log, 3), &["", untracked]),
        ("shorter", |log| shorten(log, file_len(log)), &[""]),
        ("missing", |log| fs::remove_file(log).unwrap(), &[""]),
    ];
    for (name, change, texts) in changes {
        let (copy, logs) = crashed(name);
        change(&logs[0]);
        for options in texts {
            let database = ["--db", text(&copy), "--options", options];
            let said = refused(&[&["verify"][..], &database].concat());
            assert!(said.contains("1 damage"), "{name}: {said}");
            refused(&[&["scan"][..], &database].concat());
        }
    }
}

/// Regression: a directory with the name of a log ended the command before it reported a damaged table.
#[test]
fn a_directory_with_the_name_of_a_log_does_not_hide_damage() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    printed(&["put", "--db", text(&db), "--create", "a", "1"]);
    printed(&["flush", "--db", text(&db)]);
    fs::create_dir(db.join("000999.log")).unwrap();
    let table = only(&db, "sst");
    let mut bytes = fs::read(&table).unwrap();
    bytes[3] ^= 1;
    fs::write(&table, bytes).unwrap();
    let said = refused(&["verify", "--db", text(&db)]);
    assert!(
        said.contains(text(&table)) && said.contains("000999.log") && said.contains("2 damages"),
        "{said}"
    );
}

/// Unknown options of a newer release are ignored; invalid values are damage.
#[test]
fn an_options_file_of_a_newer_release_is_intact() {
    let dir = unpacked("v1112_defaults");
    let db = dir.path().join("db");
    let newest = fs::read_dir(&db)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| text(path).contains("OPTIONS-"))
        .max()
        .unwrap();
    let options = fs::read_to_string(&newest).unwrap();
    let whole = |expected: &str| {
        for command in ["verify", "inspect"] {
            let said = printed(&[command, text(&newest)]);
            assert!(said.contains(expected), "{said}");
        }
    };
    whole("");
    let newer = options
        .replace("rocksdb_version=11.12.0", "rocksdb_version=99.1.0")
        .replacen("compression_opts={", "compression_opts={a_new_part=1;", 1)
        .replacen("max_open_files", "a_new_option=true\n  max_open_files", 1);
    fs::write(&newest, &newer).unwrap();
    whole("option a_new_option in section [DBOptions] is unknown and ignored");
    whole("compression_opts.a_new_part in section [CFOptions \"default\"] is unknown");
    let list = printed(&["scan", "--db", text(&db), "--limit", "1"]);
    assert!(!list.is_empty());
    fs::write(&newest, newer.replacen("[DBOptions]", "[DBOptions", 1)).unwrap();
    for command in ["verify", "inspect"] {
        refused(&[command, text(&newest)]);
    }
}

/// Tables without blocks, which RocksDB 11.1.1 wrote.
#[test]
fn tables_without_blocks_are_shown_and_verified() {
    let tables = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../crates/cairn-table/testdata/flat"
    );
    for (name, format, part) in [
        (
            "plain_indexed.sst",
            "PlainTable",
            "PlainTableIndexBlock at offset",
        ),
        ("cuckoo_last.sst", "CuckooTable", "rocksdb.cuckoo.hash.size"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let table = dir.path().join("000012.sst");
        let mut bytes = fs::read(format!("{tables}/{name}")).unwrap();
        fs::write(&table, &bytes).unwrap();
        let shown = printed(&["inspect", "--entries", text(&table)]);
        let first = format!("format {format}, without checksums");
        for word in [&first, part, "p00:00021", "all entries can be decoded"] {
            assert!(shown.contains(word), "{name}: {word}\n{shown}");
        }
        printed(&["verify", text(&table)]);
        bytes.remove(0);
        fs::write(&table, &bytes).unwrap();
        refused(&["verify", text(&table)]);
    }
}

/// The commands use the paths in an OPTIONS file as they are, also if they are not UTF-8: a write to another log would be
/// lost, and `verify` would pass over the logs.
#[test]
fn paths_of_any_bytes_are_used() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let logs = dir.path().join(OsStr::from_bytes(b"logs\xe9"));
    let open = || {
        let mut options = cairn::Options::default().create_if_missing(true);
        options.db.wal_dir = logs.clone();
        cairn::Db::open(&path, &options).unwrap()
    };
    open().put(b"a", b"1").unwrap();
    assert_eq!(printed(&["get", "--db", text(&path), "a"]).trim(), "1");
    printed(&["put", "--db", text(&path), "b", "2"]);
    printed(&["verify", "--db", text(&path)]);
    let names = fs::read_dir(dir.path()).unwrap();
    assert_eq!(names.count(), 2, "no other directory");
    assert_eq!(open().get(b"b").unwrap().as_deref(), Some(&b"2"[..]));
}
