//! Readahead in the background: the reads that it starts, the waits of the scan, and reads that fail.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use cairn_compress::Compression;
use cairn_format::key;
use cairn_memory::{BlockCache, CacheOptions, ChargePolicy, MemoryUse, MemoryUses};
use cairn_observe::statistics::{Histogram, Meter, Statistics, StatsLevel, Ticker};
use cairn_options::{IndexType, TableOptions};
use cairn_platform::fs::{Access, FileMode};
use cairn_platform::read_queue::{FileReads, ReadQueue};
use cairn_platform::sync::{AtomicBool, AtomicU64, Mutex, Ordering};
use cairn_platform::{
    Clock, FileSystem, Io, MemFileSystem, RandomAccessFile, ReadDriver, RemoteFileSystem,
    RemoteSettings,
};
use cairn_table::{Background, BuildParams, IterOptions, OpenParams, ReadAhead, Table, TableIter};
use cairn_types::{Error, Result};
use proptest::prelude::*;

use crate::round_trip::{entries_of, options, orders, raw_entries};
use crate::world::{Entry, build, file, put};

const MS: u64 = 1_000_000;

/// A clock that advances by sleeping only.
#[derive(Default)]
struct Still(AtomicU64);

impl Clock for Still {
    fn wall_micros(&self) -> u64 {
        self.monotonic_nanos() / 1_000
    }
    fn monotonic_nanos(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
    fn sleep(&self, duration: std::time::Duration) {
        let nanos = duration.as_nanos() as u64;
        self.0.fetch_add(nanos, Ordering::Relaxed);
    }
}

/// A file that records its reads, and fails those of a byte that it has been given.
struct Recorder {
    file: Arc<dyn RandomAccessFile>,
    reads: Mutex<Vec<(u64, usize)>>,
    damaged: AtomicU64,
    /// True if the damage is a short read instead of an error.
    is_short: AtomicBool,
}

impl Recorder {
    fn new(bytes: &[u8]) -> Arc<Recorder> {
        Arc::new(Recorder {
            file: file(bytes),
            reads: Mutex::default(),
            damaged: AtomicU64::new(u64::MAX),
            is_short: AtomicBool::new(false),
        })
    }

    fn take(&self) -> Vec<(u64, usize)> {
        std::mem::take(&mut *self.reads.lock())
    }
}

impl RandomAccessFile for Recorder {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.reads.lock().push((offset, buf.len()));
        let damaged = self.damaged.load(Ordering::Relaxed);
        let got = self.file.read_at(offset, buf)?;
        match damaged
            .checked_sub(offset)
            .filter(|at| *at < buf.len() as u64)
        {
            Some(at) if self.is_short.load(Ordering::Relaxed) => Ok(at as usize),
            Some(_) => Err(Error::io_text("the sector is damaged")),
            None => Ok(got),
        }
    }
    cairn_platform::derived_reads!();
    fn advise(&self, _: Access) {}
    fn drop_cached(&self) {}
    fn len(&self) -> Result<u64> {
        self.file.len()
    }
    fn path(&self) -> &Path {
        self.file.path()
    }
    fn prefetch(&self, _: u64, _: usize) -> bool {
        false
    }
}

fn entry(n: usize) -> Entry {
    put(&format!("{n:08}"), vec![n as u8; 1000])
}

/// The bytes of a table with `count` entries of 1,000 bytes, four in a block.
fn table_bytes(count: usize, options: &Arc<TableOptions>) -> Vec<u8> {
    let entries: Vec<Entry> = (0..count).map(entry).collect();
    let params = BuildParams {
        options: options.clone(),
        compression: Compression::None,
        ..BuildParams::default()
    };
    build(params, &entries, &[]).unwrap().0
}

fn plan(io: &Io) -> ReadAhead {
    ReadAhead {
        ends_at_bounds: false,
        planned: None,
        io: io.clone(),
        background: Background::All,
        lower: None,
        upper: None,
        trims: true,
        keeps_size: false,
    }
}

fn ahead(table: &Arc<Table>, plan: ReadAhead, options: IterOptions) -> Box<TableIter> {
    let mut iter = TableIter::new(table.clone(), options);
    iter.read_ahead(&Arc::new(plan));
    iter
}

