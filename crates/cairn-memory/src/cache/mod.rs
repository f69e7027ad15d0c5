//! The block cache: an LRU cache of buffers that were read from files, bounded by a capacity.
//!
//! The cache is sharded by the hash of the key. Each shard is a hash table and three queues behind one short
//! lock (`shard`). A hit costs a hash, the lock, one or two cache lines and one reference to the [`Buffer`];
//! nothing is allocated and no queue is touched. Most of the time is spent waiting for memory. A lookup of
//! several keys should therefore first call [`BlockCache::announce`] for each, then [`BlockCache::prefetch`],
//! and then look them up.
//!
//! Each entry has a priority, and each priority has a pool:
//!
//! - An entry is evicted only if all lower pools are empty: blobs (BOTTOM) before data (LOW), and data before
//!   metadata (HIGH).
//! - A pool with a configured ratio keeps that share only. Its oldest entries beyond the share move to the
//!   young end of the next lower pool and compete there. A pool without a ratio is unbounded, so that it
//!   never ranks its entries below a lower class.
//! - Within a pool the oldest entry is evicted first. An entry that was hit since it was last examined is
//!   moved to the young end of the pool of its own priority instead. Blocks that a scan touches once are thus
//!   evicted before those in repeated use.
//!
//! An entry is charged for its buffer and for the overhead of the cache, whether or not a reader holds the
//! buffer. Evicting a buffer in use frees no memory, so such entries are skipped while there are others.

pub mod policy;
mod role;
mod shard;
mod table;

use cairn_platform::sync::{AtomicUsize, Mutex, Ordering};
use cairn_platform::{Buffer, prefetch_address};

pub use role::{CachePriority, CacheRole, RoleCounts};
use shard::{Limits, Shard};

/// The key of a cache entry: a file and a position in it. The caller derives it such that equal keys imply
/// equal bytes, also across databases and processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheKey {
    /// The upper half, usually from the file's unique id.
    pub high: u64,
    /// The lower half, usually from the file's unique id and the offset.
    pub low: u64,
}

impl CacheKey {
    /// The key of the block at `offset` of the file with the 128-bit id `file`.
    #[inline]
    #[must_use]
    pub fn of_block(file: [u64; 2], offset: u64) -> CacheKey {
        CacheKey {
            high: file[0],
            low: file[1] ^ offset,
        }
    }

    /// A hash of all 128 bits.
    #[inline]
    fn hash(&self) -> u64 {
        let a = u128::from(self.high ^ 0x9e37_79b9_7f4a_7c15);
        let b = u128::from(self.low ^ 0xd1b5_4a32_d192_ed03);
        let product = a.wrapping_mul(b);
        // Truncation is intended: the two halves of the product are folded.
        let folded = (product as u64) ^ ((product >> 64) as u64);
        folded ^ self.low.rotate_left(32)
    }
}

/// Options of a block cache. [`CacheOptions::default`] has RocksDB's defaults.
#[derive(Clone, Copy, Debug)]
pub struct CacheOptions {
    /// The base-2 logarithm of the number of shards; `None` derives it from the capacity.
    pub num_shard_bits: Option<u32>,
    /// True if an insertion fails rather than exceed the capacity when every entry is in use.
    pub strict_capacity_limit: bool,
    /// The share of the capacity reserved for metadata, from 0 to 1; 0 leaves it unbounded.
    pub high_pri_pool_ratio: f64,
    /// The share of the capacity reserved for data, from 0 to 1; 0 leaves it unbounded.
    pub low_pri_pool_ratio: f64,
}

impl Default for CacheOptions {
    fn default() -> CacheOptions {
        CacheOptions {
            num_shard_bits: None,
            strict_capacity_limit: false,
            high_pri_pool_ratio: 0.5,
            low_pri_pool_ratio: 0.0,
        }
    }
}

