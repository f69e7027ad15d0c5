//! The LRU cache: shards with a hash table of entries and a queue per pool, behind one short lock each.
//!
//! - A new entry enters the pool of its priority, and a hit moves an entry to the young end of a pool.
//!   Metadata and blobs have pools of their own; data moves to the pool for data that was hit if a
//!   high-priority ratio is configured. New data is thus inserted below data that was hit (midpoint
//!   insertion), and a scan does not evict the latter.
//! - A pool with a ratio is limited to that share. Its oldest entries beyond the share move to the young end
//!   of the next lower pool. Data that was hit shares the high-priority ratio with metadata and is demoted
//!   first.
//! - A pool without a ratio is unbounded, so that it never ranks its entries below a lower class.

mod pool;
mod shard;
mod table;

use cairn_platform::sync::{AtomicUsize, Mutex, Ordering};
use cairn_platform::{Buffer, prefetch_address};

use super::store::{Insertion, Store};
use super::{
    CacheEntry, CacheKey, CacheOptions, CacheRole, Evicted, InsertOutcome, RoleCounts, shard_of,
};
use pool::Limits;
#[cfg(all(test, not(any(loom, shuttle))))]
pub(in crate::cache) use shard::ENTRY_OVERHEAD;
use shard::Shard;

/// A sharded LRU cache; see the module's documentation.
pub(super) struct LruCache {
    /// A power of two.
    shards: Box<[Padded]>,
    capacity: AtomicUsize,
    /// Bytes of the capacity that are reserved for other uses.
    reserved: AtomicUsize,
    options: CacheOptions,
}

/// A shard on cache lines of its own, to avoid false sharing of the locks.
#[repr(align(128))]
struct Padded {
    /// The address of the table's lines. Written under the lock and read without it; a stale or inconsistent
    /// value only causes a useless prefetch.
    lines_at: AtomicUsize,
    lines_mask: AtomicUsize,
    shard: Mutex<Shard>,
}

impl Padded {
    fn new() -> Padded {
        Padded {
            lines_at: AtomicUsize::new(0),
            lines_mask: AtomicUsize::new(0),
            shard: Mutex::new(Shard::default()),
        }
    }

    /// Publishes the address of the table's lines after an insertion.
    #[inline]
    fn note_lines(&self, shard: &Shard) {
        let (at, mask) = shard.lines();
        // Relaxed, here and for the loads: see the fields.
        self.lines_at.store(at, Ordering::Relaxed);
        self.lines_mask.store(mask, Ordering::Relaxed);
    }
}

/// Size in bytes of a line of the table, and of the processor's cache.
const LINE: usize = 64;

impl LruCache {
    /// Creates a cache of `shards` shards without capacity.
    pub(super) fn new(shards: usize, options: CacheOptions) -> LruCache {
        LruCache {
            shards: (0..shards).map(|_| Padded::new()).collect(),
            capacity: AtomicUsize::new(0),
            reserved: AtomicUsize::new(0),
            options,
        }
    }

    fn padded(&self, hash: u64) -> &Padded {
        &self.shards[shard_of(hash, self.shards.len())]
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        &self.padded(hash).shard
    }

    fn sum(&self, of: impl Fn(&Shard) -> usize) -> usize {
        self.shards.iter().map(|it| of(&it.shard.lock())).sum()
    }

    /// The limits of a shard. Relaxed: they are computed under the shard's lock, so that the last ones in force are
    /// those of the last change.
    fn limits(&self) -> Limits {
        let capacity = self.capacity.load(Ordering::Relaxed);
        let free = capacity.saturating_sub(self.reserved.load(Ordering::Relaxed));
        Limits::new(free.div_ceil(self.shards.len()), &self.options)
    }

    /// Puts the limits in force, a few entries at a time, so that lookups proceed in between.
    fn apply_limits(&self, evicted: &mut Vec<Evicted>) {
        let apply = |shard: &Mutex<Shard>, evicted: &mut Vec<Evicted>| {
            let mut shard = shard.lock();
            shard.set_limits(self.limits(), evicted)
        };
        for padded in &self.shards {
            while !apply(&padded.shard, evicted) {}
        }
    }
}

impl Store for LruCache {
    #[inline]
    fn lookup(&self, hash: u64, key: &CacheKey, role: CacheRole) -> Option<Buffer> {
        self.shard(hash).lock().get(hash, key, role)
    }

    #[inline]
    fn announce(&self, hash: u64) {
        let padded = self.padded(hash);
        let mask = padded.lines_mask.load(Ordering::Relaxed);
        let at = padded.lines_at.load(Ordering::Relaxed);
        // Truncation is intended: the lowest bits are used.
        prefetch_address(at.wrapping_add((hash as usize & mask).wrapping_mul(LINE)));
    }

    #[inline]
    fn prefetch(&self, hash: u64, key: &CacheKey) {
        self.shard(hash).lock().prefetch(hash, key);
    }

    fn contains(&self, hash: u64, key: &CacheKey) -> bool {
        self.shard(hash).lock().contains(hash, key)
    }

    fn insert(&self, entry: Insertion, evicted: &mut Vec<Evicted>) -> InsertOutcome {
        let padded = self.padded(entry.hash);
        let mut shard = padded.shard.lock();
        let outcome = shard.insert(entry, evicted);
        padded.note_lines(&shard);
        outcome
    }

    fn lay_tail(
        &self,
        hash: u64,
        key: &CacheKey,
        buffer: Buffer,
        tail: &[u8],
        evicted: &mut Vec<Evicted>,
    ) -> Buffer {
        let buffer = match self.shard(hash).lock().lay_tail(hash, key, buffer, tail) {
            Ok(laid) => return laid,
            Err(buffer) => buffer,
        };
        let copy = buffer.with_tail(tail);
        let mut shard = self.shard(hash).lock();
        shard.replace(hash, key, copy.clone(), evicted);
        copy
    }

    fn erase(&self, hash: u64, key: &CacheKey) -> Option<Evicted> {
        self.shard(hash).lock().erase(hash, key)
    }

    fn erase_unused(&self, evicted: &mut Vec<Evicted>) {
        for shard in &self.shards {
            shard.shard.lock().erase_unused(evicted);
        }
    }

    fn usage(&self) -> usize {
        let reserved = self.reserved.load(Ordering::Relaxed);
        self.sum(Shard::usage).saturating_add(reserved)
    }

    fn pinned_usage(&self) -> usize {
        self.sum(Shard::pinned_usage)
    }

    fn entries(&self) -> usize {
        self.sum(Shard::len)
    }

    fn places(&self) -> usize {
        self.sum(Shard::places)
    }

    fn set_capacity(&self, capacity: usize, evicted: &mut Vec<Evicted>) {
        self.capacity.store(capacity, Ordering::Relaxed);
        self.apply_limits(evicted);
    }

    fn reserve(&self, before: usize, now: usize, evicted: &mut Vec<Evicted>) {
        // The difference, modulo 2^64: otherwise other threads would see both charges for a moment, and evict entries.
        self.reserved
            .fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
        self.apply_limits(evicted);
    }

    fn counts(&self, role: CacheRole) -> RoleCounts {
        let mut sum = RoleCounts::default();
        for shard in &self.shards {
            sum.add(&shard.shard.lock().counts(role));
        }
        sum
    }

    fn for_each(&self, visit: &mut dyn FnMut(CacheEntry)) {
        for shard in &self.shards {
            let entries = shard.shard.lock().all();
            entries.into_iter().for_each(&mut *visit);
        }
    }
}