/// Moves `iter` from the first or last entry to the end. Returns the number of entries.
fn scan(iter: &mut TableIter, back: bool, io: &Io) -> usize {
    let step = match back {
        false => iter.seek_to_first(),
        true => iter.seek_to_last(),
    };
    iter.complete(step, io);
    let mut count = 0;
    while iter.valid() {
        count += 1;
        step_of(iter, back, io);
    }
    iter.status().unwrap();
    count
}

fn step_of(iter: &mut TableIter, back: bool, io: &Io) {
    let step = match back {
        false => iter.next(),
        true => iter.prev(),
    };
    iter.complete(step, io);
}

fn threads() -> Io {
    Io::with_driver(Some(ReadDriver::Threads))
}

/// A table of `count` entries in remote storage by `settings`, with its clock and size.
fn remote(
    count: usize,
    options: &Arc<TableOptions>,
    settings: RemoteSettings,
) -> (Arc<Still>, Arc<Table>, u64) {
    let bytes = table_bytes(count, options);
    let clock = Arc::new(Still::default());
    let mem = Arc::new(MemFileSystem::new());
    let path = Path::new("/000001.sst");
    let written = mem.create(path, FileMode::default()).unwrap();
    written.append(&bytes).unwrap();
    written.close().unwrap();
    let remote = RemoteFileSystem::new(mem, clock.clone(), settings);
    let file = remote.open(path, FileMode::default()).unwrap();
    let params = OpenParams {
        options: options.clone(),
        ..OpenParams::default()
    };
    let len = bytes.len() as u64;
    let table = Table::open(file, len, params, &Io::blocking()).unwrap();
    (clock, table, len)
}

#[test]
fn a_scan_uses_the_bandwidth_of_a_device() {
    const RATE: u64 = 100_000_000;
    const COUNT: usize = 60_000;
    let options = Arc::new(TableOptions::default());
    for latency in [100, 1000, 10_000] {
        let settings = RemoteSettings {
            latency: std::time::Duration::from_micros(latency),
            bandwidth: RATE,
            ..RemoteSettings::default()
        };
        let (clock, table, len) = remote(COUNT, &options, settings);
        let io = threads();
        let time = |iter: &mut TableIter| {
            let began = clock.monotonic_nanos();
            assert_eq!(scan(iter, false, &io), COUNT);
            clock.monotonic_nanos() - began
        };
        let least = len * 1_000_000_000 / RATE;
        let took = time(&mut ahead(&table, plan(&io), IterOptions::default()));
        assert!(took * 9 / 10 <= least, "{took} of {least}");
    }
}

#[test]
fn a_scan_waits_for_few_rounds_of_reads() {
    const COUNT: usize = 20_000;
    let options = Arc::new(TableOptions::default());
    let (clock, table, _) = remote(COUNT, &options, RemoteSettings::default());
    for driver in [ReadDriver::Uring, ReadDriver::Threads] {
        let io = Io::with_driver(Some(driver));
        let rounds = |iter: &mut TableIter, back| {
            let began = clock.monotonic_nanos();
            assert_eq!(scan(iter, back, &io), COUNT);
            (clock.monotonic_nanos() - began) / MS
        };
        let plain = || TableIter::new(table.clone(), IterOptions::default());
        let async_io = || ahead(&table, plan(&io), IterOptions::default());
        assert_eq!(rounds(&mut plain(), false), 85);
        assert_eq!(rounds(&mut async_io(), false), 9);
        assert_eq!(rounds(&mut plain(), true), 5000);
        assert_eq!(rounds(&mut async_io(), true), 9);
        // A fixed readahead, in two halves.
        let fixed = IterOptions {
            readahead: 1 << 20,
            ..IterOptions::default()
        };
        let plain = || TableIter::new(table.clone(), fixed);
        assert_eq!(rounds(&mut plain(), false), 20);
        assert_eq!(rounds(&mut ahead(&table, plan(&io), fixed), false), 20);
    }
}

/// A file of which a part is not in the page cache.
struct PartlyCached {
    file: Arc<dyn RandomAccessFile>,
    slow: Range<u64>,
    clock: Arc<Still>,
}

