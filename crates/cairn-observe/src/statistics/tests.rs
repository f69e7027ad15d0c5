//! Tickers, histograms and shards.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;

use super::thread_slots::UPDATES_BEFORE_LEASE;
use super::*;

#[test]
fn the_numbers_are_rocksdbs() {
    assert_eq!((Ticker::COUNT, Histogram::COUNT), (267, 80));
    // Samples of each list, verified against RocksDB's header by hand.
    assert_eq!(Ticker::BlockCacheMiss as u32, 0);
    assert_eq!(
        Ticker::ALL[266].name(),
        "rocksdb.blobdb.lazy.partial.bytes.saved"
    );
    assert_eq!(Histogram::DbGet as u32, 0);
    assert_eq!(
        Histogram::ALL[79].name(),
        "rocksdb.open.and.compact.db.open.micros"
    );
    for (at, ticker) in Ticker::ALL.iter().enumerate() {
        assert_eq!(Ticker::from_number(at as u32), Some(*ticker));
        assert_eq!(
            Ticker::named(ticker.name()),
            Some(*ticker),
            "a name occurs twice"
        );
    }
    assert_eq!(Ticker::from_number(267), None);
    assert_eq!(Histogram::from_number(80), None);
}

#[test]
fn counts_are_exact_with_short_lived_threads() {
    const ROUNDS: u64 = 60;
    let statistics = Statistics::new(StatsLevel::All);
    for _ in 0..ROUNDS {
        std::thread::scope(|scope| {
            for number in 0..16 {
                let statistics = &statistics;
                scope.spawn(move || {
                    for _ in 0..25 {
                        statistics.update(|update| {
                            update.add(Ticker::NumberKeysRead, 1);
                            update.add(Ticker::BytesRead, number);
                            update.record(Histogram::BytesPerRead, number);
                        });
                    }
                });
            }
        });
    }
    assert_eq!(statistics.ticker(Ticker::NumberKeysRead), ROUNDS * 16 * 25);
    assert_eq!(statistics.ticker(Ticker::BytesRead), ROUNDS * 25 * 120);
    let sizes = statistics.histogram(Histogram::BytesPerRead);
    assert_eq!(
        (sizes.count, sizes.sum),
        (ROUNDS * 16 * 25, ROUNDS * 25 * 120)
    );
    assert_eq!((sizes.min, sizes.max), (0, 15));
    assert_eq!(sizes.buckets[0], 2 * ROUNDS * 25);
}

#[test]
fn tickers_are_independent() {
    let statistics = Statistics::new(StatsLevel::All);
    for (number, ticker) in Ticker::ALL.iter().enumerate() {
        statistics.add(*ticker, 1 << (number % 60));
        statistics.add(*ticker, number as u64);
    }
    let sum = |number: usize| (1 << (number % 60)) + number as u64;
    let sums: Vec<u64> = (0..Ticker::COUNT).map(sum).collect();
    assert_eq!(statistics.tickers(), sums);
}

#[test]
fn updates_succeed_if_all_shards_are_taken() {
    let shards = Shards::new(2);
    let first = shards.of_core(0);
    let second = shards.of_core(0);
    let third = shards.of_core(1);
    for held in [&first, &second, &third] {
        held.shard().add(Ticker::NoFileOpens, 1);
    }
    drop((first, second, third));
    assert_eq!(shards.ticker(Ticker::NoFileOpens), 3);
    let all = shards
        .all()
        .map(|shard| shard.sum(Ticker::NoFileOpens).get());
    assert_eq!(all.collect::<Vec<_>>(), [1, 1, 1]);
    shards.of_core(0).shard().add(Ticker::NoFileOpens, 1);
    let first = shards.all().next().unwrap();
    assert_eq!(first.sum(Ticker::NoFileOpens).get(), 2);
}

/// Adds the counts of an operation on a key of `number` bytes.
fn read_key(statistics: &Statistics, number: u64) {
    statistics.update(|update| {
        update.add(Ticker::NumberKeysRead, 1);
        update.add(Ticker::BytesRead, number);
        update.record(Histogram::BytesPerRead, number);
        // The shards of slots omit this histogram.
        update.record(Histogram::SstBatchSize, number);
    });
}

