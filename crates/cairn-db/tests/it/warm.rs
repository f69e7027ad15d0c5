//! The block and blob caches: insertions by flushes and compactions, and evictions by the deletion of files.

#![expect(clippy::unwrap_used, reason = "an absent value fails the test")]

use std::path::Path;
use std::sync::Arc;

use cairn_db::{Db, OpenRequest, open};
use cairn_memory::{BlockCache, CacheOptions, CacheRole};
use cairn_observe::statistics::{Statistics, StatsLevel, Ticker};
use cairn_options::{
    BottommostLevelCompaction, CompactRangeOptions, DbOptions, FamilyOptions, FilterPolicy,
    PrepopulateBlobCache, PrepopulateBlockCache, ReadOptions, ReadTier,
};
use cairn_platform::World;

use crate::basic::{db_options, small};

struct Warm {
    db: Db,
    cache: Arc<BlockCache>,
    statistics: Arc<Statistics>,
}

const KEYS: u32 = 500;

fn key(n: u32) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

fn value(n: u32) -> Vec<u8> {
    format!("value {n} {}", "x".repeat(100)).into_bytes()
}

fn options(prepopulate: PrepopulateBlockCache) -> FamilyOptions {
    let mut options = FamilyOptions {
        disable_auto_compactions: true,
        ..small()
    };
    options.table.block_size = 1 << 10;
    options.table.filter_policy = Some(FilterPolicy::Bloom { bits_per_key: 10.0 });
    options.table.cache_index_and_filter_blocks = true;
    options.table.prepopulate_block_cache = prepopulate;
    options
}

impl Warm {
    fn new(world: &World, mut family: FamilyOptions) -> Warm {
        let cache = Arc::new(BlockCache::new(4 << 20, CacheOptions::default()));
        family.table.block_cache = Some(cache.clone());
        let statistics = Arc::new(Statistics::new(StatsLevel::All));
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
            world: world.clone(),
        });
        Warm {
            db: db.expect("it opens"),
            cache,
            statistics,
        }
    }

    fn fill(&self) {
        for n in 0..KEYS {
            self.db.put(&key(n), &value(n)).unwrap();
        }
    }

    fn take(&self, ticker: Ticker) -> u64 {
        self.statistics.take_ticker(ticker)
    }

    /// Reads all keys, and returns the number of blocks that were not cached.
    fn misses(&self) -> u64 {
        self.take(Ticker::BlockCacheMiss);
        for n in 0..KEYS {
            let found = self.db.get(&key(n)).unwrap();
            assert_eq!(found.as_deref(), Some(&value(n)[..]));
        }
        self.take(Ticker::BlockCacheMiss)
    }

    fn compact(&self) {
        let options = CompactRangeOptions {
            bottommost_level_compaction: BottommostLevelCompaction::Force,
            ..CompactRangeOptions::default()
        };
        self.db.compact_range(None, None, &options).unwrap();
        self.db.wait_until_quiet().unwrap();
    }

    fn entries(&self) -> usize {
        self.cache.entries()
    }
}

#[test]
fn a_flush_leaves_its_blocks_in_the_cache() {
    use PrepopulateBlockCache::{Disable, FlushAndCompaction, FlushOnly};
    for (prepopulate, by_flush, by_compaction) in [
        (Disable, false, false),
        (FlushOnly, true, false),
        (FlushAndCompaction, true, true),
    ] {
        let warm = Warm::new(&World::in_memory(), options(prepopulate));
        warm.fill();
        warm.db.flush().unwrap();
        assert_eq!(warm.entries() > 0, by_flush);
        let added = warm.take(Ticker::BlockCacheAdd);
        assert_eq!(added, warm.entries() as u64);
        let parts = [
            Ticker::BlockCacheDataAdd,
            Ticker::BlockCacheIndexAdd,
            Ticker::BlockCacheFilterAdd,
        ];
        assert_eq!(parts.map(|part| warm.take(part)).iter().sum::<u64>(), added);
        assert_eq!(warm.misses() == 0, by_flush, "{prepopulate:?}");
        warm.compact();
        assert_eq!(warm.misses() == 0, by_compaction, "{prepopulate:?}");
        let blocks = warm.cache.role_counts(CacheRole::Data);
        assert_eq!(blocks.refusals, 0);
    }
}

