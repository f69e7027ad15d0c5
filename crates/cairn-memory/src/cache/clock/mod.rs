//! The clock cache: lookups take no lock.
//!
//! An entry is a buffer whose header is published (`cairn_platform::Buffer`). A lookup finds the number of the
//! header in the index of its shard, takes a reference with one atomic operation, and checks the key
//! afterwards. It marks the entry as hit in the header and touches nothing else. Insertion, eviction and
//! erasure take the lock of a shard, which guards the order of eviction and the counters.
//!
//! The capacity belongs to the cache as a whole. An insertion first charges its bytes, then evicts from its
//! own shard, and from others if its own has no evictable entries left. If readers hold all entries, the
//! cache exceeds its capacity (unless it is strict) until a later insertion or change of capacity or
//! charges. After a search of all shards that found nothing, the next [`PAUSE`] insertions look at few entries,
//! so that a reader that pins the whole cache does not pay for a search with every block.
//!
//! Invariants:
//!
//! C1. `usage` is the sum of the charges of all entries, of insertions in progress, and of reservations.
//! C2. An entry is in the index of its shard if and only if its buffer is published and has a node.
//! C3. No thread holds the locks of two shards.

mod index;
mod shard;

use cairn_platform::sync::Ordering;
use cairn_platform::sync::modelled::AtomicUsize;
use cairn_platform::{Buffer, Clock, SystemClock};

use super::policy::MAX_LOOKS;
use super::store::{Insertion, Store};
use super::{
    CacheEntry, CacheKey, CacheOptions, CacheRole, Evicted, InsertOutcome, RoleCounts, shard_of,
};
use shard::{Locked, Shard};

/// The overhead of the cache per entry, approximately: the header, the node, the places in the index, and what
/// the allocator adds.
pub(super) const ENTRY_OVERHEAD: usize = 152;

/// A clock cache; see the module's documentation.
pub(super) struct ClockCache {
    /// A power of two.
    shards: Box<[Shard]>,
    capacity: AtomicUsize,
    usage: AtomicUsize,
    /// The number of insertions that do not search all shards, because the last search found nothing.
    pause: AtomicUsize,
    /// The shard that is next to evict when space is needed for something other than an entry.
    next: AtomicUsize,
    options: CacheOptions,
    /// The time of creation, in seconds of the clock.
    created: u64,
}

/// The number of entries that are evicted while the lock of a shard is held.
const BATCH: usize = 32;

/// The number of insertions between two searches of all shards that find nothing, and the entries that each looks at.
const PAUSE: usize = 64;
const LOOKS_IN_PAUSE: usize = 8;

/// The bytes of an excess that an insertion evicts, unless its own are more: for other insertions in progress.
const SHARE: usize = 64 << 10;

fn seconds() -> u64 {
    SystemClock.monotonic_nanos() / 1_000_000_000
}

impl ClockCache {
    /// Creates a cache of `shards` shards without capacity.
    pub(super) fn new(shards: usize, options: CacheOptions) -> ClockCache {
        ClockCache {
            shards: (0..shards).map(|_| Shard::new()).collect(),
            capacity: AtomicUsize::new(0),
            usage: AtomicUsize::new(0),
            pause: AtomicUsize::new(0),
            next: AtomicUsize::new(0),
            options,
            created: seconds(),
        }
    }

    #[inline]
    fn shard(&self, hash: u64) -> &Shard {
        &self.shards[shard_of(hash, self.shards.len())]
    }

    /// Bytes by which the usage exceeds the capacity.
    fn excess(&self) -> usize {
        // Relaxed, here and elsewhere: a sum that orders nothing.
        let usage = self.usage.load(Ordering::Relaxed);
        usage.saturating_sub(self.capacity.load(Ordering::Relaxed))
    }

    fn discharge(&self, bytes: usize) {
        let before = self.usage.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "C1");
    }

    /// Evicts entries of all shards, a few of each in turn, until the usage is within the capacity, or `enough` bytes
    /// are evicted. Returns false if that is impossible.
    fn make_room(&self, enough: usize, evicted: &mut Vec<Evicted>) -> bool {
        let (mut idle, mut bytes) = (0, 0);
        while self.excess() > 0 && bytes < enough {
            if idle == self.shards.len() {
                return false;
            }
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            let shard = &self.shards[at & (self.shards.len() - 1)];
            let first = evicted.len();
            match self.evict_from(shard, evicted) {
                0 => idle += 1,
                _ => idle = 0,
            }
            bytes += evicted[first..].iter().map(Evicted::charge).sum::<usize>();
        }
        true
    }

    /// Evicts up to [`BATCH`] entries of a shard while the usage exceeds the capacity. Returns their number.
    fn evict_from(&self, shard: &Shard, evicted: &mut Vec<Evicted>) -> usize {
        self.evict_locked(&mut shard.lock(), MAX_LOOKS, evicted)
    }

    fn evict_locked(
        &self,
        state: &mut Locked<'_>,
        looks: usize,
        evicted: &mut Vec<Evicted>,
    ) -> usize {
        let mut count = 0;
        while count < BATCH && self.excess() > 0 {
            let Some(victim) = state.evict(looks) else {
                break;
            };
            self.discharge(victim.charge());
            evicted.push(victim);
            count += 1;
        }
        count
    }
}

