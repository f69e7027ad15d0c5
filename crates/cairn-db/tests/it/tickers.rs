//! Coverage of tickers and histograms: all that correspond to an activity of the engine are updated.
//!
//! A workload of many small databases raises them. Those that it leaves at zero are listed here with reasons;
//! docs/compatibility.md describes them.

#![expect(clippy::unwrap_used, reason = "an absent value fails the test")]

use std::path::Path;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use cairn_db::{Db, Ingestion, OpenRequest, SstFileWriter, WriteBatch, open};
use cairn_memory::secondary::{AdmissionPolicy, CompressedSecondaryCache};
use cairn_memory::{BlockCache, CacheKind, CacheOptions, WriteBufferManager};
use cairn_observe::statistics::{Histogram, Statistics, StatsLevel, Ticker};
use cairn_options::{
    BottommostLevelCompaction, CompactRangeOptions, CompactionStyle, Compression, DbOptions,
    FamilyOptions, FilterPolicy, IngestExternalFileOptions, Options, ReadOptions, WriteOptions,
};
use cairn_platform::sync::Mutex;
use cairn_platform::{
    CipherStream, EncryptionProvider, RateLimited, RateLimiter, RemoteFileSystem, RemoteSettings,
    SstFileManager, SystemClock, World,
};
use cairn_sim::trace::Call;
use cairn_sim::{Fault, SimWorld};
use cairn_types::{
    CompactionFilter, FilterDecision, FilterValue, MergeInput, MergeOperator, PrefixExtractor,
    Result, SequenceNumber,
};

use crate::basic::{db_options, small};
use crate::errors::failing;
use crate::tiers::{above, compressed, flash};

mod converted;
mod many_ranges;

use converted::scans_over_deletions;
use many_ranges::scans_over_many_ranges;

/// Prefixes of the names that stay zero, with reasons.
const ZERO: &[(&str, &str)] = &[
    (
        "block.cache.compression.dict.",
        "dictionaries are held by their tables",
    ),
    (
        "compressed.secondary.cache.promotion.skips",
        "every hit on flash is offered to compressed memory",
    ),
    ("persistent.cache.", "there is no persistent cache"),
    ("sim.block.cache.", "there is no simulated cache"),
    ("number.keys.updated", "values are never changed in place"),
    ("db.mutex.wait.micros", "there is no mutex of the database"),
    ("wal.precreate.", "logs are not created ahead"),
    (
        "number.direct.load.table.properties",
        "properties come with the open table",
    ),
    (
        "number.superversion_",
        "a view is reached by one pointer, and no thread keeps one",
    ),
    ("blobdb.num.", "of the stacked BlobDB"),
    ("blobdb.bytes.", "of the stacked BlobDB"),
    ("blobdb.write.", "of the stacked BlobDB"),
    ("blobdb.blob.index.", "of the stacked BlobDB"),
    ("blobdb.gc.num.files", "of the stacked BlobDB"),
    ("blobdb.gc.num.new.files", "of the stacked BlobDB"),
    ("blobdb.gc.failures", "of the stacked BlobDB"),
    ("blobdb.fifo.", "of the stacked BlobDB"),
    ("blobdb.key.size", "of the stacked BlobDB"),
    ("blobdb.value.size", "of the stacked BlobDB"),
    ("blobdb.get.micros", "of the stacked BlobDB"),
    ("blobdb.multiget.micros", "of the stacked BlobDB"),
    ("blobdb.seek.micros", "of the stacked BlobDB"),
    ("blobdb.next.micros", "of the stacked BlobDB"),
    ("blobdb.prev.micros", "of the stacked BlobDB"),
    (
        "blobdb.lazy.",
        "columns in blob files are read when they are asked for, without a count",
    ),
    (
        "txn.",
        "they count the work of write policies other than committed",
    ),
    (
        "num.op.per.transaction",
        "operations of transactions are not counted",
    ),
    ("backup.", "there are no backups"),
    ("remote.compact.", "the test has no compaction service"),
    ("open.and.compact.", "the test has no compaction service"),
    ("hot.file.", "reads are not counted by temperature"),
    ("warm.file.", "reads are not counted by temperature"),
    ("cool.file.", "reads are not counted by temperature"),
    ("cold.file.", "reads are not counted by temperature"),
    ("ice.file.", "reads are not counted by temperature"),
    (
        "fifo.change_temperature.",
        "the test of temperatures counts them",
    ),
    (
        "last.level.seek.",
        "seeks of single tables are not counted separately",
    ),
    (
        "non.last.level.seek.",
        "seeks of single tables are not counted separately",
    ),
    ("multiget.coroutine.count", "reads block"),
    ("read.async.micros", "reads block"),
    ("async.read.error.count", "no read in the background fails"),
    (
        "async.prefetch.",
        "reads in the background are given up without waiting for them",
    ),
    ("file.submit.async.read.fallback", "reads block"),
    ("iodispatcher.", "reads block"),
    ("timestamp.filter.", "files are not skipped by timestamp"),
    (
        "number.wbwi.ingest",
        "indexed batches are written like others",
    ),
    (
        "sst.user.defined.index.",
        "there are no user-defined indexes",
    ),
    (
        "multiscan.prepare.errors",
        "the files of no scan over many ranges are damaged",
    ),
    ("multiscan.seek.errors", "as above"),
    (
        "prefetch.memory.",
        "planned reads are limited by their size, without a count",
    ),
    (
        "file.open.metadata.",
        "file systems keep no metadata for openings",
    ),
    (
        "sst.batch.size",
        "the keys of a batch are looked up together, not level by level",
    ),
    ("num.index.and.filter.blocks.read.per.level", "as above"),
    ("num.sst.read.per.level", "as above"),
    ("num.level.read.per.multiget", "as above"),
    (
        "block.key.distribution.cv",
        "uniform_cv_threshold changes nothing",
    ),
    (
        "table.open.prefetch.tail.miss",
        "the MANIFEST knows where a table's end begins; that of an old database may not",
    ),
    (
        "file.read.db.open.micros",
        "opening a database reads no table",
    ),
];

