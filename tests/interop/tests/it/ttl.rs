//! Databases with a time to live, exchanged between the engines: each returns the other's values
//! without their timestamps, and drops the other's expired values.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cairn::world::Clock;
use cairn::{CompactRangeOptions, Db, Options, ReadOptions, World, WriteBatch};
use cairn_bench::rocksdb::{self, Library, OpenMode};

const FAMILIES: [&str; 2] = ["default", "stones"];
const MERGES: &str = "merge_operator=uint64add";
const TTL: i32 = 3_600;

/// The system clock, shifted by this number of seconds.
struct Shifted(i64);

impl Clock for Shifted {
    fn wall_micros(&self) -> u64 {
        let now = World::posix().clock.wall_micros();
        now.wrapping_add_signed(self.0 * 1_000_000)
    }

    fn monotonic_nanos(&self) -> u64 {
        World::posix().clock.monotonic_nanos()
    }

    fn sleep(&self, duration: Duration) {
        World::posix().clock.sleep(duration);
    }
}

/// Opens the database at `path` with Cairn, with a clock that is `shift` seconds ahead.
fn cairn_at(path: &Path, shift: i64) -> Db {
    let options = Options::default()
        .create_if_missing(true)
        .text(MERGES)
        .unwrap()
        .value_ttl(TTL);
    let world = World {
        clock: Arc::new(Shifted(shift)),
        ..World::posix()
    };
    let builder = Db::builder(path).options(options);
    builder.world(world).open().unwrap()
}

fn rocksdb_at(library: &Library, path: &Path, mode: OpenMode) -> rocksdb::Db {
    let families = FAMILIES.map(|name| (name, MERGES));
    rocksdb::Db::open(library, path, "", &families, mode).unwrap()
}

/// The content of every family according to Cairn, checked against batched reads.
fn shown_by_cairn(db: &Db) -> Vec<(String, Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    for name in FAMILIES {
        let family = db.family(name).unwrap();
        let mut iter = family.iter();
        iter.seek_to_first();
        while iter.valid() {
            let found = family.multi_get(&[iter.key()], &ReadOptions::default());
            assert_eq!(found[0].as_ref().unwrap().as_deref(), Some(iter.value()));
            rows.push((name.to_owned(), iter.key().to_vec(), iter.value().to_vec()));
            iter.next();
        }
        iter.status().unwrap();
    }
    rows
}

fn shown_by_rocksdb(db: &rocksdb::Db) -> Vec<(String, Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    for name in FAMILIES {
        let family = db.family(name).unwrap();
        let mut iter = db.iter(family);
        iter.seek_to_first();
        while iter.valid() {
            let found = db.get(family, iter.key()).unwrap().unwrap();
            assert_eq!(&*found, iter.value());
            rows.push((name.to_owned(), iter.key().to_vec(), iter.value().to_vec()));
            iter.next();
        }
        iter.status().unwrap();
    }
    rows
}

fn row(family: &str, key: &str, value: &[u8]) -> (String, Vec<u8>, Vec<u8>) {
    (family.to_owned(), key.as_bytes().to_vec(), value.to_vec())
}

fn compact_all(db: &Db) {
    for family in db.families() {
        family.flush().unwrap();
        let all = CompactRangeOptions::default();
        family.compact_range(None, None, &all).unwrap();
    }
}

/// The value of `option` in the first family of the newest OPTIONS file.
fn recorded(path: &Path, option: &str) -> String {
    let names = std::fs::read_dir(path).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let newest = names.filter(|name| name.starts_with("OPTIONS-")).max();
    let text = std::fs::read_to_string(path.join(newest.unwrap())).unwrap();
    let mut lines = text.lines().map(str::trim);
    let found = lines.find_map(|line| line.strip_prefix(option)?.strip_prefix('='));
    found.unwrap().to_owned()
}

