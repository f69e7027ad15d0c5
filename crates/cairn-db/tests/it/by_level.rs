//! Perf counters by level: the levels searched by gets, batches and scans, and where keys are found.

use std::path::Path;
use std::sync::Arc;

use cairn_db::{Db, OpenRequest, open};
use cairn_observe::perf::by_level::{self, LevelMetric};
use cairn_observe::perf::{self, PerfLevel, PerfMetric};
use cairn_observe::statistics::{Statistics, StatsLevel, Ticker};
use cairn_options::{CompactRangeOptions, DbOptions, FilterPolicy, ReadOptions, ReadTier};
use cairn_platform::World;

use crate::basic::{db_options, small};

const KEYS: u32 = 300;

fn key(n: u32) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

/// Creates a tree with every key in level 6, every third in level 2, every fifth in level 0, and the first
/// and the last in all of them. Level 0 also deletes the keys from 200 to 250.
fn tree(statistics: &Arc<Statistics>, filters: bool) -> Db {
    let mut family = small();
    family.disable_auto_compactions = true;
    family.table.block_size = 256;
    family.table.filter_policy = filters.then_some(FilterPolicy::Bloom { bits_per_key: 20.0 });
    family.merge_operator = cairn_options::merge_operators::from_text("stringappend").ok();
    let options = DbOptions {
        statistics: statistics.clone().into(),
        ..db_options()
    };
    let db = open(&OpenRequest {
        path: Path::new("/db"),
        options: &options,
        families: &[],
        others: Some(&family),
        read_only: false,
        world: World::in_memory(),
    })
    .expect("it opens");
    let to = |target_level| CompactRangeOptions {
        change_level: true,
        target_level,
        ..CompactRangeOptions::default()
    };
    let put = |step, value: &[u8]| {
        for n in (0..KEYS).filter(|n| n % step == 0 || n + 1 == KEYS) {
            db.put(&key(n), value).expect("it works");
        }
    };
    put(1, b"bottom");
    db.compact_range(None, None, &to(6)).expect("it works");
    put(3, b"middle");
    db.flush().expect("it works");
    let files = db.live_files_metadata();
    let file = files.iter().find(|file| file.level == 0).expect("a file");
    db.compact_files(&Default::default(), &[&file.relative_filename], 2, None)
        .expect("it works");
    put(5, b"top");
    db.delete_range(&key(200), &key(250)).expect("it works");
    db.flush().expect("it works");
    db
}

/// The values of a metric in levels 0, 2 and 6.
fn sums(metric: LevelMetric) -> [u64; 3] {
    [0, 2, 6].map(|level| by_level::metric(level, metric))
}

/// Resets the counters to this perf level.
fn count_at(level: PerfLevel) {
    perf::set_level(level);
    by_level::clear();
    by_level::enable();
    perf::reset();
}

/// The number of keys below [`KEYS`] found in each level.
const FOUND: [u64; 3] = [51, 66, 133];

#[test]
fn reads_count_in_the_levels_that_they_search() {
    let db = tree(&Arc::new(Statistics::new(StatsLevel::All)), true);
    let expected = |level: &dyn Fn(u32) -> bool| (0..KEYS).filter(|&n| level(n)).count() as u64;
    let (top, gone) = (
        |n: u32| n.is_multiple_of(5) && !(200..250).contains(&n) || n == KEYS - 1,
        |n: u32| (200..250).contains(&n),
    );
    let middle = |n: u32| n.is_multiple_of(3) && !top(n) && !gone(n);
    let found = [
        expected(&top),
        expected(&middle),
        expected(&|n| !top(n) && !gone(n) && !middle(n)),
    ];
    assert_eq!(found, FOUND);
    let keys: Vec<_> = (0..KEYS).map(key).collect();
    for batched in [false, true, false] {
        count_at(PerfLevel::EnableCount);
        match batched {
            true => db
                .multi_get(&keys, &ReadOptions::default())
                .into_iter()
                .for_each(|found| drop(found.unwrap())),
            false => keys.iter().for_each(|key| drop(db.get(key).unwrap())),
        }
        assert_eq!(sums(LevelMetric::UserKeyReturnCount), found);
        let asked = [
            LevelMetric::BloomFilterUseful,
            LevelMetric::BloomFilterFullPositive,
        ]
        .map(sums);
        // Keys that were found above, or deleted, are not searched in lower levels.
        let asked = [0, 1, 2].map(|at| asked[0][at] + asked[1][at]);
        assert_eq!(asked, [300, 300 - 50 - found[0], found[2]]);
        let positive = sums(LevelMetric::BloomFilterFullTruePositive);
        assert_eq!(positive, found);
        assert_eq!(sums(LevelMetric::GetFromTableNanos), [0; 3]);
        assert_eq!(by_level::levels(), [0, 2, 6]);
    }
}