/// Opens a database with `statistics`.
struct Opener {
    statistics: Arc<Statistics>,
}

impl Opener {
    fn open(&self, world: &World, options: DbOptions, family: &FamilyOptions) -> Db {
        let options = DbOptions {
            statistics: self.statistics.clone().into(),
            ..options
        };
        open(&OpenRequest {
            path: Path::new("/db"),
            options: &options,
            families: &[],
            others: Some(family),
            read_only: false,
            world: world.clone(),
        })
        .unwrap()
    }

    /// Creates a database in memory.
    fn fresh(&self, family: &FamilyOptions) -> Db {
        self.open(&World::in_memory(), db_options(), family)
    }
}

struct Joins;

impl MergeOperator for Joins {
    fn name(&self) -> &str {
        "joins"
    }

    fn full_merge(&self, input: &MergeInput<'_>) -> Option<Vec<u8>> {
        let mut all: Vec<&[u8]> = input.existing.into_iter().collect();
        all.extend(input.operands);
        (!all.contains(&&b"bad"[..])).then(|| all.join(&b','))
    }
}

struct DropX;

impl CompactionFilter for DropX {
    fn name(&self) -> &str {
        "drop-x"
    }

    fn filter(&self, _: usize, _: &[u8], value: FilterValue<'_>) -> FilterDecision {
        match value {
            FilterValue::Value(value) if value.starts_with(b"x") => FilterDecision::Remove,
            _ => FilterDecision::Keep,
        }
    }

    fn ignore_snapshots(&self) -> bool {
        true
    }
}

fn key(n: u32) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

fn noise(seed: u32, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .collect()
}

fn compact(db: &Db) {
    let options = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    db.compact_range(None, None, &options).unwrap();
}

fn by_hand() -> FamilyOptions {
    FamilyOptions {
        disable_auto_compactions: true,
        ..small()
    }
}

