//! The block cache: buffers that were read from files, bounded by a capacity.
//!
//! There are two kinds with the same interface: the clock cache (`clock`), whose lookups take no lock, and
//! the LRU cache (`lru`), which keeps a strict order behind a lock per shard. Both are sharded by the hash of
//! the key. Most of the time of a hit is spent waiting for memory: to look up several keys, call
//! [`BlockCache::announce`] for each of them first, then [`BlockCache::prefetch`], and then look them up.
//!
//! Each entry has a priority: an entry is evicted only if there is none of a lower priority. Blobs (BOTTOM)
//! are evicted before data (LOW), and data before metadata (HIGH).
//!
//! An entry is charged for its buffer and for the overhead of the cache, whether or not a reader holds the
//! buffer. Evicting a buffer that a reader holds frees no memory, so such entries are skipped if possible.

mod charge;
mod clock;
mod lru;
pub mod policy;
mod pressure;
mod role;
mod simulated;
mod store;
mod tiers;

use cairn_platform::sync::{Arc, AtomicUsize, Mutex, OnceLock, Ordering};
use cairn_platform::{Buffer, MemoryKind};

use crate::budget::{Ghosts, ReuseCurve};
use charge::Charges;
pub use charge::{CacheCharge, ChargePolicy, MemoryUse, MemoryUses};
use clock::ClockCache;
use lru::LruCache;
use pressure::Pressure;
pub(crate) use pressure::Relief;
pub use role::{CachePriority, CacheRole, RoleCounts};
use simulated::Simulated;
pub use simulated::Simulation;
use store::{Insertion, Store};
use tiers::TierBelow;

use crate::secondary::CacheTier;

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

    /// The bytes of the key, as block-cache traces have them.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 16] {
        let number = u128::from(self.high) | u128::from(self.low) << 64;
        number.to_le_bytes()
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

/// A kind of cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheKind {
    /// Lookups take no lock, and the order of eviction adapts to the workload. The pool ratios are ignored.
    #[default]
    Clock,
    /// A strict order of recency in pools by priority, behind a lock per shard.
    Lru,
}

/// Options of a block cache. [`CacheOptions::default`] has RocksDB's defaults.
#[derive(Clone, Copy, Debug)]
pub struct CacheOptions {
    /// The kind of cache.
    pub kind: CacheKind,
    /// The base-2 logarithm of the number of shards; `None` derives it from the capacity. Numbers above 12 count as 12,
    /// since each shard takes memory that is not part of the capacity (RocksDB refuses those above 19).
    pub num_shard_bits: Option<u32>,
    /// True if an insertion fails instead of exceeding the capacity when every entry is in use.
    pub strict_capacity_limit: bool,
    /// The share of the capacity reserved for metadata, from 0 to 1; 0 leaves it unbounded. Only for
    /// [`CacheKind::Lru`].
    pub high_pri_pool_ratio: f64,
    /// The share of the capacity reserved for data, from 0 to 1; 0 leaves it unbounded. Only for
    /// [`CacheKind::Lru`].
    pub low_pri_pool_ratio: f64,
    /// The kind of memory of the entries: with [`MemoryKind::undumped`], core dumps of the process leave them out.
    ///
    /// Readers allocate the blocks of the tables and blob files that use the cache in this memory, including those that
    /// they do not insert; an entry inserted from other memory is copied. Not affected are the compressed entries of a
    /// [`CompressedSecondaryCache`](crate::secondary::CompressedSecondaryCache), and the memory outside of the cache
    /// that is charged to it.
    pub memory: MemoryKind,
}

impl Default for CacheOptions {
    fn default() -> CacheOptions {
        CacheOptions {
            kind: CacheKind::Clock,
            num_shard_bits: None,
            strict_capacity_limit: false,
            high_pri_pool_ratio: 0.5,
            low_pri_pool_ratio: 0.0,
            memory: MemoryKind::default(),
        }
    }
}

