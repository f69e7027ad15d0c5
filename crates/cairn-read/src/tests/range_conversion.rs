//! Iterators that turn runs of deletions into range tombstones: no read at any sequence number changes.

use cairn_options::ReadOptions;
use cairn_types::SequenceNumber;
use proptest::prelude::*;

use super::world::{Change, Shape, World};
use super::{Pairs, backward, change, check, forward, key, shape, shape_of};
use crate::db_iter::DbIter;

/// A write, most of them deletions.
fn deleting_change() -> impl Strategy<Value = Change> {
    prop_oneof![
        2 => change(),
        2 => key().prop_map(Change::Delete),
        1 => key().prop_map(Change::SingleDelete),
    ]
}

/// A scan: the sequence number, the kind, a target and the bounds.
type Scan = (u64, u8, Vec<u8>, Option<Vec<u8>>, Option<Vec<u8>>);

fn scan() -> impl Strategy<Value = Scan> {
    let bound = || proptest::option::weighted(0.3, key());
    (0u64..100, 0u8..6, key(), bound(), bound())
}

/// An iterator that may add range tombstones.
fn converting_iter(world: &World, seq: u64, options: &ReadOptions) -> Box<DbIter> {
    let mut iter = DbIter::new(world.view.clone(), SequenceNumber(seq), options);
    iter.allow_range_conversion(SequenceNumber(seq));
    iter
}

/// Runs the scan, and compares it with the map.
fn run(world: &World, last: u64, scan: Scan) {
    let (seq, kind, target, lower, upper) = scan;
    let (seq, order) = (seq.min(last), world.order());
    let same_prefix = kind >= 4;
    let options = ReadOptions {
        iterate_lower_bound: lower.clone(),
        iterate_upper_bound: upper.clone(),
        prefix_same_as_start: same_prefix,
        auto_prefix_mode: kind == 3,
        total_order_seek: !same_prefix && kind != 3,
        ..ReadOptions::default()
    };
    let within = |key: &Vec<u8>| {
        lower
            .as_ref()
            .is_none_or(|it| order.compare(key, it).is_ge())
            && upper
                .as_ref()
                .is_none_or(|it| order.compare(key, it).is_lt())
            && (!same_prefix || key[0] == target[0])
    };
    let expected = world.model(seq).into_iter();
    let expected: Pairs = expected.filter(|(key, _)| within(key)).collect();
    let mut iter = converting_iter(world, seq, &options);
    let (found, expected) = match kind {
        0 => {
            iter.seek_to_first();
            (forward(&mut iter), &expected[..])
        }
        1 => {
            iter.seek_to_last();
            (backward(&mut iter), &expected[..])
        }
        2 | 5 => {
            iter.seek_for_prev(&target);
            let to = expected.partition_point(|(key, _)| order.compare(key, &target).is_le());
            (backward(&mut iter), &expected[..to])
        }
        _ => {
            iter.seek(&target);
            let from = expected.partition_point(|(key, _)| order.compare(key, &target).is_lt());
            (forward(&mut iter), &expected[from..])
        }
    };
    assert_eq!(found, expected, "scan {kind} at {seq}");
    // Back and forth around the last position.
    iter.seek(&target);
    for back in [false, true, true, false, true] {
        match (iter.valid(), back) {
            (false, _) => break,
            (true, false) => iter.next(),
            (true, true) => iter.prev(),
        }
    }
    iter.status().unwrap();
    iter.recycle();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn scans_that_add_range_tombstones_change_no_read(
        changes in proptest::collection::vec(deleting_change(), 1..90),
        shape in shape(),
        layers in proptest::collection::vec(0usize..25, 0..4),
        threshold in 1u32..4,
        scans in proptest::collection::vec(scan(), 1..8),
        probes in proptest::collection::vec(key(), 1..4),
    ) {
        let last = changes.len() as u64;
        let world = World::new(&changes, &Shape { layers, ..shape }).converting(threshold);
        for scan in scans {
            run(&world, last, scan);
        }
        for seq in (0..=last).step_by(3).chain([last]) {
            check(&world, seq, &probes);
        }
    }
}

/// A world with values of `a` to `z` in level 1, deletions of `c` to `k` in a level-0 table, and a memtable with `y`.
fn with_run(threshold: u32) -> (World, u64) {
    let letters = |range: std::ops::RangeInclusive<u8>| range.map(|letter| vec![letter]);
    let values = letters(b'a'..=b'z').map(|key| Change::Put(key, b"1".to_vec()));
    let deletions = letters(b'c'..=b'k').map(Change::Delete);
    let new = [
        Change::Put(b"x".to_vec(), b"2".to_vec()),
        Change::Put(b"y".to_vec(), b"2".to_vec()),
    ];
    let changes: Vec<Change> = values.chain(deletions).chain(new).collect();
    let world = World::new(&changes, &shape_of(&[0, 26, 9])).converting(threshold);
    (world, changes.len() as u64)
}

