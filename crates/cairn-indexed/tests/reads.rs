//! Reads of a batch on top of a database equal those of the database after the batch is written.

#![expect(clippy::unwrap_used, reason = "an error fails the test")]

use std::path::Path;

use cairn_db::{Db, FamilyDescriptor, OpenRequest, WriteBatch, open};
use cairn_indexed::{BaseDeltaIter, IndexedBatch, WriteKind};
use cairn_options::{DbOptions, FamilyOptions, ReadOptions, WriteOptions, merge_operators};
use cairn_platform::World;
use cairn_types::{Code, KeyOrder};
use proptest::prelude::*;

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn database(order: &KeyOrder) -> Db {
    database_with(FamilyOptions {
        comparator: order.clone(),
        ..FamilyOptions::default()
    })
}

/// A new database with the options `family`, whose operator concatenates.
fn database_with(family: FamilyOptions) -> Db {
    let options = FamilyOptions {
        merge_operator: merge_operators::from_text("stringappend").ok(),
        ..family
    };
    open(&OpenRequest {
        path: Path::new("/db"),
        options: &DbOptions {
            create_if_missing: true,
            ..DbOptions::default()
        },
        families: &[FamilyDescriptor::new("default", options)],
        others: None,
        read_only: false,
        world: World::in_memory(),
    })
    .unwrap()
}

#[derive(Clone, Debug)]
enum Op {
    Put(u8, u8),
    Entity(u8, u8),
    Merge(u8, u8),
    Delete(u8),
    SavePoint,
    RollBack,
}

fn op() -> impl Strategy<Value = Op> {
    let key = 0u8..12;
    prop_oneof![
        4 => (key.clone(), any::<u8>()).prop_map(|(key, n)| Op::Put(key, n)),
        1 => (key.clone(), any::<u8>()).prop_map(|(key, n)| Op::Entity(key, n)),
        3 => (key.clone(), b'a'..=b'z').prop_map(|(key, n)| Op::Merge(key, n)),
        3 => key.prop_map(Op::Delete),
        1 => Just(Op::SavePoint),
        1 => Just(Op::RollBack),
    ]
}

fn add(batch: &IndexedBatch, db: &Db, op: &Op) {
    let family = db.default_family();
    match *op {
        Op::Put(key, n) => batch.put_in(family, &[key], &[n]),
        Op::Entity(key, n) => {
            let columns: [(&[u8], &[u8]); 2] = [(b"", &[n]), (b"other", b"column")];
            batch.put_entity_in(family, &[key], &columns);
        }
        Op::Merge(key, n) => batch.merge_in(family, &[key], &[n]),
        Op::Delete(key) => batch.delete_in(family, &[key]),
        Op::SavePoint => batch.set_save_point(),
        // Without a save point, a rollback has no effect.
        Op::RollBack => drop(batch.rollback_to_save_point()),
    }
}

fn ahead(iter: &mut BaseDeltaIter) -> Pairs {
    let mut found = Vec::new();
    while iter.valid() {
        let columns = iter.columns().unwrap();
        assert_eq!(columns.get(b"").unwrap_or_default(), iter.value());
        found.push((iter.key().to_vec(), iter.value().to_vec()));
        iter.next();
    }
    iter.status().unwrap();
    found
}

fn behind(iter: &mut BaseDeltaIter) -> Pairs {
    let mut found = Vec::new();
    while iter.valid() {
        found.push((iter.key().to_vec(), iter.value().to_vec()));
        iter.prev();
    }
    iter.status().unwrap();
    found.reverse();
    found
}