/// A sharded block cache, shared between threads; see the module's documentation.
pub struct BlockCache {
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

/// Smaller shards could not hold the larger index and filter blocks.
const MIN_SHARD_BYTES: usize = 4 << 20;
const MAX_AUTO_SHARD_BITS: u32 = 6;
const MAX_SHARD_BITS: u32 = 19;

impl BlockCache {
    /// Creates a cache of `capacity` bytes. With capacity 0 nothing is kept.
    #[must_use]
    pub fn new(capacity: usize, options: CacheOptions) -> BlockCache {
        let bits = options.num_shard_bits.map_or_else(
            || {
                (capacity / MIN_SHARD_BYTES)
                    .checked_ilog2()
                    .unwrap_or(0)
                    .min(MAX_AUTO_SHARD_BITS)
            },
            |bits| bits.min(MAX_SHARD_BITS),
        );
        let count = 1usize << bits;
        debug_assert!(count.is_power_of_two(), "shards are selected by a mask");
        let cache = BlockCache {
            shards: (0..count).map(|_| Padded::new()).collect(),
            capacity: AtomicUsize::new(0),
            reserved: AtomicUsize::new(0),
            options,
        };
        cache.set_capacity(capacity);
        cache
    }

    /// The buffer of `key`, or `None`. A miss is counted for [`CacheRole::Other`]; callers that know the role
    /// use [`BlockCache::lookup`].
    #[inline]
    #[must_use]
    pub fn get(&self, key: &CacheKey) -> Option<Buffer> {
        self.lookup(key, CacheRole::Other)
    }

    /// The buffer of `key`, or `None`, which counts as a miss of `role`.
    #[inline]
    #[must_use]
    pub fn lookup(&self, key: &CacheKey, role: CacheRole) -> Option<Buffer> {
        let hash = key.hash();
        self.shard(hash).lock().get(hash, key, role)
    }

    /// Prefetches the table line where the entry of `key` most likely is, ahead of a lookup.
    #[inline]
    pub fn announce(&self, key: &CacheKey) {
        let hash = key.hash();
        let padded = &self.shards[self.shard_of(hash)];
        let mask = padded.lines_mask.load(Ordering::Relaxed);
        let at = padded.lines_at.load(Ordering::Relaxed);
        // Truncation is intended: the lowest bits are used.
        prefetch_address(at.wrapping_add((hash as usize & mask).wrapping_mul(LINE)));
    }

    /// Prefetches the parts of the buffer of `key` that a search reads first, if it is cached. Does not count
    /// as a lookup.
    #[inline]
    pub fn prefetch(&self, key: &CacheKey) {
        let hash = key.hash();
        self.shard(hash).lock().prefetch(hash, key);
    }

    /// True if `key` is cached. Does not count as a lookup.
    #[must_use]
    pub fn contains(&self, key: &CacheKey) -> bool {
        let hash = key.hash();
        self.shard(hash).lock().contains(hash, key)
    }

    /// Inserts `buffer` under `key`, replacing any entry of that key and evicting others as needed. Returns
    /// false if it is not kept: if it is larger than a shard, or with `strict_capacity_limit` if too many
    /// entries are in use.
    pub fn insert(
        &self,
        key: CacheKey,
        buffer: Buffer,
        role: CacheRole,
        priority: CachePriority,
    ) -> bool {
        let hash = key.hash();
        // Evicted buffers are freed outside the lock.
        let mut evicted = Vec::new();
        let padded = &self.shards[self.shard_of(hash)];
        let mut shard = padded.shard.lock();
        let kept = shard.insert(hash, key, buffer, role, priority, &mut evicted);
        padded.note_lines(&shard);
        drop(shard);
        evicted.into_iter().for_each(Buffer::recycle);
        kept
    }

    /// Returns `buffer` with `tail` appended, and updates the entry of `key`, which usually holds the same
    /// buffer. The tail is written into spare room of the buffer's memory if no reader holds it; otherwise
    /// the entry, if any, is replaced by a copy. Does not count as an insertion.
    pub fn lay_tail(&self, key: &CacheKey, buffer: Buffer, tail: &[u8]) -> Buffer {
        let hash = key.hash();
        let buffer = match self.shard(hash).lock().lay_tail(hash, key, buffer, tail) {
            Ok(laid) => return laid,
            Err(buffer) => buffer,
        };
        let copy = Buffer::with_tail(&buffer, tail);
        let mut evicted = Vec::new();
        self.shard(hash)
            .lock()
            .replace(hash, key, copy.clone(), &mut evicted);
        copy
    }