#[test]
fn counts_are_exact_with_threads_that_lease_slots() {
    const THREADS: u64 = 3_000;
    const EACH: u64 = UPDATES_BEFORE_LEASE as u64 + 200;
    let statistics = Statistics::new(StatsLevel::All);
    std::thread::scope(|scope| {
        let mut threads = VecDeque::new();
        for number in 0..THREADS {
            let statistics = &statistics;
            threads.push_back(scope.spawn(move || {
                // Every tenth thread lives long enough to get a slot.
                let each = if number % 10 == 0 { EACH } else { 20 };
                (0..each).for_each(|_| read_key(statistics, number % 16));
            }));
            if threads.len() == 20 {
                threads.pop_front().unwrap().join().unwrap();
            }
        }
    });
    let counts = |number| if number % 10 == 0 { EACH } else { 20 };
    let keys: u64 = (0..THREADS).map(counts).sum();
    let bytes: u64 = (0..THREADS).map(|n| counts(n) * (n % 16)).sum();
    assert_eq!(statistics.ticker(Ticker::NumberKeysRead), keys);
    assert_eq!(statistics.ticker(Ticker::BytesRead), bytes);
    for histogram in [Histogram::BytesPerRead, Histogram::SstBatchSize] {
        let sizes = statistics.histogram(histogram);
        assert_eq!((sizes.count, sizes.sum), (keys, bytes));
        assert_eq!((sizes.min, sizes.max), (0, 15));
    }
    // At least one got a slot.
    assert!(statistics.shards.all().count() > Shards::new(cores::count()).all().count());
}

#[test]
fn updates_of_exiting_threads_count() {
    /// Counts when its thread exits.
    struct Last(RefCell<Option<Arc<Statistics>>>);
    impl Drop for Last {
        fn drop(&mut self) {
            if let Some(statistics) = self.0.take() {
                (0..3 * UPDATES_BEFORE_LEASE).for_each(|_| read_key(&statistics, 1));
            }
        }
    }
    // One is dropped before the lease of the slot, the other after it.
    thread_local! {
        static BEFORE: Last = const { Last(RefCell::new(None)) };
        static AFTER: Last = const { Last(RefCell::new(None)) };
    }
    let statistics = Arc::new(Statistics::new(StatsLevel::All));
    let all = statistics.clone();
    let thread = move || {
        BEFORE.with(|last| last.0.replace(Some(all.clone())));
        (0..2 * UPDATES_BEFORE_LEASE).for_each(|_| read_key(&all, 1));
        AFTER.with(|last| last.0.replace(Some(all)));
    };
    std::thread::scope(|scope| scope.spawn(thread).join()).unwrap();
    let sum = 8 * UPDATES_BEFORE_LEASE as u64;
    assert_eq!(statistics.ticker(Ticker::BytesRead), sum);
    assert_eq!(statistics.histogram(Histogram::BytesPerRead).sum, sum);
}

#[test]
fn taking_a_ticker_concurrently_loses_nothing() {
    const EACH: u64 = 20_000;
    let statistics = Statistics::new(StatsLevel::All);
    let adding = AtomicU8::new(4);
    let add = || {
        (0..EACH / 2).for_each(|_| statistics.add(Ticker::NumberKeysRead, 1));
        let tables = TableCounts::default();
        for _ in 0..EACH / 2 {
            statistics.update(|update| update.get(Some(&tables), Hit::Level(1), Some(1)));
        }
        adding.fetch_sub(1, Ordering::Relaxed);
    };
    let take = || {
        let mut taken = 0;
        while adding.load(Ordering::Relaxed) > 0 {
            let read = statistics.ticker(Ticker::NumberKeysRead);
            assert!(read <= 4 * EACH, "negative: {read}");
            taken += statistics.take_ticker(Ticker::NumberKeysRead);
        }
        taken
    };
    let taken = std::thread::scope(|scope| {
        (0..4).for_each(|_| drop(scope.spawn(add)));
        let other = scope.spawn(take);
        take() + other.join().unwrap()
    });
    let rest = statistics.take_ticker(Ticker::NumberKeysRead);
    assert_eq!(taken + rest, 4 * EACH);
    assert_eq!(statistics.ticker(Ticker::NumberKeysRead), 0);
}

