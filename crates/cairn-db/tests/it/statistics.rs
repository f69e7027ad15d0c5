//! Tickers and histograms of operations.

use std::path::Path;
use std::sync::Arc;

use cairn_db::{Db, OpenRequest, open};
use cairn_observe::perf::iostats::{self, IoMetric};
use cairn_observe::perf::{self, PerfLevel, PerfMetric};
use cairn_observe::statistics::{Histogram, Keeping, Statistics, StatsLevel, Ticker};
use cairn_options::{
    CompactRangeOptions, DbOptions, FamilyOptions, FilterPolicy, ReadOptions, WriteOptions,
    merge_operators,
};
use cairn_platform::World;

use crate::basic::{db_options, small};
use crate::blobs::walk;

fn open_with(world: &World, path: &str, statistics: Keeping) -> Db {
    let mut family = small();
    family.table.filter_policy = Some(FilterPolicy::Bloom { bits_per_key: 10.0 });
    let options = DbOptions {
        statistics,
        ..db_options()
    };
    open(&OpenRequest {
        path: Path::new(path),
        options: &options,
        families: &[],
        others: Some(&family),
        read_only: false,
        world: world.clone(),
    })
    .expect("it opens")
}

fn counting(world: &World, path: &str, statistics: &Arc<Statistics>) -> Db {
    open_with(world, path, statistics.clone().into())
}

fn key(n: u32) -> [u8; 8] {
    u64::from(n).to_be_bytes()
}

#[test]
fn every_kind_of_operation_counts() {
    let statistics = Arc::new(Statistics::new(StatsLevel::All));
    let world = World::in_memory();
    let db = counting(&world, "/db", &statistics);
    let ticker = |ticker| statistics.ticker(ticker);
    for n in 0..100 {
        db.put(&key(n), b"0123456789").unwrap();
    }
    assert_eq!(ticker(Ticker::NumberKeysWritten), 100);
    // The header, then the kind, the key with its length, and the value with its length.
    assert_eq!(ticker(Ticker::BytesWritten), 100 * (12 + 1 + 9 + 11));
    assert_eq!(ticker(Ticker::WalFileBytes), ticker(Ticker::BytesWritten));
    assert_eq!(ticker(Ticker::WriteDoneBySelf), 100);
    assert_eq!(statistics.histogram(Histogram::DbWrite).count, 100);
    assert_eq!(statistics.histogram(Histogram::BytesPerWrite).max, 33);

    assert!(db.get(&key(7)).unwrap().is_some());
    assert_eq!(
        (ticker(Ticker::MemtableHit), ticker(Ticker::MemtableMiss)),
        (1, 0)
    );
    db.flush().unwrap();
    assert!(ticker(Ticker::FlushWriteBytes) > 1000);
    assert_eq!(statistics.histogram(Histogram::FlushTime).count, 1);

    // Once from the file and twice from the cache; then a key that is in no filter.
    for _ in 0..3 {
        assert!(db.get(&key(7)).unwrap().is_some());
    }
    assert!(db.get(b"nothing").unwrap().is_none());
    assert_eq!(ticker(Ticker::NumberKeysRead), 5);
    assert_eq!(ticker(Ticker::BytesRead), 40);
    assert_eq!(
        (ticker(Ticker::MemtableHit), ticker(Ticker::MemtableMiss)),
        (1, 4)
    );
    assert_eq!(ticker(Ticker::GetHitL0), 3);
    assert_eq!(
        (
            ticker(Ticker::BlockCacheDataMiss),
            ticker(Ticker::BlockCacheDataHit)
        ),
        (1, 2)
    );
    assert_eq!(
        (
            ticker(Ticker::BlockCacheMiss),
            ticker(Ticker::BlockCacheHit)
        ),
        (1, 2)
    );
    assert_eq!(ticker(Ticker::BlockCacheAdd), 1);
    // The bytes are those of the allocations, including room for the search words of data blocks.
    assert_eq!(
        ticker(Ticker::BlockCacheBytesWrite) * 2,
        ticker(Ticker::BlockCacheBytesRead)
    );
    let cached = db.property_number("rocksdb.block-cache-usage").unwrap();
    let written = ticker(Ticker::BlockCacheBytesWrite);
    assert!(written < cached && cached < written + 200);
    assert_eq!(ticker(Ticker::BloomFilterFullPositive), 3);
    assert_eq!(ticker(Ticker::BloomFilterFullTruePositive), 3);
    // A key after all others is not looked up in the file at all.
    assert_eq!(ticker(Ticker::BloomFilterUseful), 0);
    let between = [&key(7)[..], b"x"].concat();
    assert!(db.get(&between).unwrap().is_none());
    assert_eq!(ticker(Ticker::BloomFilterUseful), 1);
    let sizes = statistics.histogram(Histogram::BytesPerRead);
    assert_eq!((sizes.count, sizes.sum, sizes.min), (6, 40, 0));
    assert_eq!(statistics.histogram(Histogram::DbGet).count, 6);
    assert_eq!(ticker(Ticker::NoFileOpens), 1);

    let keys = [key(1), key(2), key(1000)];
    let _found = db.multi_get(&keys, &ReadOptions::default());
    assert_eq!(ticker(Ticker::NumberMultigetCalls), 1);
    assert_eq!(ticker(Ticker::NumberMultigetKeysRead), 3);
    assert_eq!(ticker(Ticker::NumberMultigetKeysFound), 2);
    assert_eq!(ticker(Ticker::NumberMultigetBytesRead), 20);

    let synced = WriteOptions {
        sync: true,
        ..WriteOptions::default()
    };
    db.put_with(&key(1), b"", &synced).unwrap();
    assert_eq!(ticker(Ticker::WalFileSynced), 1);
    assert_eq!(statistics.histogram(Histogram::WalFileSyncMicros).count, 1);
    assert!(
        db.property("rocksdb.options-statistics")
            .unwrap()
            .contains("rocksdb.wal.synced COUNT : 1\n")
    );
}