fn everything(db: &Db, options: &ReadOptions) -> Pairs {
    let mut iter = db.iter_with(options);
    iter.seek_to_first();
    let mut found = Vec::new();
    while iter.valid() {
        found.push((iter.key().to_vec(), iter.value().to_vec()));
        iter.next();
    }
    iter.status().unwrap();
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn reads_before_the_write_equal_those_after_it(
        before in proptest::collection::vec(op(), 0..30),
        ops in proptest::collection::vec(op(), 0..40),
        overwrite in any::<bool>(),
        reverse in any::<bool>(),
        lower in proptest::option::of(0u8..12),
        upper in proptest::option::of(0u8..12),
        probe in 0u8..13,
        turns in proptest::collection::vec(any::<bool>(), 0..12),
    ) {
        let order = if reverse { KeyOrder::ReverseBytewise } else { KeyOrder::Bytewise };
        let db = database(&order);
        let first = IndexedBatch::with_order(order.clone(), true);
        before.iter().for_each(|op| add(&first, &db, op));
        first.write_to(&db, &WriteOptions::default()).unwrap();

        let batch = IndexedBatch::with_order(order.clone(), overwrite);
        ops.iter().for_each(|op| add(&batch, &db, op));
        let family = db.default_family();
        let options = ReadOptions {
            iterate_lower_bound: lower.map(|key| vec![key]),
            iterate_upper_bound: upper.map(|key| vec![key]),
            ..ReadOptions::default()
        };
        let keys: Vec<[u8; 1]> = (0..13).map(|key| [key]).collect();
        let many: Vec<_> = batch
            .multi_get_over(family, &keys, &ReadOptions::default(), false)
            .into_iter()
            .map(|found| found.unwrap().map(|value| value.to_vec()))
            .collect();
        let one = |key: &[u8; 1]| {
            let found = batch.get_over(family, key, &ReadOptions::default());
            found.unwrap().map(|value| value.to_vec())
        };
        prop_assert_eq!(&many, &keys.iter().map(one).collect::<Vec<_>>());
        let columns: Vec<usize> = keys
            .iter()
            .map(|key| batch.get_entity_over(family, key, &ReadOptions::default()).unwrap())
            .map(|columns| columns.map_or(0, |columns| columns.len()))
            .collect();

        let walk = || batch.iter_over(family, db.iter_with(&options), &options);
        let (mut iter, mut seen) = (walk(), Vec::new());
        iter.seek_to_first();
        let forward = ahead(&mut iter);
        iter.seek_to_last();
        prop_assert_eq!(&behind(&mut iter), &forward);
        iter.seek(&[probe]);
        let from = ahead(&mut iter);
        iter.seek_for_prev(&[probe]);
        let to = behind(&mut iter);
        iter.seek(&[probe]);
        for back in turns {
            seen.push(iter.valid().then(|| iter.key().to_vec()));
            if back { iter.prev() } else { iter.next() }
            if !iter.valid() { break }
        }

        batch.write_to(&db, &WriteOptions::default()).unwrap();
        let after = everything(&db, &options);
        prop_assert_eq!(&forward, &after);
        let at = after.partition_point(|(key, _)| order.compare(key, &[probe]).is_lt());
        prop_assert_eq!(&from[..], &after[at..]);
        let at = after.partition_point(|(key, _)| order.compare(key, &[probe]).is_le());
        prop_assert_eq!(&to[..], &after[..at]);
        for (key, found) in keys.iter().zip(&many) {
            let now = db.get(key).unwrap().map(|value| value.to_vec());
            prop_assert_eq!(&now, found);
        }
        for (key, count) in keys.iter().zip(columns) {
            let now = db.get_entity(key, &ReadOptions::default()).unwrap();
            prop_assert_eq!(now.map_or(0, |columns| columns.len()), count);
        }
        for key in seen.into_iter().flatten() {
            prop_assert!(after.iter().any(|(found, _)| *found == key));
        }
    }
}

#[test]
fn records_are_iterated_newest_first() {
    let kinds = |overwrite: bool| {
        let batch = IndexedBatch::new(overwrite);
        batch.put(b"b", b"1");
        batch.merge(b"b", b"2");
        batch.put(b"a", b"3");
        batch.delete(b"b");
        batch.single_delete(b"c");
        let mut iter = batch.iter();
        let mut found = Vec::new();
        iter.seek_to_first();
        while let Some(entry) = iter.entry() {
            found.push((entry.key.clone(), entry.kind));
            iter.next();
        }
        iter.seek_to_last();
        let mut back = Vec::new();
        while let Some(entry) = iter.entry() {
            back.push((entry.key.clone(), entry.kind));
            iter.prev();
        }
        back.reverse();
        assert_eq!(back, found);
        found
    };
    let entry = |key: &[u8], kind| (key.to_vec(), kind);
    assert_eq!(
        kinds(false),
        [
            entry(b"a", WriteKind::Put),
            entry(b"b", WriteKind::Delete),
            entry(b"b", WriteKind::Merge),
            entry(b"b", WriteKind::Put),
            entry(b"c", WriteKind::SingleDelete),
        ]
    );
    // The deletion replaces the merge as the newest record.
    assert_eq!(
        kinds(true),
        [
            entry(b"a", WriteKind::Put),
            entry(b"b", WriteKind::Delete),
            entry(b"b", WriteKind::Put),
            entry(b"c", WriteKind::SingleDelete),
        ]
    );
}