#[test]
fn concurrent_samples_are_reset_atomically() {
    let statistics = Statistics::new(StatsLevel::All);
    let add = || (0..20_000).for_each(|_| read_key(&statistics, 3));
    std::thread::scope(|scope| {
        let adders: Vec<_> = (0..3).map(|_| scope.spawn(add)).collect();
        while !adders.iter().all(|adder| adder.is_finished()) {
            statistics.reset();
            let sizes = statistics.histogram(Histogram::BytesPerRead);
            assert!(sizes.count <= 60_000, "{sizes:?}");
        }
    });
    for histogram in [Histogram::BytesPerRead, Histogram::SstBatchSize] {
        let sizes = statistics.histogram(histogram);
        assert_eq!(sizes.sum, 3 * sizes.count);
        assert_eq!(sizes.sum_of_squares, 9 * sizes.count);
        assert_eq!(sizes.buckets[2], sizes.count);
    }
    statistics.reset();
    add();
    for histogram in [Histogram::BytesPerRead, Histogram::SstBatchSize] {
        let sizes = statistics.histogram(histogram);
        assert_eq!((sizes.count, sizes.min, sizes.max), (20_000, 3, 3));
    }
    assert_eq!(statistics.ticker(Ticker::NumberKeysRead), 20_000);
}

/// Verifies the sizes in the module's documentation.
#[test]
fn the_shard_of_a_slot_is_less_than_eleven_kilobytes() {
    let samples = size_of::<samples::Samples>();
    assert_eq!((size_of::<Shard>(), samples), (4352, 904));
    assert!(size_of::<Shard>() + 7 * samples < 11_000);
    let of_core = size_of::<Shard>() + (Histogram::COUNT - 8) * size_of::<[usize; 2]>();
    assert_eq!(of_core, 5504);
}

#[test]
fn common_values_are_included_in_histograms() {
    let statistics = Statistics::new(StatsLevel::All);
    let mut expected = Distribution::default();
    for round in 0..3 {
        for value in [7, 0, 7, u64::MAX, 1_000, 7, 0, 3, u64::MAX - 1] {
            statistics.record(Histogram::BytesPerRead, value);
            expected.add(value);
        }
        assert_eq!(statistics.histogram(Histogram::BytesPerRead), expected);
        if round == 1 {
            // After a reset, the first two values are different ones.
            statistics.reset();
            expected = Distribution::default();
            statistics.record(Histogram::BytesPerRead, 90);
            expected.add(90);
        }
    }
}

/// An operation on statistics.
#[derive(Clone, Debug)]
enum Step {
    Get(usize, Get),
    Add(usize, Ticker, u64),
    Record(usize, Histogram, u64),
    Take(Ticker),
    Set(Ticker, u64),
    Reset,
}

/// The outcome of a get.
#[derive(Clone, Debug)]
struct Get {
    hit: Hit,
    value: Option<u64>,
    /// The table counters, if it searched tables.
    tables: Option<[u64; 10]>,
}

impl Get {
    /// Updates the statistics as the engine does.
    fn bring(&self, update: &Update<'_>) {
        let counts = self.tables.map(|numbers| {
            let counts = TableCounts::default();
            let cells = [
                &counts.data_hits,
                &counts.filters_positive,
                &counts.filters_useful,
                &counts.filters_true,
                &counts.hit_bytes,
                &counts.prefixes_checked,
                &counts.index_hits,
                &counts.filter_hits,
                &counts.prefixes_useful,
                &counts.prefixes_true,
            ];
            for (cell, number) in cells.into_iter().zip(numbers) {
                cell.set(number);
            }
            counts
        });
        update.get(counts.as_ref(), self.hit, self.value);
        assert!(counts.is_none_or(|counts| counts.is_empty()));
    }

    /// The expected additions to each ticker.
    fn adds(&self) -> Vec<(Ticker, u64)> {
        let [data, positive, useful, right, bytes, prefixes, rest @ ..] =
            self.tables.unwrap_or_default();
        let [index, filter, prefixes_useful, prefixes_right] = rest;
        let memtable = match self.hit {
            Hit::Memtable => Ticker::MemtableHit,
            _ => Ticker::MemtableMiss,
        };
        let mut adds = vec![
            (memtable, 1),
            (Ticker::NumberKeysRead, 1),
            (Ticker::BytesRead, self.value.unwrap_or(0)),
            (Ticker::BlockCacheHit, data + index + filter),
            (Ticker::BlockCacheDataHit, data),
            (Ticker::BlockCacheIndexHit, index),
            (Ticker::BlockCacheFilterHit, filter),
            (Ticker::BlockCacheBytesRead, bytes),
            (Ticker::BloomFilterUseful, useful),
            (Ticker::BloomFilterFullPositive, positive),
            (Ticker::BloomFilterFullTruePositive, right),
            (Ticker::BloomFilterPrefixChecked, prefixes),
            (Ticker::BloomFilterPrefixUseful, prefixes_useful),
            (Ticker::BloomFilterPrefixTruePositive, prefixes_right),
        ];
        if let (Hit::Level(level), Some(_)) = (self.hit, self.value) {
            let levels = [Ticker::GetHitL0, Ticker::GetHitL1, Ticker::GetHitL2AndUp];
            adds.push((levels[level.min(2)], 1));
        }
        adds
    }
}

