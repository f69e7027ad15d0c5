//! User-defined timestamps: writes, reads, history, and what is refused.

use std::path::Path;

use cairn_db::{
    Db, Family, FamilyDescriptor, OpenRequest, WriteBatch, open, open_and_trim_history,
};
use cairn_options::{
    BottommostLevelCompaction, CompactRangeOptions, DbOptions, FamilyOptions, ReadOptions,
    WriteOptions, merge_operators,
};
use cairn_platform::World;
use cairn_types::{Code, KeyOrder, Result};

use crate::basic::{db_options, small};

/// A timestamp of the built-in orders.
pub fn ts(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

/// Options of a read at a timestamp.
fn at(number: u64) -> ReadOptions {
    ReadOptions {
        timestamp: Some(ts(number).to_vec()),
        ..ReadOptions::default()
    }
}

fn stamped() -> FamilyOptions {
    FamilyOptions {
        comparator: KeyOrder::BytewiseU64Ts,
        merge_operator: Some(merge_operators::from_text("stringappend").expect("it is built in")),
        ..small()
    }
}

/// [`stamped`], with timestamps in memtables only.
fn stamped_in_memory() -> FamilyOptions {
    FamilyOptions {
        persist_user_defined_timestamps: false,
        ..stamped()
    }
}

/// Opens a database whose default family and whose family `reverse` have timestamps, but not its family `plain`.
fn opened(world: &World) -> Db {
    opened_as(world, &stamped(), open).expect("it opens")
}

/// [`opened`] with options of the default family, by `open`.
fn opened_as(
    world: &World,
    default: &FamilyOptions,
    open: impl Fn(&OpenRequest<'_>) -> Result<Db>,
) -> Result<Db> {
    let families = [
        FamilyDescriptor::new("default", default.clone()),
        FamilyDescriptor::new(
            "reverse",
            FamilyOptions {
                comparator: KeyOrder::ReverseBytewiseU64Ts,
                ..stamped()
            },
        ),
        FamilyDescriptor::new("plain", small()),
    ];
    let options = DbOptions {
        create_missing_column_families: true,
        ..db_options()
    };
    open(&OpenRequest {
        path: Path::new("/db"),
        options: &options,
        families: &families,
        others: None,
        read_only: false,
        world: world.clone(),
    })
}

fn flush(db: &Db) {
    for name in ["default", "reverse"] {
        let family = db.family(name).expect("it exists");
        family.flush().expect("it flushes");
    }
}

fn get(family: &Family, key: &[u8], number: u64) -> Option<(Vec<u8>, u64)> {
    let found = family.get_with_timestamp(key, &at(number));
    let found = found.expect("the read succeeds");
    found.map(|(value, stamp)| {
        let stamp = stamp.try_into().expect("timestamps have eight bytes");
        (value.to_vec(), u64::from_le_bytes(stamp))
    })
}

/// Keys, values and timestamps at a timestamp, in both directions.
fn scan(family: &Family, number: u64) -> Vec<(Vec<u8>, Vec<u8>, u64)> {
    let mut iter = family.iter_with(&at(number));
    let row = |iter: &cairn_db::Iter| {
        let stamp = iter.timestamp().try_into().expect("eight bytes");
        (
            iter.key().to_vec(),
            iter.value().to_vec(),
            u64::from_le_bytes(stamp),
        )
    };
    let (mut rows, mut back) = (Vec::new(), Vec::new());
    iter.seek_to_first();
    while iter.valid() {
        rows.push(row(&iter));
        iter.next();
    }
    iter.status().expect("the scan succeeds");
    iter.seek_to_last();
    while iter.valid() {
        back.push(row(&iter));
        iter.prev();
    }
    iter.status().expect("the scan succeeds");
    back.reverse();
    assert_eq!(rows, back);
    rows
}

fn fails<T>(result: Result<T>, code: Code, text: &str) {
    match result {
        Ok(_) => panic!("expected {text:?}"),
        Err(error) => {
            assert_eq!(error.code(), code, "{error}");
            assert!(error.to_string().contains(text), "{error}");
        }
    }
}

#[test]
fn a_read_sees_the_versions_up_to_its_timestamp() {
    let world = World::in_memory();
    let mut db = opened(&world);
    for name in ["default", "reverse"] {
        let family = db.family(name).expect("it exists");
        family.put_with_timestamp(b"a", &ts(10), b"a10").unwrap();
        family.put_with_timestamp(b"b", &ts(10), b"b10").unwrap();
        family.put_with_timestamp(b"a", &ts(300), b"a300").unwrap();
        family.delete_with_timestamp(b"b", &ts(20)).unwrap();
        family.put_with_timestamp(b"ab", &ts(30), b"ab30").unwrap();
        family.single_delete_with_timestamp(b"ab", &ts(40)).unwrap();
        family.merge_with_timestamp(b"m", &ts(5), b"x").unwrap();
        family.merge_with_timestamp(b"m", &ts(6), b"y").unwrap();
    }
    for round in 0..3 {
        for name in ["default", "reverse"] {
            let family = db.family(name).expect("it exists");
            let family = &family;
            assert_eq!(get(family, b"a", 9), None);
            assert_eq!(get(family, b"a", 10), Some((b"a10".to_vec(), 10)));
            assert_eq!(get(family, b"a", 299), Some((b"a10".to_vec(), 10)));
            assert_eq!(get(family, b"a", u64::MAX), Some((b"a300".to_vec(), 300)));
            assert_eq!(get(family, b"b", 19), Some((b"b10".to_vec(), 10)));
            assert_eq!(get(family, b"b", 20), None);
            assert_eq!(get(family, b"ab", 39), Some((b"ab30".to_vec(), 30)));
            assert_eq!(get(family, b"ab", 40), None);
            assert_eq!(get(family, b"m", 5), Some((b"x".to_vec(), 5)));
            assert_eq!(get(family, b"m", 6), Some((b"x,y".to_vec(), 6)));
            let keys: Vec<_> = scan(family, 30)
                .into_iter()
                .map(|row| (row.0, row.2))
                .collect();
            let mut expected = vec![
                (b"a".to_vec(), 10),
                (b"ab".to_vec(), 30),
                (b"m".to_vec(), 6),
            ];
            if name == "reverse" {
                expected.reverse();
            }
            assert_eq!(keys, expected);
            let many = family.multi_get_with_timestamps(&[&b"a"[..], b"b", b"m"], &at(20));
            let many: Vec<_> = many
                .into_iter()
                .map(|found| found.unwrap().map(|(value, stamp)| (value.to_vec(), stamp)))
                .collect();
            assert_eq!(
                many,
                [
                    Some((b"a10".to_vec(), ts(10).to_vec())),
                    None,
                    Some((b"x,y".to_vec(), ts(6).to_vec()))
                ]
            );
            let values = family.multi_get(&[&b"a"[..], b"b"], &at(20));
            assert_eq!(values[0].as_ref().unwrap().as_deref(), Some(&b"a10"[..]));
            assert_eq!(values[1].as_ref().unwrap().as_deref(), None);
        }
        match round {
            // From the log.
            0 => {
                drop(db);
                db = opened(&world);
            }
            // From tables.
            _ => flush(&db),
        }
    }
}

/// Regression: a read of several keys with their timestamps ignored `value_size_soft_limit`.
#[test]
fn the_size_of_values_with_timestamps_is_limited() {
    let db = opened(&World::in_memory());
    for key in [b"a", b"b", b"c"] {
        db.put_with_timestamp(key, &ts(10), b"value").unwrap();
    }
    let limited = |value_size_soft_limit| ReadOptions {
        value_size_soft_limit,
        ..at(10)
    };
    // The keys are read in their order.
    let keys = [&b"c"[..], b"none", b"b", b"a"];
    for (limit, present) in [(4, 1), (5, 2), (9, 2), (15, 3), (u64::MAX, 3)] {
        let options = limited(limit);
        let stamped = db.multi_get_with_timestamps(&keys, &options);
        let plain = db.multi_get(&keys, &options);
        let found = stamped.iter().filter(|found| matches!(found, Ok(Some(_))));
        assert_eq!(found.count(), present, "{limit}");
        for (stamped, plain) in stamped.into_iter().zip(plain) {
            match (stamped, plain) {
                (Ok(stamped), Ok(plain)) => {
                    let value = stamped.map(|(value, _)| value.to_vec());
                    assert_eq!(value.as_deref(), plain.as_deref());
                }
                (Err(stamped), Err(plain)) => {
                    assert_eq!(stamped.code(), Code::Aborted);
                    assert_eq!(stamped.to_string(), plain.to_string());
                }
                (stamped, plain) => panic!("{limit}: {:?}, {:?}", stamped.err(), plain.err()),
            }
        }
    }
}

#[test]
fn a_range_deletion_hides_older_timestamps_only() {
    let db = opened(&World::in_memory());
    for key in [b"a", b"b", b"c"] {
        db.put_with_timestamp(key, &ts(10), b"old").unwrap();
    }
    db.delete_range_with_timestamp(b"a", b"c", &ts(20)).unwrap();
    db.put_with_timestamp(b"b", &ts(30), b"new").unwrap();
    for _ in 0..2 {
        assert_eq!(scan(&db, 19).len(), 3);
        assert_eq!(scan(&db, 20), [(b"c".to_vec(), b"old".to_vec(), 10)]);
        assert_eq!(
            scan(&db, 30),
            [
                (b"b".to_vec(), b"new".to_vec(), 30),
                (b"c".to_vec(), b"old".to_vec(), 10)
            ]
        );
        assert_eq!(get(&db, b"a", 20), None);
        assert_eq!(get(&db, b"a", 19), Some((b"old".to_vec(), 10)));
        flush(&db);
    }
}

#[test]
fn a_batch_without_timestamps_gets_them_before_it_is_written() {
    let db = opened(&World::in_memory());
    let plain = db.family("plain").unwrap();
    let mut batch = WriteBatch::new();
    batch.put_in(&db, b"a", b"1");
    batch.merge_in(&db, b"b", b"2");
    batch.delete_in(&db, b"c");
    batch.delete_range_in(&db, b"d", b"e");
    batch.put_parts_in(&db, &[b"f", b"g"], &[b"3", b"4"]);
    batch.put_in(&plain, b"p", b"plain");
    assert!(batch.lacks_timestamps());
    fails(db.write(&batch), Code::InvalidArgument, "enables timestamp");
    let size = |id: u32| Some(if id == plain.id() { 0 } else { 8 });
    fails(
        batch.update_timestamps(b"short", size),
        Code::InvalidArgument,
        "size mismatch",
    );
    fails(
        batch.update_timestamps(&ts(7), |_| None),
        Code::NotFound,
        "column family",
    );
    fails(
        batch.update_timestamps(b"", size),
        Code::InvalidArgument,
        "empty",
    );
    assert!(batch.lacks_timestamps());
    batch.update_timestamps(&ts(7), size).unwrap();
    assert!(!batch.lacks_timestamps());
    db.write(&batch).unwrap();
    assert_eq!(get(&db, b"a", 7), Some((b"1".to_vec(), 7)));
    assert_eq!(get(&db, b"b", 7), Some((b"2".to_vec(), 7)));
    assert_eq!(get(&db, b"fg", 7), Some((b"34".to_vec(), 7)));
    assert_eq!(plain.get(b"p").unwrap().as_deref(), Some(&b"plain"[..]));
    // The serialized form can be written, too.
    let copy = WriteBatch::from_data(batch.data()).unwrap();
    db.write(&copy).unwrap();
    let mut short = WriteBatch::new();
    short.put(b"short", b"");
    let short = WriteBatch::from_data(short.data()).unwrap();
    fails(db.write(&short), Code::InvalidArgument, "shorter");
}

#[test]
fn calls_with_and_without_timestamps_are_refused_by_the_other_kind_of_family() {
    let db = opened(&World::in_memory());
    let plain = db.family("plain").unwrap();
    let invalid = Code::InvalidArgument;
    let needs = "cannot call this method on column family default that enables timestamp";
    fails(db.put(b"k", b""), invalid, needs);
    fails(db.delete(b"k"), invalid, needs);
    fails(db.single_delete(b"k"), invalid, needs);
    fails(db.merge(b"k", b""), invalid, needs);
    fails(db.delete_range(b"k", b"l"), invalid, needs);
    fails(db.put_entity(b"k", &[]), invalid, needs);
    fails(db.timed_put(b"k", b"", 1), Code::NotSupported, "timed puts");
    fails(db.get(b"k"), invalid, needs);
    fails(db.get_entity(b"k", &ReadOptions::default()), invalid, needs);
    let mut iter = db.iter();
    iter.seek_to_first();
    assert!(!iter.valid());
    fails(iter.status(), invalid, needs);
    for found in db.multi_get(&[b"k"], &ReadOptions::default()) {
        fails(found, invalid, needs);
    }
    let mut batch = WriteBatch::new();
    batch.put(b"key", b"");
    fails(db.write(&batch), invalid, needs);
    batch.clear();
    batch.put_with_timestamp(&db, b"key", &ts(1), b"");
    batch.put(b"key", b"");
    fails(
        db.write_with(&batch, &WriteOptions::default()),
        invalid,
        needs,
    );

    let has_none = "column family plain that does not enable timestamp";
    fails(
        plain.put_with_timestamp(b"k", &ts(1), b""),
        invalid,
        has_none,
    );
    fails(plain.delete_with_timestamp(b"k", &ts(1)), invalid, has_none);
    fails(plain.get_with(b"k", &at(1)), invalid, has_none);
    let mut iter = plain.iter_with(&at(1));
    iter.seek_to_first();
    fails(iter.status(), invalid, has_none);
    let wrong = "Timestamp sizes mismatch: expect 8, 3 given";
    fails(db.put_with_timestamp(b"k", b"abc", b""), invalid, wrong);
    let short = ReadOptions {
        timestamp: Some(b"abc".to_vec()),
        ..ReadOptions::default()
    };
    fails(db.get_with(b"k", &short), invalid, wrong);
    // A batch for another database, in which the family has no timestamps.
    let mut batch = WriteBatch::new();
    let other = opened(&World::in_memory());
    batch.put_with_timestamp(&other.family("reverse").unwrap(), b"k", &ts(1), b"");
    db.write(&batch).unwrap();
    let plain_db = crate::basic::open_at(&World::in_memory(), &[]).unwrap();
    batch.clear();
    batch.put_with_timestamp(&other, b"k", &ts(1), b"");
    fails(plain_db.write(&batch), invalid, "does not enable timestamp");
}

/// All versions between two timestamps, in both directions: key, timestamp, and the value unless it is a deletion.
fn versions(family: &Family, from: u64, to: u64) -> Vec<(Vec<u8>, u64, Option<Vec<u8>>)> {
    let mut iter = family.iter_with(&ReadOptions {
        iter_start_ts: Some(ts(from).to_vec()),
        ..at(to)
    });
    let row = |iter: &cairn_db::Iter| {
        let stamp = iter.timestamp().try_into().expect("eight bytes");
        let internal = iter.internal_key().expect("it is valid");
        assert!(internal.starts_with(iter.key()));
        assert_eq!(internal.len(), iter.key().len() + 16);
        assert_eq!(iter.raw_key(), internal);
        let value = (!iter.is_deletion()).then(|| iter.value().to_vec());
        (iter.key().to_vec(), u64::from_le_bytes(stamp), value)
    };
    let (mut rows, mut back) = (Vec::new(), Vec::new());
    iter.seek_to_first();
    while iter.valid() {
        rows.push(row(&iter));
        iter.next();
    }
    iter.status().expect("the scan succeeds");
    iter.seek_to_last();
    while iter.valid() {
        back.push(row(&iter));
        // A change of direction at each version.
        if back.len() > 1 {
            iter.next();
            assert_eq!(row(&iter), back[back.len() - 2]);
            iter.prev();
            assert_eq!(row(&iter), back[back.len() - 1]);
        }
        iter.prev();
    }
    iter.status().expect("the scan succeeds");
    back.reverse();
    assert_eq!(rows, back);
    rows
}

#[test]
fn an_iterator_with_a_start_timestamp_returns_all_versions() {
    let db = opened(&World::in_memory());
    let key = |name: &str| name.as_bytes().to_vec();
    db.put_with_timestamp(b"a", &ts(1), b"a1").unwrap();
    db.put_with_timestamp(b"a", &ts(2), b"wrong").unwrap();
    db.put_with_timestamp(b"a", &ts(2), b"a2").unwrap();
    db.flush().unwrap();
    db.put_with_timestamp(b"b", &ts(3), b"b3").unwrap();
    db.delete_with_timestamp(b"b", &ts(4)).unwrap();
    db.put_with_timestamp(b"b", &ts(5), b"b5").unwrap();
    db.put_with_timestamp(b"c", &ts(5), b"c5").unwrap();
    db.delete_range_with_timestamp(b"c", b"d", &ts(6)).unwrap();
    db.put_with_timestamp(b"c", &ts(7), b"c7").unwrap();
    for _ in 0..2 {
        let a = |stamp: u64, value: &str| (key("a"), stamp, Some(key(value)));
        let b = |stamp: u64, value: &str| (key("b"), stamp, Some(key(value)));
        assert_eq!(
            versions(&db, 0, 9),
            [
                a(2, "a2"),
                a(1, "a1"),
                b(5, "b5"),
                (key("b"), 4, None),
                b(3, "b3"),
                (key("c"), 7, Some(key("c7"))),
            ]
        );
        assert_eq!(
            versions(&db, 2, 4),
            [a(2, "a2"), (key("b"), 4, None), b(3, "b3")]
        );
        assert_eq!(versions(&db, 9, 4), []);
        let mut iter = db.iter_with(&ReadOptions {
            iter_start_ts: Some(ts(0).to_vec()),
            ..at(4)
        });
        iter.seek(b"b");
        assert_eq!((iter.key(), iter.timestamp()), (&b"b"[..], &ts(4)[..]));
        iter.seek_for_prev(b"b");
        assert_eq!((iter.key(), iter.timestamp()), (&b"b"[..], &ts(3)[..]));
        db.flush().unwrap();
    }
    // An operand has the value of a read at its timestamp.
    db.merge_with_timestamp(b"m", &ts(1), b"x").unwrap();
    db.merge_with_timestamp(b"m", &ts(2), b"y").unwrap();
    let merged: Vec<_> = versions(&db, 0, 9)
        .into_iter()
        .filter(|(name, ..)| name == b"m")
        .collect();
    assert_eq!(
        merged,
        [
            (key("m"), 2, Some(key("x,y"))),
            (key("m"), 1, Some(key("x")))
        ]
    );
    let mut iter = db.iter_with(&ReadOptions {
        iter_start_ts: Some(b"x".to_vec()),
        ..at(9)
    });
    iter.seek(b"m");
    fails(
        iter.status(),
        Code::InvalidArgument,
        "Timestamp sizes mismatch",
    );
}

#[test]
fn a_scan_merges_operands_down_to_a_range_deletion_between_them() {
    let db = opened(&World::in_memory());
    db.merge_with_timestamp(b"m", &ts(1), b"gone").unwrap();
    db.delete_range_with_timestamp(b"a", b"z", &ts(2)).unwrap();
    db.merge_with_timestamp(b"m", &ts(3), b"x").unwrap();
    db.merge_with_timestamp(b"m", &ts(4), b"y").unwrap();
    assert_eq!(scan(&db, 9), [(b"m".to_vec(), b"x,y".to_vec(), 4)]);
    assert_eq!(get(&db, b"m", 9), Some((b"x,y".to_vec(), 4)));
    assert_eq!(scan(&db, 1), [(b"m".to_vec(), b"gone".to_vec(), 1)]);
}

fn compact(family: &Family) {
    let options = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    family
        .compact_range(None, None, &options)
        .expect("it compacts");
}

fn value(text: &str) -> Option<Vec<u8>> {
    Some(text.as_bytes().to_vec())
}

#[test]
fn compactions_keep_only_the_newest_version_below_full_history_ts_low() {
    let world = World::in_memory();
    let db = opened(&world);
    assert_eq!(db.full_history_ts_low().unwrap(), b"");
    for number in 1..=5 {
        let text = format!("a{number}");
        db.put_with_timestamp(b"a", &ts(number), text.as_bytes())
            .unwrap();
        db.flush().unwrap();
    }
    db.put_with_timestamp(b"b", &ts(1), b"b1").unwrap();
    db.delete_with_timestamp(b"b", &ts(2)).unwrap();
    db.put_with_timestamp(b"c", &ts(1), b"c1").unwrap();
    db.put_with_timestamp(b"d", &ts(2), b"d2").unwrap();
    db.delete_range_with_timestamp(b"c", b"d", &ts(3)).unwrap();
    db.delete_range_with_timestamp(b"d", b"e", &ts(4)).unwrap();
    db.merge_with_timestamp(b"m", &ts(1), b"x").unwrap();
    db.merge_with_timestamp(b"m", &ts(2), b"y").unwrap();
    db.merge_with_timestamp(b"m", &ts(4), b"z").unwrap();
    compact(&db);
    // Without a low timestamp, all history is kept.
    assert_eq!(get(&db, b"a", 1), Some((b"a1".to_vec(), 1)));
    assert_eq!(get(&db, b"b", 1), Some((b"b1".to_vec(), 1)));
    assert_eq!(get(&db, b"c", 2), Some((b"c1".to_vec(), 1)));
    assert_eq!(get(&db, b"m", 4), Some((b"x,y,z".to_vec(), 4)));

    let invalid = Code::InvalidArgument;
    db.increase_full_history_ts_low(&ts(4)).unwrap();
    db.increase_full_history_ts_low(&ts(4)).unwrap();
    assert_eq!(db.full_history_ts_low().unwrap(), ts(4));
    let lower = db.increase_full_history_ts_low(&ts(3));
    fails(
        lower,
        invalid,
        "Current full_history_ts_low: 4 is higher than provided ts: 3",
    );
    fails(
        db.increase_full_history_ts_low(b"x"),
        invalid,
        "expect 8, 1 given",
    );
    let plain = db.family("plain").unwrap();
    fails(
        plain.increase_full_history_ts_low(&ts(1)),
        invalid,
        "does not enable timestamp",
    );
    fails(
        plain.full_history_ts_low(),
        invalid,
        "does not enable timestamp",
    );
    let old = "Read timestamp: 3 is smaller than full_history_ts_low: 4";
    fails(db.get_with(b"a", &at(3)), invalid, old);
    let mut iter = db.iter_with(&at(3));
    iter.seek_to_first();
    fails(iter.status(), invalid, old);
    drop((iter, plain));
    for found in db.multi_get(&[b"a"], &at(3)) {
        fails(found, invalid, old);
    }

    compact(&db);
    let expected = [
        (b"a".to_vec(), 5, value("a5")),
        (b"a".to_vec(), 4, value("a4")),
        (b"a".to_vec(), 0, value("a3")),
    ];
    let of_a: Vec<_> = {
        let end = ReadOptions {
            iterate_upper_bound: Some(b"m".to_vec()),
            iter_start_ts: Some(ts(0).to_vec()),
            ..at(9)
        };
        let mut iter = db.iter_with(&end);
        iter.seek_to_first();
        let mut rows = Vec::new();
        while iter.valid() {
            let stamp = iter.timestamp().try_into().unwrap();
            let value = (!iter.is_deletion()).then(|| iter.value().to_vec());
            rows.push((iter.key().to_vec(), u64::from_le_bytes(stamp), value));
            iter.next();
        }
        iter.status().unwrap();
        rows
    };
    // The deletion of b and the range deletion of c are below the timestamp; that of d is not.
    assert_eq!(of_a, expected);
    assert_eq!(get(&db, b"d", 4), None);
    assert_eq!(get(&db, b"m", 4), Some((b"x,y,z".to_vec(), 4)));
    assert_eq!(get(&db, b"a", 4), Some((b"a4".to_vec(), 4)));
    drop(db);

    // The timestamp survives, and a compaction raises it.
    let db = opened(&world);
    assert_eq!(db.full_history_ts_low().unwrap(), ts(4));
    let raise = CompactRangeOptions {
        full_history_ts_low: Some(ts(9).to_vec()),
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    fails(
        db.compact_range(Some(b"a"), None, &raise),
        invalid,
        "Cannot specify compaction range",
    );
    db.compact_range(None, None, &raise).unwrap();
    assert_eq!(
        scan(&db, 9),
        [
            (b"a".to_vec(), b"a5".to_vec(), 0),
            (b"m".to_vec(), b"x,y,z".to_vec(), 0)
        ]
    );
    assert_eq!(db.property_number("rocksdb.estimate-num-keys"), Some(2));
}

#[test]
fn a_snapshot_keeps_the_old_version_that_it_sees() {
    let db = opened(&World::in_memory());
    db.put_with_timestamp(b"k", &ts(1), b"1").unwrap();
    let snapshot = db.snapshot();
    db.put_with_timestamp(b"k", &ts(2), b"2").unwrap();
    db.delete_with_timestamp(b"k", &ts(3)).unwrap();
    db.increase_full_history_ts_low(&ts(5)).unwrap();
    compact(&db);
    let seen = ReadOptions {
        snapshot: Some(snapshot.sequence()),
        ..at(5)
    };
    assert_eq!(
        db.get_with(b"k", &seen).unwrap().as_deref(),
        Some(&b"1"[..])
    );
    assert_eq!(get(&db, b"k", 5), None);
    drop(snapshot);
    compact(&db);
    assert_eq!(versions(&db, 0, 9), []);
    assert_eq!(db.property_number("rocksdb.total-sst-files-size"), Some(0));
}

#[test]
fn an_open_can_drop_newer_versions() {
    let world = World::in_memory();
    let db = opened(&world);
    db.put_with_timestamp(b"a", &ts(1), b"a1").unwrap();
    db.flush().unwrap();
    compact(&db);
    db.put_with_timestamp(b"a", &ts(2), b"a2").unwrap();
    db.put_with_timestamp(b"b", &ts(3), b"b3").unwrap();
    db.flush().unwrap();
    db.delete_range_with_timestamp(b"a", b"z", &ts(4)).unwrap();
    db.put_with_timestamp(b"c", &ts(5), b"c5").unwrap();
    db.family("plain").unwrap().put(b"p", b"1").unwrap();
    drop(db);
    let wrong = opened_as(&world, &stamped(), |request| {
        open_and_trim_history(request, b"x")
    });
    fails(wrong, Code::InvalidArgument, "Timestamp sizes mismatch");
    let keeps_memtables = opened_as(&world, &stamped(), |request| {
        let options = DbOptions {
            avoid_flush_during_recovery: true,
            ..request.options.clone()
        };
        let request = OpenRequest {
            options: &options,
            path: request.path,
            families: request.families,
            others: None,
            read_only: false,
            world: request.world.clone(),
        };
        open_and_trim_history(&request, &ts(2))
    });
    fails(
        keeps_memtables,
        Code::InvalidArgument,
        "avoid_flush_during_recovery",
    );
    let db = opened_as(&world, &stamped(), |request| {
        open_and_trim_history(request, &ts(2))
    })
    .unwrap();
    let expected = [
        (b"a".to_vec(), 2, value("a2")),
        (b"a".to_vec(), 1, value("a1")),
    ];
    assert_eq!(versions(&db, 0, 9), expected);
    assert!(db.family("plain").unwrap().get(b"p").unwrap().is_some());
    drop(db);
    assert_eq!(versions(&opened(&world), 0, 9), expected);
}

/// The automatic compaction that the open starts does not trim its output.
#[test]
fn newer_versions_are_dropped_from_tables_of_a_compaction_that_the_open_started() {
    let world = World::in_memory();
    let quiet = FamilyOptions {
        disable_auto_compactions: true,
        ..stamped()
    };
    let db = opened_as(&world, &quiet, open).unwrap();
    for number in 1..9 {
        db.put_with_timestamp(b"a", &ts(number), b"a").unwrap();
        db.flush().unwrap();
    }
    drop(db);
    let db = opened_as(&world, &stamped(), |request| {
        open_and_trim_history(request, &ts(2))
    })
    .unwrap();
    let left = [2, 1].map(|number| (b"a".to_vec(), number, value("a")));
    assert_eq!(versions(&db, 0, 9), left);
}

#[test]
fn tables_without_timestamps_keep_the_newest_version() {
    let world = World::in_memory();
    let in_memory = stamped_in_memory();
    let opened = || opened_as(&world, &in_memory, open);
    let db = opened().unwrap();
    for number in [5, 7] {
        db.put_with_timestamp(b"a", &ts(number), number.to_string().as_bytes())
            .unwrap();
        db.merge_with_timestamp(b"m", &ts(number), number.to_string().as_bytes())
            .unwrap();
    }
    db.put_with_timestamp(b"b", &ts(8), b"8").unwrap();
    db.delete_with_timestamp(b"b", &ts(9)).unwrap();
    db.delete_range_with_timestamp(b"x", b"y", &ts(10)).unwrap();
    assert_eq!(get(&db, b"a", 5), Some((b"5".to_vec(), 5)));
    drop(db);
    // Recovery flushes.
    let db = opened().unwrap();
    for round in 0..3 {
        assert_eq!(db.full_history_ts_low().unwrap(), ts(11 + round * 10));
        let stamp = 11 + round * 10;
        assert_eq!(
            scan(&db, stamp),
            [
                (b"a".to_vec(), b"7".to_vec(), 0),
                (b"m".to_vec(), b"5,7".to_vec(), 0)
            ]
        );
        fails(
            db.get_with(b"a", &at(stamp - 1)),
            Code::InvalidArgument,
            "full_history_ts_low",
        );
        db.put_with_timestamp(b"c", &ts(stamp + 8), b"gone")
            .unwrap();
        assert_eq!(
            get(&db, b"c", stamp + 8),
            Some((b"gone".to_vec(), stamp + 8))
        );
        db.delete_with_timestamp(b"c", &ts(stamp + 9)).unwrap();
        db.flush().unwrap();
        if round == 1 {
            compact(&db);
        }
    }
    drop(db);
    // The flag of the tables applies to a family that is opened with the default.
    let db = self::opened(&world);
    assert!(
        !db.default_family()
            .options()
            .persist_user_defined_timestamps
    );
}

/// Regression: a read-only opening left out the timestamps of such entries, but not the history before them, so that reads
/// in the past returned later versions.
#[test]
fn a_read_only_opening_has_the_history_of_an_opening_for_writing() {
    let world = World::in_memory();
    let in_memory = stamped_in_memory();
    let db = opened_as(&world, &in_memory, open).unwrap();
    for number in [10, 20] {
        let value = number.to_string();
        db.put_with_timestamp(b"a", &ts(number), value.as_bytes())
            .unwrap();
    }
    db.close().unwrap();
    drop(db);
    let read_only = |request: &OpenRequest<'_>| {
        open(&OpenRequest {
            read_only: true,
            world: request.world.clone(),
            ..*request
        })
    };
    for db in [
        opened_as(&world, &in_memory, read_only).unwrap(),
        opened_as(&world, &in_memory, open).unwrap(),
    ] {
        assert_eq!(db.full_history_ts_low().unwrap(), ts(21));
        fails(
            db.get_with(b"a", &at(15)),
            Code::InvalidArgument,
            "full_history_ts_low",
        );
        assert_eq!(get(&db, b"a", 25), Some((b"20".to_vec(), 0)));
        db.close().unwrap();
    }
}

/// The flush of a recovery is recorded in the reused MANIFEST.
#[test]
fn a_reused_manifest_knows_the_history_of_tables_without_timestamps() {
    let world = World::in_memory();
    let in_memory = stamped_in_memory();
    let reusing = || {
        opened_as(&world, &in_memory, |request| {
            let options = DbOptions {
                reuse_manifest_on_open: true,
                ..request.options.clone()
            };
            open(&OpenRequest {
                options: &options,
                world: request.world.clone(),
                ..*request
            })
        })
    };
    let db = reusing().unwrap();
    for number in [5, 7] {
        db.put_with_timestamp(b"a", &ts(number), b"v").unwrap();
    }
    db.close().unwrap();
    drop(db);
    for _ in 0..2 {
        let db = reusing().unwrap();
        assert_eq!(db.full_history_ts_low().unwrap(), ts(8));
        fails(
            db.get_with(b"a", &at(5)),
            Code::InvalidArgument,
            "full_history_ts_low",
        );
        db.close().unwrap();
    }
}

/// The range of a manual compaction has no timestamps, and neither have the bounds of range deletions in memtables.
#[test]
fn a_manual_compaction_flushes_range_deletions_in_its_range() {
    let db = opened(&World::in_memory());
    for (key, number) in [(&b"below"[..], 1), (b"chalk", 1), (b"slate", 1)] {
        db.put_with_timestamp(key, &ts(number), b"v").unwrap();
    }
    db.flush().unwrap();
    db.delete_range_with_timestamp(b"c", b"d", &ts(2)).unwrap();
    let unflushed = || db.property_number("rocksdb.num-entries-active-mem-table");
    let all = CompactRangeOptions::default();
    db.compact_range(Some(b"e"), Some(b"z"), &all).unwrap();
    assert_eq!(unflushed(), Some(1), "the deletion is outside of the range");
    db.compact_range(Some(b"ca"), Some(b"z"), &all).unwrap();
    assert_eq!(unflushed(), Some(0), "the deletion is in the range");
}

/// `a` and `b`, in the order of `family`, which is descending in `reverse`.
fn ordered<'k>(family: &Family, a: &'k [u8], b: &'k [u8]) -> (&'k [u8], &'k [u8]) {
    match family.name() {
        "reverse" => (b, a),
        _ => (a, b),
    }
}

/// Makes tables of `apple-...` and of `pear-...` below level 0.
fn two_tables(family: &Family) {
    let tables = [
        (
            [&b"apple-000001"[..], b"apple-000002"],
            (&b"a"[..], &b"b"[..]),
        ),
        ([&b"pear-0000001"[..], b"pear-0000002"], (b"p", b"q")),
    ];
    for (keys, (a, b)) in tables {
        for key in keys {
            family
                .put_with_timestamp(key, &ts(1), b"v")
                .expect("the world has no faults");
        }
        family.flush().expect("the world has no faults");
        let (begin, end) = ordered(family, a, b);
        let options = CompactRangeOptions::default();
        family
            .compact_range(Some(begin), Some(end), &options)
            .expect("the world has no faults");
    }
    assert_eq!(
        family
            .properties_of_all_tables()
            .expect("the world has no faults")
            .len(),
        2
    );
}

#[test]
fn ranges_of_tables_are_keys_without_timestamps() {
    let db = opened(&World::in_memory());
    for name in ["default", "reverse"] {
        let family = db.family(name).unwrap();
        two_tables(&family);
        let tables = |a: &[u8], b: &[u8]| {
            let range = ordered(&family, a, b);
            family
                .properties_of_tables_in_range(&[range])
                .unwrap()
                .len()
        };
        assert_eq!(tables(b"apple", b"apple-999999"), 1, "{name}");
        assert_eq!(tables(b"apple-000002", b"pear"), 1, "{name}");
        assert_eq!(tables(b"apple-000002", b"pear-0000001"), 2, "{name}");
        assert_eq!(tables(b"banana", b"orange"), 0, "{name}");
    }
}

#[test]
fn deletions_of_files_take_ranges_without_timestamps() {
    let db = opened(&World::in_memory());
    for name in ["default", "reverse"] {
        let family = db.family(name).unwrap();
        two_tables(&family);
        let left = |a: &[u8], b: &[u8], include_end| {
            let (begin, end) = ordered(&family, a, b);
            let range = (Some(begin), Some(end));
            family
                .delete_files_in_ranges(&[range], include_end)
                .unwrap();
            family.properties_of_all_tables().unwrap().len()
        };
        // Neither table is entirely in one of these ranges.
        assert_eq!(left(b"apple-000002", b"orange", true), 2, "{name}");
        assert_eq!(left(b"banana", b"pear-0000001", true), 2, "{name}");
        assert_eq!(left(b"apple-000001", b"apple-000002", false), 2, "{name}");
        assert_eq!(left(b"apple-000001", b"apple-000002", true), 1, "{name}");
        assert_eq!(get(&family, b"pear-0000001", 9), Some((b"v".to_vec(), 1)));
        assert_eq!(get(&family, b"apple-000001", 9), None);
    }
}

/// Log data belongs to no family: it does not matter whether keys of the default family have timestamps.
#[test]
fn log_data_needs_no_timestamp() {
    let world = World::in_memory();
    let db = opened(&world);
    let mut batch = WriteBatch::new();
    batch.put_log_data(b"alone");
    db.write(&batch).unwrap();
    let plain = db.family("plain").unwrap();
    batch.put_in(&plain, b"k", b"v");
    db.write(&batch).unwrap();
    drop((plain, db));
    let db = opened(&world);
    let plain = db.family("plain").unwrap();
    assert_eq!(plain.get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
}