impl RandomAccessFile for PartlyCached {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if self.slow.contains(&offset) {
            self.clock.sleep(std::time::Duration::from_nanos(MS));
        }
        self.file.read_at(offset, buf)
    }
    fn read_up_to_end(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.file.read_up_to_end(offset, buf)
    }
    fn start_reads(&self, reads: &mut FileReads, queue: &mut ReadQueue) {
        let clock: Arc<dyn Clock> = self.clock.clone();
        for read in &reads.reads {
            if self.slow.contains(&read.offset) {
                queue.wait_until(&clock, clock.monotonic_nanos() + MS);
            }
        }
        self.file.start_reads(reads, queue);
    }
    fn finish_reads(&self, reads: &mut FileReads, queue: &mut ReadQueue) {
        self.file.finish_reads(reads, queue);
    }
    fn is_blank(&self, offset: u64, len: usize) -> Result<bool> {
        self.file.is_blank(offset, len)
    }
    fn advise(&self, _: Access) {}
    fn drop_cached(&self) {}
    fn len(&self) -> Result<u64> {
        self.file.len()
    }
    fn path(&self) -> &Path {
        self.file.path()
    }
    fn prefetch(&self, _: u64, _: usize) -> bool {
        false
    }
}

#[test]
fn a_direct_scan_reads_in_the_background_where_reads_take_time() {
    const COUNT: usize = 20_000;
    let options = Arc::new(TableOptions::default());
    let bytes = table_bytes(COUNT, &options);
    let len = bytes.len() as u64;
    let clock = Arc::new(Still::default());
    let partly = PartlyCached {
        file: file(&bytes),
        slow: len / 3..len * 2 / 3,
        clock: clock.clone(),
    };
    let params = OpenParams {
        options,
        ..OpenParams::default()
    };
    let table = Table::open(Arc::new(partly), len, params, &Io::blocking()).unwrap();
    let io = threads();
    let waits = |iter: &mut TableIter| {
        let began = clock.monotonic_nanos();
        assert_eq!(scan(iter, false, &io), COUNT);
        (clock.monotonic_nanos() - began) / MS
    };
    // 6.7 MB in reads of 256 KiB.
    let plain = waits(&mut TableIter::new(table.clone(), IterOptions::default()));
    assert!((25..30).contains(&plain), "{plain}");
    let background = waits(&mut ahead(&table, plan(&io), IterOptions::default()));
    assert!((1..10).contains(&background), "{background}");
}

fn recorded(
    count: usize,
    options: TableOptions,
    cache: Option<&Arc<BlockCache>>,
) -> (Arc<Recorder>, Arc<Table>) {
    let options = Arc::new(options);
    let bytes = table_bytes(count, &options);
    let recorder = Recorder::new(&bytes);
    let params = OpenParams {
        options,
        cache: cache.cloned(),
        ..OpenParams::default()
    };
    let table = Table::open(
        recorder.clone(),
        bytes.len() as u64,
        params,
        &Io::blocking(),
    )
    .unwrap();
    recorder.take();
    (recorder, table)
}

#[test]
fn every_block_is_read_once_in_reads_that_double() {
    for index_type in [IndexType::BinarySearch, IndexType::TwoLevelIndexSearch] {
        let options = TableOptions {
            index_type,
            metadata_block_size: 512,
            ..TableOptions::default()
        };
        let (recorder, table) = recorded(4000, options, None);
        let io = threads();
        for back in [false, true] {
            let mut iter = ahead(&table, plan(&io), IterOptions::default());
            assert_eq!(scan(&mut iter, back, &io), 4000);
            let mut reads = recorder.take();
            let data_end = table.data_size();
            let index_reads = reads.iter().filter(|read| read.0 >= data_end).count();
            reads.retain(|read| read.0 < data_end);
            assert!(reads[..2].iter().all(|read| read.1 < 5000), "{reads:?}");
            assert!((7000..=8 << 10).contains(&reads[2].1), "{reads:?}");
            assert!((14_000..=16 << 10).contains(&reads[3].1), "{reads:?}");
            assert!(reads.iter().all(|read| read.1 <= 256 << 10), "{reads:?}");
            reads.sort_unstable();
            // Direct reads, of a forward scan, end within a block, which the next one reads again.
            let again = |two: &[(u64, usize)]| two[0].0 + two[0].1 as u64 - two[1].0;
            let most = if back { 0 } else { 4_200 };
            assert!(reads.windows(2).all(|two| again(two) <= most), "{reads:?}");
            assert_eq!(reads[0].0, 0);
            let end = reads.last().map(|read| read.0 + read.1 as u64);
            assert_eq!(end, Some(data_end));
            let partitions = match index_type {
                IndexType::TwoLevelIndexSearch => table.properties().index_partitions as usize,
                _ => 0,
            };
            assert_eq!(index_reads, partitions, "each index partition is read once");
        }
    }
}