#[test]
fn unsupported_writes_are_errors() {
    let db = database(&KeyOrder::Bytewise);
    let family = db.default_family();
    let batch = IndexedBatch::new(true);
    assert_eq!(
        batch.delete_range(b"a", b"b").unwrap_err().code(),
        Code::NotSupported
    );
    assert_eq!(
        batch.rollback_to_save_point().unwrap_err().code(),
        Code::NotFound
    );
    batch.merge(b"k", b"operand");
    assert_eq!(batch.get(b"k").unwrap_err().code(), Code::MergeInProgress);
    assert_eq!(
        batch.get_in(family, b"k").unwrap_err().code(),
        Code::MergeInProgress
    );
    let based = IndexedBatch::new(true);
    based.put(b"k", b"base");
    based.merge(b"k", b"operand");
    assert_eq!(based.get(b"k").unwrap_err().code(), Code::InvalidArgument);
    assert!(based.get_in(family, b"k").unwrap().is_some());
    let mut ranges = WriteBatch::new();
    ranges.delete_range(b"a", b"b");
    assert_eq!(
        batch.rebuild_from(&ranges).unwrap_err().code(),
        Code::NotSupported
    );
    assert_eq!(batch.count(), 0);
}

#[test]
fn an_iterator_sees_later_additions() {
    let db = database(&KeyOrder::Bytewise);
    db.put(b"a", b"1").unwrap();
    db.put(b"d", b"1").unwrap();
    let batch = IndexedBatch::new(true);
    batch.put(b"e", b"1");
    let family = db.default_family();
    let mut iter = batch.iter_over(family, db.iter(), &ReadOptions::default());
    iter.seek_to_first();
    assert_eq!(iter.key(), b"a");
    batch.put(b"b", b"2");
    batch.delete(b"d");
    batch.put(b"e", b"2");
    iter.next();
    assert_eq!((iter.key(), iter.value()), (&b"b"[..], &b"2"[..]));
    iter.next();
    assert_eq!(iter.key(), b"e");
    iter.prev();
    assert_eq!(iter.key(), b"b");
}

/// RocksDB's iterator does not look at the batch again once it has passed its last key. Programs write behind an
/// iterator over a transaction and rely on it.
#[test]
fn an_iterator_behind_the_last_key_of_the_batch_sees_later_additions_after_a_seek() {
    let db = database(&KeyOrder::Bytewise);
    db.put(b"a", b"1").unwrap();
    let batch = IndexedBatch::new(true);
    let family = db.default_family();
    let mut iter = batch.iter_over(family, db.iter(), &ReadOptions::default());
    iter.seek_to_first();
    batch.put(b"b", b"2");
    iter.next();
    assert!(!iter.valid());
    iter.seek(b"a");
    iter.next();
    assert_eq!(iter.key(), b"b");
}

/// Operands of the batch are merged with values in blob files, also if an iterator defers their reads; the program prepares
/// the others.
#[test]
fn values_whose_reads_are_deferred_are_merged_and_prepared() {
    let db = database_with(FamilyOptions {
        enable_blob_files: true,
        ..FamilyOptions::default()
    });
    let family = db.default_family();
    for key in [b"a", b"b", b"c", b"d"] {
        db.put(key, &[b"base-", &key[..]].concat()).unwrap();
    }
    let columns: [(&[u8], &[u8]); 2] = [(b"", b"base-e"), (b"other", b"column")];
    db.put_entity(b"e", &columns).unwrap();
    db.flush().unwrap();
    let batch = IndexedBatch::new(true);
    batch.merge(b"b", b"operand");
    batch.merge(b"d", b"operand");
    batch.merge(b"e", b"operand");
    batch.merge(b"f", b"operand");
    for deferred in [false, true] {
        let options = ReadOptions {
            allow_unprepared_value: deferred,
            ..ReadOptions::default()
        };
        let mut iter = batch.iter_over(family, db.iter_with(&options), &options);
        assert!(!iter.prepare_value());
        for back in [false, true] {
            let mut found = Pairs::new();
            match back {
                false => iter.seek_to_first(),
                true => iter.seek_to_last(),
            }
            while iter.valid() {
                assert!(iter.prepare_value());
                let columns = iter.columns().unwrap();
                assert_eq!(columns.get(b"").unwrap(), iter.value());
                found.push((iter.key().to_vec(), iter.value().to_vec()));
                match back {
                    false => iter.next(),
                    true => iter.prev(),
                }
            }
            iter.status().unwrap();
            if back {
                found.reverse();
            }
            let expected = ["a", "b", "c", "d", "e", "f"].map(|key| {
                let value = batch.get_over(family, key.as_bytes(), &ReadOptions::default());
                (key.into(), value.unwrap().unwrap().to_vec())
            });
            assert_eq!(found, expected, "deferred: {deferred}, back: {back}");
            assert_eq!(found[1].1, b"base-b,operand");
        }
    }
}

