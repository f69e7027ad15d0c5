//! The block cache: bytes that were read from files, kept up to a capacity.
//!
//! The cache is cut into shards by the hash of the key; each shard is one short lock around a hash
//! table and three queues (`shard`). A hit costs a hash, the lock, one or two cache lines and one
//! reference on the [`Buffer`]; nothing is allocated and no queue is touched. Most of that is waiting
//! for memory, so a search for several entries first announces each, then asks for the memory of
//! each, and then takes them: [`BlockCache::announce`], [`BlockCache::prefetch`].
//!
//! Entries have a priority, and each priority has a pool:
//!
//! - metadata (HIGH) goes before data (LOW), and data before blobs (BOTTOM): as long as there is an
//!   entry of a lower pool to evict, none of a higher pool is;
//! - a pool with a configured share keeps that share only: its oldest entries beyond it are moved
//!   to the young end of the next lower pool and compete there. A pool without a share is not
//!   bounded, so that it never ranks its entries below a lower class;
//! - within a pool the oldest entry goes first, unless it was hit since it was last looked at:
//!   then it starts anew, in the pool of its own priority. Blocks that a scan touches once
//!   are gone before those that are used again and again.
//!
//! Every entry counts with its bytes and what the cache itself needs for it, whether or not
//! a reader holds its buffer. Evicting a buffer that is held frees nothing, so such
//! entries are passed over while there are others.

mod role;
mod shard;
mod table;

use cairn_platform::sync::{AtomicUsize, Mutex, Ordering};
use cairn_platform::{Buffer, prefetch_address};

pub use role::{CachePriority, CacheRole, RoleCounts};
use shard::{Limits, Shard};

/// The name of an entry: a file, and a place in it. Made by the caller so that equal keys mean
/// equal bytes, also across databases and processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheKey {
    /// The first half; usually of the file's unique id.
    pub high: u64,
    /// The second half; usually of the file's unique id, mixed with the offset.
    pub low: u64,
}

impl CacheKey {
    /// The key of what lies at `offset` of the file with the 128-bit id `file`.
    #[inline]
    #[must_use]
    pub fn of_block(file: [u64; 2], offset: u64) -> CacheKey {
        CacheKey {
            high: file[0],
            low: file[1] ^ offset,
        }
    }

    /// 64 bits that depend on all 128.
    #[inline]
    fn hash(&self) -> u64 {
        let a = u128::from(self.high ^ 0x9e37_79b9_7f4a_7c15);
        let b = u128::from(self.low ^ 0xd1b5_4a32_d192_ed03);
        let product = a.wrapping_mul(b);
        // Truncation is meant: the two halves of the product are folded.
        let folded = (product as u64) ^ ((product >> 64) as u64);
        folded ^ self.low.rotate_left(32)
    }
}

/// How a cache is built. [`CacheOptions::default`] has RocksDB's defaults.
#[derive(Clone, Copy, Debug)]
pub struct CacheOptions {
    /// The number of shards is two to this power; `None` chooses by capacity.
    pub num_shard_bits: Option<u32>,
    /// Refuse an insertion rather than exceed the capacity when everything is in use.
    pub strict_capacity_limit: bool,
    /// The share of the capacity that metadata is sure of, 0 to 1; 0 leaves it unbounded.
    pub high_pri_pool_ratio: f64,
    /// The share of the capacity that data is sure of, 0 to 1; 0 leaves it unbounded.
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

/// A cache of [`Buffer`]s; see the module's documentation. Shared by reference between threads.
pub struct BlockCache {
    /// A power of two of them.
    shards: Box<[Padded]>,
    capacity: AtomicUsize,
    /// Bytes of the capacity that are used by something else than entries.
    reserved: AtomicUsize,
    options: CacheOptions,
}

/// A shard on cache lines of its own, so that the locks of two shards never share one.
#[repr(align(128))]
struct Padded {
    /// Where the lines of the table lie; changed under the lock. Read without it, one by one: wrong
    /// numbers ask for memory that is not needed.
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

    /// Notes where the lines lie after something was inserted.
    #[inline]
    fn note_lines(&self, shard: &Shard) {
        let (at, mask) = shard.lines();
        // Relaxed, here and where they are read: see the fields.
        self.lines_at.store(at, Ordering::Relaxed);
        self.lines_mask.store(mask, Ordering::Relaxed);
    }
}

/// Bytes of a line of the table, as of the processor's cache.
const LINE: usize = 64;

/// Smaller shards would not hold the larger index and filter blocks.
const MIN_SHARD_BYTES: usize = 4 << 20;
const MAX_AUTO_SHARD_BITS: u32 = 6;
const MAX_SHARD_BITS: u32 = 19;

impl BlockCache {
    /// A cache of `capacity` bytes; 0 keeps nothing.
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
        let cache = BlockCache {
            shards: (0..count).map(|_| Padded::new()).collect(),
            capacity: AtomicUsize::new(0),
            reserved: AtomicUsize::new(0),
            options,
        };
        cache.set_capacity(capacity);
        cache
    }