/// Regression: syncs of ended logs, which flushes of several families require, were not counted.
#[test]
fn a_flush_of_one_of_several_families_counts_a_sync_of_logs() {
    let statistics = Arc::new(Statistics::new(StatsLevel::All));
    let db = counting(&World::in_memory(), "/db", &statistics);
    let synced = || statistics.ticker(Ticker::WalFileSynced);
    db.put(&key(1), b"1").unwrap();
    db.flush().unwrap();
    assert_eq!(synced(), 0, "there is no other family");
    let other = db.create_family("other", &small()).unwrap();
    let before = synced();
    for family in [db.default_family(), &other] {
        family.put(&key(1), b"1").unwrap();
        family.flush().unwrap();
    }
    assert_eq!(synced() - before, 2);
}

#[test]
fn iterators_count_their_steps() {
    let statistics = Arc::new(Statistics::new(StatsLevel::All));
    let db = counting(&World::in_memory(), "/db", &statistics);
    for n in 0..10 {
        db.put(&key(n), b"v").unwrap();
    }
    let mut iter = db.iter();
    iter.seek(&key(3));
    iter.next();
    iter.next();
    iter.prev();
    iter.seek(&key(11));
    iter.seek_to_last();
    iter.next();
    drop(iter);
    let ticker = |ticker| statistics.ticker(ticker);
    assert_eq!(
        (
            ticker(Ticker::NumberDbSeek),
            ticker(Ticker::NumberDbSeekFound)
        ),
        (3, 2)
    );
    assert_eq!(
        (
            ticker(Ticker::NumberDbNext),
            ticker(Ticker::NumberDbNextFound)
        ),
        (3, 2)
    );
    assert_eq!(
        (
            ticker(Ticker::NumberDbPrev),
            ticker(Ticker::NumberDbPrevFound)
        ),
        (1, 1)
    );
    assert_eq!(ticker(Ticker::IterBytesRead), 5 * 9);
    assert_eq!(
        (
            ticker(Ticker::NoIteratorCreated),
            ticker(Ticker::NoIteratorDeleted)
        ),
        (1, 1)
    );
    // As in RocksDB, a seek to the first or last key is timed only if it is one to a bound.
    assert_eq!(statistics.histogram(Histogram::DbSeek).count, 2);
}