#[test]
fn readahead_ends_at_the_bounds() {
    let (recorder, table) = recorded(4000, TableOptions::default(), None);
    let io = threads();
    let bounded = |from: usize, to: usize| ReadAhead {
        lower: Some(format!("{from:08}").into_bytes()),
        upper: Some(format!("{to:08}").into_bytes()),
        ..plan(&io)
    };
    for back in [false, true] {
        let mut iter = ahead(&table, bounded(1000, 1100), IterOptions::default());
        let step = match back {
            false => iter.seek(&entry(1000).0),
            true => iter.seek_for_prev(&entry(1099).0),
        };
        iter.complete(step, &io);
        for _ in 0..99 {
            step_of(&mut iter, back, &io);
        }
        assert!(iter.valid());
        let bytes: usize = recorder.take().iter().map(|read| read.1).sum();
        assert!((100_000..110_000).contains(&bytes), "{bytes}");
        // Entries beyond the bounds are read as they are visited.
        for _ in 0..200 {
            step_of(&mut iter, back, &io);
        }
        assert!(iter.valid());
        recorder.take();
    }
    // The same for readahead that is not in the background.
    let mut iter = TableIter::new(table.clone(), IterOptions::default());
    let within_reads = ReadAhead {
        background: Background::None,
        ..bounded(1000, 1100)
    };
    iter.read_ahead(&Arc::new(within_reads));
    let step = iter.seek(&entry(1000).0);
    iter.complete(step, &io);
    for _ in 0..99 {
        step_of(&mut iter, false, &io);
    }
    let bytes: usize = recorder.take().iter().map(|read| read.1).sum();
    assert!((100_000..110_000).contains(&bytes), "{bytes}");
}

#[test]
fn what_the_cache_holds_is_not_read_ahead() {
    let cache = Arc::new(BlockCache::new(64 << 20, CacheOptions::default()));
    let (recorder, table) = recorded(4000, TableOptions::default(), Some(&cache));
    let io = threads();
    // Entries 1,000 to 2,999 are cached.
    let mut plain = TableIter::new(table.clone(), IterOptions::default());
    let step = plain.seek(&entry(1000).0);
    plain.complete(step, &io);
    for _ in 0..2000 {
        step_of(&mut plain, false, &io);
    }
    drop(plain);
    let warm = recorder.take();
    let (start, end) = (warm[0].0, warm.last().map_or(0, |read| read.0));
    for back in [false, true] {
        let options = IterOptions {
            fill_cache: false,
            ..IterOptions::default()
        };
        let mut iter = ahead(&table, plan(&io), options);
        assert_eq!(scan(&mut iter, back, &io), 4000);
        let reads = recorder.take();
        let within = |read: &&(u64, usize)| (start..end).contains(&read.0);
        assert_eq!(reads.iter().filter(within).count(), 0, "{reads:?}");
        let bytes: usize = reads.iter().map(|read| read.1).sum();
        assert!((1_900_000..2_200_000).contains(&bytes), "{bytes}");
    }
}

fn metered(statistics: &Arc<Statistics>) -> Meter {
    Meter::new(Some(statistics.clone()), Arc::new(Still::default()))
}

