//! The limit on open tables: `max_open_files`.

#![cfg(target_os = "linux")]

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use cairn_db::{Db, FamilyDescriptor, OpenRequest, WriteBatch, open};
use cairn_options::{CompactRangeOptions, DbOptions, FamilyOptions, ReadOptions, ReadTier};
use cairn_platform::World;
use cairn_types::Code;

const TABLES: u32 = 30;
const FAMILIES: [&str; 2] = ["default", "other"];

/// Creates a database of thirty uncompacted tables, half of them in another family. Every table of a family
/// has all its keys, so that a scan needs all of them at once.
struct Fixture {
    dir: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Fixture {
        let fixture = Fixture {
            dir: tempfile::tempdir().expect("a directory"),
        };
        let db = fixture.open(-1);
        db.create_family("other", &family()).expect("created");
        for table in 0..TABLES {
            let family = db
                .family(FAMILIES[(table % 2) as usize])
                .expect("it is there");
            let mut batch = WriteBatch::new();
            for place in ["a", "b", "c"] {
                batch.put_in(&family, &key(place, table), &key("v", table));
            }
            db.write(&batch).expect("written");
            family.flush().expect("flushed");
        }
        db.close().expect("closed");
        fixture
    }

    fn open(&self, max_open_files: i32) -> Db {
        self.opened(max_open_files, false)
    }

    fn opened(&self, max_open_files: i32, read_only: bool) -> Db {
        let families: Vec<_> = match self.dir.path().join("CURRENT").exists() {
            true => FAMILIES.iter().map(|name| given(name)).collect(),
            false => Vec::new(),
        };
        open(&OpenRequest {
            path: self.dir.path(),
            options: &DbOptions {
                create_if_missing: true,
                max_open_files,
                ..DbOptions::default()
            },
            families: &families,
            others: Some(&family()),
            read_only,
            world: World::posix(),
        })
        .expect("it opens")
    }

    /// Returns the number of this database's tables that the process has open.
    fn open_tables(&self) -> usize {
        let ours = |link: &Path| {
            link.starts_with(self.dir.path()) && link.extension().is_some_and(|name| name == "sst")
        };
        let fds = Path::new("/proc/self/fd");
        let names = World::posix().fs.list(fds).expect("Linux lists them");
        names
            .into_iter()
            .filter_map(|name| std::fs::read_link(fds.join(name)).ok())
            .filter(|link| ours(link))
            .count()
    }
}

fn given(name: &str) -> FamilyDescriptor {
    FamilyDescriptor {
        name: name.to_owned(),
        options: family(),
    }
}

fn family() -> FamilyOptions {
    FamilyOptions {
        disable_auto_compactions: true,
        level0_slowdown_writes_trigger: 100,
        level0_stop_writes_trigger: 100,
        ..FamilyOptions::default()
    }
}

fn key(place: &str, table: u32) -> Vec<u8> {
    format!("{place}{table:02}").into_bytes()
}

fn check(db: &Db, table: u32) {
    let family = db
        .family(FAMILIES[(table % 2) as usize])
        .expect("it is there");
    for place in ["a", "b", "c"] {
        let value = family.get(&key(place, table)).expect("read");
        assert_eq!(value.as_deref(), Some(&key("v", table)[..]));
    }
}

fn scan(db: &Db) -> usize {
    let mut iter = db.iter();
    let mut entries = 0;
    iter.seek_to_first();
    while iter.valid() {
        entries += 1;
        iter.next();
    }
    iter.status().expect("no error");
    entries
}

#[test]
fn no_more_tables_are_open_than_the_option_allows() {
    let fixture = Fixture::new();
    let db = fixture.open(-1);
    (0..TABLES).for_each(|table| check(&db, table));
    assert_eq!(fixture.open_tables(), TABLES as usize);
    db.close().unwrap();
    drop(db);
    // Values below 20 mean 20, ten of which are not for tables.
    let db = fixture.open(16);
    for round in 0..3 {
        for table in 0..TABLES {
            check(&db, (table * 7 + round) % TABLES);
            let open = fixture.open_tables();
            assert!(open <= 10, "{open} tables are open");
        }
    }
    assert_eq!(fixture.open_tables(), 10);
    // Tables that are read repeatedly stay open while others are closed and reopened.
    for table in 1..TABLES {
        check(&db, 0);
        check(&db, table);
    }
    check(&db, 0);
    let keys = [key("a", 0), key("b", 0)];
    let cached = ReadOptions {
        read_tier: ReadTier::BlockCache,
        ..ReadOptions::default()
    };
    assert!(db.get_with(&keys[0], &cached).unwrap().is_some());
    // A closed table is not opened by a read that must not do I/O.
    let closed = (0..TABLES).step_by(2).filter(|table| {
        let read = db.get_with(&key("a", *table), &cached);
        read.is_err_and(|error| error.code() == Code::Incomplete)
    });
    assert!(closed.count() >= 5);
    // A compaction opens all tables of the family at once, and closes them.
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    (0..TABLES).for_each(|table| check(&db, table));
    assert!(fixture.open_tables() <= 10);
}