impl CacheOptions {
    /// The default options of a [`CacheKind::Lru`] cache.
    #[must_use]
    pub fn lru() -> CacheOptions {
        CacheOptions {
            kind: CacheKind::Lru,
            ..CacheOptions::default()
        }
    }
}

/// An entry that was removed from a cache.
struct Evicted {
    key: CacheKey,
    buffer: Buffer,
    role: CacheRole,
    priority: CachePriority,
    /// True if it was hit.
    is_hit: bool,
    /// The lowest tier that may keep it.
    lowest: CacheTier,
    /// Bytes charged in addition to the buffer.
    overhead: usize,
}

impl Evicted {
    fn charge(&self) -> usize {
        self.buffer.memory_usage() + self.overhead
    }
}

/// The result of an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertOutcome {
    /// The entry was inserted; its key was not cached.
    Added,
    /// The entry replaced one of the same key.
    Replaced,
    /// The entry was not inserted.
    Refused,
}

impl InsertOutcome {
    /// True if the entry was inserted.
    #[must_use]
    pub fn is_kept(self) -> bool {
        self != InsertOutcome::Refused
    }

    /// Returns the result of a successful insertion.
    fn kept(replaces: bool) -> InsertOutcome {
        match replaces {
            true => InsertOutcome::Replaced,
            false => InsertOutcome::Added,
        }
    }
}

/// A cache entry, as seen by [`BlockCache::for_each_entry`].
#[derive(Clone, Copy, Debug)]
pub struct CacheEntry {
    /// The key.
    pub key: CacheKey,
    /// The role.
    pub role: CacheRole,
    /// The priority.
    pub priority: CachePriority,
    /// Bytes charged.
    pub charge: usize,
    /// The number of hits since the insertion.
    pub hits: u32,
    /// Seconds since the insertion.
    pub age_seconds: u32,
}

/// A block cache, shared between threads; see the module's documentation.
pub struct BlockCache {
    kind: Kind,
    shards: usize,
    capacity: AtomicUsize,
    charges: Charges,
    /// The charge of this cache's entries to another cache; see [`BlockCache::charge_to`].
    charged_to: OnceLock<Mutex<CacheCharge>>,
    tier: Option<TierBelow>,
    options: CacheOptions,
    /// Held while the capacity is changed, so that the last change stays in force.
    resizing: Mutex<()>,
    /// Evicted keys, if they are observed.
    ghosts: OnceLock<Ghosts>,
    /// The pressure of charges, if the cache belongs to a memory budget.
    pressure: OnceLock<Pressure>,
}

enum Kind {
    Clock(ClockCache),
    Lru(LruCache),
    Simulated(Simulated),
}

/// Smaller shards would make the eviction order of the LRU cache inexact.
const MIN_SHARD_BYTES: usize = 4 << 20;
const MAX_AUTO_SHARD_BITS: u32 = 6;
/// The shards exist from the start, and take up to 4 KiB each.
const MAX_SHARD_BITS: u32 = 12;

/// The smallest step, in bytes, in which the capacity is lowered or a charge grows.
const LOWERING_STEP: usize = 1 << 20;
/// The maximum number of full steps of one change.
const MAX_STEPS: usize = 1024;

/// The step of a change by `bytes`: a change of any size takes at most [`MAX_STEPS`] and one for the remainder.
fn step_of(bytes: usize) -> usize {
    LOWERING_STEP.max(bytes / MAX_STEPS)
}

/// The number of shards of a cache of `capacity` bytes, a power of two.
fn auto_shards(capacity: usize, num_shard_bits: Option<u32>) -> usize {
    let bits = num_shard_bits.map_or_else(
        || {
            (capacity / MIN_SHARD_BYTES)
                .checked_ilog2()
                .unwrap_or(0)
                .min(MAX_AUTO_SHARD_BITS)
        },
        |bits| bits.min(MAX_SHARD_BITS),
    );
    1 << bits
}

/// The shard of a key with `hash` out of `shards`, a power of two.
#[inline]
fn shard_of(hash: u64, shards: usize) -> usize {
    // The tables use the lowest bits and the upper half; these are from the middle.
    (hash >> 20) as usize & (shards - 1)
}