/// Gets, batches of gets, iterators and writes, over memtables and three kinds of levels.
fn reads_and_writes(opener: &Opener) {
    let mut family = FamilyOptions {
        compression: Compression::Lz4,
        merge_operator: Some(Arc::new(Joins)),
        prefix_extractor: Some(PrefixExtractor::Fixed(6)),
        level_compaction_dynamic_level_bytes: false,
        max_sequential_skip_in_iterations: 2,
        ..by_hand()
    };
    family.table.filter_policy = Some(FilterPolicy::Bloom { bits_per_key: 10.0 });
    family.table.cache_index_and_filter_blocks = true;
    family.table.read_amp_bytes_per_bit = 32;
    let db = opener.fresh(&family);
    let put = |from: u32, to: u32| {
        for n in from..to {
            db.put(&key(n), format!("value {n} ").repeat(20).as_bytes())
                .unwrap();
        }
    };
    for target in [2, 1, 0] {
        put(target * 1000, (target + 1) * 1000);
        db.flush().unwrap();
        if target > 0 {
            db.promote_level_zero(target as usize).unwrap();
        }
    }
    put(3000, 3010);
    for n in [5, 1005, 2005, 3005, 9999] {
        let _found = db.get(&key(n)).unwrap();
    }
    let between = [&key(5)[..], b"x"].concat();
    assert!(db.get(&between).unwrap().is_none());
    let keys: Vec<Vec<u8>> = (0..20).map(|n| key(n * 150)).collect();
    let _found = db.multi_get(&keys, &ReadOptions::default());
    for _ in 0..5 {
        db.merge(&key(7), b"more").unwrap();
    }
    assert!(db.get(&key(7)).unwrap().is_some());
    db.merge(&key(8), b"bad").unwrap();
    assert!(db.get(&key(8)).is_err());
    db.put(&key(8), b"good").unwrap();
    for round in 0..10 {
        db.put(&key(9), &[round]).unwrap();
    }
    let mut iter = db.iter();
    iter.seek_to_first();
    while iter.valid() {
        iter.next();
    }
    iter.seek(&key(2000));
    iter.next();
    iter.prev();
    drop(iter);
    let synced = WriteOptions {
        sync: true,
        ..WriteOptions::default()
    };
    db.put_with(b"a", b"b", &synced).unwrap();
    let _updates = db.updates_since(SequenceNumber(1)).unwrap();
    db.create_checkpoint(Path::new("/copy"), u64::MAX).unwrap();
    db.verify_checksum(&ReadOptions::default()).unwrap();
    // Keys and prefixes that are, or are not, in the filters of tables.
    let by_prefix = FamilyOptions {
        prefix_extractor: Some(PrefixExtractor::Fixed(6)),
        ..by_hand()
    };
    let mut by_prefix = by_prefix;
    by_prefix.table.filter_policy = Some(FilterPolicy::Bloom { bits_per_key: 10.0 });
    by_prefix.table.whole_key_filtering = false;
    let db = opener.fresh(&by_prefix);
    for n in [0, 3000, 900_000] {
        db.put(&key(n), b"value").unwrap();
    }
    db.flush().unwrap();
    assert!(db.get(&key(3000)).unwrap().is_some());
    assert!(db.get(&key(400_000)).unwrap().is_none());
    // A write that arrives during another one joins the next group.
    let count = || opener.statistics.ticker(Ticker::WriteDoneByOther);
    for _ in 0..1_000 {
        if count() > 0 {
            break;
        }
        std::thread::scope(|scope| {
            for thread in 0..4_u32 {
                let db = &db;
                scope.spawn(move || {
                    (0..50).for_each(|n| db.put(&key(thread * 100 + n), b"v").unwrap());
                });
            }
        });
    }
}

/// Blocks evicted from the cache, in compressed memory and on flash.
fn tiers(opener: &Opener) {
    let world = World::in_memory();
    let below = flash(&world);
    for policy in [AdmissionPolicy::AllowCacheHits, AdmissionPolicy::ThreeQueue] {
        let options = compressed(policy);
        let tier = CompressedSecondaryCache::with_tier_below(&options, below.clone()).unwrap();
        let mut family = by_hand();
        family.table.filter_policy = Some(FilterPolicy::Bloom { bits_per_key: 10.0 });
        family.table.cache_index_and_filter_blocks = true;
        family.table.block_cache = Some(above(CacheKind::Clock, 4 << 10, Arc::new(tier)));
        let db = opener.open(&world, db_options(), &family);
        for table in 0..40 {
            for n in 0..50 {
                db.put(&key(table * 50 + n), &noise(n, 100)).unwrap();
            }
            db.flush().unwrap();
        }
        for _ in 0..4 {
            for n in 0..2_000 {
                assert!(db.get(&key(n)).unwrap().is_some());
            }
        }
    }
}