/// The counters by level add up to the total, for every kind of read.
#[test]
fn levels_add_up() {
    for filters in [false, true] {
        let statistics = Arc::new(Statistics::new(StatsLevel::All));
        let db = tree(&statistics, filters);
        let misses = || statistics.ticker(Ticker::BlockCacheMiss);
        let options = ReadOptions::default();
        let reads: [&dyn Fn(); 5] = [
            &|| (0..KEYS + 9).for_each(|n| drop(db.get(&key(n)).unwrap())),
            &|| drop(db.multi_get(&(90..KEYS).map(key).collect::<Vec<_>>(), &options)),
            &|| {
                let mut iter = db.iter();
                iter.seek_to_first();
                while iter.valid() {
                    iter.next();
                }
            },
            &|| {
                drop(
                    db.default_family()
                        .get_merge_operands(&key(7), 9, &options)
                        .unwrap(),
                )
            },
            &|| {
                let cached = ReadOptions {
                    read_tier: ReadTier::BlockCache,
                    ..ReadOptions::default()
                };
                // Data that is not in memory is not returned.
                (0..KEYS).for_each(|n| drop(db.get_with(&key(n), &cached)));
            },
        ];
        for (at, read) in reads.iter().chain(&reads).enumerate() {
            count_at(PerfLevel::EnableCount);
            let before = misses();
            read();
            let sum = |metric| sums(metric).iter().sum::<u64>();
            let what = format!("read {at}, filters {filters}");
            let hits = perf::metric(PerfMetric::BlockCacheHitCount);
            assert_eq!(sum(LevelMetric::BlockCacheHitCount), hits, "{what}");
            let missed = sum(LevelMetric::BlockCacheMissCount);
            assert_eq!(missed, misses() - before, "{what}");
            assert_eq!(missed, perf::metric(PerfMetric::BlockReadCount), "{what}");
            assert!(missed + hits > 0, "{what}");
            assert_eq!(
                sum(LevelMetric::BloomFilterUseful),
                perf::metric(PerfMetric::BloomSstMissCount),
                "{what}"
            );
            assert_eq!(
                sum(LevelMetric::BloomFilterFullPositive),
                perf::metric(PerfMetric::BloomSstHitCount),
                "{what}"
            );
        }
    }
}

/// Times are measured if enabled for the thread; counters by level are disabled by default.
#[test]
fn times_are_measured_only_for_threads_that_enable_them() {
    let db = tree(&Arc::new(Statistics::new(StatsLevel::All)), true);
    let keys: Vec<_> = (0..KEYS).map(key).collect();
    let get = || keys.iter().for_each(|key| drop(db.get(key).unwrap()));
    let batch = || drop(db.multi_get(&keys, &ReadOptions::default()));
    // The first pass opens tables and reads blocks, which is part of the measured time.
    let passes: [&dyn Fn(); 4] = [&get, &batch, &get, &batch];
    for read in passes {
        count_at(PerfLevel::EnableTimeExceptForMutex);
        read();
        assert_eq!(sums(LevelMetric::UserKeyReturnCount), FOUND);
        let nanos = sums(LevelMetric::GetFromTableNanos);
        assert!(nanos.iter().all(|&nanos| nanos > 0), "{nanos:?}");
    }
    by_level::disable();
    let before = sums(LevelMetric::UserKeyReturnCount);
    get();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            perf::set_level(PerfLevel::EnableTime);
            get();
            assert_eq!(by_level::levels(), []);
        });
    });
    assert_eq!(sums(LevelMetric::UserKeyReturnCount), before);
    count_at(PerfLevel::Disable);
    get();
    batch();
    assert_eq!(by_level::levels(), []);
}

/// Operands merged with a base in a table count as a value of its level; those without a base, and deletions,
/// do not.
#[test]
fn returned_values_count_in_the_level_of_their_base() {
    let db = tree(&Arc::new(Statistics::new(StatsLevel::All)), false);
    db.merge(&key(3), b"operand").unwrap();
    db.merge(&key(9_000), b"operand").unwrap();
    db.merge(&key(210), b"operand").unwrap();
    db.delete(&key(6)).unwrap();
    db.flush().unwrap();
    count_at(PerfLevel::EnableCount);
    for (n, there) in [
        (3, true),
        (9_000, true),
        (210, true),
        (6, false),
        (220, false),
    ] {
        assert_eq!(db.get(&key(n)).unwrap().is_some(), there, "{n}");
    }
    // Key 3 is in level 2. Key 210 has only the tombstone below its operand.
    assert_eq!(sums(LevelMetric::UserKeyReturnCount), [0, 1, 0]);
}
