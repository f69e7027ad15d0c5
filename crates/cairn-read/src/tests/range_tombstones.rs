//! Range tombstones in all kinds of sources, compared with a map, and the cost of reads among them
//! in key comparisons.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use cairn_format::key::LookupKey;
use cairn_options::ReadOptions;
use cairn_types::{Comparator, KeyOrder, SequenceNumber};
use proptest::prelude::*;

use super::world::{Change, Shape, World};
use super::{Pairs, backward, change, check, forward, key, shape, shape_of};
use crate::db_iter::DbIter;
use crate::get::get;

/// A write, one in three a range deletion.
fn ranged_change() -> impl Strategy<Value = Change> {
    let range = (key(), key()).prop_map(|(start, end)| Change::DeleteRange(start, end));
    prop_oneof![2 => change(), 1 => range]
}

/// Keys with 8-byte timestamps.
fn timed_change() -> impl Strategy<Value = (u8, u8, u8)> {
    (0u8..8, 0u8..10, 0u8..10)
}

fn with_ts(key: u8, ts: u64) -> Vec<u8> {
    [&[b'a' + key][..], &ts.to_le_bytes()].concat()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    #[test]
    fn many_range_tombstones_match_the_map(
        changes in proptest::collection::vec(ranged_change(), 1..120),
        shape in shape(),
        wide in proptest::collection::vec(0usize..30, 0..4),
        probes in proptest::collection::vec(key(), 1..6),
        snapshot in 0u64..120,
    ) {
        let world = World::new(&changes, &Shape { layers: wide, ..shape });
        check(&world, changes.len() as u64, &probes);
        check(&world, snapshot.min(changes.len() as u64), &probes);
    }

    #[test]
    fn direction_changes_among_range_tombstones_match_a_list(
        changes in proptest::collection::vec(ranged_change(), 1..100),
        shape in shape(),
        layers in proptest::collection::vec(0usize..25, 0..4),
        moves in proptest::collection::vec((0u8..6, key()), 1..60),
        lower in proptest::option::weighted(0.3, key()),
        upper in proptest::option::weighted(0.3, key()),
    ) {
        let world = World::new(&changes, &Shape { layers, ..shape });
        let seq = changes.len() as u64;
        let order = world.order();
        let expected: Pairs = world.model(seq).into_iter().filter(|(key, _)| {
            lower.as_ref().is_none_or(|lower| order.compare(key, lower).is_ge())
                && upper.as_ref().is_none_or(|upper| order.compare(key, upper).is_lt())
        }).collect();
        let options = ReadOptions {
            iterate_lower_bound: lower,
            iterate_upper_bound: upper,
            ..ReadOptions::default()
        };
        let mut iter = DbIter::new(world.view.clone(), SequenceNumber(seq), &options);
        iter.seek_to_first();
        let mut at = 0;
        for (kind, target) in moves {
            let here = expected.get(at).map(|(key, value)| (&key[..], &value[..]));
            prop_assert_eq!(iter.entry(), here);
            // Counted from the end, so that the position before the first entry is invalid too.
            match kind {
                0 => {
                    iter.seek(&target);
                    at = expected.partition_point(|(key, _)| order.compare(key, &target).is_lt());
                }
                1 => {
                    iter.seek_for_prev(&target);
                    at = expected.partition_point(|(key, _)| order.compare(key, &target).is_le()).wrapping_sub(1);
                }
                _ if here.is_none() => {}
                2 | 3 => {
                    iter.next();
                    at += 1;
                }
                _ => {
                    iter.prev();
                    at = at.wrapping_sub(1);
                }
            }
        }
        iter.status().unwrap();
        iter.recycle();
    }

    #[test]
    fn timestamped_range_tombstones_hide_older_versions(
        list in proptest::collection::vec(timed_change(), 1..60),
        layers in proptest::collection::vec(0usize..20, 0..4),
        snapshot in 0u64..60,
    ) {
        // Some writes share a timestamp; later writes are never older.
        let ts = |at: usize| 10 + at as u64 * 2 / 3;
        let changes: Vec<Change> = list.iter().enumerate().map(|(at, &(kind, a, b))| match kind {
            0..4 => Change::Put(with_ts(a, ts(at)), vec![b; 9]),
            4 => Change::Delete(with_ts(a, ts(at))),
            _ => Change::DeleteRange(with_ts(a.min(b), ts(at)), with_ts(a.max(b), ts(at))),
        }).collect();
        let shape = Shape { files: 1, ..shape_of(&layers) };
        let world = World::with_operator(&changes, &shape, None, KeyOrder::BytewiseU64Ts);
        for seq in [snapshot.min(list.len() as u64), list.len() as u64] {
            for read_ts in (8..60).step_by(3) {
                let mut map = BTreeMap::new();
                let seen = list.iter().enumerate().take(seq as usize).filter(|(at, _)| ts(*at) <= read_ts);
                for (_, &(kind, a, b)) in seen {
                    match kind {
                        0..4 => drop(map.insert(vec![b'a' + a], vec![b; 9])),
                        4 => drop(map.remove(&[b'a' + a][..])),
                        _ => map.retain(|key, _| key[0] < b'a' + a.min(b) || key[0] >= b'a' + a.max(b)),
                    }
                }
                let expected: Pairs = map.into_iter().collect();
                let options = ReadOptions { timestamp: Some(read_ts.to_le_bytes().to_vec()), ..ReadOptions::default() };
                let mut iter = DbIter::new(world.view.clone(), SequenceNumber(seq), &options);
                iter.seek_to_first();
                prop_assert_eq!(&forward(&mut iter), &expected);
                iter.seek_to_last();
                prop_assert_eq!(&backward(&mut iter), &expected);
                iter.recycle();
                for key in 0..10 {
                    let lookup = LookupKey::new(&with_ts(key, read_ts), SequenceNumber(seq));
                    let found = get(&world.view, &lookup, &options).unwrap().into_value().unwrap();
                    let wanted = expected.iter().find(|(user, _)| user[0] == b'a' + key).map(|(_, value)| &value[..]);
                    prop_assert_eq!(found.as_deref(), wanted);
                }
            }
        }
    }
}