fn get() -> impl Strategy<Value = Get> {
    let hit = prop_oneof![
        1 => Just(Hit::Memtable),
        3 => (0_usize..5).prop_map(Hit::Level),
        1 => Just(Hit::Nowhere),
    ];
    let seldom = || prop_oneof![11 => Just(0_u64), 1 => 1_u64..3];
    let numbers = (0_u64..3, 0_u64..3, 0_u64..10, 0_u64..3, 0_u64..9000);
    // Prefix filters are negative only where prefixes are looked up.
    let others = (seldom(), seldom(), seldom(), 0_u64..2, seldom());
    let counted = (numbers, others).prop_map(
        |((a, b, c, d, e), (prefixes, index, filter, useful, right))| {
            let useful = useful.min(prefixes);
            [a, b, c, d, e, prefixes, index, filter, useful, right]
        },
    );
    let tables = prop_oneof![1 => Just([0; 10]), 5 => counted];
    let value = prop::option::of(0_u64..200);
    (hit, value, prop::option::weighted(0.9, tables)).prop_map(|(hit, value, tables)| Get {
        hit,
        value,
        tables,
    })
}

/// A few of each group (of gets, frequent, infrequent), so that collisions occur.
const TICKERS: [Ticker; 3] = [
    Ticker::BytesRead,
    Ticker::NumberKeysRead,
    Ticker::BlockCacheMiss,
];
const HISTOGRAMS: [Histogram; 3] = [
    Histogram::BytesPerRead,
    Histogram::DbSeek,
    Histogram::SstBatchSize,
];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ticker = || prop::sample::select(&TICKERS[..]);
    let histogram = prop::sample::select(&HISTOGRAMS[..]);
    let value = || prop_oneof![0_u64..200, any::<u64>()];
    let step = prop_oneof![
        12 => (0_usize..8, get()).prop_map(|(by, get)| Step::Get(by, get)),
        6 => (0_usize..8, ticker(), value()).prop_map(|(by, one, n)| Step::Add(by, one, n)),
        6 => (0_usize..8, histogram, value()).prop_map(|(by, one, n)| Step::Record(by, one, n)),
        2 => ticker().prop_map(Step::Take),
        1 => (ticker(), value()).prop_map(|(one, n)| Step::Set(one, n)),
        1 => Just(Step::Reset),
    ];
    prop::collection::vec(step, 0..100)
}