/// Regression: only gets were counted.
#[test]
fn merged_operands_are_counted_by_gets_and_iterators_in_both_directions() {
    let statistics = Arc::new(Statistics::new(StatsLevel::All));
    let world = World::in_memory();
    let db = counting(&world, "/db", &statistics);
    let merging = FamilyOptions {
        merge_operator: merge_operators::from_text("stringappend").ok(),
        ..small()
    };
    let family = db.create_family("f", &merging).unwrap();
    for operand in [b"a", b"b", b"c"] {
        family.merge(b"k", operand).unwrap();
    }
    let merged = || {
        let counts = statistics.histogram(Histogram::ReadNumMergeOperands);
        (counts.count, counts.max)
    };
    assert!(family.get(b"k").unwrap().is_some());
    assert_eq!(merged(), (1, 3));
    let mut iter = family.iter();
    iter.seek_to_first();
    assert_eq!(merged(), (2, 3));
    iter.seek_to_last();
    assert_eq!(merged(), (3, 3));
}

#[test]
fn databases_share_statistics_or_keep_their_own_or_none() {
    let world = World::in_memory();
    let statistics = Arc::new(Statistics::new(StatsLevel::All));
    let dbs = ["/one", "/two"].map(|path| counting(&world, path, &statistics));
    for db in &dbs {
        db.put(b"k", b"v").unwrap();
    }
    assert_eq!(statistics.ticker(Ticker::NumberKeysWritten), 2);
    let own = open_with(&world, "/own", Keeping::Own);
    own.put(b"k", b"v").unwrap();
    let kept = own.statistics().expect("statistics are on");
    assert_eq!(kept.ticker(Ticker::NumberKeysWritten), 1);
    assert_eq!(kept.level(), StatsLevel::ExceptTimers);
    let none = open_with(&world, "/none", Keeping::Nothing);
    none.put(b"k", b"v").unwrap();
    assert!(none.get(b"k").unwrap().is_some());
    assert!(none.statistics().is_none());
    assert_eq!(none.property("rocksdb.options-statistics"), None);
}

/// Regression: the rest of the program's threads are counted separately from the first use on.
#[test]
fn operations_before_counting_is_enabled_are_not_counted_later() {
    let statistics = Arc::new(Statistics::new(StatsLevel::All));
    let db = counting(&World::in_memory(), "/db", &statistics);
    db.put(&key(7), b"value").unwrap();
    db.flush().unwrap();
    let read = || {
        assert!(db.get(&key(7)).unwrap().is_some());
        let found = db.multi_get(&[&key(7)], &ReadOptions::default());
        assert!(found.into_iter().all(|found| found.unwrap().is_some()));
    };
    let mut iter = db.iter();
    let mut walk = || {
        iter.seek(&key(7));
        iter.next();
    };
    let mut counted = |silent: usize| {
        statistics.set_level(StatsLevel::DisableAll);
        (0..silent).for_each(|_| read());
        (0..silent).for_each(|_| walk());
        statistics.set_level(StatsLevel::ExceptTimers);
        statistics.reset();
        read();
        walk();
        // Steps are added by the next seek.
        walk();
        statistics.tickers()
    };
    // From here on, everything is cached.
    counted(1);
    let expected = counted(0);
    assert!(expected[Ticker::BlockCacheHit as usize] > 0);
    assert!(expected[Ticker::NumberDbNext as usize] > 0);
    assert_eq!(counted(5), expected);
}