#[test]
fn a_read_ahead_that_fails_does_not_concern_other_blocks() {
    let options = Arc::new(TableOptions::default());
    let bytes = table_bytes(2000, &options);
    let io = threads();
    for is_short in [false, true] {
        for back in [false, true] {
            let recorder = Recorder::new(&bytes);
            let statistics = Arc::new(Statistics::new(StatsLevel::ExceptTimeForMutex));
            let params = OpenParams {
                options: options.clone(),
                meter: metered(&statistics),
                ..OpenParams::default()
            };
            let len = bytes.len() as u64;
            let table = Table::open(recorder.clone(), len, params, &Io::blocking()).unwrap();
            recorder.is_short.store(is_short, Ordering::Relaxed);
            let damaged = table.data_size() / 2;
            recorder.damaged.store(damaged, Ordering::Relaxed);
            let mut iter = ahead(&table, plan(&io), IterOptions::default());
            let step = match back {
                false => iter.seek_to_first(),
                true => iter.seek_to_last(),
            };
            iter.complete(step, &io);
            let mut count = 0;
            while iter.valid() {
                count += 1;
                step_of(&mut iter, back, &io);
            }
            assert!((990..=1010).contains(&count), "{count}");
            let message = iter.status().unwrap_err().to_string();
            let expected = if is_short {
                "file ends early"
            } else {
                "damaged"
            };
            assert!(message.contains(expected), "{message}");
            assert!(statistics.ticker(Ticker::AsyncReadErrorCount) > 0);
            // The damage is mended: the iterator goes on.
            recorder.damaged.store(u64::MAX, Ordering::Relaxed);
            assert_eq!(scan(&mut iter, back, &io), 2000);
        }
    }
}

#[test]
fn the_bytes_of_an_iterator_dropped_early_are_released_and_counted() {
    let cache = Arc::new(BlockCache::new(32 << 20, CacheOptions::default()));
    let options = Arc::new(TableOptions::default());
    let bytes = table_bytes(8000, &options);
    let statistics = Arc::new(Statistics::new(StatsLevel::ExceptTimeForMutex));
    let params = OpenParams {
        options,
        cache: Some(cache.clone()),
        charge: ChargePolicy::new(Some(cache.clone()), MemoryUses::ALL),
        meter: metered(&statistics),
        ..OpenParams::default()
    };
    let table = Table::open(file(&bytes), bytes.len() as u64, params, &Io::blocking()).unwrap();
    let io = threads();
    let mut most = 0;
    for back in [false, true] {
        let mut iter = ahead(&table, plan(&io), IterOptions::default());
        let step = match back {
            false => iter.seek_to_first(),
            true => iter.seek_to_last(),
        };
        iter.complete(step, &io);
        for _ in 0..3000 {
            step_of(&mut iter, back, &io);
            most = most.max(cache.charged(MemoryUse::Prefetch));
        }
        assert!(iter.valid() && cache.charged(MemoryUse::Prefetch) > 0);
        drop(iter);
        assert_eq!(cache.charged(MemoryUse::Prefetch), 0);
        assert_eq!(cache.charged(MemoryUse::ReadInProgress), 0);
    }
    assert!(most <= 4 << 20, "{most}");
    let discarded = statistics.histogram(Histogram::PrefetchedBytesDiscarded);
    assert_eq!(discarded.count, 2);
    assert!(discarded.sum > 0);
    assert!(statistics.histogram(Histogram::AsyncReadBytes).sum > 2_000_000);
    let useful = statistics.ticker(Ticker::PrefetchBytesUseful);
    let read = statistics.ticker(Ticker::PrefetchBytes);
    assert_eq!(read, useful + discarded.sum);
}

/// A movement of an iterator.
#[derive(Clone, Debug)]
enum Move {
    First,
    Last,
    Seek(prop::sample::Index),
    SeekForPrev(prop::sample::Index),
    Next(u8),
    Prev(u8),
}

fn movement() -> impl Strategy<Value = Move> {
    prop_oneof![
        1 => Just(Move::First),
        1 => Just(Move::Last),
        2 => any::<prop::sample::Index>().prop_map(Move::Seek),
        2 => any::<prop::sample::Index>().prop_map(Move::SeekForPrev),
        4 => any::<u8>().prop_map(Move::Next),
        4 => any::<u8>().prop_map(Move::Prev),
    ]
}

