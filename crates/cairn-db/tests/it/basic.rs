//! Writes and reads of one database.

use std::path::Path;

use cairn_db::{Db, FamilyDescriptor, OpenRequest, WriteBatch, open};
use cairn_options::{CompactRangeOptions, DbOptions, FamilyOptions, ReadOptions, WriteOptions};
use cairn_platform::World;
use cairn_types::{Code, KeyOrder, Subcode};

pub fn db_options() -> DbOptions {
    DbOptions {
        create_if_missing: true,
        ..DbOptions::default()
    }
}

pub fn small() -> FamilyOptions {
    FamilyOptions {
        write_buffer_size: 64 << 10,
        target_file_size_base: 32 << 10,
        max_bytes_for_level_base: 128 << 10,
        ..FamilyOptions::default()
    }
}

/// Opens a database whose families all have the options `family`.
pub fn open_with(
    world: &World,
    options: &DbOptions,
    family: &FamilyOptions,
) -> cairn_types::Result<Db> {
    open(&OpenRequest {
        path: Path::new("/db"),
        options,
        families: &[],
        others: Some(family),
        read_only: false,
        world: world.clone(),
    })
}

pub fn open_at(world: &World, families: &[FamilyDescriptor]) -> cairn_types::Result<Db> {
    open(&OpenRequest {
        path: Path::new("/db"),
        options: &db_options(),
        families,
        others: Some(&small()),
        read_only: false,
        world: world.clone(),
    })
}

fn key(n: u32) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

fn value(n: u32, round: u32) -> Vec<u8> {
    format!(
        "value {n} of round {round}, {}",
        "x".repeat((n % 50) as usize)
    )
    .into_bytes()
}

/// All entries of the default family, in order.
pub fn scan(db: &Db) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut iter = db.iter();
    iter.seek_to_first();
    let mut all = Vec::new();
    while iter.valid() {
        all.push((iter.key().to_vec(), iter.value().to_vec()));
        iter.next();
    }
    iter.status().expect("the scan returns no error");
    all
}

#[test]
fn written_entries_are_read() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    db.put(b"a", b"1").unwrap();
    db.put(b"b", b"2").unwrap();
    db.put(b"a", b"3").unwrap();
    db.delete(b"b").unwrap();
    assert_eq!(db.get(b"a").unwrap().as_deref(), Some(&b"3"[..]));
    assert_eq!(db.get(b"b").unwrap().as_deref(), None);
    assert_eq!(scan(&db), [(b"a".to_vec(), b"3".to_vec())]);
}

#[test]
fn thousands_of_entries_survive_flushes_compactions_and_openings() {
    let world = World::in_memory();
    for round in 0..3 {
        let db = open_at(&world, &[]).unwrap();
        for n in 0..4000 {
            db.put(&key(n * 7919 % 4000), &value(n * 7919 % 4000, round))
                .unwrap();
        }
        let snapshot = db.snapshot();
        for n in (0..4000).step_by(3) {
            db.delete(&key(n)).unwrap();
        }
        if round == 1 {
            db.compact_range(None, None, &CompactRangeOptions::default())
                .unwrap();
        }
        let old = ReadOptions {
            snapshot: Some(snapshot.sequence()),
            ..ReadOptions::default()
        };
        for n in 0..4000 {
            let expected = (n % 3 != 0).then(|| value(n, round));
            assert_eq!(
                db.get(&key(n)).unwrap().as_deref(),
                expected.as_deref(),
                "{n}"
            );
            assert_eq!(
                db.get_with(&key(n), &old).unwrap().as_deref(),
                Some(&value(n, round)[..])
            );
        }
        assert_eq!(scan(&db).len(), 2666);
        drop(snapshot);
        db.close().unwrap();
    }
    let db = open_at(&world, &[]).unwrap();
    assert_eq!(scan(&db).len(), 2666);
    assert!(db.dropped_at_recovery().is_empty());
}