impl Store for ClockCache {
    #[inline]
    fn lookup(&self, hash: u64, key: &CacheKey, role: CacheRole) -> Option<Buffer> {
        self.shard(hash).lookup(hash, key, role)
    }

    #[inline]
    fn announce(&self, hash: u64) {
        self.shard(hash).index().prefetch(hash);
    }

    #[inline]
    fn prefetch(&self, hash: u64, _key: &CacheKey) {
        // Another key with the same tag is so rare that the key need not be compared.
        self.shard(hash).index().find(hash, |number, hint| {
            Buffer::prefetch_header(number);
            hint.prefetch();
            Some(())
        });
    }

    fn contains(&self, hash: u64, key: &CacheKey) -> bool {
        self.shard(hash).lock().find(hash, key).is_some()
    }

    fn insert(&self, entry: Insertion, evicted: &mut Vec<Evicted>) -> InsertOutcome {
        let charge = entry.buffer.memory_usage() + ENTRY_OVERHEAD;
        let shard = self.shard(entry.hash);
        let mut state = shard.lock();
        let before = state.erase(entry.hash, &entry.key);
        if let Some(old) = &before {
            self.discharge(old.charge());
        }
        if charge > self.capacity.load(Ordering::Relaxed) {
            state.refuse(entry.role);
            return InsertOutcome::Refused;
        }
        self.usage.fetch_add(charge, Ordering::Relaxed);
        let pause = match self.options.strict_capacity_limit {
            true => 0,
            false => self.pause.load(Ordering::Relaxed),
        };
        let looks = if pause > 0 { LOOKS_IN_PAUSE } else { MAX_LOOKS };
        if self.evict_locked(&mut state, looks, evicted) > 0 {
            self.pause.store(0, Ordering::Relaxed);
        } else if pause > 0 {
            self.pause.store(pause - 1, Ordering::Relaxed);
        }
        if self.excess() > 0 && pause == 0 {
            drop(state);
            // The rest of a larger excess is evicted by the change that caused it.
            if !self.make_room(charge.max(SHARE), evicted) {
                self.pause.store(PAUSE, Ordering::Relaxed);
            }
            state = shard.lock();
            if self.options.strict_capacity_limit && self.excess() > 0 {
                self.discharge(charge);
                state.refuse(entry.role);
                return InsertOutcome::Refused;
            }
        }
        let born = u32::try_from(seconds() - self.created).unwrap_or(u32::MAX);
        let (charged, meanwhile) = state.insert(entry, charge, born);
        if charged != charge {
            self.usage.fetch_add(charged, Ordering::Relaxed);
            self.discharge(charge);
        }
        if let Some(old) = &meanwhile {
            self.discharge(old.charge());
        }
        InsertOutcome::kept(before.or(meanwhile).is_some())
    }

    fn lay_tail(
        &self,
        hash: u64,
        key: &CacheKey,
        buffer: Buffer,
        tail: &[u8],
        evicted: &mut Vec<Evicted>,
    ) -> Buffer {
        let mut state = self.shard(hash).lock();
        let Some(number) = state.find(hash, key) else {
            drop(state);
            return buffer.with_tail(tail);
        };
        let buffer = match buffer.publish_tail(number, tail) {
            Ok(laid) => {
                state.set_hint(hash, number, &laid);
                return laid;
            }
            Err(buffer) => buffer,
        };
        let copy = buffer.with_tail(tail);
        let charge = copy.memory_usage() + ENTRY_OVERHEAD;
        self.usage.fetch_add(charge, Ordering::Relaxed);
        let before = state.replace(hash, number, copy.clone(), charge);
        drop(state);
        self.discharge(before);
        self.make_room(usize::MAX, evicted);
        copy
    }

    fn erase(&self, hash: u64, key: &CacheKey) -> Option<Evicted> {
        let erased = self.shard(hash).lock().erase(hash, key)?;
        self.discharge(erased.charge());
        Some(erased)
    }

    fn erase_unused(&self, evicted: &mut Vec<Evicted>) {
        for shard in &self.shards {
            let first = evicted.len();
            shard.lock().erase_unused(evicted);
            self.discharge(evicted[first..].iter().map(Evicted::charge).sum());
        }
    }