    /// The buffer of `key`, or `None`. A miss is counted for [`CacheRole::Other`]; a caller that
    /// knows what it looks for calls [`BlockCache::lookup`].
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

    /// Announces that `key` will be looked up: asks for the memory in which its entry most likely lies.
    #[inline]
    pub fn announce(&self, key: &CacheKey) {
        let hash = key.hash();
        let padded = &self.shards[self.shard_of(hash)];
        let mask = padded.lines_mask.load(Ordering::Relaxed);
        let at = padded.lines_at.load(Ordering::Relaxed);
        // Truncation is meant: the lowest bits count.
        prefetch_address(at.wrapping_add((hash as usize & mask).wrapping_mul(LINE)));
    }

    /// Brings what a search in the buffer of `key` touches first into the processor's cache, if the
    /// buffer is here. Counts nothing and promotes nothing.
    #[inline]
    pub fn prefetch(&self, key: &CacheKey) {
        let hash = key.hash();
        self.shard(hash).lock().prefetch(hash, key);
    }

    /// True if `key` is here. Counts nothing and promotes nothing.
    #[must_use]
    pub fn contains(&self, key: &CacheKey) -> bool {
        let hash = key.hash();
        self.shard(hash).lock().contains(hash, key)
    }

    /// Keeps `buffer` under `key`, in place of what was there, and evicts others for it. Returns
    /// whether it is kept: a buffer larger than a shard never is, and under
    /// `strict_capacity_limit` none is while too much is in use. The caller has its buffer either
    /// way.
    pub fn insert(
        &self,
        key: CacheKey,
        buffer: Buffer,
        role: CacheRole,
        priority: CachePriority,
    ) -> bool {
        let hash = key.hash();
        // What is evicted is given up after the lock is given back.
        let mut evicted = Vec::new();
        let padded = &self.shards[self.shard_of(hash)];
        let mut shard = padded.shard.lock();
        let kept = shard.insert(hash, key, buffer, role, priority, &mut evicted);
        padded.note_lines(&shard);
        drop(shard);
        evicted.into_iter().for_each(Buffer::recycle);
        kept
    }

    /// `buffer`, which `key` most likely has, with the tail `tail`, and the same for `key`. The tail is laid
    /// into the buffer's own memory if that has room and no reader holds it; otherwise a copy takes the
    /// place of the one that `key` has, if it has one. Counts as no insertion.
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

    /// Drops the entry of `key`, if there is one; who holds its buffer keeps it.
    pub fn erase(&self, key: &CacheKey) -> bool {
        let hash = key.hash();
        let erased = self.shard(hash).lock().erase(hash, key);
        erased.is_some()
    }

    /// Drops every entry that is not held.
    pub fn erase_unused(&self) {
        for shard in &self.shards {
            let mut evicted = Vec::new();
            shard.shard.lock().erase_unused(&mut evicted);
        }
    }

    /// Bytes that the entries count for, and those that are reserved.
    #[must_use]
    pub fn usage(&self) -> usize {
        let entries: usize = self
            .shards
            .iter()
            .map(|shard| shard.shard.lock().usage())
            .sum();
        entries + self.reserved.load(Ordering::Relaxed)
    }

    /// Changes the part of the capacity that is reserved for other uses from `before` bytes to `now`.
    pub(crate) fn set_reserved(&self, before: usize, now: usize) {
        // Relaxed, here and below: what counts are the limits under each shard's lock.
        self.reserved.fetch_add(now, Ordering::Relaxed);
        self.reserved.fetch_sub(before, Ordering::Relaxed);
        self.set_capacity(self.capacity());
    }

    /// Bytes of entries whose buffer is held. Walks the whole cache.
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

    /// How the cache was built.
    #[must_use]
    pub fn options(&self) -> &CacheOptions {
        &self.options
    }

    /// The number of shards.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Changes the capacity, and evicts what no longer fits.
    pub fn set_capacity(&self, capacity: usize) {
        // Relaxed: the number is a report; what counts are the limits under each shard's lock.
        self.capacity.store(capacity, Ordering::Relaxed);
        let free = capacity.saturating_sub(self.reserved.load(Ordering::Relaxed));
        let limits = Limits::new(free.div_ceil(self.shards.len()), &self.options);
        for shard in &self.shards {
            let mut evicted = Vec::new();
            shard.shard.lock().set_limits(limits, &mut evicted);
        }
    }

    /// Bytes that entries of `role` count for.
    #[must_use]
    pub fn role_usage(&self, role: CacheRole) -> usize {
        self.role_counts(role).usage
    }

    /// The counts of entries of `role` so far.
    #[must_use]
    pub fn role_counts(&self, role: CacheRole) -> RoleCounts {
        self.sum(|shard| shard.counts(role))
    }

    /// The counts of all entries so far.
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
        // The table below uses the lowest bits; these are from the middle.
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