#[test]
fn a_thread_counts_its_own_operations() {
    let db = open_with(&World::in_memory(), "/db", Keeping::Nothing);
    for n in 0..10 {
        db.put(&key(n), b"0123456789").unwrap();
    }
    db.flush().unwrap();
    perf::set_level(PerfLevel::EnableCount);
    perf::reset();
    for _ in 0..2 {
        assert!(db.get(&key(7)).unwrap().is_some());
    }
    assert_eq!(perf::metric(PerfMetric::GetReadBytes), 20);
    assert_eq!(perf::metric(PerfMetric::BlockReadCount), 1);
    assert_eq!(perf::metric(PerfMetric::BlockCacheHitCount), 1);
    assert_eq!(perf::metric(PerfMetric::BloomSstHitCount), 2);
    assert_eq!(perf::metric(PerfMetric::BlockReadTime), 0);
    // An empty memtable is not searched.
    assert_eq!(perf::metric(PerfMetric::GetFromMemtableCount), 0);
    perf::reset();
    db.delete(&key(1)).unwrap();
    let mut iter = db.iter();
    iter.seek_to_first();
    iter.next();
    // While the iterator exists.
    assert_eq!(perf::metric(PerfMetric::IterNextCount), 1);
    assert_eq!(perf::metric(PerfMetric::IterSeekCount), 1);
    assert_eq!(perf::metric(PerfMetric::IterReadBytes), 36);
    assert_eq!(perf::metric(PerfMetric::InternalDeleteSkippedCount), 1);
    assert!(db.get(&key(1)).unwrap().is_none() && db.get(&key(7)).unwrap().is_some());
    assert_eq!(perf::metric(PerfMetric::GetFromMemtableCount), 2);
    perf::set_level(PerfLevel::EnableTime);
    perf::reset();
    db.put(b"k", b"v").unwrap();
    assert!(perf::metric(PerfMetric::WriteMemtableTime) > 0);
    perf::set_level(PerfLevel::Disable);
    perf::reset();
    assert!(db.get(&key(7)).unwrap().is_some());
    assert_eq!(perf::report(true), "");
}

/// CPU times belong to a higher level than other times, as in RocksDB.
#[test]
fn a_thread_measures_the_times_of_its_level() {
    let folder = tempfile::tempdir().unwrap();
    let db = open_with(
        &World::posix(),
        &folder.path().join("db").to_string_lossy(),
        Keeping::Nothing,
    );
    let times = || {
        [
            PerfMetric::BlockReadTime,
            PerfMetric::BlockReadCpuTime,
            PerfMetric::GetPostProcessTime,
        ]
        .map(|metric| perf::metric(metric) > 0)
    };
    let levels = [
        (PerfLevel::EnableCount, [false; 3]),
        (PerfLevel::EnableTimeExceptForMutex, [true, false, true]),
        (PerfLevel::EnableTimeAndCpuTimeExceptForMutex, [true; 3]),
        (PerfLevel::EnableTime, [true; 3]),
    ];
    for (n, (level, measured)) in (0..).zip(levels) {
        db.put(&key(n), b"0123456789").unwrap();
        db.flush().unwrap();
        perf::set_level(level);
        perf::reset();
        assert!(db.get(&key(n)).unwrap().is_some());
        assert_eq!(times(), measured, "{level:?}");
    }
}

/// Iterators count deletions in both directions, and skipped entries as RocksDB does: forward, hidden entries
/// and each entry that is left; backward, every entry.
#[test]
fn iterators_count_skipped_entries() {
    let db = open_with(&World::in_memory(), "/db", Keeping::Nothing);
    db.set_options(&[("disable_auto_compactions", "true")])
        .unwrap();
    for n in 0..10 {
        db.put(&key(n), b"v").unwrap();
    }
    db.flush().unwrap();
    for n in (0..10).step_by(2) {
        db.delete(&key(n)).unwrap();
    }
    db.flush().unwrap();
    perf::set_level(PerfLevel::EnableCount);
    let walked = |back: bool| {
        perf::reset();
        assert_eq!(walk(db.iter(), back), 5);
        let counts = [
            PerfMetric::InternalKeySkippedCount,
            PerfMetric::InternalDeleteSkippedCount,
        ];
        counts.map(perf::metric)
    };
    assert_eq!(walked(false), [5 + 5, 5]);
    assert_eq!(walked(true), [5 + 5 + 5, 5]);
    perf::set_level(PerfLevel::Disable);
}