/// Entries dropped by compactions, by reason.
fn compactions(opener: &Opener) {
    let family = FamilyOptions {
        merge_operator: Some(Arc::new(Joins)),
        compaction_filter: (Arc::new(DropX) as Arc<dyn CompactionFilter>).into(),
        level_compaction_dynamic_level_bytes: false,
        ..by_hand()
    };
    let db = opener.fresh(&family);
    db.put(b"a", b"1").unwrap();
    db.put(b"z", b"1").unwrap();
    db.flush().unwrap();
    db.promote_level_zero(3).unwrap();
    db.put(b"b", b"1").unwrap();
    db.put(b"c", b"x").unwrap();
    db.put(b"d", b"1").unwrap();
    db.merge(b"e", b"1").unwrap();
    db.flush().unwrap();
    db.put(b"b", b"2").unwrap();
    db.delete(b"bb").unwrap();
    db.delete_range(b"d", b"da").unwrap();
    db.merge(b"e", b"2").unwrap();
    db.flush().unwrap();
    compact(&db);
    // A deletion of a key between two tables of the level below.
    let db = opener.fresh(&FamilyOptions {
        level_compaction_dynamic_level_bytes: false,
        ..by_hand()
    });
    for keys in [[b"a", b"b"], [b"x", b"z"]] {
        keys.iter().for_each(|&key| db.put(key, b"1").unwrap());
        db.flush().unwrap();
    }
    db.promote_level_zero(3).unwrap();
    for round in 0..2 {
        db.put(b"a", &[round]).unwrap();
        db.delete(b"m").unwrap();
        db.put(b"z", &[round]).unwrap();
        db.flush().unwrap();
    }
    db.set_options(&[
        ("level0_file_num_compaction_trigger", "2"),
        ("disable_auto_compactions", "false"),
    ])
    .unwrap();
    db.wait_until_quiet().unwrap();
    let suggested = FamilyOptions {
        level_compaction_dynamic_level_bytes: false,
        ..small()
    };
    let db = opener.fresh(&suggested);
    for value in ["1", "2"] {
        db.put(b"a", value.as_bytes()).unwrap();
        db.put(b"c", value.as_bytes()).unwrap();
        db.flush().unwrap();
        if value == "1" {
            db.promote_level_zero(2).unwrap();
        }
    }
    db.suggest_compact_range(Some(b"c"), None).unwrap();
    db.wait_until_quiet().unwrap();
    // With subcompactions.
    let parts = CompactRangeOptions {
        max_subcompactions: 4,
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    let db = opener.fresh(&by_hand());
    for round in 0..2_u32 {
        for n in 0..2_000 {
            db.put(&key(n), &noise(n + round, 200)).unwrap();
        }
        db.flush().unwrap();
    }
    db.compact_range(None, None, &parts).unwrap();
    db.compact_range(None, None, &parts).unwrap();
    ages(opener);
    fifo(opener);
    aborted(opener);
}

/// Compactions because of the age of data.
fn ages(opener: &Opener) {
    for text in [
        "ttl=1000;periodic_compaction_seconds=0",
        "periodic_compaction_seconds=1000;ttl=0",
    ] {
        let sim = SimWorld::new(1);
        let family = FamilyOptions {
            level_compaction_dynamic_level_bytes: false,
            ..FamilyOptions::from_text(text).unwrap()
        };
        let db = opener.open(&sim.world, db_options(), &family);
        for value in ["1", "2"] {
            db.put(b"a", value.as_bytes()).unwrap();
            db.put(b"c", value.as_bytes()).unwrap();
            db.flush().unwrap();
            if value == "1" {
                db.promote_level_zero(2).unwrap();
            }
        }
        compact(&db);
        db.put(b"b", b"3").unwrap();
        db.flush().unwrap();
        db.promote_level_zero(1).unwrap_or_default();
        sim.clock.advance(Duration::from_secs(5_000));
        db.put(b"x", b"4").unwrap();
        db.flush().unwrap();
        db.wait_until_quiet().unwrap();
        db.close().unwrap();
    }
}

fn fifo(opener: &Opener) {
    let family = |text: &str| {
        let options = FamilyOptions::from_text(text).unwrap();
        FamilyOptions {
            compaction_style: CompactionStyle::Fifo,
            num_levels: 1,
            ..options
        }
    };
    let sim = SimWorld::new(1);
    let db = opener.open(&sim.world, db_options(), &family("ttl=1000"));
    db.put(b"a", b"1").unwrap();
    db.flush().unwrap();
    sim.clock.advance(Duration::from_secs(5_000));
    db.put(b"b", b"1").unwrap();
    db.flush().unwrap();
    db.wait_until_quiet().unwrap();
    db.close().unwrap();
    let sized = family("compaction_options_fifo={max_table_files_size=10000};ttl=0");
    let db = opener.fresh(&sized);
    for n in 0..4 {
        db.put(&key(n), &noise(n, 6_000)).unwrap();
        db.flush().unwrap();
    }
    db.wait_until_quiet().unwrap();
}

/// A compaction cancelled by the closing of its database.
fn aborted(opener: &Opener) {
    struct Closes(std::sync::OnceLock<Db>);
    impl CompactionFilter for Closes {
        fn name(&self) -> &str {
            "closes"
        }
        fn filter(&self, _: usize, _: &[u8], _: FilterValue<'_>) -> FilterDecision {
            if let Some(db) = self.0.get() {
                db.cancel_all_background_work(false).unwrap();
            }
            FilterDecision::Keep
        }
        fn ignore_snapshots(&self) -> bool {
            true
        }
    }
    let filter = Arc::new(Closes(std::sync::OnceLock::new()));
    let family = FamilyOptions {
        compaction_filter: (filter.clone() as Arc<dyn CompactionFilter>).into(),
        ..by_hand()
    };
    let db = opener.fresh(&family);
    for n in 0..1_000 {
        db.put(&key(n), b"value").unwrap();
    }
    db.flush().unwrap();
    assert!(filter.0.set(db.clone()).is_ok());
    let force = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    assert!(db.compact_range(None, None, &force).is_err());
}

/// Blobs: written, read, cached, relocated.
fn blobs(opener: &Opener) {
    let cache = |bytes| {
        let strict = CacheOptions {
            num_shard_bits: Some(0),
            strict_capacity_limit: true,
            ..CacheOptions::default()
        };
        Arc::new(BlockCache::new(bytes, strict))
    };
    for bytes in [1 << 20, 100] {
        let mut family = FamilyOptions {
            enable_blob_files: true,
            min_blob_size: 100,
            blob_compression_type: Compression::Lz4,
            enable_blob_garbage_collection: true,
            blob_garbage_collection_age_cutoff: 1.0,
            blob_cache: Some(cache(bytes)),
            ..by_hand()
        };
        // A cache that stores nothing.
        family.table.block_cache = Some(cache(bytes));
        let db = opener.fresh(&family);
        for round in 0..2 {
            for n in 0..20 {
                db.put(&key(n), &[b'v'; 500]).unwrap();
            }
            db.flush().unwrap();
            for _ in 0..2 {
                assert!(db.get(&key(round)).unwrap().is_some());
            }
        }
        compact(&db);
        assert!(db.get(&key(1)).unwrap().is_some());
        db.verify_checksum(&ReadOptions::default()).unwrap();
    }
}

/// Gets with a row cache.
fn rows(opener: &Opener) {
    let options = DbOptions {
        row_cache: Some(Arc::new(BlockCache::new(1 << 20, CacheOptions::default()))),
        ..db_options()
    };
    let db = opener.open(&World::in_memory(), options, &by_hand());
    db.put(b"a", b"1").unwrap();
    db.flush().unwrap();
    for _ in 0..2 {
        assert!(db.get(b"a").unwrap().is_some());
    }
}

/// Scans of remote storage: up to a bound, and with reads in the background.
fn scans(opener: &Opener) {
    let world = World::in_memory();
    let settings = RemoteSettings {
        latency: Duration::from_micros(100),
        ..RemoteSettings::default()
    };
    let remote = RemoteFileSystem::new(world.fs, Arc::new(SystemClock), settings);
    let world = World {
        fs: Arc::new(remote),
        ..world
    };
    let table = "block_based_table_factory={block_size=1024;no_block_cache=true}";
    let family = FamilyOptions::from_text(table).unwrap();
    let db = opener.open(&world, db_options(), &family);
    for n in 0..2000 {
        db.put(&key(n), &noise(n, 100)).unwrap();
    }
    db.flush().unwrap();
    for async_io in [false, true] {
        let options = ReadOptions {
            async_io,
            iterate_upper_bound: Some(key(1500)),
            ..ReadOptions::default()
        };
        let mut iter = db.iter_with(&options);
        iter.seek_to_first();
        for _ in 0..1400 {
            iter.next();
        }
        assert!(iter.valid());
    }
    scans_over_many_ranges(opener);
    scans_over_deletions(opener);
}

/// Two gets that miss the same blocks at the same time.
fn together(opener: &Opener) {
    let meetings = Meetings::default();
    let mut family = by_hand();
    family.table.filter_policy = Some(FilterPolicy::Bloom { bits_per_key: 10.0 });
    family.table.cache_index_and_filter_blocks = true;
    let cache = Arc::new(BlockCache::new(1 << 20, CacheOptions::default()));
    family.table.block_cache = Some(cache.clone());
    let world = World::in_memory().encrypted(Arc::new(meetings.clone()));
    let db = opener.open(&world, db_options(), &family);
    db.put(b"a", b"1").unwrap();
    db.flush().unwrap();
    assert!(db.get(b"a").unwrap().is_some());
    cache.erase_unused();
    assert_eq!(cache.entries(), 0);
    let tickers = [
        Ticker::BlockCacheFilterAdd,
        Ticker::BlockCacheIndexAdd,
        Ticker::BlockCacheDataAdd,
        Ticker::BlockCacheAdd,
        Ticker::BlockCacheFilterAddRedundant,
        Ticker::BlockCacheIndexAddRedundant,
        Ticker::BlockCacheDataAddRedundant,
        Ticker::BlockCacheAddRedundant,
    ];
    let counts = || tickers.map(|ticker| opener.statistics.ticker(ticker));
    let before = counts();
    meetings.begin(2);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| assert!(db.get(b"a").unwrap().is_some()));
        }
    });
    meetings.end();
    let mut grown = counts();
    grown
        .iter_mut()
        .zip(before)
        .for_each(|(now, before)| *now -= before);
    assert_eq!(grown, [2, 2, 2, 6, 1, 1, 1, 3]);
    assert_eq!(cache.entries(), 3);
}