/// The range tombstones in the active memtable.
fn added(world: &World) -> Vec<(String, String, u64)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let all = world.view.memtable.raw_range_tombstones().into_iter();
    all.map(|one| (text(&one.start), text(&one.end), one.seq.0))
        .collect()
}

fn scanned(world: &World, seq: u64, options: &ReadOptions, scan: fn(&mut DbIter)) {
    let mut iter = converting_iter(world, seq, options);
    scan(&mut iter);
    iter.status().unwrap();
}

fn tombstone(start: &str, end: &str, seq: u64) -> (String, String, u64) {
    (start.to_owned(), end.to_owned(), seq)
}

#[test]
fn a_long_run_becomes_a_range_tombstone_up_to_the_next_value() {
    let (world, last) = with_run(9);
    let all = ReadOptions::default();
    let first_to_last = |iter: &mut DbIter| {
        iter.seek_to_first();
        forward(iter);
    };
    scanned(&world, last, &all, first_to_last);
    assert_eq!(added(&world), [tombstone("c", "l", last)]);
    // Neither the same iterator nor another one adds it again.
    scanned(&world, last, &all, first_to_last);
    assert_eq!(added(&world).len(), 1);
    let (world, last) = with_run(10);
    scanned(&world, last, &all, first_to_last);
    assert_eq!(added(&world), []);
}

#[test]
fn an_iterator_that_scans_again_adds_nothing() {
    let (world, last) = with_run(2);
    let mut iter = converting_iter(&world, last, &ReadOptions::default());
    for _ in 0..3 {
        iter.seek_to_first();
        forward(&mut iter);
        iter.seek_to_last();
        backward(&mut iter);
    }
    assert_eq!(added(&world), [tombstone("c", "l", last)]);
}

#[test]
fn backward_the_range_ends_at_the_key_that_the_step_leaves() {
    let (world, last) = with_run(9);
    scanned(&world, last, &ReadOptions::default(), |iter| {
        iter.seek_to_last();
        backward(iter);
    });
    assert_eq!(added(&world), [tombstone("c", "l", last)]);
}

#[test]
fn at_a_bound_the_range_ends_at_a_deleted_key() {
    let (world, last) = with_run(3);
    let bounded = ReadOptions {
        iterate_lower_bound: Some(b"d".to_vec()),
        iterate_upper_bound: Some(b"i".to_vec()),
        ..ReadOptions::default()
    };
    scanned(&world, last, &bounded, |iter| iter.seek_to_first());
    assert_eq!(added(&world), [tombstone("d", "h", last)]);
    let (world, last) = with_run(3);
    scanned(&world, last, &bounded, |iter| iter.seek_to_last());
    assert_eq!(added(&world), [tombstone("d", "h", last)]);
}

#[test]
fn a_scan_older_than_the_memtable_adds_nothing() {
    let (world, last) = with_run(2);
    // The memtable has the last write only.
    for (seq, count) in [(last - 1, 0), (last, 1)] {
        scanned(&world, seq, &ReadOptions::default(), |iter| {
            iter.seek_to_first();
            forward(iter);
        });
        assert_eq!(added(&world).len(), count);
    }
}

#[test]
fn iterators_that_may_not_see_all_keys_add_nothing() {
    let limited = [
        ReadOptions {
            ignore_range_deletions: true,
            ..ReadOptions::default()
        },
        ReadOptions {
            tailing: true,
            ..ReadOptions::default()
        },
        ReadOptions {
            read_tier: cairn_options::ReadTier::Memtable,
            ..ReadOptions::default()
        },
        // The step ends with an error in the run.
        ReadOptions {
            max_skippable_internal_keys: 4,
            ..ReadOptions::default()
        },
    ];
    for options in limited {
        let (world, last) = with_run(2);
        let mut iter = converting_iter(&world, last, &options);
        iter.seek_to_first();
        while iter.valid() {
            iter.next();
        }
        assert_eq!(added(&world), [], "{options:?}");
    }
    // Writes up to a number that is not published yet may follow.
    let (world, last) = with_run(2);
    let mut iter = converting_iter(&world, last, &ReadOptions::default());
    iter.allow_range_conversion(SequenceNumber(last - 1));
    iter.seek_to_first();
    forward(&mut iter);
    assert_eq!(added(&world), []);
}
