//! What tickers, histograms and shards promise.

use super::*;

#[test]
fn the_numbers_are_rocksdbs() {
    assert_eq!((Ticker::COUNT, Histogram::COUNT), (267, 80));
    // Some of each list, counted in RocksDB's header by hand.
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
            "a name is there twice"
        );
    }
    assert_eq!(Ticker::from_number(267), None);
    assert_eq!(Histogram::from_number(80), None);
}

#[test]
fn counts_are_exact_while_threads_come_and_go() {
    let statistics = Statistics::new(StatsLevel::All);
    for _ in 0..250 {
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
    assert_eq!(statistics.ticker(Ticker::NumberKeysRead), 250 * 16 * 25);
    assert_eq!(statistics.ticker(Ticker::BytesRead), 250 * 25 * 120);
    let sizes = statistics.histogram(Histogram::BytesPerRead);
    assert_eq!((sizes.count, sizes.sum), (250 * 16 * 25, 250 * 25 * 120));
    assert_eq!((sizes.min, sizes.max), (0, 15));
    assert_eq!(sizes.buckets[0], 2 * 250 * 25);
}

#[test]
fn every_ticker_has_a_sum_of_its_own() {
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
fn who_finds_all_shards_taken_counts_all_the_same() {
    let shards = Shards::new(2);
    let first = shards.take(0);
    let second = shards.take(0);
    let third = shards.take(1);
    for held in [&first, &second, &third] {
        held.add(Ticker::NoFileOpens, 1);
    }
    drop((first, second, third));
    assert_eq!(
        shards
            .all()
            .map(|shard| shard.ticker(Ticker::NoFileOpens))
            .sum::<u64>(),
        3
    );
    assert_eq!(
        shards
            .all()
            .filter(|shard| shard.ticker(Ticker::NoFileOpens) == 1)
            .count(),
        3
    );
}

#[test]
fn levels_leave_out_what_they_say() {
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
