//! Concurrent writers: atomic batches, in a single order, across memtable switches.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use cairn_db::{Db, WriteBatch};
use cairn_options::{FamilyOptions, ReadOptions, WriteOptions};
use cairn_platform::World;
use cairn_types::SequenceNumber;

use crate::filters::open_with;

const WRITERS: u32 = 6;
const BATCHES: u32 = 4000;

fn keys(writer: u32) -> [[u8; 5]; 2] {
    [b'a', b'z'].map(|end| {
        let [a, b, c, d] = writer.to_be_bytes();
        [end, a, b, c, d]
    })
}

/// The number that both keys of a writer have at `seq`; 0 before its first batch.
fn written_at(db: &Db, writer: u32, seq: SequenceNumber) -> u32 {
    let options = ReadOptions {
        snapshot: Some(seq),
        ..ReadOptions::default()
    };
    let [first, second] = keys(writer).map(|key| {
        let value = db.get_with(&key, &options).expect("a read succeeds");
        let number = value.map(|value| value[..4].try_into().expect("four bytes"));
        number.map_or(0, u32::from_be_bytes)
    });
    assert_eq!(first, second, "writer {writer} at {seq}: half a batch");
    first
}

#[test]
fn readers_see_atomic_batches_in_one_order_while_memtables_are_switched() {
    let world = World::in_memory();
    let family = FamilyOptions {
        write_buffer_size: 64 << 10,
        ..FamilyOptions::default()
    };
    let db = open_with(&world, &family).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let (db, done) = (&db, &done);
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn(move || {
                    for number in 1..=BATCHES {
                        let mut batch = WriteBatch::new();
                        let value = [&number.to_be_bytes()[..], &[7; 40]].concat();
                        let [first, second] = keys(writer);
                        batch.put(&first, &value);
                        // Empty batches, batches of two, and large ones concurrently.
                        if number % 100 == 0 {
                            batch.put(b"filler", &[1; 3000]);
                        }
                        batch.put(&second, &value);
                        let options = WriteOptions {
                            sync: number % 64 == writer,
                            ..WriteOptions::default()
                        };
                        db.write_with(&batch, &options).unwrap();
                        if number % 50 == 0 {
                            db.write(&WriteBatch::new()).unwrap();
                        }
                        let now = db.snapshot();
                        assert_eq!(written_at(db, writer, now.sequence()), number);
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            scope.spawn(move || {
                let mut last = [0; WRITERS as usize];
                while !done.load(Ordering::Acquire) {
                    let snapshot = db.snapshot();
                    for (writer, last) in (0..WRITERS).zip(&mut last) {
                        let now = written_at(db, writer, snapshot.sequence());
                        assert!(now >= *last, "writer {writer} went back");
                        *last = now;
                    }
                }
            });
        }
        scope.spawn(move || {
            while !done.load(Ordering::Acquire) {
                db.flush().unwrap();
                thread::yield_now();
            }
        });
        let results: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Release);
        assert!(results.iter().all(Result::is_ok));
    });
    let sequence = db.snapshot().sequence();
    drop(db);
    let db = open_with(&world, &family).unwrap();
    assert_eq!(db.snapshot().sequence(), sequence);
    for writer in 0..WRITERS {
        assert_eq!(written_at(&db, writer, sequence), BATCHES);
    }
}

/// The write of a reversed range succeeded and deleted nothing.
#[test]
fn a_reversed_range_deletion_fails_its_write_and_nothing_else() {
    let world = World::in_memory();
    let db = open_with(&world, &FamilyOptions::default()).expect("a new database");
    let backwards = FamilyOptions {
        comparator: cairn_types::KeyOrder::ReverseBytewise,
        ..FamilyOptions::default()
    };
    let backwards = db
        .create_family("backwards", &backwards)
        .expect("a new family");
    db.put(b"b", b"1").expect("it is written");
    type Fill<'a> = &'a dyn Fn(&mut WriteBatch);
    let fills: [Fill<'_>; 3] = [
        &|batch| batch.delete_range(b"c", b"a"),
        &|batch| batch.delete_range_in(&backwards, b"a", b"c"),
        &|batch| {
            batch.delete_range(b"a", b"c");
            *batch = WriteBatch::from_data(batch.data()).expect("a batch");
            batch.delete_range(b"c", b"b\0");
        },
    ];
    for fill in fills {
        let mut batch = WriteBatch::new();
        batch.put(b"b", b"2");
        fill(&mut batch);
        batch.put(b"d", b"2");
        let before = db.latest_sequence();
        let raw = WriteBatch::from_data(batch.data()).expect("a batch");
        for batch in [batch, raw] {
            let error = db.write(&batch).expect_err("a reversed range");
            assert_eq!(error.code(), cairn_types::Code::InvalidArgument);
            assert!(error.text().contains("end key comes before start key"));
        }
        assert_eq!(db.latest_sequence(), before);
        let found = db.get(b"b").expect("a read succeeds");
        assert_eq!(found.as_deref(), Some(&b"1"[..]));
    }
    let mut batch = WriteBatch::new();
    batch.delete_range(b"b", b"b");
    batch.delete_range_in(&backwards, b"c", b"a");
    batch.put(b"d", b"2");
    db.write(&batch).expect("an empty range is none");
    assert!(db.get(b"b").expect("a read succeeds").is_some());
    assert!(db.get(b"d").expect("a read succeeds").is_some());
}