#[test]
fn prepopulate_block_cache_changes_while_the_database_is_open() {
    let warm = Warm::new(&World::in_memory(), options(PrepopulateBlockCache::Disable));
    warm.fill();
    warm.db.flush().unwrap();
    assert_eq!(warm.entries(), 0);
    let change = [(
        "block_based_table_factory",
        "{prepopulate_block_cache=kFlushOnly;}",
    )];
    warm.db.default_family().set_options(&change).unwrap();
    warm.fill();
    warm.db.flush().unwrap();
    assert_eq!(warm.misses(), 0);
}

/// As in RocksDB, tables written by recovery are not warmed: their data may not be in use.
#[test]
fn recovery_leaves_no_blocks_in_the_cache() {
    let world = World::in_memory();
    let family = || FamilyOptions {
        enable_blob_files: true,
        min_blob_size: 50,
        prepopulate_blob_cache: PrepopulateBlobCache::FlushOnly,
        ..options(PrepopulateBlockCache::FlushAndCompaction)
    };
    let shared = || {
        let mut family = family();
        family.blob_cache = Some(Arc::new(BlockCache::new(4 << 20, CacheOptions::default())));
        family
    };
    let first = Warm::new(&world, shared());
    first.fill();
    first.db.close().unwrap();
    let family = shared();
    let blobs = family.blob_cache.clone().unwrap();
    let second = Warm::new(&world, family);
    assert_eq!((second.entries(), blobs.entries()), (0, 0));
    assert!(second.misses() > 0);
}

/// Blocks of a compaction are evicted before blocks that were read.
#[test]
fn blocks_of_a_compaction_are_evicted_first() {
    let warm = Warm::new(
        &World::in_memory(),
        options(PrepopulateBlockCache::FlushAndCompaction),
    );
    warm.fill();
    warm.db.flush().unwrap();
    warm.compact();
    let new = |n: u32| [b"new", &key(n)[..]].concat();
    // New blocks of a flush, which a full cache prefers to those of the compaction.
    for n in 0..KEYS {
        warm.db.put(&new(n), &value(n)).unwrap();
    }
    warm.db.flush().unwrap();
    let usage = warm.cache.usage();
    warm.cache.set_capacity(usage * 6 / 10);
    warm.take(Ticker::BlockCacheMiss);
    let cached = ReadOptions {
        read_tier: ReadTier::BlockCache,
        ..ReadOptions::default()
    };
    // The first read of a table opens it.
    for first in [key(0), new(0)] {
        assert!(warm.db.get(&first).unwrap().is_some());
    }
    let is_cached = |key: Vec<u8>| warm.db.get_with(&key, &cached).is_ok();
    let news = (0..KEYS).filter(|&n| is_cached(new(n))).count();
    let olds = (0..KEYS).filter(|&n| is_cached(key(n))).count();
    assert!(
        news > 2 * olds,
        "{news} of the flush, {olds} of the compaction"
    );
}

#[test]
fn blocks_of_deleted_tables_are_evicted() {
    for aggressiveness in [0, 1, 10_000] {
        let family = FamilyOptions {
            uncache_aggressiveness: aggressiveness,
            ..options(PrepopulateBlockCache::FlushOnly)
        };
        let warm = Warm::new(&World::in_memory(), family);
        for _ in 0..2 {
            warm.fill();
            warm.db.flush().unwrap();
        }
        assert_eq!(warm.misses(), 0);
        let before = warm.entries();
        // The tables of the flushes are deleted; those of the compaction are not warmed.
        warm.compact();
        let after = warm.entries();
        match aggressiveness {
            0 => assert_eq!(after, before),
            // The table hidden by the other one was not opened by a read.
            _ => assert_eq!(after, 0),
        }
    }
}