#[test]
fn cairn_reads_and_expires_rocksdbs_ttl_values() {
    let Some(library) = crate::library() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let db = rocksdb_at(&library, &path, OpenMode::WithTtl(TTL));
    let [default, stones] = FAMILIES.map(|name| db.family(name).unwrap());
    db.put(default, b"flushed", b"in a table").unwrap();
    db.merge(default, b"sum", &40_u64.to_le_bytes()).unwrap();
    db.flush(default).unwrap();
    db.merge(default, b"sum", &2_u64.to_le_bytes()).unwrap();
    db.put(stones, b"logged", b"").unwrap();
    let expected = vec![
        row("default", "flushed", b"in a table"),
        row("default", "sum", &42_u64.to_le_bytes()),
        row("stones", "logged", b""),
    ];
    assert_eq!(shown_by_rocksdb(&db), expected);
    drop(db);
    let (theirs, theirs_merge) = (
        recorded(&path, "compaction_filter_factory"),
        recorded(&path, "merge_operator"),
    );

    let db = cairn_at(&path, 0);
    assert_eq!(shown_by_cairn(&db), expected);
    assert_eq!(recorded(&path, "compaction_filter_factory"), theirs);
    assert_eq!(recorded(&path, "merge_operator"), theirs_merge);
    compact_all(&db);
    assert_eq!(shown_by_cairn(&db), expected, "it is not too old yet");
    drop(db);

    let db = cairn_at(&path, i64::from(TTL) + 10);
    assert_eq!(shown_by_cairn(&db), expected, "nothing has compacted it");
    compact_all(&db);
    assert_eq!(shown_by_cairn(&db), []);
}

#[test]
fn rocksdb_reads_and_expires_cairns_ttl_values() {
    let Some(library) = crate::library() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let db = cairn_at(&path, -i64::from(TTL) - 10);
    let stones = db.create_family_with_ttl("stones", &db.default_family().options(), TTL);
    let stones = stones.unwrap();
    db.put(b"flushed", b"in a table").unwrap();
    db.merge(b"sum", &40_u64.to_le_bytes()).unwrap();
    db.flush().unwrap();
    let mut batch = WriteBatch::new();
    batch.merge(b"sum", &2_u64.to_le_bytes());
    batch.put_in(&stones, b"logged", b"");
    db.write(&batch).unwrap();
    let expected = vec![
        row("default", "flushed", b"in a table"),
        row("default", "sum", &42_u64.to_le_bytes()),
        row("stones", "logged", b""),
    ];
    assert_eq!(shown_by_cairn(&db), expected);
    drop(stones);
    db.close().unwrap();

    // Without a time to live, RocksDB returns the stored bytes.
    {
        let db = rocksdb_at(&library, &path, OpenMode::Existing);
        let stored = db.get(db.family("default").unwrap(), b"flushed").unwrap();
        assert_eq!(stored.unwrap().len(), "in a table".len() + 4);
    }
    let db = rocksdb_at(&library, &path, OpenMode::WithTtl(0));
    assert_eq!(shown_by_rocksdb(&db), expected);
    for name in FAMILIES {
        db.compact(db.family(name).unwrap());
    }
    assert_eq!(shown_by_rocksdb(&db), expected, "they live for ever");
    drop(db);

    let db = rocksdb_at(&library, &path, OpenMode::WithTtl(TTL));
    for name in FAMILIES {
        db.compact(db.family(name).unwrap());
    }
    // A merged value has the time of RocksDB's merge.
    let sum = row("default", "sum", &42_u64.to_le_bytes());
    assert_eq!(shown_by_rocksdb(&db), [sum]);
}

#[test]
fn both_engines_report_the_same_values_as_corrupt() {
    let Some(library) = crate::library() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let values: [(&str, &[u8], bool); 4] = [
        ("too short", b"abc", false),
        ("before 2013", b"v\x00\x00\x00\x00", false),
        ("negative", b"v\x00\x00\x00\xff", false),
        ("by chance", b"vabcd", true),
    ];
    let db = rocksdb_at(&library, &path, OpenMode::Create);
    for (key, value, _) in values {
        let default = db.family("default").unwrap();
        db.put(default, key.as_bytes(), value).unwrap();
    }
    drop(db);
    let db = rocksdb_at(&library, &path, OpenMode::WithTtl(0));
    for (key, _, whole) in values {
        let found = db.get(db.family("default").unwrap(), key.as_bytes());
        assert_eq!(found.is_ok(), whole, "{key}");
    }
    drop(db);
    let db = cairn_at(&path, 0);
    for (key, _, whole) in values {
        match db.get(key.as_bytes()) {
            Ok(found) => assert!(whole && found.as_deref() == Some(b"v"), "{key}"),
            Err(error) => assert!(!whole && error.is_corruption(), "{key}: {error}"),
        }
    }
}