    fn usage(&self) -> usize {
        self.usage.load(Ordering::Relaxed)
    }

    fn pinned_usage(&self) -> usize {
        let pinned = |shard: &Shard| shard.lock().pinned_usage();
        self.shards.iter().map(pinned).sum()
    }

    fn entries(&self) -> usize {
        self.shards.iter().map(|shard| shard.index().len()).sum()
    }

    fn places(&self) -> usize {
        self.shards.iter().map(|shard| shard.index().places()).sum()
    }

    fn set_capacity(&self, capacity: usize, evicted: &mut Vec<Evicted>) {
        self.capacity.store(capacity, Ordering::Relaxed);
        self.make_room(usize::MAX, evicted);
    }

    fn reserve(&self, before: usize, now: usize, evicted: &mut Vec<Evicted>) {
        // The difference, modulo 2^64: otherwise other threads would see both charges for a moment, and evict entries.
        let usage = self
            .usage
            .fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
        debug_assert!(usage >= before, "C1");
        if now > before {
            self.make_room(usize::MAX, evicted);
        }
    }

    fn counts(&self, role: CacheRole) -> RoleCounts {
        let mut sum = RoleCounts::default();
        for shard in &self.shards {
            sum.add(&shard.counts(role));
        }
        sum
    }

    fn for_each(&self, visit: &mut dyn FnMut(CacheEntry)) {
        let now = u32::try_from(seconds() - self.created).unwrap_or(u32::MAX);
        for shard in &self.shards {
            let entries = shard.lock().all(now);
            entries.into_iter().for_each(&mut *visit);
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::super::CachePriority;
    use super::*;
    use crate::secondary::CacheTier;

    const LEN: usize = 200;

    fn entry(n: u64) -> Insertion {
        let key = CacheKey { high: 1, low: n };
        Insertion {
            hash: key.hash(),
            key,
            buffer: Buffer::from(vec![0; LEN]),
            role: CacheRole::Data,
            priority: CachePriority::Low,
            lowest: CacheTier::default(),
        }
    }

    #[test]
    fn readers_that_hold_all_entries_delay_few_insertions() {
        let charge = entry(0).buffer.memory_usage() + ENTRY_OVERHEAD;
        let cache = ClockCache::new(4, CacheOptions::default());
        cache.capacity.store(100 * charge, Ordering::Relaxed);
        let mut held = Vec::new();
        let mut searches = 0;
        for n in 0..1000 {
            let pause = cache.pause.load(Ordering::Relaxed);
            let entry = entry(n);
            let (hash, key) = (entry.hash, entry.key);
            assert!(cache.insert(entry, &mut Vec::new()).is_kept());
            held.extend(cache.lookup(hash, &key, CacheRole::Data));
            searches += usize::from(pause == 0 && cache.excess() > 0);
        }
        assert!(
            (900 / PAUSE..=900 / PAUSE + 2).contains(&searches),
            "{searches}"
        );
        assert_eq!(cache.usage(), 1000 * charge, "nothing was evicted");
        drop(held);
        let mut evicted = Vec::new();
        for n in 1000..1100 {
            assert!(cache.insert(entry(n), &mut evicted).is_kept());
        }
        assert!(
            cache.usage() <= 1000 * charge && evicted.len() > 200,
            "{}",
            evicted.len()
        );
    }

    #[test]
    fn an_insertion_evicts_a_part_of_an_excess() {
        let charge = entry(0).buffer.memory_usage() + ENTRY_OVERHEAD;
        for shards in [1, 4] {
            let cache = ClockCache::new(shards, CacheOptions::default());
            cache.capacity.store(8 << 20, Ordering::Relaxed);
            let count = (8 << 20) / charge as u64;
            for n in 0..count {
                assert!(cache.insert(entry(n), &mut Vec::new()).is_kept());
            }
            // A lower capacity that has not yet taken effect.
            cache.capacity.store(4 << 20, Ordering::Relaxed);
            let most = BATCH + SHARE.div_ceil(charge) + BATCH;
            let mut excess = cache.excess();
            for n in count..count + 10 {
                let mut evicted = Vec::new();
                assert!(cache.insert(entry(n), &mut evicted).is_kept());
                assert!(evicted.len() <= most, "{} of at most {most}", evicted.len());
                assert!(cache.excess() < excess, "insertions do not delay it");
                excess = cache.excess();
            }
            let mut evicted = Vec::new();
            assert!(cache.evict_from(&cache.shards[0], &mut evicted) <= BATCH);
            cache.set_capacity(4 << 20, &mut evicted);
            assert_eq!(cache.excess(), 0);
        }
    }
}