/// The capacities through which a cache with `usage` bytes goes to `capacity`; the last is `capacity`.
fn lowering_steps(usage: usize, capacity: usize) -> impl Iterator<Item = usize> {
    let bytes = step_of(usage.saturating_sub(capacity));
    let step = move |from: usize| from.saturating_sub(bytes).max(capacity);
    let next = move |&from: &usize| (from != capacity).then(|| step(from));
    std::iter::successors(Some(step(usage)), next)
}

impl BlockCache {
    /// Creates a cache of `capacity` bytes. With capacity 0 it caches nothing.
    #[must_use]
    pub fn new(capacity: usize, options: CacheOptions) -> BlockCache {
        BlockCache::build(capacity, options, None)
    }

    /// Creates a cache of `capacity` bytes with a simulation of one of `simulated` bytes; see [`Simulation`].
    #[must_use]
    pub fn simulating(capacity: usize, options: CacheOptions, simulated: usize) -> BlockCache {
        let shards = auto_shards(capacity, options.num_shard_bits);
        let kind = Kind::Simulated(Simulated {
            real: match options.kind {
                CacheKind::Clock => Box::new(ClockCache::new(shards, options)),
                CacheKind::Lru => Box::new(LruCache::new(shards, options)),
            },
            simulation: Simulation::new(simulated, options.num_shard_bits),
        });
        BlockCache::of_kind((kind, shards), capacity, options, None)
    }

    /// The simulation of a cache from [`BlockCache::simulating`].
    #[must_use]
    pub fn simulation(&self) -> Option<&Simulation> {
        match &self.kind {
            Kind::Simulated(cache) => Some(&cache.simulation),
            _ => None,
        }
    }

    fn build(capacity: usize, options: CacheOptions, tier: Option<TierBelow>) -> BlockCache {
        let shards = auto_shards(capacity, options.num_shard_bits);
        let kind = match options.kind {
            CacheKind::Clock => Kind::Clock(ClockCache::new(shards, options)),
            CacheKind::Lru => Kind::Lru(LruCache::new(shards, options)),
        };
        BlockCache::of_kind((kind, shards), capacity, options, tier)
    }

    fn of_kind(
        (kind, shards): (Kind, usize),
        capacity: usize,
        options: CacheOptions,
        tier: Option<TierBelow>,
    ) -> BlockCache {
        let cache = BlockCache {
            kind,
            shards,
            capacity: AtomicUsize::new(0),
            charges: Charges::default(),
            charged_to: OnceLock::new(),
            tier,
            options,
            resizing: Mutex::new(()),
            ghosts: OnceLock::new(),
            pressure: OnceLock::new(),
        };
        cache.set_capacity(capacity);
        cache
    }

    fn store(&self) -> &dyn Store {
        match &self.kind {
            Kind::Clock(cache) => cache,
            Kind::Lru(cache) => cache,
            Kind::Simulated(cache) => cache,
        }
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
        match &self.kind {
            Kind::Clock(cache) => cache.lookup(key.hash(), key, role),
            Kind::Lru(cache) => cache.lookup(key.hash(), key, role),
            Kind::Simulated(cache) => cache.lookup(key.hash(), key, role),
        }
    }

    /// Prefetches the memory that a lookup of `key` reads first.
    #[inline]
    pub fn announce(&self, key: &CacheKey) {
        match &self.kind {
            Kind::Clock(cache) => cache.announce(key.hash()),
            Kind::Lru(cache) => cache.announce(key.hash()),
            Kind::Simulated(cache) => cache.announce(key.hash()),
        }
    }

    /// Prefetches the parts of the buffer of `key` that a search reads first, if it is cached. Does not count
    /// as a lookup.
    #[inline]
    pub fn prefetch(&self, key: &CacheKey) {
        match &self.kind {
            Kind::Clock(cache) => cache.prefetch(key.hash(), key),
            Kind::Lru(cache) => cache.prefetch(key.hash(), key),
            Kind::Simulated(cache) => cache.prefetch(key.hash(), key),
        }
    }