/// A no-op cipher with which every read waits until the given number of threads are reading.
#[derive(Clone, Default)]
struct Meetings(Arc<Mutex<Option<Arc<Barrier>>>>);

impl Meetings {
    fn begin(&self, threads: usize) {
        *self.0.lock() = Some(Arc::new(Barrier::new(threads)));
    }

    fn end(&self) {
        *self.0.lock() = None;
    }
}

impl EncryptionProvider for Meetings {
    fn prefix_len(&self) -> usize {
        4096
    }

    fn new_prefix(&self, _: &Path) -> Result<Vec<u8>> {
        Ok(vec![1; 4096])
    }

    fn stream(&self, _: &Path, _: &[u8]) -> Result<Box<dyn CipherStream>> {
        Ok(Box::new(self.clone()))
    }
}

impl CipherStream for Meetings {
    fn encrypt(&self, _: u64, _: &mut [u8]) -> Result<()> {
        Ok(())
    }

    fn decrypt(&self, _: u64, _: &mut [u8]) -> Result<()> {
        let barrier = self.0.lock().clone();
        if let Some(barrier) = barrier {
            barrier.wait();
        }
        Ok(())
    }
}

/// Tables that are verified after they are written.
fn read_back(opener: &Opener) {
    let family = FamilyOptions {
        paranoid_file_checks: true,
        ..by_hand()
    };
    let db = opener.fresh(&family);
    db.put(b"a", b"1").unwrap();
    db.flush().unwrap();
}

