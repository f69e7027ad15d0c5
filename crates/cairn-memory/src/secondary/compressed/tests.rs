//! Tests of the compressed tier through its public interface.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use cairn_platform::Buffer;

use super::*;
use crate::cache::{BlockCache, CacheOptions, CachePriority};

fn key(n: u64) -> CacheKey {
    CacheKey::of_block([7 << 50, 9], n)
}

/// Bytes that compress to less than half, or not at all, and are different for each `n`.
fn block(n: u64, len: usize, compressible: bool) -> Bytes {
    let word = |at: usize| {
        let step = if compressible { at / 100 } else { at };
        let mixed = (n * 1_000_003 + step as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 56
    };
    let bytes: Vec<u8> = (0..len).map(|at| word(at) as u8).collect();
    Bytes::Plain(Buffer::from(bytes))
}

fn offer(n: u64, bytes: &Bytes, hit: bool) -> Offer<'_> {
    Offer {
        key: key(n),
        bytes,
        role: CacheRole::Data,
        priority: CachePriority::Low,
        hit,
        lowest: CacheTier::NonVolatileBlock,
    }
}

fn options(capacity: usize, admission: AdmissionPolicy) -> CompressedCacheOptions {
    CompressedCacheOptions {
        capacity,
        num_shard_bits: Some(0),
        admission,
        ..CompressedCacheOptions::default()
    }
}

fn cache(capacity: usize, admission: AdmissionPolicy) -> CompressedSecondaryCache {
    CompressedSecondaryCache::new(&options(capacity, admission)).unwrap()
}

fn put(cache: &CompressedSecondaryCache, n: u64) -> bool {
    cache.insert(&offer(n, &block(n, 4000, true), false))
}

fn look(cache: &CompressedSecondaryCache, n: u64) -> Option<Found> {
    cache.lookup(&key(n), true, CacheTier::NonVolatileBlock)
}

fn held(cache: &CompressedSecondaryCache, keys: std::ops::Range<u64>) -> Vec<u64> {
    keys.filter(|n| cache.contains(&key(*n))).collect()
}

#[test]
fn the_second_eviction_stores_an_entry() {
    let cache = cache(1 << 20, AdmissionPolicy::Auto);
    assert_eq!(cache.admission_policy(), AdmissionPolicy::Placeholder);
    assert!(!put(&cache, 1));
    assert!(look(&cache, 1).is_none());
    assert!(put(&cache, 1) && put(&cache, 1));
    let counts = cache.role_counts(CacheRole::Data);
    assert_eq!((counts.insertions, counts.entries), (1, 1));
    assert!(counts.usage < 2000, "{} bytes", counts.usage);
    let stats = cache.stats();
    assert_eq!((stats.placeholders, stats.placeholder_hits), (1, 1));
    assert_eq!(stats.uncompressed_bytes, 4000);
    assert_eq!(stats.compressed_bytes, counts.usage);
}

#[test]
fn the_second_hit_promotes_an_entry_and_its_next_eviction_stores_it() {
    let cache = cache(1 << 20, AdmissionPolicy::Placeholder);
    put(&cache, 1);
    put(&cache, 1);
    let first = look(&cache, 1).unwrap();
    assert_eq!(&first.buffer[..], block(1, 4000, true).stored());
    assert!(!first.keep && cache.contains(&key(1)));
    assert_eq!(
        (first.role, first.priority),
        (CacheRole::Data, CachePriority::Low)
    );
    assert!(look(&cache, 1).unwrap().keep);
    assert!(!cache.contains(&key(1)));
    assert_eq!(cache.stats().promotions, 1);
    assert_eq!(cache.counts().erasures, 1);
    assert!(put(&cache, 1));
}

