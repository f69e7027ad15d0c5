//! Scans over many ranges: their results beside those of plain iterators, and the rounds of reads that they wait for.

use std::path::Path;
use std::sync::Arc;

use cairn_db::{Db, MultiScan, MultiScanArgs, OpenRequest, ScanRange, open};
use cairn_options::enums::IoMode;
use cairn_options::{
    CompactRangeOptions, DbOptions, FamilyOptions, Options, ReadOptions, ReadTier,
};
use cairn_platform::{Clock, World};
use cairn_types::Code;
use proptest::prelude::*;

use crate::basic::db_options;
use crate::best_effort::damage;
use crate::parallel_reads::{MS, Still, opened, remote};
use crate::parallel_scans::compact_to;

fn key(n: u32) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

fn range(from: u32, to: u32) -> ScanRange {
    ScanRange {
        start: key(from),
        limit: Some(key(to)),
    }
}

fn args(ranges: impl IntoIterator<Item = ScanRange>) -> MultiScanArgs {
    MultiScanArgs {
        ranges: ranges.into_iter().collect(),
        ..MultiScanArgs::default()
    }
}

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// The rest of the current range.
fn rest(scan: &mut MultiScan) -> Entries {
    let mut entries = Vec::new();
    while let Some((key, value)) = scan.entry() {
        entries.push((key.to_vec(), value.to_vec()));
        scan.advance();
    }
    scan.status().expect("nothing failed");
    entries
}

/// All ranges of a scan, in ascending order.
fn all(db: &Db, options: &ReadOptions, args: MultiScanArgs) -> Vec<Entries> {
    let reverse = args.reverse;
    let mut scan = db
        .default_family()
        .multi_scan(options, args)
        .expect("the ranges are valid");
    let count = scan.ranges();
    let mut found = Vec::new();
    while let Some(at) = scan.next_range() {
        let expected = match reverse {
            false => found.len(),
            true => count - 1 - found.len(),
        };
        assert_eq!(at, expected);
        let mut entries = rest(&mut scan);
        if reverse {
            entries.reverse();
        }
        found.push(entries);
    }
    assert_eq!(found.len(), count);
    if reverse {
        found.reverse();
    }
    found
}

/// The same by plain iterators.
fn each(db: &Db, options: &ReadOptions, ranges: &[ScanRange]) -> Vec<Entries> {
    let entries = |range: &ScanRange| {
        let mut iter = db.iter_with(&ReadOptions {
            iterate_lower_bound: Some(range.start.clone()),
            iterate_upper_bound: range.limit.clone(),
            ..options.clone()
        });
        let mut entries = Vec::new();
        iter.seek_to_first();
        while let Some((key, value)) = iter.entry() {
            entries.push((key.to_vec(), value.to_vec()));
            iter.next();
        }
        iter.status().expect("nothing failed");
        entries
    };
    ranges.iter().map(entries).collect()
}

fn put(db: &Db, keys: std::ops::Range<u32>, step: usize) {
    for n in keys.step_by(step) {
        db.put(&key(n), &[n as u8; 100]).expect("it is written");
    }
}

/// Six files of level 0 over `1..60_000`, and a level of many small files.
fn tree(db: &Db) {
    put(db, 0..60_000, 3);
    db.flush().expect("it is flushed");
    compact_to(db, 1, 64 << 10);
    for file in 0..6 {
        put(db, file..60_000, 17);
        db.flush().expect("it is flushed");
    }
    assert!(db.live_files_metadata().len() > 30);
}

/// The milliseconds that `act` takes.
fn rounds<T>(clock: &Still, act: impl FnOnce() -> T) -> (u64, T) {
    let began = clock.monotonic_nanos();
    let done = act();
    let took = clock.monotonic_nanos() - began;
    assert_eq!(took % MS, 0, "{took}");
    (took / MS, done)
}

