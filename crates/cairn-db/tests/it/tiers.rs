//! Databases larger than their block cache, with tiers of the cache below it.

#![expect(clippy::unwrap_used, reason = "an absent value fails the test")]

use std::path::Path;
use std::sync::Arc;

use cairn_db::{Db, OpenRequest, open};
use cairn_memory::secondary::{
    AdmissionPolicy, CompressedCacheOptions, CompressedSecondaryCache, FlashAdmission, FlashCache,
    FlashCacheOptions, SecondaryCache,
};
use cairn_memory::{BlockCache, CacheKind, CacheOptions, CacheRole};
use cairn_observe::perf::{self, PerfLevel, PerfMetric};
use cairn_observe::statistics::{Statistics, StatsLevel, Ticker};
use cairn_options::enums::CacheTier;
use cairn_options::{Compression, DbOptions, FamilyOptions, FilterPolicy};
use cairn_platform::World;

use crate::basic::{db_options, small};

const KEYS: u32 = 600;
const CACHE: usize = 24 << 10;

pub(crate) fn compressed(policy: AdmissionPolicy) -> CompressedCacheOptions {
    CompressedCacheOptions {
        capacity: 4 << 20,
        admission: policy,
        compression: Compression::Lz4,
        ..CompressedCacheOptions::default()
    }
}

pub(crate) fn flash(world: &World) -> Arc<FlashCache> {
    let options = FlashCacheOptions {
        dir: "/flash".into(),
        capacity: 4 << 20,
        segment_size: 64 << 10,
        admission: FlashAdmission::All,
        compression: Compression::Lz4,
        ..FlashCacheOptions::default()
    };
    Arc::new(FlashCache::open(&options, world).unwrap())
}

/// A cache of `capacity` bytes above `tier`.
pub(crate) fn above(
    kind: CacheKind,
    capacity: usize,
    tier: Arc<dyn SecondaryCache>,
) -> Arc<BlockCache> {
    let options = CacheOptions {
        kind,
        num_shard_bits: Some(0),
        ..CacheOptions::default()
    };
    Arc::new(BlockCache::with_tier(capacity, options, tier))
}

fn compressed_tier(policy: AdmissionPolicy) -> Arc<CompressedSecondaryCache> {
    Arc::new(CompressedSecondaryCache::new(&compressed(policy)).unwrap())
}

fn key(n: u32) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

fn value(n: u32) -> Vec<u8> {
    format!("value {n} {}", "x".repeat(200)).into_bytes()
}

/// A database and its counts.
struct Tiered {
    db: Db,
    statistics: Arc<Statistics>,
}