/// Regression: the recorded keys took a share of any capacity, and the process was out of memory.
#[test]
fn any_capacity_is_accepted() {
    let of_shards = |num_shard_bits, capacity| {
        let options = CompressedCacheOptions {
            num_shard_bits,
            ..options(capacity, AdmissionPolicy::Auto)
        };
        CompressedSecondaryCache::new(&options).unwrap()
    };
    assert_eq!(of_shards(Some(31), 1 << 20).shards(), 1 << 12);
    for num_shard_bits in [None, Some(0)] {
        let tier = of_shards(num_shard_bits, usize::MAX);
        assert!(!put(&tier, 1) && put(&tier, 1) && look(&tier, 1).is_some());
        tier.set_capacity(1 << 20);
        assert!(tier.usage() <= 1 << 20);
    }
    let total = 2 << 20;
    let tier = Arc::new(cache(0, AdmissionPolicy::AllowAll));
    let above = BlockCache::tiered(total, 0.5, CacheOptions::default(), tier.clone()).unwrap();
    above.set_capacity(usize::MAX);
    assert!(tier.capacity() > usize::MAX / 4 && put(&tier, 1));
    above.set_capacity(total);
    assert_eq!((above.usage(), tier.capacity()), (total / 2, total / 2));
    assert!(look(&tier, 1).is_some());
}

#[test]
fn a_lookup_without_promotion_leaves_the_entry() {
    let cache = cache(1 << 20, AdmissionPolicy::AllowAll);
    put(&cache, 1);
    for _ in 0..3 {
        let found = cache.lookup(&key(1), false, CacheTier::NonVolatileBlock);
        assert!(!found.unwrap().keep);
    }
    assert!(
        !look(&cache, 1).unwrap().keep,
        "only promoting lookups count"
    );
    assert!(look(&cache, 1).unwrap().keep);
}

#[test]
fn policies_differ_in_the_entries_stored_immediately() {
    use AdmissionPolicy::{AllowAll, AllowCacheHits, Placeholder, ThreeQueue};
    for (policy, unhit, hit) in [
        (Placeholder, false, false),
        (AllowCacheHits, false, true),
        (ThreeQueue, false, false),
        (AllowAll, true, true),
    ] {
        let cache = cache(1 << 20, Placeholder);
        cache.set_admission_policy(policy);
        assert_eq!(put(&cache, 1), unhit, "{policy:?}");
        let bytes = block(2, 100, true);
        assert_eq!(cache.insert(&offer(2, &bytes, true)), hit, "{policy:?}");
    }
}

#[test]
fn a_database_can_be_limited_to_the_block_cache() {
    let cache = cache(1 << 20, AdmissionPolicy::AllowAll);
    let bytes = block(1, 100, true);
    let lowest = CacheTier::Volatile;
    assert!(!cache.insert(&Offer {
        lowest,
        ..offer(1, &bytes, true)
    }));
    put(&cache, 1);
    assert!(cache.lookup(&key(1), true, lowest).is_none());
    assert!(
        cache
            .lookup(&key(1), true, CacheTier::VolatileCompressed)
            .is_some()
    );
}

#[test]
fn incompressible_entries_and_filters_are_stored_as_they_are() {
    let cache = cache(1 << 20, AdmissionPolicy::AllowAll);
    let noise = block(1, 3000, false);
    assert!(cache.insert(&offer(1, &noise, false)));
    let even = block(2, 3000, true);
    assert!(cache.insert(&Offer {
        role: CacheRole::Filter,
        ..offer(2, &even, false)
    }));
    assert_eq!(cache.role_counts(CacheRole::Data).usage, 3000);
    assert_eq!(cache.role_counts(CacheRole::Filter).usage, 3000);
    assert_eq!(&look(&cache, 1).unwrap().buffer[..], noise.stored());
    assert_eq!(&look(&cache, 2).unwrap().buffer[..], even.stored());
    let stats = cache.stats();
    assert_eq!(
        (stats.uncompressed_bytes, stats.compressed_bytes),
        (3000, 3000)
    );
}

#[test]
fn every_codec_can_be_used() {
    for compression in [Compression::None, Compression::Zstd, Compression::Lz4hc] {
        let cache = CompressedSecondaryCache::new(&CompressedCacheOptions {
            compression,
            ..options(1 << 20, AdmissionPolicy::AllowAll)
        });
        let cache = cache.unwrap();
        put(&cache, 1);
        assert_eq!(
            &look(&cache, 1).unwrap().buffer[..],
            block(1, 4000, true).stored()
        );
        let stored = cache.counts().usage;
        assert_eq!(stored == 4000, compression == Compression::None);
    }
    let xpress = CompressedCacheOptions {
        compression: Compression::Xpress,
        ..CompressedCacheOptions::default()
    };
    assert!(CompressedSecondaryCache::new(&xpress).is_err());
}