#[test]
fn a_hundred_ranges_are_read_in_four_rounds() {
    let clock = Arc::new(Still::default());
    let world = remote(&clock);
    let table = "block_size=1024;metadata_block_size=512;index_type=kTwoLevelIndexSearch;\
                 cache_index_and_filter_blocks=true;pin_top_level_index_and_filter=true";
    tree(&opened(&world, IoMode::Auto, table));
    let ranges: Vec<_> = (0..100)
        .map(|n| range(n * 600 + 7, n * 600 + 100))
        .collect();
    for mode in [IoMode::Auto, IoMode::Threads] {
        for (use_async_io, reverse) in [(false, false), (true, false), (false, true), (true, true)]
        {
            let db = opened(&world, mode, table);
            let args = MultiScanArgs {
                use_async_io,
                reverse,
                ..args(ranges.clone())
            };
            let (cold, found) = rounds(&clock, || all(&db, &ReadOptions::default(), args.clone()));
            // Tables, partitions of indexes, the following ones where a range continues there, and data.
            assert!(cold <= 4, "{mode:?}, {use_async_io}, {reverse}: {cold}");
            assert_eq!(found, each(&db, &ReadOptions::default(), &ranges));
            let (warm, again) = rounds(&clock, || all(&db, &ReadOptions::default(), args));
            assert_eq!((warm, again), (0, found));
        }
    }
    let db = opened(&world, IoMode::Auto, table);
    let (one_by_one, _) = rounds(&clock, || each(&db, &ReadOptions::default(), &ranges));
    assert!(one_by_one > 400, "{one_by_one}");
    drop(db);
    // An executor that blocks reads everything, one after another.
    let db = opened(&world, IoMode::Blocking, table);
    let found = all(&db, &ReadOptions::default(), args(ranges.clone()));
    assert_eq!(found, each(&db, &ReadOptions::default(), &ranges));
}

#[test]
fn what_is_not_cached_is_read_once() {
    let clock = Arc::new(Still::default());
    let world = remote(&clock);
    let table = "block_size=1024;no_block_cache=true;metadata_block_size=512;\
                 index_type=kTwoLevelIndexSearch";
    tree(&opened(&world, IoMode::Auto, table));
    let ranges: Vec<_> = (0..100)
        .map(|n| range(n * 600 + 7, n * 600 + 100))
        .collect();
    for fill_cache in [false, true] {
        let db = opened(&world, IoMode::Auto, table);
        let options = ReadOptions {
            fill_cache,
            ..ReadOptions::default()
        };
        let args = args(ranges.clone());
        let (cold, found) = rounds(&clock, || all(&db, &options, args));
        assert!(cold <= 4, "{cold}");
        assert_eq!(found, each(&db, &options, &ranges));
    }
}

#[test]
fn the_prefetch_limit_bounds_what_is_read_ahead() {
    let clock = Arc::new(Still::default());
    let world = remote(&clock);
    let table = "block_size=1024;no_block_cache=true";
    tree(&opened(&world, IoMode::Auto, table));
    let ranges: Vec<_> = (0..50)
        .map(|n| range(n * 1200 + 7, n * 1200 + 300))
        .collect();
    let mut all_rounds = Vec::new();
    for max_prefetch_size in [1, 40_000, 400_000, 0] {
        let db = opened(&world, IoMode::Auto, table);
        let args = MultiScanArgs {
            max_prefetch_size,
            ..args(ranges.clone())
        };
        let (took, found) = rounds(&clock, || all(&db, &ReadOptions::default(), args.clone()));
        assert_eq!(found, each(&db, &ReadOptions::default(), &ranges));
        all_rounds.push(took);
    }
    assert!(all_rounds.is_sorted_by(|a, b| a > b), "{all_rounds:?}");
    assert!(all_rounds[3] <= 3, "{all_rounds:?}");
}

#[test]
fn a_long_range_is_continued_by_readahead() {
    let clock = Arc::new(Still::default());
    let world = remote(&clock);
    let table = "block_size=1024;no_block_cache=true";
    let db = opened(&world, IoMode::Auto, table);
    put(&db, 0..100_000, 1);
    db.flush().expect("it is flushed");
    let whole = ScanRange {
        start: key(10),
        limit: None,
    };
    let args = MultiScanArgs {
        use_async_io: true,
        ..args([range(0, 5), whole])
    };
    let (took, found) = rounds(&clock, || all(&db, &ReadOptions::default(), args));
    assert_eq!((found[0].len(), found[1].len()), (5, 99_990));
    assert!(took < 30, "{took}");
}