/// Entries dropped by a compaction are counted by reason.
#[test]
fn entries_dropped_by_compactions_are_counted_by_reason() {
    let statistics = Arc::new(Statistics::new(StatsLevel::All));
    let db = counting(&World::in_memory(), "/db", &statistics);
    for key in [b"a", b"b", b"c", b"d"] {
        db.put(key, b"1").unwrap();
    }
    db.flush().unwrap();
    db.put(b"a", b"2").unwrap();
    db.delete(b"b").unwrap();
    db.delete_range(b"c", b"cc").unwrap();
    db.flush().unwrap();
    let options = CompactRangeOptions::default();
    db.compact_range(None, None, &options).unwrap();
    let ticker = |ticker| statistics.ticker(ticker);
    // The old values of a and b, and that of c, which the tombstone covers.
    assert_eq!(ticker(Ticker::CompactionKeyDropNewerEntry), 3);
    assert_eq!(ticker(Ticker::CompactionKeyDropRangeDel), 1);
    // There is nothing below: the deletion of b and the tombstone are obsolete.
    assert_eq!(ticker(Ticker::CompactionKeyDropObsolete), 1);
    assert_eq!(ticker(Ticker::CompactionRangeDelDropObsolete), 1);
    assert_eq!(ticker(Ticker::CompactionOptimizedDelDropObsolete), 0);
    assert_eq!(ticker(Ticker::CompactionKeyDropUser), 0);
    // One write for each of three tables, one of them by the compaction, and one sync each.
    let count = |histogram| statistics.histogram(histogram).count;
    assert_eq!(count(Histogram::SstWriteMicros), 3);
    assert_eq!(count(Histogram::FileWriteFlushMicros), 2);
    assert_eq!(count(Histogram::FileWriteCompactionMicros), 1);
    assert_eq!(count(Histogram::TableSyncMicros), 2);
    assert_eq!(count(Histogram::CompactionOutfileSyncMicros), 1);
    assert_eq!(count(Histogram::CompactionCpuTime), 1);
    // Four keys of one byte and their values, and then three; all of them were written.
    assert_eq!(
        ticker(Ticker::MemtablePayloadBytesAtFlush),
        4 * 10 + (10 + 9 + 11)
    );
    assert_eq!(ticker(Ticker::MemtableGarbageBytesAtFlush), 0);
}

/// File operations of a thread are counted for that thread only.
#[test]
fn a_thread_counts_its_bytes_and_the_time_of_its_calls() {
    let db = open_with(&World::in_memory(), "/db", Keeping::Nothing);
    let write = || {
        db.put(&key(1), &[7; 1_000]).unwrap();
        db.flush_wal(true).unwrap();
    };
    perf::set_level(PerfLevel::EnableCount);
    iostats::reset();
    write();
    // A batch of one record with its headers, and the log's.
    assert_eq!(
        iostats::metric(IoMetric::BytesWritten),
        12 + 1 + 9 + 2 + 1_000 + 7
    );
    assert_eq!(iostats::metric(IoMetric::BytesRead), 0);
    assert_eq!(iostats::metric(IoMetric::FsyncNanos), 0);
    db.flush().unwrap();
    assert!(db.get(&key(1)).unwrap().is_some());
    assert!(iostats::metric(IoMetric::BytesRead) > 1_000);
    assert_eq!(iostats::metric(IoMetric::ReadNanos), 0);
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(iostats::report(true), ""));
    });
    perf::set_level(PerfLevel::EnableTime);
    write();
    assert!(iostats::metric(IoMetric::FsyncNanos) > 0);
    assert!(iostats::metric(IoMetric::WriteNanos) > 0);
    perf::set_level(PerfLevel::Disable);
    iostats::reset();
    write();
    assert_eq!(iostats::report(true), "");
    let ((), times) = iostats::with_times(write);
    assert!(times.write > 0 && times.fsync > 0);
    assert_eq!((times.range_sync, times.prepare_write), (0, 0));
    assert_eq!(perf::level(), PerfLevel::Disable, "it is put back");
    write();
    assert_eq!(iostats::metric(IoMetric::WriteNanos), times.write);
}