#[test]
fn a_batch_over_several_families_is_atomic() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    let stones = db.create_family("stones", &small()).unwrap();
    let mut batch = WriteBatch::new();
    batch.put(b"k", b"default");
    batch.put_in(&stones, b"k", b"stones");
    batch.set_save_point();
    batch.delete(b"k");
    batch.rollback_to_save_point().unwrap();
    db.write(&batch).unwrap();
    stones.flush().unwrap();
    drop((db, stones));
    let db = open_at(&world, &[]).unwrap();
    let stones = db.family("stones").unwrap();
    assert_eq!(stones.get(b"k").unwrap().as_deref(), Some(&b"stones"[..]));
    assert_eq!(db.get(b"k").unwrap().as_deref(), Some(&b"default"[..]));
    db.drop_family(&stones).unwrap();
    assert_eq!(
        stones.put(b"x", b"y").unwrap_err().code(),
        Code::InvalidArgument
    );
    assert_eq!(stones.get(b"k").unwrap().as_deref(), Some(&b"stones"[..]));
    drop((db, stones));
    let db = open_at(&world, &[]).unwrap();
    assert!(db.family("stones").is_none());
}

#[test]
fn a_batch_above_its_limit_is_refused_with_an_error() {
    let db = open_at(&World::in_memory(), &[]).unwrap();
    let mut batch = WriteBatch::with_max_bytes(60);
    batch.put(b"first", b"fits");
    let before = batch.data().to_vec();
    batch.put(b"second", &[7; 60]);
    batch.merge(b"third", &[7; 60]);
    batch.put_log_data(&[7; 60]);
    assert_eq!(batch.data(), before);
    let refused = db.write(&batch).unwrap_err();
    assert_eq!(refused.code(), Code::Aborted);
    assert_eq!(refused.subcode(), Subcode::MemoryLimit);
    assert_eq!(batch.refused(), Some(&refused));
    assert!(db.get(b"first").unwrap().is_none(), "all of it or nothing");

    // Exactly as many bytes as the limit.
    let room = 60 - before.len();
    batch.forget_refused();
    batch.put(b"k", &vec![1; room - 4]);
    assert_eq!((batch.data().len(), batch.refused()), (60, None));
    batch.delete(b"");
    assert!(batch.refused().is_some());
    batch.set_max_bytes(0);
    batch.forget_refused();
    batch.put(b"second", &[7; 60]);
    db.write(&batch).unwrap();
    assert_eq!(batch.count(), 3);
    assert_eq!(db.get(b"second").unwrap().as_deref(), Some(&[7; 60][..]));

    // Clearing keeps the limit, and a rollback to a save point makes room again.
    batch.set_max_bytes(40);
    batch.clear();
    batch.set_save_point();
    batch.put(b"a", &[1; 20]);
    batch.rollback_to_save_point().unwrap();
    batch.put(b"b", &[1; 20]);
    assert_eq!((batch.count(), batch.refused()), (1, None));
    batch.put(b"c", &[1; 20]);
    assert!(batch.refused().is_some());
    assert_eq!(batch.max_bytes(), 40);
}

#[test]
fn opening_without_a_family_is_rejected_with_its_name() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    db.create_family("stones", &small()).unwrap();
    drop(db);
    let refused = open(&OpenRequest {
        path: Path::new("/db"),
        options: &db_options(),
        families: &[],
        others: None,
        read_only: false,
        world: world.clone(),
    });
    let error = refused.err().unwrap();
    assert!(
        error
            .to_string()
            .contains("Column families not opened: stones"),
        "{error}"
    );
}

#[test]
fn a_second_opening_is_rejected_and_the_lock_ends_with_the_database() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    assert_eq!(open_at(&world, &[]).err().unwrap().code(), Code::IoError);
    db.put(b"a", b"1").unwrap();
    db.close().unwrap();
    assert_eq!(
        db.put(b"a", b"2").unwrap_err().code(),
        Code::ShutdownInProgress
    );
    let again = open_at(&world, &[]).unwrap();
    assert_eq!(again.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn writes_without_a_log_survive_an_orderly_end() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    let unlogged = WriteOptions {
        disable_wal: true,
        ..WriteOptions::default()
    };
    db.put_with(b"a", b"1", &unlogged).unwrap();
    drop(db);
    assert_eq!(
        open_at(&world, &[]).unwrap().get(b"a").unwrap().as_deref(),
        Some(&b"1"[..])
    );
}

