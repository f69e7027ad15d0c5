//! Tests of the cache through its public interface.

use super::clock::ENTRY_OVERHEAD;
use super::*;
use cairn_platform::Allocation;

fn key(n: u64) -> CacheKey {
    CacheKey::of_block([7, 9], n)
}

fn block(byte: u8) -> Buffer {
    Buffer::from(vec![byte; 1024])
}

const CHARGE: usize = 1024 + ENTRY_OVERHEAD;

/// One shard with room for `blocks` blocks.
fn cache(blocks: usize, high: f64, low: f64, strict: bool) -> BlockCache {
    let options = CacheOptions {
        kind: CacheKind::Clock,
        num_shard_bits: Some(0),
        strict_capacity_limit: strict,
        high_pri_pool_ratio: high,
        low_pri_pool_ratio: low,
        ..CacheOptions::default()
    };
    BlockCache::new(blocks * CHARGE, options)
}

fn put(cache: &BlockCache, n: u64, priority: CachePriority) -> bool {
    let role = match priority {
        CachePriority::High => CacheRole::Index,
        CachePriority::Low => CacheRole::Data,
        CachePriority::Bottom => CacheRole::Blob,
    };
    cache
        .insert(key(n), block(n as u8), role, priority)
        .is_kept()
}

fn held(cache: &BlockCache, keys: impl IntoIterator<Item = u64>) -> Vec<u64> {
    keys.into_iter()
        .filter(|&n| cache.contains(&key(n)))
        .collect()
}

#[test]
fn entries_are_found_until_erased() {
    let cache = cache(10, 0.0, 0.0, false);
    assert!(put(&cache, 1, CachePriority::Low));
    assert_eq!(cache.get(&key(1)).unwrap()[0], 1);
    assert!(cache.get(&key(2)).is_none());
    assert!(cache.erase(&key(1)));
    assert!(!cache.erase(&key(1)));
    assert!(cache.get(&key(1)).is_none());
    assert_eq!(cache.usage(), 0);
}

#[test]
fn entries_are_in_the_memory_of_the_cache() {
    let undumped = MemoryKind::undumped().unwrap();
    for kind in [CacheKind::Clock, CacheKind::Lru] {
        for (memory, other) in [
            (undumped, MemoryKind::default()),
            (MemoryKind::default(), undumped),
        ] {
            let options = CacheOptions {
                kind,
                memory,
                ..CacheOptions::default()
            };
            let cache = BlockCache::new(1 << 20, options);
            let insert = |n, of| {
                let block = Buffer::copy_of(&[n as u8; 500], Allocation::of_kind(of));
                cache.insert(key(n), block.clone(), CacheRole::Data, CachePriority::Low);
                block
            };
            // The memory of the cache is shared; other memory is copied.
            let shared = insert(1, memory);
            assert!(cache.get(&key(1)).unwrap().is_same(&shared));
            insert(2, other);
            for n in [1, 2] {
                let found = cache.get(&key(n)).unwrap();
                assert_eq!(
                    (found.memory_kind(), &*found),
                    (memory, &[n as u8; 500][..])
                );
                // A longer tail than there is room for.
                let laid = cache.lay_tail(&key(n), found, &[9; 300]);
                assert_eq!((laid.memory_kind(), laid.tail()), (memory, &[9; 300][..]));
                let found = cache.get(&key(n)).unwrap();
                assert!(found.is_same(&laid), "{kind:?}");
            }
        }
    }
}

#[test]
fn an_insertion_reports_that_it_replaced_an_entry() {
    for kind in [CacheKind::Clock, CacheKind::Lru] {
        let options = CacheOptions {
            kind,
            num_shard_bits: Some(0),
            ..CacheOptions::default()
        };
        let cache = BlockCache::new(10 * 2 * CHARGE, options);
        let insert = |bytes: usize| {
            let buffer = Buffer::from(vec![0; bytes]);
            cache.insert(key(1), buffer, CacheRole::Data, CachePriority::Low)
        };
        assert_eq!(insert(1000), InsertOutcome::Added);
        assert_eq!(insert(1000), InsertOutcome::Replaced);
        let held = cache.get(&key(1)).unwrap();
        assert_eq!(insert(500), InsertOutcome::Replaced);
        assert_eq!(held.len(), 1000);
        cache.erase(&key(1));
        assert_eq!(insert(1000), InsertOutcome::Added);
        assert_eq!(insert(100_000), InsertOutcome::Refused);
        let counts = cache.role_counts(CacheRole::Data);
        assert_eq!((counts.insertions, counts.refusals), (4, 1));
    }
}

