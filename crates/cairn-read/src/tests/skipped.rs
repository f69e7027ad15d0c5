//! The counts of skipped entries, which are RocksDB's, and the limit `max_skippable_internal_keys`.

use cairn_observe::perf::{self, PerfLevel, PerfMetric};
use cairn_observe::statistics::{Statistics, StatsLevel, Ticker};
use cairn_options::ReadOptions;
use cairn_types::SequenceNumber;

use super::shape_of;
use super::world::{Change, World};
use crate::db_iter::DbIter;

fn key(n: u8) -> Vec<u8> {
    vec![b'k', n]
}

fn put(n: u8, value: &str) -> Change {
    Change::Put(key(n), value.into())
}

/// Ten keys with up to four versions, two of them deleted; and the number of the writes before the last ones.
fn versions() -> (Vec<Change>, u64) {
    let mut changes: Vec<Change> = (0..10).map(|n| put(n, "1")).collect();
    changes.extend((0..10).step_by(2).map(|n| put(n, "2")));
    let until = changes.len() as u64;
    changes.extend([0, 5].map(|n| put(n, "3")));
    for _ in 0..3 {
        changes.extend([1, 5, 9].map(|n| put(n, "x")));
    }
    changes.extend([3, 4].map(|n| Change::Delete(key(n))));
    (changes, until)
}

fn operands() -> Vec<Change> {
    let merge = |n, operand: &str| Change::Merge(key(n), operand.into());
    let mut changes = Vec::new();
    for n in 0..10 {
        changes.push(put(n, "1"));
        if n % 2 == 0 {
            changes.extend([merge(n, "x"), merge(n, "x"), merge(n, "x")]);
        }
    }
    for n in [0, 5] {
        changes.extend([Change::Delete(key(n)), merge(n, "y"), merge(n, "z")]);
    }
    changes
}

/// A world with statistics.
fn counting(changes: &[Change], layers: &[usize], skip: u64) -> World {
    let mut shape = shape_of(layers);
    shape.skip = skip;
    World::new(changes, &shape).with_statistics(Statistics::new(StatsLevel::All))
}

/// The number of entries of a whole iteration with at most `max` skipped entries in a step, and whether it ended
/// without an error; the ticker, and RocksDB's skipped keys and recent keys of the perf context.
fn walk(world: &World, seq: u64, back: bool, max: u64) -> ((usize, bool), [u64; 3]) {
    let statistics = world.view.family.statistics.clone().unwrap();
    let before = statistics.ticker(Ticker::NumberIterSkip);
    perf::set_level(PerfLevel::EnableCount);
    perf::reset();
    let options = ReadOptions {
        max_skippable_internal_keys: max,
        ..ReadOptions::default()
    };
    let mut iter = DbIter::new(world.view.clone(), SequenceNumber(seq), &options);
    match back {
        false => iter.seek_to_first(),
        true => iter.seek_to_last(),
    }
    let mut found = 0;
    while iter.valid() {
        found += 1;
        match back {
            false => iter.next(),
            true => iter.prev(),
        }
    }
    let is_whole = iter.status().is_ok();
    drop(iter);
    let counts = [
        statistics.ticker(Ticker::NumberIterSkip) - before,
        perf::metric(PerfMetric::InternalKeySkippedCount),
        perf::metric(PerfMetric::InternalRecentSkippedCount),
    ];
    perf::set_level(PerfLevel::Disable);
    ((found, is_whole), counts)
}