impl Tiered {
    fn open(world: &World, cache: Arc<BlockCache>, lowest: CacheTier, blobs: bool) -> Tiered {
        let mut family = FamilyOptions {
            disable_auto_compactions: true,
            enable_blob_files: blobs,
            blob_cache: blobs.then(|| cache.clone()),
            ..small()
        };
        family.table.block_size = 1 << 10;
        family.table.filter_policy = Some(FilterPolicy::Bloom { bits_per_key: 10.0 });
        family.table.cache_index_and_filter_blocks = true;
        family.table.block_cache = Some(cache);
        let statistics = Arc::new(Statistics::new(StatsLevel::All));
        let options = DbOptions {
            statistics: statistics.clone().into(),
            lowest_used_cache_tier: lowest,
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
        Tiered {
            db: db.unwrap(),
            statistics,
        }
    }

    fn fill(&self) {
        for n in 0..KEYS {
            self.db.put(&key(n), &value(n)).unwrap();
        }
        self.db.flush().unwrap();
    }

    /// Reads everything by gets and by an iterator.
    fn read(&self) {
        for n in 0..KEYS {
            let found = self.db.get(&key(n)).unwrap();
            assert_eq!(found.as_deref(), Some(&value(n)[..]));
        }
        let mut iter = self.db.iter();
        iter.seek_to_first();
        for n in 0..KEYS {
            assert_eq!((iter.key(), iter.value()), (&key(n)[..], &value(n)[..]));
            iter.next();
        }
        assert!(!iter.valid());
    }

    fn take(&self, ticker: Ticker) -> u64 {
        self.statistics.take_ticker(ticker)
    }

    /// Hits below the cache, and misses of everything.
    fn take_hits(&self) -> (u64, u64) {
        (
            self.take(Ticker::SecondaryCacheHits),
            self.take(Ticker::BlockCacheMiss),
        )
    }
}

#[test]
fn a_compressed_tier_serves_entries_evicted_from_the_cache() {
    for kind in [CacheKind::Clock, CacheKind::Lru] {
        let tier = compressed_tier(AdmissionPolicy::Auto);
        let cache = above(kind, CACHE, tier.clone());
        let world = World::in_memory();
        let tiered = Tiered::open(
            &world,
            cache.clone(),
            CacheTier::NonVolatileBlockTier,
            false,
        );
        tiered.fill();
        // Evictions record keys, then store entries.
        for _ in 0..3 {
            tiered.read();
        }
        assert!(tiered.take(Ticker::CompressedSecondaryCacheDummyHits) > 0);
        tiered.take_hits();
        for ticker in [
            Ticker::SecondaryCacheFilterHits,
            Ticker::SecondaryCacheDataHits,
            Ticker::SecondaryCacheIndexHits,
            Ticker::CompressedSecondaryCacheHits,
        ] {
            tiered.take(ticker);
        }
        perf::set_level(PerfLevel::EnableCount);
        perf::reset();
        let before = tier.counts();
        tiered.read();
        let (hits, misses) = tiered.take_hits();
        assert!(
            hits > 100 && misses < hits / 10,
            "{kind:?}: {hits} {misses}"
        );
        assert_eq!(tiered.take(Ticker::CompressedSecondaryCacheHits), hits);
        assert_eq!(tier.counts().hits - before.hits, hits);
        assert_eq!(perf::metric(PerfMetric::SecondaryCacheHitCount), hits);
        let metadata = tiered.take(Ticker::SecondaryCacheFilterHits)
            + tiered.take(Ticker::SecondaryCacheIndexHits);
        let data = tiered.take(Ticker::SecondaryCacheDataHits);
        assert_eq!(data + metadata, hits);
        assert!(cache.usage() <= CACHE + (4 << 10));
        assert_eq!(tiered.take(Ticker::CompressedSecondaryCachePromotions), 0);
    }
}

#[test]
fn flash_serves_entries_after_reopening() {
    for below_compressed in [false, true] {
        let world = World::in_memory();
        let stack = || -> (Arc<FlashCache>, Arc<BlockCache>) {
            let flash = flash(&world);
            let tier: Arc<dyn SecondaryCache> = match below_compressed {
                true => Arc::new(
                    CompressedSecondaryCache::with_tier_below(
                        &compressed(AdmissionPolicy::Auto),
                        flash.clone(),
                    )
                    .unwrap(),
                ),
                false => flash.clone(),
            };
            (flash, above(CacheKind::Clock, CACHE, tier))
        };
        let (first, cache) = stack();
        let tiered = Tiered::open(&world, cache, CacheTier::NonVolatileBlockTier, false);
        tiered.fill();
        tiered.read();
        tiered.read();
        first.close();
        drop((tiered, first));

        let (second, cache) = stack();
        assert!(second.stats().restored > 100);
        let tiered = Tiered::open(&world, cache, CacheTier::NonVolatileBlockTier, false);
        tiered.take_hits();
        tiered.read();
        let (hits, misses) = tiered.take_hits();
        assert!(hits > 100 && misses < hits / 10, "{hits} {misses}");
        let offered = tiered.take(Ticker::CompressedSecondaryCachePromotions);
        assert_eq!(offered > 0, below_compressed);
    }
}

#[test]
fn the_lowest_tier_of_the_options_is_the_lowest_in_use() {
    for (lowest, in_memory, on_flash) in [
        (CacheTier::VolatileTier, false, false),
        (CacheTier::VolatileCompressedTier, true, false),
        (CacheTier::NonVolatileBlockTier, true, true),
    ] {
        let world = World::in_memory();
        let flash = flash(&world);
        // All entries, few of which fit: the others are offered to flash.
        let options = CompressedCacheOptions {
            capacity: 48 << 10,
            num_shard_bits: Some(0),
            ..compressed(AdmissionPolicy::AllowAll)
        };
        let tier = CompressedSecondaryCache::with_tier_below(&options, flash.clone());
        let tier = Arc::new(tier.unwrap());
        let tiered = Tiered::open(
            &world,
            above(CacheKind::Lru, CACHE, tier.clone()),
            lowest,
            true,
        );
        tiered.fill();
        tiered.read();
        tiered.read();
        assert_eq!(tier.counts().insertions > 0, in_memory, "{lowest:?}");
        assert_eq!(tier.role_counts(CacheRole::Blob).insertions > 0, in_memory);
        assert_eq!(flash.counts().insertions > 0, on_flash, "{lowest:?}");
        let hits = tiered.take(Ticker::SecondaryCacheHits);
        let here = tiered.take(Ticker::CompressedSecondaryCacheHits);
        assert_eq!(hits > here, on_flash, "{lowest:?}: {hits} {here}");
        if !in_memory {
            assert_eq!(hits, 0);
        }
    }
}

#[test]
fn blobs_are_served_from_a_tier() {
    let tier = compressed_tier(AdmissionPolicy::AllowAll);
    let world = World::in_memory();
    let cache = above(CacheKind::Clock, CACHE, tier.clone());
    let tiered = Tiered::open(&world, cache, CacheTier::VolatileCompressedTier, true);
    tiered.fill();
    tiered.read();
    tiered.take(Ticker::BlobDbCacheMiss);
    tiered.read();
    assert!(tier.role_counts(CacheRole::Blob).hits > 100);
    assert!(tiered.take(Ticker::BlobDbCacheMiss) < 100);
    assert!(tiered.take(Ticker::BlobDbCacheHit) > 100);
}

#[test]
fn a_simulated_cache_counts_what_a_larger_one_would_hit() {
    for kind in [CacheKind::Clock, CacheKind::Lru] {
        let options = CacheOptions {
            kind,
            num_shard_bits: Some(0),
            ..CacheOptions::default()
        };
        let cache = Arc::new(BlockCache::simulating(CACHE, options, 4 << 20));
        let world = World::in_memory();
        let tiered = Tiered::open(&world, cache.clone(), CacheTier::VolatileTier, false);
        tiered.fill();
        tiered.read();
        let tickers = [Ticker::SimBlockCacheHit, Ticker::SimBlockCacheMiss];
        let before = tickers.map(|ticker| tiered.take(ticker));
        assert!(before[0] > 0 && before[1] > 0, "{before:?}");
        tiered.take_hits();
        tiered.read();
        // Everything fits into the simulated capacity.
        let [hits, misses] = tickers.map(|ticker| tiered.take(ticker));
        assert!(hits > 600 && misses == 0, "{hits} {misses}");
        let (_, real_misses) = tiered.take_hits();
        assert!(real_misses > 100, "{real_misses}");
        let property = tiered.db.property("cairn.simulated-cache").unwrap();
        assert!(property.contains(" hits, "), "{property}");
        let Tiered { db, statistics } = tiered;
        db.close().unwrap();
        drop((db, statistics));
        // The statistics are gone; the cache is not.
        let simulation = cache.simulation().unwrap();
        let before = simulation.misses();
        let key = cairn_memory::CacheKey { high: 1, low: 1 };
        assert!(cache.lookup(&key, CacheRole::Data).is_none());
        assert_eq!(simulation.misses(), before + 1);
    }
}