/// Bytewise order that counts comparisons.
#[derive(Default)]
struct Counting(AtomicU64);

impl Comparator for Counting {
    fn name(&self) -> &str {
        "counting"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.0.fetch_add(1, Relaxed);
        a.cmp(b)
    }
}

/// A world whose order counts comparisons.
struct Counted {
    world: World,
    counting: Arc<Counting>,
}

impl Counted {
    fn new(changes: &[Change], layers: &[usize]) -> Counted {
        let counting = Arc::new(Counting::default());
        let order = KeyOrder::Custom(counting.clone());
        let shape = Shape {
            files: 1,
            block_size: 4096,
            ..shape_of(layers)
        };
        let world = World::with_operator(changes, &shape, None, order);
        let counted = Counted { world, counting };
        // Opens the tables and builds lazily built state.
        counted.iter().seek_to_first();
        counted
    }

    fn iter(&self) -> Box<DbIter> {
        let seq = SequenceNumber(1 << 40);
        DbIter::new(self.world.view.clone(), seq, &ReadOptions::default())
    }

    fn cost<T>(&self, work: impl FnOnce() -> T) -> (T, u64) {
        let before = self.counting.0.load(Relaxed);
        let done = work();
        (done, self.counting.0.load(Relaxed) - before)
    }
}

fn numbered(number: u32) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// An entry for every tenth number, each followed by a tombstone over the numbers in between.
fn many_tombstones(count: u32) -> (Vec<Change>, Vec<Change>) {
    let entries = (0..count).flat_map(|n| [10 * n, 10 * n + 5]);
    let entries = entries.map(|n| Change::Put(numbered(n), b"value".to_vec()));
    let ranges =
        (0..count).map(|n| Change::DeleteRange(numbered(10 * n + 1), numbered(10 * n + 10)));
    (entries.collect(), ranges.collect())
}

