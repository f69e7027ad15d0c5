//! Tests of the order of eviction for every combination of pools.

use super::super::super::CacheOptions;
use super::*;

const LEN: usize = 1024;
const CHARGE: usize = LEN + ENTRY_OVERHEAD;
/// Ratios of the high and the low pool: none, high only, low only, both.
const POOLS: [(f64, f64); 4] = [(0.0, 0.0), (0.5, 0.0), (0.0, 0.4), (0.5, 0.4)];

struct Cache(Shard);

impl Cache {
    /// A shard with room for a number of blocks.
    fn new(blocks: usize, (high, low): (f64, f64)) -> Cache {
        let options = CacheOptions {
            high_pri_pool_ratio: high,
            low_pri_pool_ratio: low,
            ..CacheOptions::lru()
        };
        let mut shard = Shard::default();
        shard.set_limits(Limits::new(blocks * CHARGE, &options), &mut Vec::new());
        Cache(shard)
    }

    /// Inserts entries, and returns the numbers of the evicted ones.
    fn put(&mut self, numbers: impl IntoIterator<Item = u64>, priority: CachePriority) -> Vec<u64> {
        let mut evicted = Vec::new();
        for number in numbers {
            let key = key(number);
            let entry = Insertion {
                hash: key.hash(),
                key,
                buffer: Buffer::from(vec![0; LEN]),
                role: CacheRole::Other,
                priority,
                lowest: CacheTier::default(),
            };
            assert!(self.0.insert(entry, &mut evicted).is_kept());
        }
        evicted.iter().map(|entry| entry.key.low).collect()
    }

    fn get(&mut self, number: u64) -> Option<Buffer> {
        let key = key(number);
        self.0.get(key.hash(), &key, CacheRole::Other)
    }

    /// Hits entries.
    fn hit(&mut self, numbers: impl IntoIterator<Item = u64>) {
        for number in numbers {
            assert!(self.get(number).is_some(), "{number}");
        }
    }

    /// The numbers of the cached entries among `numbers`.
    fn held(&self, numbers: std::ops::Range<u64>) -> Vec<u64> {
        let has = |number: &u64| self.0.contains(key(*number).hash(), &key(*number));
        numbers.filter(has).collect()
    }

    fn pool_of(&mut self, number: u64) -> Pool {
        self.0.move_hits();
        let key = key(number);
        let slot = self.0.table.find(key.hash(), |slot| slot.key == key);
        self.0.nodes[slot.expect("it is cached").node as usize].pool
    }
}

fn key(number: u64) -> CacheKey {
    CacheKey {
        high: 7,
        low: number,
    }
}

#[test]
fn eviction_is_in_order_of_use() {
    for pools in POOLS {
        let mut cache = Cache::new(6, pools);
        assert_eq!(cache.put(0..6, CachePriority::Bottom), []);
        cache.hit([2, 0, 5, 2]);
        let evicted = cache.put(10..16, CachePriority::Bottom);
        assert_eq!(evicted, [1, 3, 4, 0, 5, 2]);
    }
}

#[test]
fn metadata_outlives_data_and_data_outlive_blobs() {
    for pools in POOLS {
        let mut cache = Cache::new(10, pools);
        cache.put(0..3, CachePriority::High);
        cache.put(10..13, CachePriority::Low);
        cache.put(20..24, CachePriority::Bottom);
        // Hits of lower classes do not raise them above higher ones.
        cache.hit((20..24).chain(10..13).chain(20..24));
        assert_eq!(cache.put(30..34, CachePriority::Bottom), [20, 21, 22, 23]);
        assert_eq!(cache.put(40..41, CachePriority::Low), [30], "{pools:?}");
        let evicted = cache.put(3..5, CachePriority::High);
        assert_eq!(evicted, [31, 32], "{pools:?}");
        assert_eq!(cache.held(0..5), [0, 1, 2, 3, 4], "{pools:?}");
        cache.put(100..400, CachePriority::Bottom);
        assert_eq!(
            cache.held(0..99),
            [0, 1, 2, 3, 4, 10, 11, 12, 40],
            "{pools:?}"
        );
        cache.put(500..800, CachePriority::Low);
        assert_eq!(cache.held(0..5), [0, 1, 2, 3, 4], "{pools:?}");
        assert_eq!(cache.held(100..400), []);
    }
}