/// Regression: a small cache with the maximum number of shards took 1.7 GB.
#[test]
fn the_number_of_shards_is_limited() {
    for kind in [CacheKind::Clock, CacheKind::Lru] {
        for (bits, shards) in [(3, 1 << 3), (12, 1 << 12), (13, 1 << 12), (31, 1 << 12)] {
            let options = CacheOptions {
                kind,
                num_shard_bits: Some(bits),
                ..CacheOptions::default()
            };
            let cache = BlockCache::new(64 << 20, options);
            assert_eq!(cache.shards(), shards, "{kind:?}");
            assert!(put(&cache, 1, CachePriority::Low) && cache.contains(&key(1)));
        }
    }
}

#[test]
fn an_entry_that_was_hit_is_evicted_last() {
    let cache = cache(4, 0.0, 0.0, false);
    for n in 0..4 {
        put(&cache, n, CachePriority::Low);
    }
    assert!(cache.get(&key(0)).is_some());
    put(&cache, 4, CachePriority::Low);
    put(&cache, 5, CachePriority::Low);
    let left = held(&cache, 0..6);
    assert!(left.len() == 4 && left.contains(&0), "{left:?}");
}

#[test]
fn scans_do_not_evict_hot_entries() {
    let cache = cache(20, 0.0, 0.0, false);
    for n in 0..10 {
        put(&cache, n, CachePriority::Low);
    }
    for scanned in 100..400 {
        if scanned % 5 == 0 {
            for n in 0..10 {
                assert!(cache.get(&key(n)).is_some(), "{n} was evicted by a scan");
            }
        }
        put(&cache, scanned, CachePriority::Low);
    }
}

#[test]
fn eviction_follows_priorities_without_pool_ratios() {
    let cache = cache(6, 0.0, 0.0, false);
    for n in 0..2 {
        put(&cache, n, CachePriority::High);
        put(&cache, 10 + n, CachePriority::Low);
        put(&cache, 20 + n, CachePriority::Bottom);
    }
    // By priority: metadata below 10, data from 10 on, blobs from 20 on.
    let numbers = || [0..10, 10..20, 20..30].map(|keys| held(&cache, keys).len());
    put(&cache, 12, CachePriority::Low);
    put(&cache, 13, CachePriority::Low);
    assert_eq!(numbers(), [2, 4, 0]);
    put(&cache, 2, CachePriority::High);
    assert_eq!(numbers(), [3, 3, 0]);
    // With no lower pool to evict from, a blob replaces data.
    for n in 20..25 {
        put(&cache, n, CachePriority::Bottom);
    }
    assert_eq!(numbers(), [3, 2, 1]);
}

#[test]
fn a_pool_ratio_bounds_the_pool() {
    let options = CacheOptions {
        num_shard_bits: Some(0),
        ..CacheOptions::lru()
    };
    let cache = BlockCache::new(8 * (1024 + super::lru::ENTRY_OVERHEAD), options);
    for n in 0..8 {
        put(&cache, n, CachePriority::High);
    }
    // Four are in the high pool; 0..4 were demoted, and are evicted like data, oldest first.
    for n in 10..14 {
        put(&cache, n, CachePriority::Low);
    }
    assert_eq!(held(&cache, 0..20), [4, 5, 6, 7, 10, 11, 12, 13]);
}

#[test]
fn strict_capacity_rejects_insertions_if_all_entries_are_in_use() {
    for strict in [false, true] {
        let cache = cache(3, 0.0, 0.0, strict);
        for n in 0..3 {
            put(&cache, n, CachePriority::Low);
        }
        let pins: Vec<_> = (0..3).map(|n| cache.get(&key(n)).unwrap()).collect();
        assert_eq!(cache.pinned_usage(), 3 * CHARGE);
        assert_eq!(put(&cache, 3, CachePriority::Low), !strict);
        drop(pins);
        assert!(put(&cache, 4, CachePriority::Low));
        assert!(cache.usage() <= cache.capacity());
    }
}

#[test]
fn the_capacity_can_be_changed() {
    let cache = cache(8, 0.5, 0.25, false);
    for n in 0..8 {
        put(&cache, n, CachePriority::Low);
    }
    cache.set_capacity(3 * CHARGE);
    assert_eq!(cache.entries(), 3);
    cache.set_capacity(0);
    assert_eq!(cache.usage(), 0);
    assert!(!put(&cache, 1, CachePriority::High));
    cache.set_capacity(2 * CHARGE);
    assert!(put(&cache, 1, CachePriority::High));
}