    /// True if `key` is cached. Does not count as a lookup.
    #[must_use]
    pub fn contains(&self, key: &CacheKey) -> bool {
        self.store().contains(key.hash(), key)
    }

    /// Inserts `buffer`, which was read from storage, under `key`, replacing any entry of that key and
    /// evicting others as needed. It is refused if it is larger than the capacity (of a shard, for
    /// [`CacheKind::Lru`]), or, with `strict_capacity_limit`, if too many entries are in use.
    pub fn insert(
        &self,
        key: CacheKey,
        buffer: Buffer,
        role: CacheRole,
        priority: CachePriority,
    ) -> InsertOutcome {
        self.insert_down_to(key, buffer, role, priority, CacheTier::default())
    }

    /// [`BlockCache::insert`] of an entry that may move to tiers down to `lowest` when it is evicted.
    pub fn insert_down_to(
        &self,
        key: CacheKey,
        buffer: Buffer,
        role: CacheRole,
        priority: CachePriority,
        lowest: CacheTier,
    ) -> InsertOutcome {
        let entry = Insertion {
            hash: key.hash(),
            key,
            buffer: self.in_memory_of_cache(buffer),
            role,
            priority,
            lowest,
        };
        if let Some(tier) = &self.tier {
            tier.fill(&entry);
        }
        self.insert_entry(entry)
    }

    /// Returns `buffer`, or a copy of it if it is in memory of another kind than the entries.
    fn in_memory_of_cache(&self, buffer: Buffer) -> Buffer {
        let kind = self.options.memory;
        match buffer.memory_kind() == kind {
            true => buffer,
            false => buffer.copied_to(kind),
        }
    }

    fn insert_entry(&self, entry: Insertion) -> InsertOutcome {
        let mut evicted = Vec::new();
        if let Some(ghosts) = self.ghosts.get() {
            ghosts.inserted(entry.hash, entry.buffer.memory_usage());
        }
        let outcome = self.store().insert(entry, &mut evicted);
        self.pass_on(evicted);
        self.follow_charge();
        outcome
    }

    /// Adapts the charge of a cache of blobs to its usage.
    #[inline]
    fn follow_charge(&self) {
        if let Some(charge) = self.charged_to.get() {
            charge.lock().follow(self.usage());
        }
    }

    /// Charges the memory of this cache, a cache of blobs or rows, to `other` as `what` from now on, until this cache
    /// is dropped. Only the first call has an effect; nothing happens if `other` is this cache, or is charged
    /// itself.
    pub fn charge_to(&self, other: &Arc<BlockCache>, what: MemoryUse) {
        let is_this = std::ptr::eq(self, Arc::as_ptr(other));
        if !is_this && other.charged_to.get().is_none() {
            self.charged_to.get_or_init(|| {
                let charge = CacheCharge::new(other.clone(), what, self.usage());
                Mutex::new(charge)
            });
        }
    }

    /// True if the memory of this cache is charged to another one.
    pub(crate) fn is_charged(&self) -> bool {
        self.charged_to.get().is_some()
    }

    /// Returns `buffer` with `tail` appended, and updates the entry of `key`, which usually holds the same
    /// buffer. The tail is written into spare room of the buffer's memory if no reader holds it; otherwise
    /// the entry, if any, is replaced by a copy. Does not count as an insertion.
    pub fn lay_tail(&self, key: &CacheKey, buffer: Buffer, tail: &[u8]) -> Buffer {
        let mut evicted = Vec::new();
        let store = self.store();
        let laid = store.lay_tail(key.hash(), key, buffer, tail, &mut evicted);
        self.pass_on(evicted);
        laid
    }

    /// Removes the entry of `key`, here and in the tiers below. Returns true if there was one here. Readers keep
    /// the buffers they hold.
    pub fn erase(&self, key: &CacheKey) -> bool {
        if let Some(tier) = &self.tier {
            tier.cache().erase(key);
        }
        let erased = self.store().erase(key.hash(), key).is_some();
        self.follow_charge();
        erased
    }