/// Regression: with only a low pool, metadata entered that pool and was evicted with the data.
#[test]
fn metadata_is_above_data_with_only_a_low_pool() {
    let mut cache = Cache::new(10, (0.0, 0.4));
    cache.put(0..8, CachePriority::High);
    cache.put(10..100, CachePriority::Low);
    assert_eq!(cache.held(0..100), [0, 1, 2, 3, 4, 5, 6, 7, 98, 99]);
}

#[test]
fn data_that_was_hit_survives_a_scan_if_there_is_a_high_pool() {
    for pools in POOLS {
        let mut cache = Cache::new(10, pools);
        cache.put(0..4, CachePriority::Low);
        cache.hit(0..4);
        cache.put(100..200, CachePriority::Low);
        let kept = match pools.0 > 0.0 {
            true => 4,
            false => 0,
        };
        assert_eq!(cache.held(0..4).len(), kept, "{pools:?}");
    }
}

#[test]
fn a_charge_that_a_node_cannot_hold_is_that_of_the_entry() {
    let mut cache = Cache::new(4, (0.5, 0.0));
    cache.put(0..4, CachePriority::Low);
    for node in &mut cache.0.nodes {
        node.charge = u32::MAX;
    }
    // Three are promoted, and the first of them is demoted again.
    cache.hit(0..3);
    cache.0.move_hits();
    assert_eq!(cache.0.usage(), 4 * CHARGE);
    assert_eq!(cache.0.usage_of(Pool::Promoted), 2 * CHARGE);
    assert_eq!(cache.pool_of(0), Pool::Low);
}

#[test]
fn overflow_of_a_pool_enters_the_next_lower_one() {
    let mut cache = Cache::new(10, (0.3, 0.2));
    cache.put(0..2, CachePriority::High);
    cache.put(10..12, CachePriority::Low);
    cache.hit(10..12);
    // Room for three: promoted data leaves first, the oldest before others.
    assert_eq!(
        [10, 11].map(|it| cache.pool_of(it)),
        [Pool::Low, Pool::Promoted]
    );
    cache.put(2..4, CachePriority::High);
    assert_eq!([11, 0].map(|it| cache.pool_of(it)), [Pool::Low, Pool::Low]);
    assert_eq!([1, 3].map(|it| cache.pool_of(it)), [Pool::High, Pool::High]);
    // Room for two in the low pool, which 10 left when 0 entered it.
    assert_eq!(cache.pool_of(10), Pool::Bottom);
    cache.put(12..13, CachePriority::Low);
    assert_eq!(
        [11, 0, 12].map(|it| cache.pool_of(it)),
        [Pool::Bottom, Pool::Low, Pool::Low]
    );
    // A hit returns an entry to its pool.
    cache.hit([0]);
    assert_eq!([0, 1].map(|it| cache.pool_of(it)), [Pool::High, Pool::Low]);
    assert_eq!(cache.put(20..24, CachePriority::Bottom), [10]);
    assert_eq!(cache.put(24..25, CachePriority::Bottom), [11]);
}

#[test]
fn entries_in_use_are_skipped_and_count_as_used() {
    let mut cache = Cache::new(4, (0.0, 0.0));
    cache.put(0..4, CachePriority::Low);
    let pin = cache.get(0);
    cache.hit(1..4);
    assert_eq!(cache.put(4..6, CachePriority::Low), [1, 2]);
    drop(pin);
    assert_eq!(cache.put(6..8, CachePriority::Low), [3, 0]);
}