/// Older and newer versions, and deletions, are counted alike in both directions, in any sources.
#[test]
fn versions_are_skipped_as_in_rocksdb() {
    let (changes, until) = versions();
    let last = changes.len() as u64;
    // By limit: RocksDB's results, forward and backward, at the end and before the last writes.
    let expected = [
        (0, [(8, true), (8, true), (10, true), (10, true)]),
        (1, [(1, false), (0, false), (1, false), (0, false)]),
        (2, [(2, false), (0, false), (1, false), (0, false)]),
        (3, [(3, false), (4, false), (1, false), (4, false)]),
        (4, [(3, false), (5, false), (5, false), (10, true)]),
    ];
    let counts = [[20, 26, 0], [20, 28, 0], [18, 15, 13], [18, 15, 13]];
    for layers in [&[][..], &[5, 12], &[1, 7, 13, 4]] {
        let world = counting(&changes, layers, 8);
        let walks = [(last, false), (last, true), (until, false), (until, true)];
        for (max, expected) in expected {
            let walked = walks.map(|(seq, back)| walk(&world, seq, back, max));
            assert_eq!(walked.map(|(found, _)| found), expected, "{layers:?} {max}");
            if max == 0 {
                assert_eq!(walked.map(|(_, counts)| counts), counts, "{layers:?}");
            }
        }
    }
}

/// Forward iteration skips the versions below the entry that ends the operands; backward iteration skips all versions but
/// one.
#[test]
fn operands_are_skipped_as_in_rocksdb() {
    let changes = operands();
    let last = changes.len() as u64;
    let expected = [
        (0, [(10, true), (10, true)]),
        (1, [(1, false), (1, false)]),
        (3, [(1, false), (9, false)]),
        (4, [(10, true), (9, false)]),
    ];
    for layers in [&[][..], &[5, 12], &[1, 7, 13, 4]] {
        let world = counting(&changes, layers, 8);
        for (max, expected) in expected {
            let walked = [false, true].map(|back| walk(&world, last, back, max));
            assert_eq!(walked.map(|(found, _)| found), expected, "{layers:?} {max}");
            if max == 0 {
                assert_eq!(walked.map(|(_, [skipped, ..])| skipped), [5, 21]);
            }
        }
    }
}

/// Regression: hidden entries that end an iteration, by themselves or before a bound, do not exceed the limit: it is
/// checked at the next entry.
#[test]
fn hidden_entries_at_the_end_do_not_exceed_the_limit() {
    let deleted = [put(1, "1"), Change::Delete(key(1))];
    let versions = [put(0, "1"), put(0, "2")];
    let all_deleted = [put(0, "1"), Change::Delete(key(0))];
    let before = [put(0, "0")];
    let cases = [
        ([&before[..], &deleted].concat(), 1),
        ([&before[..], &versions].concat(), 1),
        (all_deleted.to_vec(), 0),
    ];
    for (mut changes, found) in cases {
        let last = changes.len() as u64;
        for layers in [&[][..], &[1], &[2, 1]] {
            let world = counting(&changes, layers, 8);
            // Two entries are hidden.
            let (walked, [skipped, ..]) = walk(&world, last, false, 1);
            assert_eq!((walked, skipped), ((found, true), 2), "{layers:?}");
        }
        // Another entry behind them ends the iteration only if it is within the bounds.
        changes.push(put(9, "9"));
        let world = counting(&changes, &[2], 8);
        let mut options = ReadOptions {
            max_skippable_internal_keys: 1,
            ..ReadOptions::default()
        };
        for bound in [None, Some(key(9))] {
            options.iterate_upper_bound = bound;
            let mut iter = DbIter::new(world.view.clone(), SequenceNumber(last + 1), &options);
            iter.seek_to_first();
            for _ in 0..found {
                assert!(iter.valid());
                iter.next();
            }
            assert!(!iter.valid());
            assert_eq!(iter.status().is_ok(), options.iterate_upper_bound.is_some());
        }
    }
}

/// Many versions of a key are passed by a seek, in either direction.
#[test]
fn versions_passed_by_a_seek_are_not_counted() {
    let mut changes = vec![put(0, "1")];
    changes.extend((0..50).map(|_| put(1, "2")));
    changes.push(put(2, "3"));
    let last = changes.len() as u64;
    for layers in [&[][..], &[5, 12]] {
        let world = counting(&changes, layers, 3);
        for back in [false, true] {
            let (found, [skipped, ..]) = walk(&world, last, back, 0);
            assert_eq!(found, (3, true));
            // Three of each source at most, and the one at which the seek is chosen.
            assert!(skipped <= 3 + 3 + 1, "{layers:?} {back} {skipped}");
        }
    }
}