#[test]
fn tails_are_not_stored() {
    let cache = cache(1 << 20, AdmissionPolicy::AllowAll);
    let noise = block(1, 3000, false);
    let bytes = Bytes::Plain(Buffer::from(noise.stored()).with_tail(&[7; 500]));
    cache.insert(&offer(1, &bytes, false));
    let found = look(&cache, 1).unwrap().buffer;
    assert_eq!((&found[..], found.tail()), (noise.stored(), &[][..]));
    assert_eq!(
        found.memory_usage(),
        Buffer::from(noise.stored()).memory_usage()
    );
}

#[test]
fn a_scan_occupies_a_small_part() {
    let cache = cache(256 << 10, AdmissionPolicy::AllowAll);
    // Entries with merit, which fill most of the tier.
    let hot = 0..60;
    for n in hot.clone() {
        assert!(cache.insert(&offer(n, &block(n, 3000, false), true)));
    }
    assert_eq!(held(&cache, hot.clone()).len(), 60);
    for n in 1000..3000 {
        cache.insert(&offer(n, &block(n, 3000, false), false));
    }
    assert_eq!(held(&cache, hot).len(), 60);
    let scanned = held(&cache, 1000..3000).len();
    assert!((5..30).contains(&scanned), "{scanned} of the scan");
}

#[test]
fn a_hit_protects_an_entry_from_eviction() {
    let cache = cache(64 << 10, AdmissionPolicy::AllowAll);
    for n in 0..10 {
        cache.insert(&offer(n, &block(n, 3000, false), true));
    }
    for n in 0..3 {
        look(&cache, n);
    }
    for n in 10..22 {
        cache.insert(&offer(n, &block(n, 3000, false), true));
    }
    let held = held(&cache, 0..10);
    assert!(held.starts_with(&[0, 1, 2]), "{held:?}");
    assert!(held.len() < 10);
}

#[test]
fn an_entry_larger_than_a_shard_is_rejected() {
    let cache = cache(64 << 10, AdmissionPolicy::AllowAll);
    put(&cache, 1);
    assert!(!cache.insert(&offer(2, &block(2, 70_000, false), true)));
    assert!(cache.contains(&key(1)));
    assert_eq!(cache.counts().refusals, 1);
    // An entry that just fits is stored, although it replaces all others.
    let most = (0..64 << 10).rev().step_by(16).find(|len| {
        let fresh = self::cache(64 << 10, AdmissionPolicy::AllowAll);
        fresh.insert(&offer(3, &block(3, *len, false), true))
    });
    assert!(most.unwrap() > 59 << 10);
}

#[test]
fn a_lower_capacity_frees_memory() {
    let cache = cache(1 << 20, AdmissionPolicy::AllowAll);
    for n in 0..4000 {
        put(&cache, n);
    }
    assert!(cache.usage() > 900 << 10);
    cache.set_capacity(100 << 10);
    assert!(cache.usage() <= 100 << 10);
    let some = held(&cache, 0..4000);
    assert!(!some.is_empty());
    for n in some {
        assert_eq!(
            &look(&cache, n).unwrap().buffer[..],
            block(n, 4000, true).stored()
        );
    }
    cache.set_capacity(0);
    assert_eq!((cache.usage(), cache.counts().entries), (0, 0));
    assert!(!put(&cache, 1));
    cache.set_capacity(1 << 20);
    assert!(put(&cache, 1));
}

#[test]
fn a_cleared_tier_is_empty() {
    let cache = cache(1 << 20, AdmissionPolicy::AllowAll);
    (0..100).for_each(|n| assert!(put(&cache, n)));
    cache.clear();
    let counts = cache.counts();
    assert_eq!((counts.entries, counts.usage, counts.erasures), (0, 0, 100));
    assert!(held(&cache, 0..100).is_empty());
    assert!(put(&cache, 5) && cache.erase(&key(5)) && !cache.erase(&key(5)));
}

/// A tier with one entry that records the offers it receives.
#[derive(Default)]
struct Below {
    offers: Mutex<Vec<(u64, bool, Bytes)>>,
    has: Option<(u64, Bytes)>,
}