#[test]
fn reads_among_many_range_tombstones_cost_logarithmic_comparisons() {
    let count = 20_000;
    let (entries, ranges) = many_tombstones(count);
    let changes = [entries.clone(), ranges.clone()].concat();
    // Tombstones in memory, in level 0 and in a level.
    for layers in [
        &[entries.len()][..],
        &[entries.len(), 0, ranges.len()],
        &[entries.len(), ranges.len()],
    ] {
        let counted = Counted::new(&changes, layers);
        let probe = numbered(10 * 7_777 + 3);
        let (iter, cost) = counted.cost(|| {
            let mut iter = counted.iter();
            iter.seek(&probe);
            iter
        });
        assert_eq!(iter.key(), numbered(10 * 7_778));
        assert!(cost < 300, "{cost} comparisons for an iterator and a seek");
        let (iter, cost) = counted.cost(|| {
            let mut iter = counted.iter();
            iter.seek_for_prev(&probe);
            iter
        });
        assert_eq!(iter.key(), numbered(10 * 7_777));
        assert!(
            cost < 300,
            "{cost} comparisons for a seek for the key before"
        );
        let mut iter = counted.iter();
        iter.seek(&probe);
        let (_, cost) = counted.cost(|| (0..1_000).for_each(|_| iter.next()));
        assert_eq!(iter.key(), numbered(10 * 8_778));
        assert!(cost < 60 * 1_000, "{cost} comparisons for 1000 steps");
        let (_, cost) = counted.cost(|| (0..1_000).for_each(|_| iter.prev()));
        assert_eq!(iter.key(), numbered(10 * 7_778));
        assert!(cost < 60 * 1_000, "{cost} comparisons for 1000 steps back");
        let lookup = LookupKey::new(&probe, SequenceNumber(1 << 40));
        let options = ReadOptions::default();
        let (found, cost) = counted.cost(|| get(&counted.world.view, &lookup, &options));
        assert!(found.unwrap().into_value().unwrap().is_none());
        assert!(cost < 150, "{cost} comparisons for a get");
    }
}

#[test]
fn iteration_skips_a_range_tombstone_at_once() {
    let count = 100_000;
    let mut changes: Vec<Change> = (0..=count)
        .map(|n| Change::Put(numbered(n), b"value".to_vec()))
        .collect();
    changes.push(Change::DeleteRange(numbered(1), numbered(count)));
    // The entries in a level, in level 0, and in the memtable of the tombstone.
    let entries = changes.len() - 1;
    for layers in [&[entries][..], &[entries, 0, 1], &[0, 0, entries], &[]] {
        let counted = Counted::new(&changes, layers);
        let mut iter = counted.iter();
        iter.seek_to_first();
        let (_, cost) = counted.cost(|| iter.next());
        assert_eq!(iter.key(), numbered(count));
        assert!(
            cost < 300,
            "{cost} comparisons for the step across, {layers:?}"
        );
        let (_, cost) = counted.cost(|| iter.prev());
        assert_eq!(iter.key(), numbered(0));
        assert!(
            cost < 400,
            "{cost} comparisons for the step back across, {layers:?}"
        );
        let (_, cost) = counted.cost(|| iter.seek(&numbered(count / 2)));
        assert_eq!(iter.key(), numbered(count));
        assert!(
            cost < 300,
            "{cost} comparisons for a seek into it, {layers:?}"
        );
        let (_, cost) = counted.cost(|| iter.seek_for_prev(&numbered(count / 2)));
        assert_eq!(iter.key(), numbered(0));
        assert!(
            cost < 300,
            "{cost} comparisons for a seek back into it, {layers:?}"
        );
    }
}

#[test]
fn iteration_among_long_range_tombstones_costs_few_comparisons_each() {
    let (count, width) = (2_000, 100);
    let mut changes: Vec<Change> = (0..=count * width)
        .map(|n| Change::Put(numbered(n), b"value".to_vec()))
        .collect();
    let entries = changes.len();
    let ranges = (0..count).map(|n| {
        let first = n * width;
        Change::DeleteRange(numbered(first + 1), numbered(first + width))
    });
    changes.extend(ranges);
    // Tombstones in memory, in level 0 and in a level.
    for layers in [
        &[entries][..],
        &[entries, 0, count as usize],
        &[entries, count as usize],
    ] {
        let counted = Counted::new(&changes, layers);
        let mut iter = counted.iter();
        iter.seek_to_first();
        let (_, cost) = counted.cost(|| (0..1_000).for_each(|_| iter.next()));
        assert_eq!(iter.key(), numbered(1_000 * width));
        assert!(cost < 38 * 1_000, "{cost} comparisons for 1000 steps");
        let (_, cost) = counted.cost(|| (0..1_000).for_each(|_| iter.prev()));
        assert_eq!(iter.key(), numbered(0));
        assert!(cost < 42 * 1_000, "{cost} comparisons for 1000 steps back");
    }
}