impl Statistics {
    /// [`Statistics::update`] by the owner of a slot or by a core, selected by `by`.
    fn update_by(&self, by: usize, change: impl FnOnce(&Update<'_>)) {
        let held = self.shards.of_core(by);
        let shard = match by {
            0..4 => held.shard(),
            slot => self.shards.of_slot((slot - 4) * 15),
        };
        change(&Update {
            statistics: self,
            shard,
            inner: None,
            level: StatsLevel::All as u8,
        });
    }
}

proptest! {
    #[test]
    fn statistics_match_a_model(steps in steps()) {
        let statistics = Statistics {
            shards: Shards::new(4),
            ..Statistics::new(StatsLevel::All)
        };
        let mut sums = BTreeMap::<u32, u64>::new();
        let mut samples = BTreeMap::<u32, Distribution>::new();
        for step in steps {
            match step {
                Step::Get(by, get) => {
                    statistics.update_by(by, |update| get.bring(update));
                    for (ticker, count) in get.adds() {
                        let sum = sums.entry(ticker as u32).or_default();
                        *sum = sum.wrapping_add(count);
                    }
                    let sizes = samples.entry(Histogram::BytesPerRead as u32).or_default();
                    sizes.add(get.value.unwrap_or(0));
                }
                Step::Add(by, ticker, count) => {
                    statistics.update_by(by, |update| update.add(ticker, count));
                    let sum = sums.entry(ticker as u32).or_default();
                    *sum = sum.wrapping_add(count);
                }
                Step::Record(by, histogram, value) => {
                    statistics.update_by(by, |update| update.record(histogram, value));
                    samples.entry(histogram as u32).or_default().add(value);
                }
                Step::Take(ticker) => {
                    let sum = sums.remove(&(ticker as u32)).unwrap_or(0);
                    prop_assert_eq!(statistics.take_ticker(ticker), sum);
                }
                Step::Set(ticker, count) => {
                    statistics.set_ticker(ticker, count);
                    sums.insert(ticker as u32, count);
                }
                Step::Reset => {
                    statistics.reset();
                    sums.clear();
                    samples.clear();
                }
            }
            for (&ticker, all) in Ticker::ALL.iter().zip(statistics.tickers()) {
                let sum = sums.get(&(ticker as u32)).copied().unwrap_or(0);
                prop_assert_eq!((statistics.ticker(ticker), all), (sum, sum), "{:?}", ticker);
            }
            for histogram in HISTOGRAMS {
                let expected = samples.get(&(histogram as u32)).cloned().unwrap_or_default();
                prop_assert_eq!(statistics.histogram(histogram), expected);
            }
        }
    }
}

#[test]
fn levels_disable_statistics() {
    let statistics = Statistics::new(StatsLevel::DisableAll);
    let mut seen = Vec::new();
    for number in 0..=5 {
        statistics.set_level(StatsLevel::from_number(number));
        statistics.reset();
        statistics.update(|update| {
            update.add(Ticker::BytesRead, 1);
            update.record(Histogram::BytesPerRead, 1);
            update.time(Histogram::DbGet, 1);
        });
        let read = statistics.ticker(Ticker::BytesRead);
        let sizes = statistics.histogram(Histogram::BytesPerRead).count;
        seen.push((read, sizes, statistics.histogram(Histogram::DbGet).count));
    }
    let all = (1, 1, 1);
    assert_eq!(seen, [(0, 0, 0), (1, 0, 0), (1, 1, 0), all, all, all]);
}

#[test]
fn tickers_can_be_set_and_taken() {
    let statistics = Statistics::new(StatsLevel::All);
    statistics.add(Ticker::BytesRead, 7);
    assert_eq!(statistics.take_ticker(Ticker::BytesRead), 7);
    assert_eq!(statistics.ticker(Ticker::BytesRead), 0);
    statistics.set_ticker(Ticker::BytesRead, 9);
    statistics.add(Ticker::BytesRead, 1);
    assert_eq!(statistics.tickers()[Ticker::BytesRead as usize], 10);
    statistics.reset();
    assert_eq!(
        statistics.histogram(Histogram::DbGet),
        Distribution::default()
    );
    assert_eq!(statistics.tickers(), vec![0; 267]);
}

/// The counts of one ticker, one histogram of sizes and one of times.
fn counts(statistics: &Statistics) -> [u64; 3] {
    [
        statistics.ticker(Ticker::BytesRead),
        statistics.histogram(Histogram::BytesPerRead).count,
        statistics.histogram(Histogram::DbGet).count,
    ]
}

/// One count of each kind, by a get.
fn get_once(statistics: &Statistics) -> bool {
    statistics.update(|update| {
        update.get(None, Hit::Memtable, Some(1));
        update.time(Histogram::DbGet, 1);
    })
}

#[test]
fn statistics_forward_at_the_levels_of_both() {
    let levels = StatsLevel::ALL;
    for outer_level in levels {
        for inner_level in levels {
            let inner = Arc::new(Statistics::new(inner_level));
            let outer = Statistics::new(outer_level).forwarding_to(inner.clone());
            let is_counted = outer_level > StatsLevel::DisableAll;
            assert_eq!(get_once(&outer), is_counted);
            let own = Statistics::new(outer_level);
            get_once(&own);
            assert_eq!(counts(&outer), counts(&own), "{outer_level:?}");
            // The inner statistics get everything that the outer ones count, times included, if their level has histograms.
            let expected = match inner_level {
                StatsLevel::DisableAll => [0; 3],
                StatsLevel::ExceptHistogramOrTimers => [counts(&own)[0], 0, 0],
                _ => counts(&own),
            };
            assert_eq!(counts(&inner), expected, "{outer_level:?} {inner_level:?}");
            let hits = [&outer, &*inner].map(|one| one.ticker(Ticker::MemtableHit));
            assert_eq!(hits, [counts(&outer)[0], counts(&inner)[0]]);
        }
    }
}

#[test]
fn a_chain_of_statistics_forwards_to_the_last() {
    let last = Arc::new(Statistics::new(StatsLevel::All));
    let middle = Statistics::new(StatsLevel::All).forwarding_to(last.clone());
    let middle = Arc::new(middle);
    let first = Statistics::new(StatsLevel::All).forwarding_to(middle.clone());
    // Enough to lease a slot; the shard of a slot has room for one of the two histograms only.
    for n in 0..2 * UPDATES_BEFORE_LEASE as u64 {
        read_key(&first, n);
    }
    assert!(first.ticker(Ticker::NumberKeysRead) > 0);
    for other in [&middle, &last] {
        assert_eq!(other.tickers(), first.tickers());
        for histogram in [Histogram::BytesPerRead, Histogram::SstBatchSize] {
            assert_eq!(other.histogram(histogram), first.histogram(histogram));
        }
    }
    // Disabled statistics forward nothing.
    let before = last.tickers();
    middle.set_level(StatsLevel::DisableAll);
    get_once(&first);
    assert_eq!(last.tickers(), before);
    // Inner statistics do not forward to outer ones.
    get_once(&last);
    assert_eq!(middle.tickers(), before);
}

#[test]
fn tickers_of_inner_statistics_are_set_and_taken_but_not_reset() {
    let inner = Arc::new(Statistics::new(StatsLevel::All));
    let outer = Statistics::new(StatsLevel::All).forwarding_to(inner.clone());
    let both = || [&outer, &*inner].map(|one| one.ticker(Ticker::BytesRead));
    inner.add(Ticker::BytesRead, 5);
    outer.add(Ticker::BytesRead, 2);
    assert_eq!(both(), [2, 7]);
    assert_eq!(outer.take_ticker(Ticker::BytesRead), 2);
    assert_eq!(both(), [0, 0]);
    outer.set_ticker(Ticker::BytesRead, 4);
    assert_eq!(both(), [4, 4]);
    outer.record(Histogram::BytesPerRead, 1);
    outer.reset();
    assert_eq!(both(), [0, 4]);
    assert_eq!(inner.histogram(Histogram::BytesPerRead).count, 1);
    outer.set_level(StatsLevel::DisableAll);
    assert_eq!(inner.level(), StatsLevel::All);
}

#[test]
fn ignored_histograms_get_no_times() {
    let ignored = [Histogram::DbGet, Histogram::BytesPerRead];
    let inner = Arc::new(Statistics::new(StatsLevel::All).without_times_of(ignored));
    let outer = Statistics::new(StatsLevel::All)
        .forwarding_to(inner.clone())
        .without_times_of(ignored);
    get_once(&outer);
    outer.time(Histogram::DbWrite, 1);
    for one in [&outer, &*inner] {
        assert_eq!(counts(one), [1, 1, 0]);
        assert_eq!(one.histogram(Histogram::DbWrite).count, 1);
    }
    // Only the outer statistics decide which times are dropped: the inner ones record a forwarded time that they ignore.
    let outer = Statistics::new(StatsLevel::All).forwarding_to(inner.clone());
    get_once(&outer);
    assert_eq!(counts(&inner), [2, 2, 1]);
}

#[test]
fn the_text_is_rocksdbs() {
    let statistics = Statistics::new(StatsLevel::All);
    statistics.add(Ticker::BlockCacheHit, 3);
    statistics.time(Histogram::DbGet, 12);
    let text = statistics.to_string();
    assert_eq!(text.lines().count(), 267 + 80);
    assert!(
        text.starts_with("rocksdb.block.cache.miss COUNT : 0\nrocksdb.block.cache.hit COUNT : 3\n")
    );
    let get = "rocksdb.db.get.micros P50 : 12.000000 P95 : 12.000000 P99 : 12.000000 \
               P100 : 12.000000 COUNT : 1 SUM : 12\n";
    assert!(text.contains(get), "{text}");
}