#[test]
fn ranges_that_cannot_be_scanned_are_refused() {
    let world = World::in_memory();
    let db = opened(&world, IoMode::Auto, "");
    let open_end = |from: u32| ScanRange {
        start: key(from),
        limit: None,
    };
    let code = |args: MultiScanArgs| {
        let scan = db
            .default_family()
            .multi_scan(&ReadOptions::default(), args);
        scan.map(|scan| scan.ranges()).map_err(|error| error.code())
    };
    let refused = Err(Code::InvalidArgument);
    assert_eq!(code(args([])), refused, "no range");
    assert_eq!(code(args([range(5, 5)])), refused, "empty");
    assert_eq!(code(args([range(5, 3)])), refused, "inverted");
    assert_eq!(code(args([range(5, 9), range(1, 3)])), refused, "unsorted");
    assert_eq!(
        code(args([range(1, 5), range(4, 9)])),
        refused,
        "overlapping"
    );
    assert_eq!(code(args([range(1, 5), range(1, 5)])), refused, "twice");
    assert_eq!(code(args([open_end(1), range(4, 9)])), refused, "no end");
    assert_eq!(code(args([range(1, 4), open_end(4)])), Ok(2));
    assert_eq!(code(args([range(1, 4), range(4, 9)])), Ok(2), "adjacent");
    let reverse = MultiScanArgs {
        reverse: true,
        ..args([range(1, 4), open_end(4)])
    };
    assert_eq!(code(reverse), refused, "backward without end");
    let tailing = ReadOptions {
        tailing: true,
        ..ReadOptions::default()
    };
    let scan = db
        .default_family()
        .multi_scan(&tailing, args([range(1, 2)]));
    assert_eq!(scan.expect_err("it is refused").code(), Code::NotSupported);
}

#[test]
fn a_scan_is_dropped_in_the_middle_and_shows_one_state() {
    let world = World::in_memory();
    let db = opened(&world, IoMode::Threads, "block_size=512");
    put(&db, 0..3000, 1);
    db.flush().expect("it is flushed");
    let ranges: Vec<_> = (0..10).map(|n| range(n * 300, n * 300 + 200)).collect();
    let snapshot = db.snapshot();
    let options = ReadOptions {
        snapshot: Some(snapshot.sequence()),
        ..ReadOptions::default()
    };
    let before = each(&db, &options, &ranges);
    let family = db.default_family();
    for (use_async_io, steps) in [(true, 0), (true, 350), (false, 0), (false, 350)] {
        let args = MultiScanArgs {
            use_async_io,
            max_prefetch_size: 5_000,
            ..args(ranges.clone())
        };
        let mut scan = family
            .multi_scan(&ReadOptions::default(), args.clone())
            .expect("the ranges are valid");
        assert!(!scan.valid(), "it begins before the first range");
        let mut left = steps;
        while left > 0 {
            left -= 1;
            if !scan.valid() {
                scan.next_range();
            } else {
                scan.advance();
            }
        }
        drop(scan);
        // Written later, and not shown.
        let mut scan = family
            .multi_scan(&ReadOptions::default(), args.clone())
            .expect("the ranges are valid");
        db.put(&key(500), b"later").expect("it is written");
        db.flush().expect("it is flushed");
        let whole = CompactRangeOptions::default();
        family
            .compact_range(None, None, &whole)
            .expect("it is compacted");
        scan.next_range();
        // Ranges are skipped.
        assert_eq!(scan.next_range(), Some(1));
        assert_eq!(rest(&mut scan).len(), 200);
        assert_eq!(all(&db, &options, args), before);
    }
    let cached = ReadOptions {
        read_tier: ReadTier::Memtable,
        ..ReadOptions::default()
    };
    put(&db, 100..101, 1);
    let in_memory = all(&db, &cached, args([range(0, 1000)]));
    assert_eq!(in_memory[0].len(), 1);
}

#[test]
fn thousands_of_ranges_are_planned_in_groups() {
    let clock = Arc::new(Still::default());
    let world = remote(&clock);
    let table = "block_size=1024;no_block_cache=true";
    tree(&opened(&world, IoMode::Threads, table));
    let db = opened(&world, IoMode::Threads, table);
    let ranges: Vec<_> = (0..5000).map(|n| range(n * 12, n * 12 + 7)).collect();
    let expected = each(&db, &ReadOptions::default(), &ranges);
    for (use_async_io, reverse) in [(false, false), (true, false), (false, true), (true, true)] {
        let args = MultiScanArgs {
            use_async_io,
            reverse,
            ..args(ranges.clone())
        };
        let (took, found) = rounds(&clock, || all(&db, &ReadOptions::default(), args));
        assert_eq!(found, expected);
        // Five groups, of at most three rounds each.
        assert!(took <= 15, "{use_async_io}, {reverse}: {took}");
    }
}