/// Incompressible blocks.
fn incompressible(opener: &Opener) {
    for compression in [Compression::Lz4, Compression::None] {
        let family = FamilyOptions {
            compression,
            ..by_hand()
        };
        let db = opener.fresh(&family);
        for n in 0..50 {
            db.put(&noise(n, 20), &noise(n, 500)).unwrap();
        }
        db.flush().unwrap();
    }
}

/// A rate limiter, an SstFileManager, memtable budgets, and other causes of flushes.
fn limits(opener: &Opener) {
    let options = DbOptions {
        rate_limiter: Some(Arc::new(RateLimiter::new(
            2_000_000,
            10_000,
            10,
            RateLimited::AllIo,
            false,
        ))),
        ..db_options()
    };
    let db = opener.open(&World::in_memory(), options, &by_hand());
    for round in 0..2 {
        for n in 0..50 {
            db.put(&key(n), &noise(n + round, 1_000)).unwrap();
        }
        db.flush().unwrap();
    }
    compact(&db);

    let manager = Arc::new(SstFileManager::new());
    manager.set_delete_rate_bytes_per_second(1 << 30);
    manager.set_max_trash_db_ratio(10.0);
    let options = DbOptions {
        sst_file_manager: Some(manager.clone()),
        ..db_options()
    };
    let sim = SimWorld::new(1);
    let db = opener.open(&sim.world, options, &by_hand());
    for round in 0..2 {
        for n in 0..20 {
            db.put(&key(n), &noise(n + round, 500)).unwrap();
        }
        db.flush().unwrap();
    }
    manager.set_max_allowed_space_usage(25_000);
    let refused = db.compact_range(None, None, &CompactRangeOptions::default());
    assert!(refused.is_err());
    manager.set_max_allowed_space_usage(0);
    compact(&db);
    for _ in 0..20 {
        sim.clock.advance(Duration::from_secs(1));
        sim.executor.run(1_000);
    }
    db.close().unwrap();

    for atomic_flush in [false, true] {
        let family = FamilyOptions {
            write_buffer_size: 64 << 10,
            memtable_max_range_deletions: 2,
            arena_block_size: 4096,
            ..by_hand()
        };
        let options = DbOptions {
            atomic_flush,
            ..db_options()
        };
        let db = opener.open(&World::in_memory(), options.clone(), &family);
        for n in 0..200 {
            db.put(&key(n), &noise(n, 1_000)).unwrap();
        }
        db.wait_until_quiet().unwrap();
        for _ in 0..3 {
            db.delete_range(b"a", b"b").unwrap();
        }
        db.put(b"a", b"1").unwrap();
        db.wait_until_quiet().unwrap();
        db.put(b"a", b"1").unwrap();
        db.flush().unwrap();
        let budget = DbOptions {
            write_buffer_manager: Some(Arc::new(WriteBufferManager::new(100_000, None, false))),
            ..options
        };
        let family = FamilyOptions {
            arena_block_size: 4096,
            ..FamilyOptions::default()
        };
        let db = opener.open(&World::in_memory(), budget, &family);
        for n in 0..200 {
            db.put(&key(n), &noise(n, 1_000)).unwrap();
        }
        db.wait_until_quiet().unwrap();
    }
}