/// Regression: an entry in use at the old end of the lowest pool stopped all evictions from a shard of many entries.
#[test]
fn entries_in_use_do_not_keep_higher_pools_cached() {
    for pools in POOLS {
        // Fewer entries than an eviction examines, and more.
        for held in [1, 300] {
            let mut cache = Cache::new(600, pools);
            cache.put(0..held, CachePriority::Bottom);
            let pins: Vec<_> = (0..held).map(|number| cache.get(number)).collect();
            cache.put(1000..1800, CachePriority::Low);
            assert!(cache.0.usage() <= 600 * CHARGE, "{pools:?}");
            assert_eq!(cache.0.len(), 600, "{pools:?}");
            assert_eq!(cache.held(0..held).len() as u64, held, "{pools:?}");
            let options = CacheOptions {
                high_pri_pool_ratio: pools.0,
                low_pri_pool_ratio: pools.1,
                ..CacheOptions::lru()
            };
            let mut evicted = Vec::new();
            let limits = Limits::new(400 * CHARGE, &options);
            while !cache.0.set_limits(limits, &mut evicted) {}
            assert_eq!((evicted.len(), cache.0.len()), (200, 400), "{pools:?}");
            let limits = Limits::new(100 * CHARGE, &options);
            while !cache.0.set_limits(limits, &mut evicted) {}
            assert_eq!(cache.0.len() as u64, held.max(100), "{pools:?}");
            drop(pins);
            while !cache.0.set_limits(limits, &mut evicted) {}
            assert_eq!(cache.0.len(), 100, "{pools:?}");
        }
    }
}

#[test]
fn a_lower_limit_takes_effect_at_once() {
    let mut cache = Cache::new(10, (0.5, 0.0));
    cache.put(0..5, CachePriority::High);
    cache.put(10..15, CachePriority::Low);
    let options = CacheOptions::lru();
    let mut evicted = Vec::new();
    let limits = Limits::new(4 * CHARGE, &options);
    assert!(cache.0.set_limits(limits, &mut evicted));
    assert_eq!(cache.held(0..20), [1, 2, 3, 4]);
    assert_eq!(
        [1, 2, 3].map(|it| cache.pool_of(it)),
        [Pool::Low, Pool::Low, Pool::High]
    );
    assert_eq!(evicted.len(), 6);
}

#[test]
fn lower_limits_take_effect_a_few_entries_at_a_time() {
    for pools in POOLS {
        let mut cache = Cache::new(2000, pools);
        cache.put(0..1000, CachePriority::High);
        cache.put(1000..2000, CachePriority::Low);
        let options = CacheOptions {
            high_pri_pool_ratio: pools.0,
            low_pri_pool_ratio: pools.1,
            ..CacheOptions::lru()
        };
        let limits = Limits::new(100 * CHARGE, &options);
        let mut evicted = Vec::new();
        let mut is_done = cache.0.set_limits(limits, &mut evicted);
        assert!(!is_done && evicted.len() <= BATCH, "{pools:?}");
        // Insertions do their part only, and do not make the shard larger.
        let usage = cache.0.usage();
        assert!(cache.put(3000..3001, CachePriority::High).len() <= BATCH + 1);
        assert!(cache.0.usage() <= usage);
        while !is_done {
            let before = evicted.len();
            is_done = cache.0.set_limits(limits, &mut evicted);
            assert!(evicted.len() - before <= BATCH, "{pools:?}");
        }
        assert_eq!(cache.0.len(), 100);
        let usage_of = |cache: &Cache, pool| cache.0.usage_of(pool);
        let high = usage_of(&cache, Pool::High) + usage_of(&cache, Pool::Promoted);
        assert!(limits.high.is_none_or(|limit| high <= limit), "{pools:?}");
        let low = usage_of(&cache, Pool::Low);
        assert!(limits.low.is_none_or(|limit| low <= limit), "{pools:?}");
        assert!(
            cache.get(3000).is_some(),
            "the last entry of the highest pool stays"
        );
    }
}