/// A read of many keys needs a timestamp if a read of one does, also if the batch has all of them.
#[test]
fn reads_of_keys_with_timestamps_need_one() {
    let db = database(&KeyOrder::BytewiseU64Ts);
    let family = db.default_family();
    let batch = IndexedBatch::with_order(KeyOrder::BytewiseU64Ts, true);
    batch.put_in(family, b"a", b"1");
    let options = ReadOptions::default();
    let keys = [b"a", b"b"];
    let mut refused: Vec<_> = keys
        .iter()
        .map(|key| batch.get_over(family, *key, &options).map(drop))
        .collect();
    let many = batch.multi_get_over(family, &keys, &options, true);
    refused.extend(many.into_iter().map(|found| found.map(drop)));
    let many = batch.multi_get_entity_over(family, &keys, &options, true);
    refused.extend(many.into_iter().map(|found| found.map(drop)));
    assert_eq!(refused.len(), 6);
    for refused in refused {
        let error = refused.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
        assert!(
            error.to_string().contains("Must specify timestamp"),
            "{error}"
        );
    }
    let options = ReadOptions {
        timestamp: Some(vec![0xff; 8]),
        ..options
    };
    let many = batch.multi_get_over(family, &keys, &options, true);
    let found: Vec<_> = many.into_iter().map(Result::unwrap).collect();
    assert_eq!(found[0].as_deref(), Some(&b"1"[..]));
    assert!(found[1].is_none());
}

#[test]
fn a_write_beyond_the_limit_is_neither_in_the_batch_nor_in_its_index() {
    let db = database(&KeyOrder::Bytewise);
    let batch = IndexedBatch::new(true);
    batch.set_max_bytes(40);
    batch.put(b"a", b"1");
    batch.put(b"a", &[7; 40]);
    batch.put(b"b", &[7; 40]);
    batch.merge(b"a", &[7; 40]);
    assert_eq!(batch.count(), 1);
    let mut iter = batch.iter();
    iter.seek_to_first();
    assert_eq!(iter.entry().expect("the iterator is valid").key, b"a");
    iter.next();
    assert!(!iter.valid());
    let refused = batch.write_to(&db, &WriteOptions::default()).unwrap_err();
    assert_eq!(batch.refused(), Some(refused));
    batch.forget_refused();
    batch.write_to(&db, &WriteOptions::default()).unwrap();
    assert_eq!(db.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));

    // The limit survives a rebuild.
    let mut other = WriteBatch::new();
    other.put(b"c", &[7; 40]);
    batch.rebuild_from(&other).unwrap();
    batch.put(b"d", b"");
    assert_eq!((batch.count(), batch.refused().is_some()), (1, true));

    // A batch with a refused write stays refused.
    other.set_max_bytes(60);
    other.put(b"d", &[7; 40]);
    batch.rebuild_from(&other).unwrap();
    assert_eq!(batch.refused().as_ref(), other.refused());
    assert!(batch.refused().is_some());
}

/// Regression: a batch lost its protection when its content was replaced.
#[test]
fn a_batch_in_use_can_be_cleared_and_replaced_and_keeps_its_settings() {
    let batch = IndexedBatch::new(true);
    batch.set_max_bytes(100);
    batch.set_protected(true).unwrap();
    let mut other = WriteBatch::new();
    other.put(b"b", b"2");
    other.put(b"c", b"3");
    for count in [0, 2] {
        batch.put(b"a", b"1");
        batch.with_batch(|used| {
            let data = used.data().to_vec();
            match count {
                0 => batch.clear(),
                _ => batch.rebuild_from(&other).unwrap(),
            }
            assert_eq!(used.data(), data);
        });
        batch.with_batch(|now| {
            assert_eq!((now.count(), now.max_bytes()), (count, 100));
            assert!(now.is_protected());
        });
    }
}