/// A step that takes a microsecond per entry is far below 10 ms.
#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn a_lower_capacity_evicts_few_entries_at_a_time() {
    const MOST: usize = 4_000;
    for kind in [CacheKind::Clock, CacheKind::Lru] {
        for len in [200, 4000] {
            let options = CacheOptions {
                kind,
                num_shard_bits: Some(0),
                ..CacheOptions::default()
            };
            let cache = BlockCache::new(16 << 20, options);
            for n in 0..(16 << 20) / len {
                let block = Buffer::from(vec![1; len as usize]);
                cache.insert(key(n), block, CacheRole::Data, CachePriority::Low);
            }
            let before = cache.entries();
            let steps = lowering_steps(cache.usage(), 1 << 20);
            let evicted: Vec<usize> = steps.map(|step| cache.lower_to(step)).collect();
            assert!(evicted.len() >= 14, "{evicted:?}");
            assert!(evicted.iter().all(|&count| count <= MOST), "{evicted:?}");
            assert_eq!(evicted.iter().sum::<usize>(), before - cache.entries());
            assert!(cache.usage() <= 1 << 20, "{cache:?}");
        }
    }
}

/// Regression: a lowering in progress overwrote a higher capacity that was set in the meantime.
#[test]
fn the_last_of_concurrent_capacities_stays_in_force() {
    for kind in [CacheKind::Clock, CacheKind::Lru] {
        let options = CacheOptions {
            kind,
            ..CacheOptions::default()
        };
        let cache = BlockCache::new(16 << 20, options);
        let fill = |cache: &BlockCache| {
            for n in 0..5_000 {
                let block = Buffer::from(vec![1; 4000]);
                cache.insert(key(n), block, CacheRole::Data, CachePriority::Low);
            }
        };
        for _ in 0..5 {
            cache.set_capacity(16 << 20);
            fill(&cache);
            std::thread::scope(|scope| {
                scope.spawn(|| cache.set_capacity(1 << 20));
                scope.spawn(|| cache.set_capacity(8 << 20));
            });
            fill(&cache);
            let (usage, capacity) = (cache.usage(), cache.capacity());
            assert!(usage <= capacity && usage > capacity / 2, "{cache:?}");
        }
    }
}

#[test]
fn roles_are_counted() {
    let cache = cache(2, 0.0, 0.0, false);
    put(&cache, 1, CachePriority::Low);
    put(&cache, 2, CachePriority::High);
    put(&cache, 3, CachePriority::High);
    assert!(cache.lookup(&key(2), CacheRole::Index).is_some());
    assert!(cache.lookup(&key(1), CacheRole::Data).is_none());
    let data = cache.role_counts(CacheRole::Data);
    assert_eq!((data.usage, data.evictions, data.misses), (0, 1, 1));
    let index = cache.role_counts(CacheRole::Index);
    assert_eq!(
        (index.usage, index.insertions, index.hits),
        (2 * CHARGE, 2, 1)
    );
    assert_eq!(cache.counts().entries, 2);
}

#[test]
fn unused_entries_are_erased() {
    let cache = cache(8, 0.5, 0.0, false);
    for n in 0..8 {
        put(&cache, n, CachePriority::High);
    }
    let pin = cache.get(&key(5));
    cache.erase_unused();
    assert_eq!(held(&cache, 0..8), [5]);
    drop(pin);
}

#[test]
fn threads_share_the_cache() {
    let cache = BlockCache::new(
        64 * CHARGE,
        CacheOptions {
            num_shard_bits: Some(2),
            ..Default::default()
        },
    );
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let cache = &cache;
            scope.spawn(move || {
                for round in 0..if cfg!(miri) { 60 } else { 2_000u64 } {
                    let n = (round * 31 + thread * 17) % 200;
                    match cache.get(&key(n)) {
                        Some(found) => assert_eq!(found[0], n as u8),
                        None => {
                            put(cache, n, CachePriority::IN_ORDER[n as usize % 3]);
                        }
                    }
                }
            });
        }
    });
    assert!(cache.usage() <= cache.capacity() + 4 * CHARGE);
    let usage: usize = CacheRole::ALL
        .iter()
        .map(|&role| cache.role_usage(role))
        .sum();
    assert_eq!(usage, cache.usage());
}