#[test]
fn many_threads_write_and_read_their_own_writes() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let db = &db;
            scope.spawn(move || {
                for n in 0..3000 {
                    let key = key(n * 4 + thread);
                    db.put(&key, &value(n, thread)).unwrap();
                    assert_eq!(
                        db.get(&key).unwrap().as_deref(),
                        Some(&value(n, thread)[..])
                    );
                }
            });
        }
    });
    assert_eq!(scan(&db).len(), 12_000);
}

#[test]
fn a_read_only_database_changes_nothing() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    db.put(b"a", b"1").unwrap();
    drop(db);
    let mut before = world.fs.list(Path::new("/db")).unwrap();
    let reader = open(&OpenRequest {
        path: Path::new("/db"),
        options: &DbOptions::default(),
        families: &[],
        others: Some(&FamilyOptions::default()),
        read_only: true,
        world: world.clone(),
    })
    .unwrap();
    assert_eq!(reader.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(
        reader.put(b"a", b"2").unwrap_err().code(),
        Code::NotSupported
    );
    drop(reader);
    let mut after = world.fs.list(Path::new("/db")).unwrap();
    before.sort();
    after.sort();
    assert_eq!(before, after);
}

/// Regression: a family without a name could be opened, but not created.
#[test]
fn the_name_of_a_family_may_be_empty() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    let nameless = db.create_family("", &small()).unwrap();
    nameless.put(b"a", b"1").unwrap();
    drop((nameless, db));
    let db = open_at(&world, &[FamilyDescriptor::new("", small())]).unwrap();
    let nameless = db.family("").unwrap();
    assert_eq!(nameless.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    assert!(db.create_family("", &small()).is_err());
}

#[test]
fn a_batch_with_records_that_cannot_be_inserted_is_rejected_before_it_is_logged() {
    // A header with a count of zero, and the marker of a prepared transaction.
    let mut data = [0; 13];
    data[12] = 9;
    let error = WriteBatch::from_data(&data).unwrap_err();
    assert_eq!(error.code(), Code::NotSupported, "{error}");
    data[12] = 13;
    let batch = WriteBatch::from_data(&data).unwrap();
    let db = open_at(&World::in_memory(), &[]).unwrap();
    db.write(&batch).unwrap();
    db.put(b"a", b"1").unwrap();
}

/// Regression: after a rollback to a save point, a batch was still treated as if it wrote to the families of the writes that
/// were taken back, so that it was refused once one of them was dropped, and as if it had a range deletion.
#[test]
fn writes_that_are_taken_back_leave_nothing_in_a_batch() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    let other = db.create_family("other", &small()).unwrap();
    let stamped = FamilyOptions {
        comparator: KeyOrder::BytewiseU64Ts,
        ..small()
    };
    let stamped = db.create_family("stamped", &stamped).unwrap();
    let mut batch = WriteBatch::new();
    batch.put(b"k", b"v");
    batch.set_save_point();
    batch.put_in(&other, b"k", b"v");
    batch.put_with_timestamp(&stamped, b"k", &[7; 8], b"v");
    batch.put_in(&stamped, b"l", b"v");
    batch.delete_range(b"a", b"z");
    batch.rollback_to_save_point().unwrap();
    for family in [other, stamped] {
        db.drop_family(&family).unwrap();
    }
    db.write(&batch).unwrap();
    assert_eq!(db.get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
    assert!(!batch.has_timestamps() && !batch.lacks_timestamps());
}

#[test]
fn a_batch_with_references_to_blob_files_is_never_written() {
    let db = open_at(&World::in_memory(), &[]).unwrap();
    // One record: the kind of a blob index, the key "k" and an index of three bytes.
    let data = [&[0; 8][..], &[1, 0, 0, 0, 0x11, 1, b'k', 3, 0, 1, 2]].concat();
    let mut batch = WriteBatch::from_data(&data).unwrap();
    for _ in 0..2 {
        let refused = db.write(&batch).unwrap_err();
        assert_eq!(refused.code(), Code::NotSupported, "{refused}");
        batch.forget_refused();
        batch.put(b"l", b"1");
    }
    assert!(db.get(b"l").unwrap().is_none());
    batch.clear();
    batch.put(b"l", b"1");
    db.write(&batch).unwrap();
}