#[test]
fn handles_of_a_batch_share_its_writes() {
    let batch = IndexedBatch::new(true);
    let other = batch.share();
    other.put(b"k", b"v");
    assert_eq!(batch.get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
    batch.put(b"l", b"w");
    drop(batch);
    assert_eq!(other.count(), 2);
}

/// A rollback kept the end of a range of records that were not indexed, so that later records there disappeared from reads
/// with the next rollback.
#[test]
fn records_in_the_place_of_removed_ones_that_were_not_indexed_are_read() {
    let batch = IndexedBatch::new(true);
    batch.set_indexing(false);
    batch.put(b"a", b"1");
    batch.set_save_point();
    batch.put(b"b", b"2");
    batch.rollback_to_save_point().unwrap();
    batch.set_indexing(true);
    batch.put(b"c", b"3");
    batch.set_save_point();
    batch.rollback_to_save_point().unwrap();
    assert_eq!(batch.get(b"c").unwrap().as_deref(), Some(&b"3"[..]));
    assert!(batch.get(b"a").unwrap().is_none());
}

#[test]
fn changes_of_the_underlying_batch_are_not_indexed() {
    let db = database(&KeyOrder::Bytewise);
    let batch = IndexedBatch::new(true);
    batch.put(b"a", b"1");
    batch
        .change_batch(|plain| {
            plain.set_save_point();
            plain.put(b"b", b"2");
            // An indexed batch has no index for it.
            plain.delete_range(b"x", b"z");
        })
        .unwrap();
    batch.put(b"c", b"3");
    assert_eq!(batch.count(), 4);
    let read = |key: &[u8]| batch.get(key).unwrap().map(|value| value.to_vec());
    assert_eq!((read(b"b"), read(b"c")), (None, Some(b"3".to_vec())));
    batch.set_save_point();
    batch.put(b"d", b"4");
    batch.rollback_to_save_point().unwrap();
    assert_eq!((read(b"b"), read(b"c")), (None, Some(b"3".to_vec())));
    db.put(b"y", b"0").unwrap();
    batch.write_to(&db, &WriteOptions::default()).unwrap();
    assert_eq!(db.get(b"b").unwrap().as_deref(), Some(&b"2"[..]));
    assert!(db.get(b"y").unwrap().is_none());
    // A removal is visible to reads.
    batch
        .change_batch(WriteBatch::rollback_to_save_point)
        .unwrap()
        .unwrap();
    assert_eq!((read(b"a"), read(b"c")), (Some(b"1".to_vec()), None));
    batch.change_batch(WriteBatch::clear).unwrap();
    assert_eq!((read(b"a"), batch.count()), (None, 0));
    batch.put(b"e", b"5");
    assert_eq!(read(b"e"), Some(b"5".to_vec()));
}

#[test]
fn a_write_while_timestamps_are_set_is_kept() {
    let db = database(&KeyOrder::BytewiseU64Ts);
    let family = db.default_family();
    let batch = IndexedBatch::with_order(KeyOrder::BytewiseU64Ts, true);
    batch.put_in(family, b"a", b"1");
    let mut calls = 0;
    let size_of = |id| {
        calls += 1;
        // As another handle of the batch does on another thread.
        batch.put_in(family, b"b", b"2");
        (id == 0).then_some(8)
    };
    batch.update_timestamps(&[7; 8], size_of).unwrap();
    assert_eq!((batch.count(), calls), (2, 1));
    let mut iter = batch.iter_in(family);
    iter.seek_to_first();
    let mut keys = Vec::new();
    while let Some(entry) = iter.entry() {
        keys.push(entry.key.clone());
        iter.next();
    }
    assert_eq!(keys.len(), 2, "{keys:?}");
    batch.write_to(&db, &WriteOptions::default()).unwrap();
    let missing = batch.update_timestamps(&[7; 8], |_| None);
    assert_eq!(missing.unwrap_err().code(), Code::NotFound);
}

#[test]
fn a_batch_that_is_rebuilt_from_another_one_belongs_to_its_database() {
    let (first, second) = (database(&KeyOrder::Bytewise), database(&KeyOrder::Bytewise));
    let mut batch = WriteBatch::default();
    batch.put_in(first.default_family(), b"a", b"1");
    let indexed = IndexedBatch::new(true);
    indexed.rebuild_from(&batch).unwrap();
    indexed
        .with_batch(|batch| first.check_batch(batch))
        .unwrap();
    let refused = indexed.with_batch(|batch| second.check_batch(batch));
    assert_eq!(refused.unwrap_err().code(), Code::InvalidArgument);
}