/// The codes of the ranges of a scan: the number of entries, or the error.
fn outcomes(db: &Db, args: MultiScanArgs) -> Vec<Result<usize, Code>> {
    let family = db.default_family();
    let mut scan = family
        .multi_scan(&ReadOptions::default(), args)
        .expect("the ranges are valid");
    let mut outcomes = Vec::new();
    while scan.next_range().is_some() {
        let mut count = 0;
        while scan.valid() {
            count += 1;
            scan.advance();
        }
        let status = scan.status().map_err(|error| error.code());
        outcomes.push(status.map(|()| count));
    }
    outcomes
}

#[test]
fn damage_is_an_error_of_the_ranges_that_need_it() {
    for (at, damaged) in [(100_000, 1), (usize::MAX, 20)] {
        for (use_async_io, partitioned) in [(false, false), (true, false), (true, true)] {
            let world = World::in_memory();
            let table = match partitioned {
                false => "block_size=1024",
                true => {
                    "block_size=1024;index_type=kTwoLevelIndexSearch;metadata_block_size=256;\
                     cache_index_and_filter_blocks=true"
                }
            };
            let db = opened(&world, IoMode::Threads, table);
            put(&db, 0..3000, 1);
            db.flush().expect("it is flushed");
            let name = db.live_files_metadata()[0].relative_filename.clone();
            let size = db.live_files_metadata()[0].size;
            drop(db);
            // In a data block, or in the footer.
            damage(&world, &name, at.min(size as usize - 4));
            let db = opened(&world, IoMode::Threads, table);
            let ranges: Vec<_> = (0..20).map(|n| range(n * 150, n * 150 + 150)).collect();
            let args = MultiScanArgs {
                use_async_io,
                ..args(ranges)
            };
            let outcomes = outcomes(&db, args);
            let errors = outcomes.iter().filter(|it| **it == Err(Code::Corruption));
            assert_eq!(errors.count(), damaged, "{outcomes:?}");
            let complete = outcomes.iter().filter(|it| **it == Ok(150));
            assert_eq!(complete.count(), 20 - damaged, "{outcomes:?}");
        }
    }
}

#[test]
fn only_cached_blocks_and_deadlines_end_ranges_with_an_error() {
    let clock = Arc::new(Still::default());
    let world = remote(&clock);
    let db = opened(&world, IoMode::Auto, "block_size=1024");
    put(&db, 0..3000, 1);
    db.flush().expect("it is flushed");
    let ranges: Vec<_> = (0..20).map(|n| range(n * 150, n * 150 + 150)).collect();
    let first = |options: &ReadOptions| {
        let family = db.default_family();
        let args = args(ranges.clone());
        let mut scan = family
            .multi_scan(options, args)
            .expect("the ranges are valid");
        scan.next_range();
        while scan.valid() {
            scan.advance();
        }
        scan.status().map_err(|error| error.code())
    };
    let cached = ReadOptions {
        read_tier: ReadTier::BlockCache,
        ..ReadOptions::default()
    };
    let late = ReadOptions {
        deadline: 1,
        ..ReadOptions::default()
    };
    assert_eq!(first(&cached), Err(Code::Incomplete));
    assert_eq!(first(&late), Err(Code::TimedOut));
    assert_eq!(first(&ReadOptions::default()), Ok(()));
    assert_eq!(first(&cached), Ok(()));
    assert_eq!(first(&late), Ok(()), "nothing is read");
}

/// An operation of the property test.
#[derive(Clone, Debug)]
enum Op {
    Put(std::ops::Range<u16>, u8),
    Merge(std::ops::Range<u16>, u8),
    Delete(u16),
    DeleteRange(u16, u16),
    Flush,
    Compact,
    /// The bounds of ranges, and whether the scan is backward, asynchronous and has an end.
    Scan(Vec<u16>, u8),
}

const KEYS: u16 = 3000;

