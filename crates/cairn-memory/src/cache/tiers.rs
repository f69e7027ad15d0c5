//! The tier below a cache: the entries offered to it, its lookups, and the division of a shared capacity.
//!
//! Entries move down when they are evicted and up when they are used again. With [`BlockCache::tiered`] the
//! capacity of a compressed tier is charged to the cache ([`MemoryUse::CompressedTier`]), so that a single
//! capacity bounds both. Other charges then reduce both in proportion.

use cairn_platform::Buffer;
use cairn_platform::sync::{Arc, Mutex};
use cairn_types::{Error, Result};

use super::store::Insertion;
use super::{BlockCache, CacheKey, CacheOptions, Evicted, MemoryUse};
use crate::secondary::{
    Bytes, CacheTier, DeviceRead, Found, LookupCounts, Offer, SecondaryCache, Sought,
    checked_ratio, compressed_share,
};

/// The tier below a cache.
pub(super) struct TierBelow {
    cache: Arc<dyn SecondaryCache>,
    shared: Option<Shared>,
}

/// A capacity shared with the tier.
struct Shared {
    /// The share of the tier.
    ratio: Mutex<f64>,
    /// The capacity last set on the tier.
    given: Mutex<usize>,
}

impl TierBelow {
    pub(super) fn cache(&self) -> &Arc<dyn SecondaryCache> {
        &self.cache
    }

    /// Offers an entry that was read from storage.
    pub(super) fn fill(&self, entry: &Insertion) {
        self.cache.fill(&Offer {
            key: entry.key,
            bytes: &Bytes::Plain(entry.buffer.clone()),
            role: entry.role,
            priority: entry.priority,
            hit: false,
            lowest: entry.lowest,
        });
    }

    /// Offers an evicted entry, and returns its buffer.
    fn offer(&self, entry: Evicted) -> Buffer {
        let bytes = Bytes::Plain(entry.buffer);
        self.cache.insert(&Offer {
            key: entry.key,
            bytes: &bytes,
            role: entry.role,
            priority: entry.priority,
            hit: entry.is_hit,
            lowest: entry.lowest,
        });
        match bytes {
            Bytes::Plain(buffer) => buffer,
            Bytes::Compressed { .. } => unreachable!("it is plain"),
        }
    }
}

impl BlockCache {
    /// Creates a cache of `capacity` bytes above `tier`, which has its own capacity.
    #[must_use]
    pub fn with_tier(
        capacity: usize,
        options: CacheOptions,
        tier: Arc<dyn SecondaryCache>,
    ) -> BlockCache {
        let tier = TierBelow {
            cache: tier,
            shared: None,
        };
        BlockCache::build(capacity, options, Some(tier))
    }

    /// Creates a cache that shares `total` bytes with the compressed tier `tier`. The tier gets the share
    /// `ratio`, from 0 to 1, of the capacity that is not charged for other memory.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for another ratio.
    pub fn tiered(
        total: usize,
        ratio: f64,
        options: CacheOptions,
        tier: Arc<dyn SecondaryCache>,
    ) -> Result<BlockCache> {
        tier.set_capacity(0);
        let tier = TierBelow {
            cache: tier,
            shared: Some(Shared {
                ratio: Mutex::new(checked_ratio(ratio)?),
                given: Mutex::new(0),
            }),
        };
        Ok(BlockCache::build(total, options, Some(tier)))
    }

    /// The tier below.
    #[must_use]
    pub fn tier(&self) -> Option<&Arc<dyn SecondaryCache>> {
        self.tier.as_ref().map(TierBelow::cache)
    }

    /// True if there is a tier below.
    #[inline]
    #[must_use]
    pub fn has_tier(&self) -> bool {
        self.tier.is_some()
    }

    /// The share of the tier below, if it shares the capacity.
    #[must_use]
    pub fn tier_ratio(&self) -> Option<f64> {
        let shared = self.tier.as_ref()?.shared.as_ref()?;
        Some(*shared.ratio.lock())
    }