    /// Removes the entry of `key`. Returns true if there was one. Readers keep the buffers they hold.
    pub fn erase(&self, key: &CacheKey) -> bool {
        let hash = key.hash();
        let erased = self.shard(hash).lock().erase(hash, key);
        erased.is_some()
    }

    /// Removes every entry that no reader holds.
    pub fn erase_unused(&self) {
        for shard in &self.shards {
            let mut evicted = Vec::new();
            shard.shard.lock().erase_unused(&mut evicted);
        }
    }

    /// Bytes charged for entries, and reserved bytes.
    #[must_use]
    pub fn usage(&self) -> usize {
        let entries: usize = self
            .shards
            .iter()
            .map(|shard| shard.shard.lock().usage())
            .sum();
        entries + self.reserved.load(Ordering::Relaxed)
    }

    /// Changes one of the reservations of capacity from `before` bytes to `now`.
    pub(crate) fn set_reserved(&self, before: usize, now: usize) {
        // Relaxed, here and below: the effective limits are set under each shard's lock.
        self.reserved.fetch_add(now, Ordering::Relaxed);
        self.reserved.fetch_sub(before, Ordering::Relaxed);
        self.set_capacity(self.capacity());
    }

    /// Bytes charged for entries in use. Scans the whole cache.
    #[must_use]
    pub fn pinned_usage(&self) -> usize {
        self.shards
            .iter()
            .map(|shard| shard.shard.lock().pinned_usage())
            .sum()
    }

    /// The number of entries.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.shards
            .iter()
            .map(|shard| shard.shard.lock().len())
            .sum()
    }

    /// The capacity in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity.load(Ordering::Relaxed)
    }

    /// The options of the cache.
    #[must_use]
    pub fn options(&self) -> &CacheOptions {
        &self.options
    }

    /// The number of shards.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Changes the capacity and evicts entries beyond it.
    pub fn set_capacity(&self, capacity: usize) {
        // Relaxed: informational; the effective limits are set under each shard's lock.
        self.capacity.store(capacity, Ordering::Relaxed);
        let free = capacity.saturating_sub(self.reserved.load(Ordering::Relaxed));
        let limits = Limits::new(free.div_ceil(self.shards.len()), &self.options);
        for shard in &self.shards {
            let mut evicted = Vec::new();
            shard.shard.lock().set_limits(limits, &mut evicted);
        }
    }

    /// Bytes charged for entries of `role`.
    #[must_use]
    pub fn role_usage(&self, role: CacheRole) -> usize {
        self.role_counts(role).usage
    }

    /// The counters of entries of `role`.
    #[must_use]
    pub fn role_counts(&self, role: CacheRole) -> RoleCounts {
        self.sum(|shard| shard.counts(role))
    }

    /// The counters of all entries.
    #[must_use]
    pub fn counts(&self) -> RoleCounts {
        let mut all = RoleCounts::default();
        for role in CacheRole::ALL {
            all.add(&self.role_counts(role));
        }
        all
    }

    fn sum(&self, of: impl Fn(&Shard) -> RoleCounts) -> RoleCounts {
        let mut sum = RoleCounts::default();
        for shard in &self.shards {
            sum.add(&of(&shard.shard.lock()));
        }
        sum
    }

    #[inline]
    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        &self.shards[self.shard_of(hash)].shard
    }

    #[inline]
    fn shard_of(&self, hash: u64) -> usize {
        // The table uses the lowest bits; these are from the middle.
        (hash >> 32) as usize & (self.shards.len() - 1)
    }
}

impl std::fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "BlockCache({} of {} bytes in {} shards)",
            self.usage(),
            self.capacity(),
            self.shards.len()
        )
    }
}

#[cfg(test)]
mod tests;