fn op() -> impl Strategy<Value = Op> {
    let at = || 0..KEYS;
    prop_oneof![
        4 => (at(), 1..800_u16, any::<u8>()).prop_map(|(from, len, value)| Op::Put(from..from + len, value)),
        2 => (at(), 1..300_u16, any::<u8>()).prop_map(|(from, len, value)| Op::Merge(from..from + len, value)),
        1 => at().prop_map(Op::Delete),
        1 => (at(), 0..300_u16).prop_map(|(from, len)| Op::DeleteRange(from, from + len)),
        2 => Just(Op::Flush),
        1 => Just(Op::Compact),
        6 => (prop::collection::vec(at(), 2..24), any::<u8>()).prop_map(|(bounds, how)| Op::Scan(bounds, how)),
    ]
}

fn database(world: &World, io_mode: IoMode, table: &str, in_blob_files: bool) -> Db {
    let family = FamilyOptions::from_text(&format!(
        "disable_auto_compactions=true;merge_operator=stringappend;target_file_size_base=20000;\
         enable_blob_files={in_blob_files};block_based_table_factory={{{table}}}"
    ));
    let options = DbOptions {
        io_mode,
        ..db_options()
    };
    open(&OpenRequest {
        path: Path::new("/db"),
        options: &options,
        families: &[],
        others: Some(&family.expect("the options are known")),
        read_only: false,
        world: world.clone(),
    })
    .expect("it opens")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_scan_over_ranges_returns_what_one_over_each_does(
        ops in prop::collection::vec(op(), 1..40),
        cache in prop_oneof![
            Just("block_cache={id=LRUCache;capacity=100000}"),
            Just("block_cache={id=HyperClockCache;capacity=100000}"),
            Just("no_block_cache=true"),
        ],
        partitioned: bool,
        in_blob_files: bool,
        fill_cache: bool,
        io_coalesce_threshold in prop_oneof![Just(0), Just(16 << 10), 0..4000_u64],
        max_prefetch_size in prop_oneof![2 => Just(0), 1 => 1..20_000_u64],
    ) {
        let world = World::in_memory();
        let index = match (partitioned, cache) {
            (true, "no_block_cache=true") => "index_type=kTwoLevelIndexSearch;metadata_block_size=256",
            (true, _) => "index_type=kTwoLevelIndexSearch;metadata_block_size=256;\
                          cache_index_and_filter_blocks=true",
            (false, _) => "index_type=kBinarySearch",
        };
        let table = format!("block_size=512;{index};{cache}");
        let db = database(&world, IoMode::Threads, &table, in_blob_files);
        for op in &ops {
            match op {
                Op::Put(range, value) => {
                    for n in range.clone() {
                        db.put(&key(u32::from(n)), &[*value; 60]).expect("it is written");
                    }
                }
                Op::Merge(range, value) => {
                    for n in range.clone() {
                        db.merge(&key(u32::from(n)), &[*value; 8]).expect("it is written");
                    }
                }
                Op::Delete(at) => db.delete(&key(u32::from(*at))).expect("it is written"),
                Op::DeleteRange(from, to) => {
                    let [from, to] = [from, to].map(|at| key(u32::from(*at)));
                    db.delete_range(&from, &to).expect("it is written");
                }
                Op::Flush => db.flush().expect("it is flushed"),
                Op::Compact => {
                    let all = CompactRangeOptions::default();
                    let compacted = db.default_family().compact_range(None, None, &all);
                    compacted.expect("it is compacted");
                }
                Op::Scan(bounds, how) => {
                    let mut bounds: Vec<u32> = bounds.iter().map(|&at| u32::from(at)).collect();
                    bounds.sort_unstable();
                    bounds.dedup();
                    let adjacent = how & 1 != 0;
                    let step = if adjacent { 1 } else { 2 };
                    let pairs = bounds.windows(2).step_by(step);
                    let mut ranges: Vec<_> = pairs.map(|pair| range(pair[0], pair[1])).collect();
                    let reverse = how & 2 != 0;
                    if let Some(last) = ranges.last_mut() && how & 4 != 0 && !reverse {
                        last.limit = None;
                    }
                    if ranges.is_empty() {
                        continue;
                    }
                    let args = MultiScanArgs {
                        ranges: ranges.clone(),
                        io_coalesce_threshold,
                        max_prefetch_size,
                        use_async_io: how & 8 != 0,
                        reverse,
                    };
                    let options = ReadOptions { fill_cache, ..ReadOptions::default() };
                    let found = all(&db, &options, args);
                    prop_assert_eq!(found, each(&db, &ReadOptions::default(), &ranges));
                }
            }
        }
    }
}