impl SecondaryCache for Below {
    fn insert(&self, offer: &Offer<'_>) -> bool {
        let n = offer.key.low ^ 9;
        let offered = (n, offer.hit, offer.bytes.clone());
        self.offers.lock().push(offered);
        true
    }
    fn seek(
        &self,
        key: &CacheKey,
        promote: bool,
        _lowest: CacheTier,
        _counts: &mut LookupCounts,
    ) -> Sought<Found> {
        match &self.has {
            Some((n, bytes)) if self::key(*n) == *key => Sought::Found(Found {
                buffer: bytes.expand().expect("intact bytes"),
                role: CacheRole::Index,
                priority: CachePriority::High,
                keep: promote,
                stored: bytes.clone(),
            }),
            _ => Sought::Absent,
        }
    }
    fn contains(&self, _: &CacheKey) -> bool {
        false
    }
    fn erase(&self, _: &CacheKey) -> bool {
        false
    }
    fn clear(&self) {}
    fn usage(&self) -> usize {
        0
    }
    fn capacity(&self) -> usize {
        0
    }
    fn set_capacity(&self, _: usize) {}
    fn role_counts(&self, _: CacheRole) -> TierCounts {
        TierCounts::default()
    }
}

fn above(below: &Arc<Below>, capacity: usize, policy: AdmissionPolicy) -> CompressedSecondaryCache {
    let below = Arc::clone(below) as Arc<dyn SecondaryCache>;
    CompressedSecondaryCache::with_tier_below(&options(capacity, policy), below).unwrap()
}

#[test]
fn evicted_entries_go_to_the_tier_below_compressed() {
    let below = Arc::new(Below::default());
    let cache = above(&below, 64 << 10, AdmissionPolicy::AllowAll);
    for n in 0..600 {
        cache.insert(&offer(n, &block(n, 4000, true), n % 2 == 0));
    }
    let offers = below.offers.lock();
    assert_eq!(offers.len() as u64, cache.counts().evictions);
    assert!(offers.len() > 100);
    for (n, hit, bytes) in offers.iter() {
        assert_eq!(*hit, n % 2 == 0);
        assert!(
            matches!(bytes, Bytes::Compressed { codec, len: 4000, .. } if *codec == Compression::FAST)
        );
    }
}

#[test]
fn three_queues_pass_blocks_read_to_the_tier_below() {
    let bytes = block(5, 900, true);
    let below = Arc::new(Below {
        has: Some((5, bytes.clone())),
        ..Below::default()
    });
    let cache = above(&below, 64 << 10, AdmissionPolicy::Auto);
    assert_eq!(cache.admission_policy(), AdmissionPolicy::ThreeQueue);
    cache.fill(&offer(1, &bytes, false));
    cache.fill(&Offer {
        lowest: CacheTier::VolatileCompressed,
        ..offer(2, &bytes, false)
    });
    cache.insert(&offer(3, &bytes, true));
    let offered: Vec<u64> = below.offers.lock().iter().map(|offer| offer.0).collect();
    assert_eq!(offered, [1]);

    // Found below: it is first inserted into the block cache, then, after its eviction there, into this tier.
    let first = look(&cache, 5).unwrap();
    assert!(first.keep && first.role == CacheRole::Index);
    assert_eq!(cache.counts().entries, 0);
    let unpromoted = cache.lookup(&key(5), false, CacheTier::NonVolatileBlock);
    assert!(unpromoted.is_some_and(|found| !found.keep));
    assert!(!look(&cache, 5).unwrap().keep);
    assert_eq!(cache.role_counts(CacheRole::Index).entries, 1);
    assert_eq!(&look(&cache, 5).unwrap().buffer[..], bytes.stored());
    let stats = cache.stats();
    assert_eq!((stats.hits_below_offered, stats.hits_below_skipped), (2, 1));
    assert!(
        cache
            .lookup(&key(9), true, CacheTier::NonVolatileBlock)
            .is_none()
    );
}