/// Writes that have to wait for a compaction.
fn stalls(opener: &Opener) {
    let sim = SimWorld::new(1);
    let family = FamilyOptions {
        level0_file_num_compaction_trigger: 2,
        level0_slowdown_writes_trigger: 2,
        level0_stop_writes_trigger: 3,
        ..small()
    };
    let db = opener.open(&sim.world, db_options(), &family);
    for n in 0..6 {
        db.put(&key(n), b"1").unwrap();
        db.flush().unwrap();
        db.put(&key(n), &noise(n, 10_000)).unwrap();
    }
    db.close().unwrap();
}

/// Files that fail, are damaged, or are missing.
fn failures(opener: &Opener) {
    let sim = SimWorld::new(1);
    let db = opener.open(&sim.world, db_options(), &by_hand());
    db.put(b"a", b"1").unwrap();
    sim.fs
        .set_plan(failing(Call::Sync, ".sst", Fault::InputOutput, 1));
    assert!(db.flush().is_err());
    for _ in 0..60 {
        sim.clock.advance(Duration::from_secs(1));
        sim.executor.run(1_000);
    }
    db.put(b"b", b"1").unwrap();
    db.flush().unwrap();
    // A block that is read once with a flipped bit, and then correctly.
    sim.fs
        .set_plan(failing(Call::Read, ".sst", Fault::FlippedBit, 1));
    assert!(db.get(b"a").unwrap().is_some());
    for count in 0..4 {
        sim.fs
            .set_plan(failing(Call::Read, ".sst", Fault::FlippedBit, count));
        let _checked = db.verify_checksum(&ReadOptions::default());
    }
    db.close().unwrap();
    let table = |sim: &SimWorld| {
        let image = sim.fs.image();
        let mut files = image.files().map(|(path, _)| path);
        files
            .find(|path| path.extension().is_some_and(|end| end == "sst"))
            .unwrap()
    };
    // A table whose end is lost, and then all of it.
    let path = table(&sim);
    let db = opener.open(&sim.world, db_options(), &by_hand());
    let file = sim.world.fs.open_append(&path, Default::default()).unwrap();
    file.truncate(file.len() - 1).unwrap();
    file.append(b"?").unwrap();
    file.close().unwrap();
    let _damaged = db.get(b"a");
    sim.world.fs.remove(&path).unwrap();
    let _missing = db.get(b"a");
    drop(db);
    // A MANIFEST that is verified with a flipped bit.
    let sim = SimWorld::new(1);
    let options = DbOptions {
        verify_manifest_content_on_close: true,
        ..db_options()
    };
    let db = opener.open(&sim.world, options, &by_hand());
    db.put(b"a", b"1").unwrap();
    db.flush().unwrap();
    sim.fs
        .set_plan(failing(Call::Read, "", Fault::FlippedBit, 1));
    db.close().unwrap();
}