    /// Changes the share of the tier below.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a ratio that is not from 0 to 1, and for a cache that shares its capacity with no
    /// tier.
    pub fn set_tier_ratio(&self, ratio: f64) -> Result<()> {
        let shared = self.tier.as_ref().and_then(|tier| tier.shared.as_ref());
        let shared = shared.ok_or_else(|| {
            Error::invalid_argument("the cache shares its capacity with no compressed tier")
        })?;
        *shared.ratio.lock() = checked_ratio(ratio)?;
        self.divide_again();
        Ok(())
    }

    /// Sets the capacity of the tier to its share of what other charges leave.
    pub(super) fn divide_again(&self) {
        let Some(tier) = &self.tier else { return };
        let Some(shared) = &tier.shared else { return };
        // The lock is held over both changes, so that concurrent ones take effect in one order.
        let mut given = shared.given.lock();
        let charged = self.charges.sum().saturating_sub(*given);
        let ratio = *shared.ratio.lock();
        let share = compressed_share(self.capacity(), charged, ratio);
        if share == *given {
            return;
        }
        // The one that shrinks is changed first, so that the total is not exceeded.
        if share < *given {
            tier.cache.set_capacity(share);
        }
        self.charges
            .change(MemoryUse::CompressedTier, *given, share);
        let mut evicted = Vec::new();
        self.store().reserve(*given, share, &mut evicted);
        if share > *given {
            tier.cache.set_capacity(share);
        }
        *given = share;
        drop(given);
        self.pass_on(evicted);
    }

    /// Returns the entry of `key` in the tiers below, down to `lowest`, after a lookup in this cache has
    /// failed. An entry that is used repeatedly moves up.
    #[must_use]
    pub fn lookup_below(&self, key: &CacheKey, lowest: CacheTier) -> Option<Buffer> {
        self.search_below(key, lowest, &mut LookupCounts::default())
    }

    /// Like [`BlockCache::lookup_below`], and adds the events of the lookup to `counts`.
    #[must_use]
    pub fn search_below(
        &self,
        key: &CacheKey,
        lowest: CacheTier,
        counts: &mut LookupCounts,
    ) -> Option<Buffer> {
        let tier = self.tier.as_ref()?;
        let found = tier.cache.search(key, true, lowest, counts)?;
        Some(self.move_up(key, lowest, found))
    }

    /// Like [`BlockCache::search_below`], without reading a device.
    #[must_use]
    pub fn seek_below(
        &self,
        key: &CacheKey,
        lowest: CacheTier,
        counts: &mut LookupCounts,
    ) -> Sought<Buffer> {
        let Some(tier) = &self.tier else {
            return Sought::Absent;
        };
        match tier.cache.seek(key, true, lowest, counts) {
            Sought::Absent => Sought::Absent,
            Sought::Found(found) => Sought::Found(self.move_up(key, lowest, found)),
            Sought::OnDevice(read) => Sought::OnDevice(read),
        }
    }

    /// Completes a search of [`BlockCache::seek_below`] with the result of its read. Returns `None` if the entry
    /// is damaged or the device failed; the tier then does not have the entry any more.
    ///
    /// # Errors
    ///
    /// Errors of the read that are not the device's, such as `TimedOut`.
    pub fn finish_below(
        &self,
        key: &CacheKey,
        lowest: CacheTier,
        (read, bytes): (DeviceRead, Result<Buffer>),
        counts: &mut LookupCounts,
    ) -> Result<Option<Buffer>> {
        let Some(found) = read.finish(bytes)? else {
            return Ok(None);
        };
        let found = match &self.tier {
            Some(tier) => tier.cache.found_on_device(key, found, true, counts),
            None => found,
        };
        Ok(Some(self.move_up(key, lowest, found)))
    }

    /// Inserts an entry of a tier below, if it is used repeatedly, and returns its buffer.
    fn move_up(&self, key: &CacheKey, lowest: CacheTier, found: Found) -> Buffer {
        let buffer = self.in_memory_of_cache(found.buffer);
        if found.keep {
            self.insert_entry(Insertion {
                hash: key.hash(),
                key: *key,
                buffer: buffer.clone(),
                role: found.role,
                priority: found.priority,
                lowest,
            });
        }
        buffer
    }

