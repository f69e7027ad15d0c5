//! Writes that wait for jobs, and those that do not have to.

use cairn_db::{Db, Family, WriteBatch};
use cairn_options::{CompactionStyle, FamilyOptions, WriteOptions};
use cairn_platform::World;
use cairn_types::{Code, Result};

use crate::basic::db_options;
use crate::wal::open_with;

/// A database and a family of it whose writes stop at two tables in level 0, which nobody compacts.
fn stopped(world: &World) -> (Db, Family) {
    let db = open_with(world, &db_options(), false);
    let options = FamilyOptions {
        compaction_style: CompactionStyle::None,
        level0_file_num_compaction_trigger: 2,
        level0_slowdown_writes_trigger: 2,
        level0_stop_writes_trigger: 2,
        ..FamilyOptions::default()
    };
    let family = db.create_family("full", &options).expect("it is new");
    for key in [b"a", b"b"] {
        put(&db, &family, key).expect("there is room");
        db.flush_families(&[&family]).expect("nothing fails");
    }
    (db, family)
}

fn put(db: &Db, family: &Family, key: &[u8]) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.put_in(family, key, b"1");
    db.write(&batch)
}

fn impatient() -> WriteOptions {
    WriteOptions {
        no_slowdown: true,
        ..WriteOptions::default()
    }
}

#[test]
fn only_writes_of_the_family_that_is_behind_are_held_back() {
    let world = World::in_memory();
    let (db, family) = stopped(&world);
    assert_eq!(db.property_number("rocksdb.is-write-stopped"), Some(1));
    let mut elsewhere = WriteBatch::new();
    elsewhere.put(b"k", b"1");
    db.write_with(&elsewhere, &impatient()).unwrap();
    let mut both = elsewhere.clone();
    both.put_in(&family, b"k", b"2");
    let refused = db.write_with(&both, &impatient()).unwrap_err();
    assert_eq!(refused.code(), Code::Incomplete, "{refused}");
    assert!(refused.text().contains("LevelZero"), "{refused}");

    // A writer that waits lets others pass, and goes on when the family has room again.
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| put(&db, &family, b"c"));
        for _ in 0..100 {
            db.put(b"k", b"2").unwrap();
        }
        assert!(family.get(b"c").unwrap().is_none());
        let more = [
            ("level0_stop_writes_trigger", "9"),
            ("level0_slowdown_writes_trigger", "9"),
        ];
        family.set_options(&more).unwrap();
        writer.join().unwrap().unwrap();
    });
    assert!(family.get(b"c").unwrap().is_some());
    assert_eq!(db.property_number("rocksdb.is-write-stopped"), Some(0));
    db.close().unwrap();
}

#[test]
fn a_writer_that_waits_learns_of_the_closing() {
    let world = World::in_memory();
    let (db, family) = stopped(&world);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| put(&db, &family, b"c"));
        db.close().unwrap();
        let ended = writer.join().unwrap().unwrap_err();
        assert_eq!(ended.code(), Code::ShutdownInProgress, "{ended}");
    });
}