#[test]
fn threads_share_the_tier() {
    let cache = CompressedSecondaryCache::new(&CompressedCacheOptions {
        num_shard_bits: Some(2),
        ..options(256 << 10, AdmissionPolicy::AllowCacheHits)
    });
    let cache = cache.unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let cache = &cache;
            scope.spawn(move || {
                for round in 0..if cfg!(miri) { 40 } else { 2_000u64 } {
                    let n = (round * 31 + thread * 17) % 200;
                    match look(cache, n) {
                        Some(found) => {
                            assert_eq!(&found.buffer[..], block(n, 900, n % 3 == 0).stored())
                        }
                        None => {
                            cache.insert(&offer(n, &block(n, 900, n % 3 == 0), round % 2 == 0));
                        }
                    }
                    match round % 50 {
                        7 => cache.set_capacity((64 << 10) + (thread as usize * 10_000)),
                        9 => cache.set_capacity(256 << 10),
                        11 => cache.clear(),
                        _ => {}
                    }
                }
            });
        }
    });
    let counts = cache.counts();
    assert_eq!(
        counts.insertions,
        counts.evictions + counts.erasures + counts.entries
    );
    assert!(cache.usage() <= cache.capacity());
}

#[derive(Clone, Debug)]
enum Step {
    Put(u64, usize, usize, bool),
    Look(u64, bool),
    Erase(u64),
    Capacity(usize),
    Policy(usize),
    Clear,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..60u64, 0..5000usize, 0..7usize, any::<bool>())
            .prop_map(|(n, len, role, hit)| Step::Put(n, len, role, hit)),
        6 => (0..60u64, any::<bool>()).prop_map(|(n, promote)| Step::Look(n, promote)),
        2 => (0..60u64).prop_map(Step::Erase),
        1 => (0..200_000usize).prop_map(Step::Capacity),
        1 => (0..5usize).prop_map(Step::Policy),
        1 => Just(Step::Clear),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// After any sequence of calls, the bytes found are those inserted, the limit holds, and the counters add
    /// up.
    #[test]
    fn counters_and_limits_are_exact(
        shard_bits in 0u32..3,
        steps in proptest::collection::vec(step(), 1..300),
    ) {
        let cache = CompressedSecondaryCache::new(&CompressedCacheOptions {
            num_shard_bits: Some(shard_bits),
            ..options(100_000, AdmissionPolicy::AllowCacheHits)
        });
        let cache = cache.unwrap();
        // The bytes of a key never change.
        let mut lens: BTreeMap<u64, usize> = BTreeMap::new();
        let mut known: BTreeSet<u64> = BTreeSet::new();
        for step in steps {
            match step {
                Step::Put(n, len, role, hit) => {
                    let len = *lens.entry(n).or_insert(len);
                    let bytes = block(n, len, n % 3 != 0);
                    let role = CacheRole::ALL[(n as usize + role) % 7];
                    let kept = cache.insert(&Offer { role, ..offer(n, &bytes, hit) });
                    prop_assert!(cache.contains(&key(n)) || !kept);
                    if cache.contains(&key(n)) {
                        known.insert(n);
                    }
                }
                Step::Look(n, promote) => {
                    let before = cache.contains(&key(n));
                    let found = cache.lookup(&key(n), promote, CacheTier::VolatileCompressed);
                    prop_assert_eq!(found.is_some(), before);
                    if let Some(found) = found {
                        let right = block(n, lens[&n], n % 3 != 0);
                        prop_assert_eq!(&found.buffer[..], right.stored());
                        prop_assert_eq!(cache.contains(&key(n)), !found.keep);
                    }
                }
                Step::Erase(n) => {
                    let before = cache.contains(&key(n));
                    prop_assert_eq!(cache.erase(&key(n)), before);
                }
                Step::Capacity(bytes) => cache.set_capacity(bytes),
                Step::Policy(at) => cache.set_admission_policy(AdmissionPolicy::ALL[at]),
                Step::Clear => cache.clear(),
            }
            prop_assert!(cache.usage() <= cache.capacity());
            known.retain(|n| cache.contains(&key(*n)));
            prop_assert_eq!(cache.counts().entries, known.len() as u64);
            let mut stored = 0;
            for role in CacheRole::ALL {
                let counts = cache.role_counts(role);
                let gone = counts.evictions + counts.erasures;
                prop_assert_eq!(counts.insertions, gone + counts.entries);
                stored += counts.usage;
            }
            prop_assert!(stored <= cache.usage() as u64);
        }
    }
}