/// The entries that `iter` returns along `moves`.
fn trace(iter: &mut TableIter, entries: &[Entry], moves: &[Move], io: &Io) -> Vec<Option<Entry>> {
    let mut seen = Vec::new();
    for one in moves {
        let steps = match one {
            Move::Next(steps) | Move::Prev(steps) => *steps,
            _ => 1,
        };
        for _ in 0..steps {
            let step = match one {
                Move::First => iter.seek_to_first(),
                Move::Last => iter.seek_to_last(),
                Move::Seek(at) => iter.seek(&entries[at.index(entries.len())].0),
                Move::SeekForPrev(at) => iter.seek_for_prev(&entries[at.index(entries.len())].0),
                Move::Next(_) | Move::Prev(_) if !iter.valid() => break,
                Move::Next(_) => iter.next(),
                Move::Prev(_) => iter.prev(),
            };
            iter.complete(step, io);
            iter.status().unwrap();
            let here = || (iter.key().to_vec(), iter.value().to_vec());
            seen.push(iter.valid().then(here));
        }
    }
    seen
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_scan_with_background_reads_returns_what_another_does(
        raw in raw_entries(),
        (options, compression, codec) in options(),
        order in orders(),
        moves in prop::collection::vec(movement(), 1..20),
        (initial, largest, after) in (1u64..4000, 0u64..20_000, 0u64..3),
        readahead in prop_oneof![3 => Just(0), 1 => 1u64..50_000],
        (cached, cache_metadata, fill_cache, trims) in any::<(bool, bool, bool, bool)>(),
        bounds in prop::option::of((prop::sample::Index::arbitrary(), prop::sample::Index::arbitrary())),
    ) {
        let entries = entries_of(&order, raw);
        prop_assume!(!entries.is_empty());
        let options = Arc::new(TableOptions {
            cache_index_and_filter_blocks: cache_metadata,
            initial_auto_readahead_size: initial,
            max_auto_readahead_size: largest,
            num_file_reads_for_auto_readahead: after,
            ..options
        });
        let params = BuildParams {
            options: options.clone(),
            order: order.clone(),
            compression,
            compression_options: codec,
            ..BuildParams::default()
        };
        let (bytes, _) = build(params, &entries, &[]).unwrap();
        let cache = cached.then(|| Arc::new(BlockCache::new(20_000, CacheOptions::default())));
        let params = OpenParams {
            order: order.clone(),
            options,
            cache,
            ..OpenParams::default()
        };
        let table = crate::world::open(&bytes, params).unwrap();
        let iteration = IterOptions { fill_cache, readahead, ..IterOptions::default() };
        let mut plain = TableIter::new(table.clone(), IterOptions::default());
        let expected = trace(&mut plain, &entries, &moves, &Io::blocking());
        let bound = |at: prop::sample::Index| {
            let user = key::user_key(&entries[at.index(entries.len())].0);
            Some(key::strip_timestamp(user, order.timestamp_size()).to_vec())
        };
        for driver in [ReadDriver::Threads, ReadDriver::Blocking] {
            let io = Io::with_driver(Some(driver));
            let plan = ReadAhead {
                lower: bounds.and_then(|(lower, _)| bound(lower)),
                upper: bounds.and_then(|(_, upper)| bound(upper)),
                trims,
                ..plan(&io)
            };
            let mut iter = ahead(&table, plan, iteration);
            prop_assert_eq!(&trace(&mut iter, &entries, &moves, &io), &expected);
        }
    }
}

#[test]
fn an_iterator_that_ends_at_its_bounds_reads_no_block_beyond_them() {
    let (recorder, table) = recorded(4000, TableOptions::default(), None);
    let io = threads();
    for background in [Background::All, Background::None] {
        for back in [false, true] {
            let bounded = ReadAhead {
                background,
                lower: Some(b"00001000".to_vec()),
                upper: Some(b"00001100".to_vec()),
                ends_at_bounds: true,
                ..plan(&io)
            };
            let mut iter = ahead(&table, bounded, IterOptions::default());
            let mut step = match back {
                false => iter.seek(&entry(1000).0),
                true => iter.seek_for_prev(&entry(1099).0),
            };
            iter.complete(step, &io);
            let mut within = 0;
            while iter.valid() {
                let key = iter.key()[..8].to_vec();
                within += usize::from((&b"00001000"[..]..&b"00001100"[..]).contains(&&key[..]));
                step = match back {
                    false => iter.next(),
                    true => iter.prev(),
                };
                iter.complete(step, &io);
            }
            iter.status().unwrap();
            assert_eq!(within, 100);
            // The entries of a block around the bounds.
            let bytes: usize = recorder.take().iter().map(|read| read.1).sum();
            assert!((100_000..110_000).contains(&bytes), "{bytes}");
        }
    }
}
