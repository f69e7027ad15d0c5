//! The interface between the cache and its kinds.

use cairn_platform::Buffer;

use crate::secondary::CacheTier;

use super::{CacheEntry, CacheKey, CachePriority, CacheRole, Evicted, InsertOutcome, RoleCounts};

/// An entry to insert.
pub(super) struct Insertion {
    pub(super) hash: u64,
    pub(super) key: CacheKey,
    pub(super) buffer: Buffer,
    pub(super) role: CacheRole,
    pub(super) priority: CachePriority,
    /// The lowest tier that may keep it after its eviction.
    pub(super) lowest: CacheTier,
}

/// A kind of cache. Entries evicted by a call are appended to `evicted`, so that the caller frees them or
/// passes them on without holding a lock. Every `hash` is [`CacheKey::hash`] of the `key` argument.
pub(super) trait Store: Send + Sync {
    /// The buffer of `key`; a miss is counted for `role`.
    fn lookup(&self, hash: u64, key: &CacheKey, role: CacheRole) -> Option<Buffer>;
    /// Prefetches the memory that a lookup reads first.
    fn announce(&self, hash: u64);
    /// Prefetches the memory that a search of the buffer reads first.
    fn prefetch(&self, hash: u64, key: &CacheKey);
    /// True if `key` is cached.
    fn contains(&self, hash: u64, key: &CacheKey) -> bool;
    /// Inserts an entry in place of any other of its key.
    fn insert(&self, entry: Insertion, evicted: &mut Vec<Evicted>) -> InsertOutcome;
    /// Returns `buffer` with `tail` appended, and changes the entry of `key` accordingly.
    fn lay_tail(
        &self,
        hash: u64,
        key: &CacheKey,
        buffer: Buffer,
        tail: &[u8],
        evicted: &mut Vec<Evicted>,
    ) -> Buffer;
    /// Removes the entry of `key`.
    fn erase(&self, hash: u64, key: &CacheKey) -> Option<Evicted>;
    /// Removes all entries that no reader holds.
    fn erase_unused(&self, evicted: &mut Vec<Evicted>);
    /// Bytes of entries and reservations.
    fn usage(&self) -> usize;
    /// Bytes of entries that readers hold.
    fn pinned_usage(&self) -> usize;
    /// The number of entries.
    fn entries(&self) -> usize;
    /// The number of places of the hash tables.
    fn places(&self) -> usize;
    /// Changes the capacity.
    fn set_capacity(&self, capacity: usize, evicted: &mut Vec<Evicted>);
    /// Changes a reservation from `before` bytes to `now`.
    fn reserve(&self, before: usize, now: usize, evicted: &mut Vec<Evicted>);
    /// The counters of `role`.
    fn counts(&self, role: CacheRole) -> RoleCounts;
    /// Visits the entries cached at one point in time, without holding a lock.
    fn for_each(&self, visit: &mut dyn FnMut(CacheEntry));
}