    /// Removes every entry that no reader holds.
    pub fn erase_unused(&self) {
        let mut evicted = Vec::new();
        self.store().erase_unused(&mut evicted);
        drop(evicted);
        self.follow_charge();
    }

    /// Bytes charged for entries, and reserved bytes.
    #[must_use]
    pub fn usage(&self) -> usize {
        self.store().usage()
    }

    /// Changes a charge from `before` bytes to `now`.
    fn change_charge(&self, what: MemoryUse, before: usize, now: usize) {
        self.charges.change(what, before, now);
        // In steps, because the memory of evicted entries is freed after each.
        let step = step_of(now.saturating_sub(before));
        let mut from = before;
        loop {
            let to = now.min(from.saturating_add(step));
            let mut evicted = Vec::new();
            self.store().reserve(from, to, &mut evicted);
            self.pass_on(evicted);
            if to == now {
                break;
            }
            from = to;
        }
        self.note_change(what, before, now);
        self.divide_again();
    }

    /// Bytes charged for memory outside of the cache; see [`CacheCharge`].
    #[must_use]
    pub fn charged(&self, what: MemoryUse) -> usize {
        self.charges.of(what)
    }

    /// Bytes charged for all memory outside of the cache.
    #[must_use]
    pub fn all_charged(&self) -> usize {
        self.charges.sum()
    }

    /// Bytes charged for entries in use. Scans the whole cache.
    #[must_use]
    pub fn pinned_usage(&self) -> usize {
        self.store().pinned_usage()
    }

    /// The number of entries.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.store().entries()
    }

    /// The number of places of the hash tables.
    #[must_use]
    pub fn table_places(&self) -> usize {
        self.store().places()
    }

    /// The capacity in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        // Relaxed: informational.
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
        self.shards
    }

    /// Changes the capacity and evicts entries beyond it in small steps, so that lookups and insertions can
    /// proceed in between. If the tiers share a capacity, this is the total.
    pub fn set_capacity(&self, capacity: usize) {
        let _resizing = self.resizing.lock();
        let before = self.capacity.swap(capacity, Ordering::Relaxed);
        if capacity < before {
            // First: the share of a tier would count in full against the lower capacity.
            self.divide_again();
        }
        for step in lowering_steps(self.usage(), capacity) {
            self.lower_to(step);
        }
        self.divide_again();
        self.follow_charge();
        if let Some(ghosts) = self.ghosts.get() {
            ghosts.set_capacity(capacity);
        }
    }

    /// Sets the capacity of the entries and charges, and returns the number of entries that this evicted.
    fn lower_to(&self, capacity: usize) -> usize {
        let mut evicted = Vec::new();
        self.store().set_capacity(capacity, &mut evicted);
        let count = evicted.len();
        self.pass_on(evicted);
        count
    }

    /// Starts the observation of evicted keys that are inserted again.
    pub(crate) fn observe_evictions(&self) {
        self.ghosts.get_or_init(|| Ghosts::new(self.capacity()));
    }

    /// The insertions of evicted keys since the last call, and the bytes inserted so far, if they are observed.
    pub(crate) fn take_reuse(&self) -> (ReuseCurve, u64) {
        self.ghosts.get().map(Ghosts::take).unwrap_or_default()
    }

    /// Bytes charged for entries of `role`.
    #[must_use]
    pub fn role_usage(&self, role: CacheRole) -> usize {
        self.role_counts(role).usage
    }

    /// The counters of entries of `role`. Visits every entry.
    #[must_use]
    pub fn role_counts(&self, role: CacheRole) -> RoleCounts {
        self.store().counts(role)
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

    /// Calls `visit` for the entries cached at one point in time, without holding a lock.
    pub fn for_each_entry(&self, mut visit: impl FnMut(CacheEntry)) {
        self.store().for_each(&mut visit);
    }
}

impl std::fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "BlockCache({} of {} bytes in {} shards)",
            self.usage(),
            self.capacity(),
            self.shards
        )
    }
}

#[cfg(shuttle)]
#[cfg(test)]
mod shuttle_tests;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