#[test]
fn uncaching_ends_early_and_changes_while_the_database_is_open() {
    let warm = Warm::new(
        &World::in_memory(),
        options(PrepopulateBlockCache::FlushOnly),
    );
    let change = [("uncache_aggressiveness", "1")];
    warm.db.default_family().set_options(&change).unwrap();
    warm.fill();
    warm.db.flush().unwrap();
    assert_eq!(warm.misses(), 0);
    let before = warm.entries();
    // Only the block of the first key is gone: the first failure ends the erasing of data blocks.
    warm.cache.erase_unused();
    let _index = warm.db.get(&key(KEYS - 1)).unwrap();
    let left = warm.entries();
    assert!(left < before && left >= 2);
    warm.compact();
    assert_eq!(warm.cache.role_counts(CacheRole::Data).entries, 1);
    assert_eq!(warm.cache.role_counts(CacheRole::Index).entries, 0);
    assert_eq!(warm.cache.role_counts(CacheRole::Filter).entries, 0);
}

/// The tickers of the blob cache count values, not the records around them.
#[test]
fn the_blob_cache_counts_values() {
    for compression in [
        cairn_options::Compression::None,
        cairn_options::Compression::Lz4,
    ] {
        let blobs = Arc::new(BlockCache::new(1 << 20, CacheOptions::default()));
        let family = FamilyOptions {
            enable_blob_files: true,
            min_blob_size: 50,
            blob_compression_type: compression,
            blob_cache: Some(blobs.clone()),
            ..options(PrepopulateBlockCache::Disable)
        };
        let warm = Warm::new(&World::in_memory(), family);
        let counts = || {
            [
                Ticker::BlobDbCacheMiss,
                Ticker::BlobDbCacheHit,
                Ticker::BlobDbCacheAdd,
                Ticker::BlobDbCacheAddFailures,
                Ticker::BlobDbCacheBytesRead,
                Ticker::BlobDbCacheBytesWrite,
            ]
            .map(|ticker| warm.take(ticker))
        };
        let blob = [b'b'; 300];
        warm.db.put(b"k", &blob).unwrap();
        warm.db.flush().unwrap();
        assert_eq!(counts(), [0; 6]);
        let read =
            |options: &ReadOptions| warm.db.get_with(b"k", options).map(|found| found.is_some());
        let unfilled = ReadOptions {
            fill_cache: false,
            ..ReadOptions::default()
        };
        assert_eq!(read(&unfilled), Ok(true));
        assert_eq!(counts(), [1, 0, 0, 0, 0, 0]);
        assert_eq!(read(&ReadOptions::default()), Ok(true));
        assert_eq!(counts(), [1, 0, 1, 0, 0, 300]);
        assert_eq!(read(&ReadOptions::default()), Ok(true));
        assert_eq!(counts(), [0, 1, 0, 0, 300, 0]);
        // A cache that stores nothing.
        blobs.set_capacity(0);
        blobs.erase_unused();
        assert_eq!(read(&ReadOptions::default()), Ok(true));
        assert_eq!(counts(), [1, 0, 0, 1, 0, 0]);
        blobs.set_capacity(1 << 20);
        let change = [("prepopulate_blob_cache", "kFlushOnly")];
        warm.db.default_family().set_options(&change).unwrap();
        warm.db.put(b"k", &blob).unwrap();
        warm.db.flush().unwrap();
        assert_eq!(counts(), [0, 0, 1, 0, 0, 300]);
        assert_eq!(read(&ReadOptions::default()), Ok(true));
        assert_eq!(counts(), [0, 1, 0, 0, 300, 0]);
        warm.compact();
        assert_eq!(counts()[2], 0, "compactions insert no blobs");
    }
}
