//! Damage to memtables whose entries have checksums: reads and flushes fail instead of returning or storing it.

use std::ops::ControlFlow;

use cairn_format::key::LookupKey;
use cairn_memtable::Entry;
use cairn_options::{FamilyOptions, ReadOptions};
use cairn_types::{Code, Error, SequenceNumber};

use super::{MAX_FILTER_BYTES, memtable_filter};
use crate::Db;
use crate::db::open_in_memory;

/// A database whose memtable has checksums and ten keys, `key0` to `key9`.
fn checked(more: &[(&str, &str)]) -> Db {
    let db = open_in_memory();
    let mut options = vec![("memtable_protection_bytes_per_key", "8")];
    options.extend(more);
    db.set_options(&options).expect("the database is whole");
    // The options apply to the next memtable.
    db.put(b"first", b"1").expect("the database is whole");
    db.flush().expect("the database is whole");
    for n in 0..10 {
        db.put(format!("key{n}").as_bytes(), b"value")
            .expect("the database is whole");
    }
    db
}

fn damage(db: &Db, key: &[u8], how: impl Fn(&Entry<'_>)) {
    let family = db.shared().catalog.default_family().expect("it exists");
    let (memtable, mut found) = (family.memtable(), false);
    memtable.find(&LookupKey::new(key, SequenceNumber::MAX), |entry| {
        how(&entry);
        found = true;
        ControlFlow::Break(())
    });
    assert!(found, "the memtable has the key");
}

fn scan(db: &Db, back: bool) -> Result<usize, Error> {
    let mut iter = db.iter();
    match back {
        false => iter.seek_to_first(),
        true => iter.seek_to_last(),
    }
    let mut seen = 0;
    while iter.valid() {
        seen += 1;
        match back {
            false => iter.next(),
            true => iter.prev(),
        }
    }
    iter.status().map(|()| seen)
}

#[track_caller]
fn assert_damaged<T: std::fmt::Debug>(result: Result<T, Error>) {
    let error = result.expect_err("the damage is noticed");
    assert_eq!(error.code(), Code::Corruption, "{error}");
    assert!(error.text().contains("memory is damaged"), "{error}");
}

#[test]
fn reads_of_a_damaged_value_fail() {
    let db = checked(&[]);
    assert_eq!(scan(&db, false).unwrap(), 11);
    assert_eq!(scan(&db, true).unwrap(), 11);
    damage(&db, b"key5", |entry| entry.damage_value());
    assert_damaged(db.get(b"key5"));
    assert_eq!(db.get(b"key4").unwrap().as_deref(), Some(&b"value"[..]));
    let both = db.multi_get(&[&b"key4"[..], b"key5"], &ReadOptions::default());
    assert!(both[0].is_ok());
    assert_damaged(both.into_iter().nth(1).unwrap());
    assert_damaged(scan(&db, false));
    assert_damaged(scan(&db, true));
    let mut iter = db.iter();
    iter.seek(b"key5");
    assert!(!iter.valid());
    assert_damaged(iter.status());
    iter.seek(b"key6");
    assert!(iter.valid());
}

#[test]
fn a_flush_of_damage_fails_and_stops_writes() {
    let db = checked(&[]);
    damage(&db, b"key5", |entry| entry.damage_value());
    assert_damaged(db.flush());
    assert!(db.put(b"later", b"value").is_err());
    assert_eq!(db.get(b"key4").unwrap().as_deref(), Some(&b"value"[..]));
}

/// Without further checks, a search that does not come to the damaged key finds no entry.
#[test]
fn a_search_past_a_damaged_key_fails_with_checks_of_searches() {
    let passes = checked(&[]);
    damage(&passes, b"key5", |entry| entry.damage_key());
    assert_eq!(passes.get(b"key9").unwrap().as_deref(), Some(&b"value"[..]));
    let on_seek = checked(&[("memtable_verify_per_key_checksum_on_seek", "true")]);
    damage(&on_seek, b"key5", |entry| entry.damage_key());
    assert_damaged(on_seek.get(b"key5"));
    let order = checked(&[("paranoid_memory_checks", "true")]);
    damage(&order, b"key5", |entry| entry.damage_key());
    assert_damaged(scan(&order, false));
}

#[test]
fn checks_of_the_order_work_without_checksums() {
    let db = open_in_memory();
    db.set_options(&[("paranoid_memory_checks", "true")])
        .unwrap();
    db.put(b"first", b"1").unwrap();
    db.flush().unwrap();
    for n in 0..10 {
        db.put(format!("key{n}").as_bytes(), b"value").unwrap();
    }
    assert_eq!(scan(&db, false).unwrap(), 11);
    // "key5" becomes "key%", which precedes "key0".
    damage(&db, b"key5", |entry| entry.damage_key());
    assert_damaged(scan(&db, false));
    assert_damaged(scan(&db, true));
}

#[test]
fn range_deletions_and_operands_are_read_with_checks() {
    let db = checked(&[("paranoid_memory_checks", "true")]);
    db.delete_range(b"key2", b"key4").unwrap();
    assert!(db.get(b"key3").unwrap().is_none());
    assert_eq!(scan(&db, false).unwrap(), 9);
    db.flush().unwrap();
    assert_eq!(scan(&db, true).unwrap(), 9);
}

/// Regression: with an unlimited write buffer, the filter took all memory.
#[test]
fn the_filter_of_a_memtable_is_limited() {
    let options = FamilyOptions {
        write_buffer_size: usize::MAX,
        memtable_prefix_bloom_size_ratio: 0.25,
        memtable_whole_key_filtering: true,
        ..FamilyOptions::default()
    };
    assert_eq!(memtable_filter(&options).bytes, MAX_FILTER_BYTES);
}