#[test]
fn iterators_continue_over_closed_tables() {
    let fixture = Fixture::new();
    let db = fixture.open(20);
    let mut early = db.iter();
    early.seek(b"b");
    assert_eq!(early.key(), key("b", 0));
    for table in (0..TABLES).rev() {
        check(&db, table);
    }
    // The iterator holds the tables of its family; the reads hold those they used last.
    let open = fixture.open_tables();
    assert!((15..=25).contains(&open), "{open} tables are open");
    let mut entries = 0;
    while early.valid() {
        entries += 1;
        early.next();
    }
    early.status().unwrap();
    assert_eq!(entries, 30);
    assert_eq!(scan(&db), 45);
    early.seek_to_last();
    assert_eq!(early.key(), key("c", 28));
    drop(early);
    check(&db, 1);
    assert!(fixture.open_tables() <= 10);
}

#[test]
fn the_limit_changes_while_the_database_is_open() {
    let fixture = Fixture::new();
    let db = fixture.open(5000);
    let read_all = || (0..TABLES).for_each(|table| check(&db, table));
    let set = |limit: &str| db.set_db_options(&[("max_open_files", limit)]).unwrap();
    read_all();
    assert_eq!(fixture.open_tables(), 30);
    set("25");
    assert_eq!(fixture.open_tables(), 15);
    read_all();
    assert_eq!(fixture.open_tables(), 15);
    set("3");
    assert_eq!(fixture.open_tables(), 10);
    assert_eq!(db.options().max_open_files, 3, "20 is in effect");
    set("-1");
    read_all();
    assert_eq!(fixture.open_tables(), 30);
    // A table opened without a limit stays open until it is compacted.
    set("20");
    read_all();
    assert_eq!(fixture.open_tables(), 30);
    for name in FAMILIES {
        let family = db.family(name).unwrap();
        family
            .compact_range(None, None, &CompactRangeOptions::default())
            .unwrap();
    }
    read_all();
    assert!(fixture.open_tables() <= 2);
}

#[test]
fn readers_get_no_errors_while_tables_are_closed_and_opened() {
    let fixture = Fixture::new();
    let db = fixture.open(20);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (db, over) = (&db, &over);
            scope.spawn(move || {
                let mut at = thread;
                while !over.load(Ordering::Relaxed) {
                    at = (at + 7) % TABLES;
                    check(db, at);
                    if at == thread {
                        assert_eq!(scan(db), 45);
                    }
                }
            });
        }
        for round in 0..200 {
            let limit = ["20", "21", "40", "25"][round % 4];
            db.set_db_options(&[("max_open_files", limit)]).unwrap();
        }
        over.store(true, Ordering::Relaxed);
    });
    (0..TABLES).for_each(|table| check(&db, table));
    db.set_db_options(&[("max_open_files", "20")]).unwrap();
    assert!(fixture.open_tables() <= 10);
}

/// A read-only opening beside the process that writes the database keeps files that the writer deletes.
#[test]
fn tables_that_the_writer_deletes_stay_readable_in_a_read_only_opening() {
    let fixture = Fixture::new();
    let writer = fixture.open(-1);
    let reader = fixture.opened(-1, true);
    for name in FAMILIES {
        let family = writer.family(name).unwrap();
        family
            .compact_range(None, None, &CompactRangeOptions::default())
            .unwrap();
    }
    let left = World::posix().fs.list(fixture.dir.path()).unwrap();
    let tables = left.iter().filter(|name| name.ends_with(".sst")).count();
    assert!(tables < 5, "the inputs are deleted: {tables} tables");
    for table in 0..TABLES {
        check(&reader, table);
    }
    assert_eq!(scan(&reader), 45);
    reader.close().unwrap();
    writer.close().unwrap();
}