/// External files.
fn ingestion(opener: &Opener) {
    let mut options = db_options();
    options
        .set("file_checksum_gen_factory", "FileChecksumGenCrc32cFactory")
        .unwrap();
    let db = opener.open(&World::in_memory(), options, &by_hand());
    let mut writer = SstFileWriter::for_family(db.default_family());
    writer.open(Path::new("/outside.sst")).unwrap();
    writer.put(b"a", b"1").unwrap();
    writer.finish().unwrap();
    let all = IngestExternalFileOptions::default();
    db.ingest_external_files(&[Ingestion::new(db.default_family(), ["/outside.sst"], &all)])
        .unwrap();
    db.verify_file_checksums().unwrap();
    // The log is flushed by the next opening.
    let world = World::in_memory();
    let db = opener.open(&world, db_options(), &by_hand());
    let mut batch = WriteBatch::new();
    batch.put(b"a", b"1");
    db.write(&batch).unwrap();
    db.close().unwrap();
    drop(db);
    drop(opener.open(&world, db_options(), &by_hand()));
}

#[test]
fn every_activity_of_the_engine_is_counted() {
    let opener = Opener {
        statistics: Arc::new(Statistics::new(StatsLevel::All)),
    };
    for part in [
        reads_and_writes,
        compactions,
        blobs,
        rows,
        scans,
        tiers,
        together,
        read_back,
        incompressible,
        limits,
        stalls,
        failures,
        ingestion,
    ] {
        part(&opener);
    }
    let reason = |name: &str| {
        let name = name.strip_prefix("rocksdb.").unwrap();
        let mut rows = ZERO.iter();
        rows.find(|(begin, _)| name.starts_with(begin))
            .map(|(_, reason)| *reason)
    };
    let tickers = Ticker::ALL
        .iter()
        .map(|&one| (one.name(), opener.statistics.ticker(one)));
    let histograms = Histogram::ALL
        .iter()
        .map(|&one| (one.name(), opener.statistics.histogram(one).count));
    let all: Vec<(&str, u64)> = tickers.chain(histograms).collect();
    let silent: Vec<&str> = all
        .iter()
        .filter(|(name, count)| *count == 0 && reason(name).is_none())
        .map(|(name, _)| *name)
        .collect();
    let listed: Vec<&str> = all
        .iter()
        .filter(|(name, count)| *count > 0 && reason(name).is_some())
        .map(|(name, _)| *name)
        .collect();
    assert!(
        silent.is_empty(),
        "these stay zero and are not listed:\n{}",
        silent.join("\n")
    );
    assert!(
        listed.is_empty(),
        "these are listed and count:\n{}",
        listed.join("\n")
    );
    for (begin, _) in ZERO {
        let stands_for = |(name, _): &(&str, u64)| name["rocksdb.".len()..].starts_with(begin);
        assert!(all.iter().any(stands_for), "{begin} begins no name");
    }
}
