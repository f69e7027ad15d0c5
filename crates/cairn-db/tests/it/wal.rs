//! WAL operations of the user.

use std::path::Path;

use cairn_db::{Db, OpenRequest, WriteBatch, open};
use cairn_options::{DbOptions, FamilyOptions, WriteOptions};
use cairn_platform::World;
use cairn_types::{Code, SequenceNumber};

use crate::basic::db_options;

pub fn open_with(world: &World, options: &DbOptions, read_only: bool) -> Db {
    let family = FamilyOptions::default();
    open(&OpenRequest {
        path: Path::new("/db"),
        options,
        families: &[],
        others: Some(&family),
        read_only,
        world: world.clone(),
    })
    .expect("it opens")
}

/// True if a recovery of the database at this point, after a `kill -9`, finds `key`.
fn survives_a_kill(world: &World, key: &[u8]) -> bool {
    let reader = open_with(world, &DbOptions::default(), true);
    reader.get(key).expect("a read returns no error").is_some()
}

#[test]
fn a_manually_flushed_log_is_written_on_request() {
    let world = World::in_memory();
    let options = DbOptions {
        manual_wal_flush: true,
        ..db_options()
    };
    let db = open_with(&world, &options, false);
    db.put(b"a", b"1").unwrap();
    assert!(!survives_a_kill(&world, b"a"));
    db.flush_wal(false).unwrap();
    assert!(survives_a_kill(&world, b"a"));

    db.put(b"b", b"1").unwrap();
    let sync = WriteOptions {
        sync: true,
        ..WriteOptions::default()
    };
    // A synced write syncs all earlier ones, even if it is empty itself.
    db.write_with(&WriteBatch::new(), &sync).unwrap();
    assert!(survives_a_kill(&world, b"b"));

    db.put(b"c", b"1").unwrap();
    db.flush().unwrap();
    assert!(survives_a_kill(&world, b"c"));
    db.put(b"d", b"1").unwrap();
    db.close().unwrap();
    assert!(survives_a_kill(&world, b"d"));
}

#[test]
fn a_locked_wal_blocks_writes_until_it_is_unlocked() {
    let world = World::in_memory();
    let options = DbOptions {
        manual_wal_flush: true,
        ..db_options()
    };
    let db = open_with(&world, &options, false);
    db.put(b"a", b"1").unwrap();
    db.lock_wal().unwrap();
    db.lock_wal().unwrap();
    assert!(survives_a_kill(&world, b"a"));
    let impatient = WriteOptions {
        no_slowdown: true,
        ..WriteOptions::default()
    };
    let refused = db.put_with(b"b", b"1", &impatient).unwrap_err();
    assert_eq!(refused.code(), Code::Incomplete);
    let elsewhere = std::thread::scope(|scope| scope.spawn(|| db.unlock_wal()).join().unwrap());
    assert_eq!(elsewhere.unwrap_err().code(), Code::Aborted);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| db.put(b"c", b"1"));
        db.unlock_wal().unwrap();
        assert!(db.get(b"c").unwrap().is_none());
        db.unlock_wal().unwrap();
        writer.join().unwrap().unwrap();
    });
    assert!(db.get(b"c").unwrap().is_some());
    assert_eq!(db.unlock_wal().unwrap_err().code(), Code::Aborted);
}

#[test]
fn a_database_with_a_locked_wal_can_be_closed() {
    let world = World::in_memory();
    let db = open_with(&world, &db_options(), false);
    db.lock_wal().unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| db.put(b"k", b"v"));
        db.close().unwrap();
        assert_eq!(
            writer.join().unwrap().unwrap_err().code(),
            Code::ShutdownInProgress
        );
    });
}

#[test]
fn with_recycled_logs_every_write_has_a_log() {
    let options = DbOptions {
        recycle_log_file_num: 2,
        ..db_options()
    };
    let db = open_with(&World::in_memory(), &options, false);
    let unlogged = WriteOptions {
        disable_wal: true,
        ..WriteOptions::default()
    };
    let refused = db.put_with(b"k", b"v", &unlogged).unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    db.put(b"k", b"v").unwrap();
}

#[test]
fn writes_without_a_log_are_flushed_on_close_unless_they_may_be_lost() {
    let unlogged = WriteOptions {
        disable_wal: true,
        ..WriteOptions::default()
    };
    for avoid_flush_during_shutdown in [false, true] {
        let world = World::in_memory();
        let options = DbOptions {
            avoid_flush_during_shutdown,
            ..db_options()
        };
        let db = open_with(&world, &options, false);
        db.put_with(b"k", b"v", &unlogged).unwrap();
        assert!(!survives_a_kill(&world, b"k"));
        db.close().unwrap();
        assert_eq!(survives_a_kill(&world, b"k"), !avoid_flush_during_shutdown);
    }
}

/// Log data with the form of the description of another log, such as that in the log of another database, ends no recovery.
#[test]
fn log_data_is_not_taken_for_the_description_of_a_log() {
    use cairn_format::log::Predecessor;

    let world = World::in_memory();
    let foreign = Predecessor {
        log_number: 1,
        bytes: 5000,
        last_sequence: SequenceNumber(7),
    };
    let description = foreign.as_batch(SequenceNumber(0));
    let db = open_with(&world, &db_options(), false);
    db.write(&WriteBatch::from_data(&description).unwrap())
        .unwrap();
    for n in 0..10_u8 {
        db.put(&[n], b"v").unwrap();
    }
    assert!((0..10).all(|n| survives_a_kill(&world, &[n])));
    db.flush().unwrap();
    db.write(&WriteBatch::from_data(&description).unwrap())
        .unwrap();
    db.put(b"later", b"v").unwrap();
    assert!(survives_a_kill(&world, b"later"));
}