    /// Offers evicted entries to the tier below and frees them, without holding a lock. Their memory may be
    /// reused for the next block that the thread reads.
    pub(super) fn pass_on(&self, evicted: Vec<Evicted>) {
        for entry in evicted {
            if let Some(ghosts) = self.ghosts.get() {
                ghosts.evicted(entry.key.hash(), entry.charge());
            }
            let buffer = match &self.tier {
                Some(tier) if entry.lowest > CacheTier::Volatile => tier.offer(entry),
                _ => entry.buffer,
            };
            buffer.recycle();
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::super::{CacheKind, CachePriority, CacheRole, MemoryKind};
    use super::*;
    use crate::secondary::{AdmissionPolicy, CompressedCacheOptions, CompressedSecondaryCache};

    const BLOCK: usize = 4000;

    fn key(n: u64) -> CacheKey {
        CacheKey {
            high: 1 << 50,
            low: n,
        }
    }

    fn block(n: u64) -> Buffer {
        Buffer::from(vec![n as u8; BLOCK])
    }

    fn compressed(capacity: usize) -> Arc<CompressedSecondaryCache> {
        let options = CompressedCacheOptions {
            capacity,
            admission: AdmissionPolicy::AllowAll,
            ..CompressedCacheOptions::default()
        };
        Arc::new(CompressedSecondaryCache::new(&options).expect("a codec that is built in"))
    }

    fn options(kind: CacheKind) -> CacheOptions {
        CacheOptions {
            kind,
            num_shard_bits: Some(0),
            ..CacheOptions::default()
        }
    }

    fn fill(cache: &BlockCache, keys: std::ops::Range<u64>, lowest: CacheTier) {
        for n in keys {
            let (role, priority) = (CacheRole::Data, CachePriority::Low);
            cache.insert_down_to(key(n), block(n), role, priority, lowest);
        }
    }

    #[test]
    fn entries_move_up_to_the_memory_of_the_cache() {
        let memory = MemoryKind::undumped().expect("the kernel supports it");
        for kind in [CacheKind::Clock, CacheKind::Lru] {
            let options = CacheOptions {
                memory,
                ..options(kind)
            };
            let cache = BlockCache::with_tier(20 * BLOCK, options, compressed(1 << 20));
            fill(&cache, 0..100, CacheTier::default());
            let gone = (0..100).find(|&n| !cache.contains(&key(n)));
            let gone = key(gone.expect("few fit"));
            while !cache.contains(&gone) {
                let below = cache.lookup_below(&gone, CacheTier::default());
                assert_eq!(below.expect("below").memory_kind(), memory);
            }
            let found = cache.get(&gone).expect("it is here");
            assert_eq!(found.memory_kind(), memory);
        }
    }

    #[test]
    fn evicted_entries_are_found_below_and_move_up() {
        for kind in [CacheKind::Clock, CacheKind::Lru] {
            let cache = BlockCache::with_tier(20 * BLOCK, options(kind), compressed(1 << 20));
            fill(&cache, 0..100, CacheTier::default());
            let here = |n| cache.contains(&key(n));
            let gone = (0..100).find(|&n| !here(n)).expect("few fit");
            while !here(gone) {
                let below = cache.lookup_below(&key(gone), CacheTier::default());
                assert_eq!(*below.expect("below"), *block(gone));
            }
            // An entry in repeated use moves up; otherwise the loop does not end.
            assert!(cache.usage() <= cache.capacity());
            assert!(
                cache
                    .lookup_below(&key(gone), CacheTier::Volatile)
                    .is_none()
            );
            let other = (0..100).find(|&n| !here(n)).expect("few fit");
            cache.erase(&key(other));
            assert!(
                cache
                    .lookup_below(&key(other), CacheTier::default())
                    .is_none()
            );
        }
    }

    #[test]
    fn entries_stay_above_their_lowest_tier() {
        for kind in [CacheKind::Clock, CacheKind::Lru] {
            let tier = compressed(1 << 20);
            let cache = BlockCache::with_tier(20 * BLOCK, options(kind), tier.clone());
            fill(&cache, 0..100, CacheTier::Volatile);
            assert_eq!(tier.counts().entries, 0);
            fill(&cache, 100..200, CacheTier::VolatileCompressed);
            assert!(tier.counts().entries > 50);
        }
    }

    #[test]
    fn one_capacity_is_divided_and_charges_reduce_both() {
        const MB: usize = 1 << 20;
        let tier = compressed(5 * MB);
        let options = options(CacheKind::Clock);
        let cache = BlockCache::tiered(10 * MB, 0.4, options, tier.clone()).expect("a ratio");
        let cache = Arc::new(cache);
        assert_eq!((tier.capacity(), cache.tier_ratio()), (4 * MB, Some(0.4)));
        fill(&cache, 0..10_000, CacheTier::default());
        assert!(cache.usage() <= 10 * MB && cache.usage() > 9 * MB);
        assert_eq!(cache.charged(MemoryUse::CompressedTier), 4 * MB);
        let charge = super::super::CacheCharge::new(cache.clone(), MemoryUse::WriteBuffer, 5 * MB);
        assert_eq!(tier.capacity(), 2 * MB);
        assert!(cache.usage() <= 10 * MB && tier.usage() <= 2 * MB);
        drop(charge);
        assert_eq!(tier.capacity(), 4 * MB);
        cache.set_capacity(5 * MB);
        assert_eq!(tier.capacity(), 2 * MB);
        cache.set_tier_ratio(0.0).expect("a ratio");
        assert_eq!((tier.capacity(), tier.usage()), (0, 0));
        cache.set_tier_ratio(1.0).expect("a ratio");
        assert_eq!((tier.capacity(), cache.entries()), (5 * MB, 0));
        assert!(cache.set_tier_ratio(1.5).is_err());
        let alone = BlockCache::new(MB, options);
        assert!(alone.set_tier_ratio(0.5).is_err() && alone.tier_ratio().is_none());
    }

    /// Regression: an unlimited capacity of which the tier has all is charged without overflow.
    #[test]
    fn an_unlimited_capacity_is_divided() {
        for kind in [CacheKind::Clock, CacheKind::Lru] {
            let tier = compressed(0);
            let cache = BlockCache::tiered(usize::MAX, 1.0, options(kind), tier.clone());
            let cache = Arc::new(cache.expect("a ratio"));
            let charge = super::super::CacheCharge::new(cache.clone(), MemoryUse::WriteBuffer, 10);
            fill(&cache, 0..10, CacheTier::default());
            assert!(cache.usage() > tier.capacity() && cache.all_charged() > tier.capacity());
            drop(charge);
            cache.set_capacity(0);
            assert_eq!((tier.capacity(), cache.usage()), (0, 0));
        }
    }

    /// Regression: the share of the tier counted in full against the lower capacity, so that most entries were evicted.
    #[test]
    fn a_lower_capacity_is_divided_before_entries_are_evicted() {
        const MB: usize = 1 << 20;
        for kind in [CacheKind::Clock, CacheKind::Lru] {
            let tier = compressed(10 * MB);
            let cache = BlockCache::tiered(20 * MB, 0.5, options(kind), tier).expect("a ratio");
            fill(&cache, 0..40_000, CacheTier::Volatile);
            cache.set_capacity(12 * MB);
            let own = cache.usage() - cache.charged(MemoryUse::CompressedTier);
            assert!(own > 5 * MB && own <= 6 * MB, "{kind:?}: {own}");
        }
    }

    /// Regression: the charge followed insertions only.
    #[test]
    fn the_charge_of_a_blob_cache_ends_with_its_entries() {
        const MB: usize = 1 << 20;
        let blocks = Arc::new(BlockCache::new(100 * MB, options(CacheKind::Clock)));
        for clears in [false, true] {
            let blobs = BlockCache::new(20 * MB, options(CacheKind::Lru));
            blobs.charge_to(&blocks, MemoryUse::BlobCache);
            fill(&blobs, 0..10_000, CacheTier::Volatile);
            assert!(blocks.charged(MemoryUse::BlobCache) > MB);
            match clears {
                true => blobs.erase_unused(),
                false => blobs.set_capacity(0),
            }
            let left = blocks.charged(MemoryUse::BlobCache);
            assert!(left < super::super::CacheCharge::STEP, "{left}");
        }
    }
}