mod against_a_model {
    //! Consistency of the queues, the table and the counters.
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn usage_is_the_sum_of_all_charges(
            operations in proptest::collection::vec((0u8..6, 0u64..40, 0usize..3, 1usize..3000), 1..200),
            high in 0.0f64..0.8, low in 0.0f64..0.4, strict: bool,
        ) {
            let cache = cache(12, high, low, strict);
            let mut written: HashMap<u64, Buffer> = HashMap::new();
            let mut pins = Vec::new();
            for (what, n, pool, len) in operations {
                match what {
                    0..=2 => {
                        let buffer = Buffer::from(vec![n as u8; len]);
                        let priority = CachePriority::IN_ORDER[pool];
                        if cache.insert(key(n), buffer.clone(), CacheRole::ALL[pool], priority).is_kept() {
                            written.insert(n, buffer);
                        } else {
                            prop_assert!(!cache.contains(&key(n)));
                        }
                    }
                    3 => { cache.erase(&key(n)); }
                    4 => if let Some(found) = cache.get(&key(n)) {
                        prop_assert_eq!(found.as_ptr(), written[&n].as_ptr());
                        if pool == 0 { pins.push(found) }
                    },
                    _ => cache.set_capacity((n as usize) * CHARGE / 2),
                }
                written.retain(|&n, _| cache.contains(&key(n)));
                let expected: usize = written.values().map(|b| b.memory_usage() + ENTRY_OVERHEAD).sum();
                prop_assert_eq!(cache.usage(), expected);
                prop_assert_eq!(cache.entries(), written.len());
            }
        }
    }
}

/// A cache with `buffer`, and its key.
fn cache_with(buffer: Buffer) -> (BlockCache, CacheKey) {
    let cache = BlockCache::new(1 << 20, CacheOptions::default());
    let key = CacheKey { high: 1, low: 2 };
    cache.insert(key, buffer, CacheRole::Data, CachePriority::Low);
    (cache, key)
}

#[test]
fn a_buffer_that_was_an_entry_is_charged_as_its_copy() {
    let cache = BlockCache::new(1 << 20, CacheOptions::default());
    let buffer = Buffer::copy_of(&[7; 1000], Allocation::with_room(2000));
    for _ in 0..2 {
        cache.insert(key(1), buffer.clone(), CacheRole::Data, CachePriority::Low);
        assert_eq!(cache.usage(), cache.role_usage(CacheRole::Data));
        cache.erase(&key(1));
        assert_eq!(cache.usage(), 0);
    }
}

#[test]
fn a_tail_without_room_copies_the_buffer() {
    let (cache, key) = cache_with(Buffer::from(&[7; 128][..]));
    let other = CacheKey { high: 1, low: 3 };
    let before = cache.usage();
    let bare = cache.get(&key).expect("it is here");
    let laid = cache.lay_tail(&key, bare, &[9; 64]);
    assert_eq!((&*laid, laid.tail()), (&[7; 128][..], &[9; 64][..]));
    let alone = cache.lay_tail(&other, Buffer::from(&[7; 128][..]), &[9; 64]);
    assert_eq!((&*alone, alone.tail()), (&[7; 128][..], &[9; 64][..]));

    let found = cache.get(&key).expect("it is here");
    assert!(found.is_same(&laid));
    assert_eq!(cache.usage(), before + 64);
    assert!(!cache.contains(&other), "nothing is inserted");
    let counts = cache.role_counts(CacheRole::Data);
    assert_eq!((counts.entries, counts.insertions), (1, 1));
    assert_eq!(counts.usage, before + 64);
}

#[test]
fn a_tail_is_appended_in_place_unless_the_buffer_is_held() {
    let (cache, key) = cache_with(Buffer::copy_of(&[7; 100], Allocation::with_room(40)));
    let before = cache.usage();
    let at = cache.get(&key).expect("it is here").as_ptr();
    let bare = cache.get(&key).expect("it is here");
    let laid = cache.lay_tail(&key, bare, &[9; 40]);
    assert_eq!((&*laid, laid.tail()), (&[7; 100][..], &[9; 40][..]));
    assert_eq!((laid.as_ptr(), cache.usage()), (at, before));

    // A reader's view of a buffer never gains a tail.
    let (cache, key) = cache_with(Buffer::copy_of(&[7; 100], Allocation::with_room(40)));
    let looks = cache.get(&key).expect("it is here");
    let laid = cache.lay_tail(&key, looks.clone(), &[9; 40]);
    assert!(looks.tail().is_empty());
    assert_eq!(laid.tail(), [9; 40]);
    let found = cache.get(&key).expect("it is here");
    assert!(found.is_same(&laid) && !found.is_same(&looks));
}
