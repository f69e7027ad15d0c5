//! A memory budget for the memtables of several column families and databases.
//!
//! Memtables report the memory they allocate. A database that uses the manager flushes when the mutable
//! memtables exceed seven eighths of the budget, or when all memtables together have reached it. With
//! `allow_stall`, writes are then stalled until memory is freed. With a cache, memtable memory is charged to
//! the cache, so that both stay within its capacity.
//!
//! ```
//! use std::sync::Arc;
//! use cairn_memory::{BlockCache, CacheOptions, WriteBufferManager};
//!
//! let cache = Arc::new(BlockCache::new(1 << 30, CacheOptions::default()));
//! // Set as `DbOptions::write_buffer_manager` of each database.
//! let manager = Arc::new(WriteBufferManager::new(256 << 20, Some(cache), true));
//! assert!(manager.enabled() && manager.cost_to_cache());
//! ```

use cairn_platform::sync::{Arc, AtomicBool, AtomicUsize, Mutex, Ordering};

use crate::cache::{BlockCache, CacheCharge, MemoryUse};

/// The granularity in bytes of charges to the cache.
const STEP: usize = 256 << 10;

/// A party to be notified when memory is freed.
pub trait Woken: Send + Sync {
    /// Called after memory was freed. Locks may be held: the implementation must not acquire any, nor block.
    fn wake(self: Arc<Self>);
}

/// The memtable that a database flushes when the budget is exceeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlushPolicy {
    /// The oldest mutable memtable.
    #[default]
    Oldest,
    /// The largest mutable memtable of the database.
    Largest,
}

/// A memory budget for memtables, shared by `Arc` between the databases.
pub struct WriteBufferManager {
    buffer_size: AtomicUsize,
    allow_stall: AtomicBool,
    /// True for [`FlushPolicy::Largest`].
    flushes_largest: AtomicBool,
    /// Bytes of all memtables.
    used: AtomicUsize,
    /// Bytes of mutable memtables.
    active: AtomicUsize,
    /// The charge to the cache, if there is one.
    charge: Option<Mutex<CacheCharge>>,
    waiters: Mutex<Vec<std::sync::Weak<dyn Woken>>>,
}

impl WriteBufferManager {
    /// Creates a budget of `buffer_size` bytes. 0 means no limit; memory is then counted only if there is a
    /// cache to charge.
    #[must_use]
    pub fn new(
        buffer_size: usize,
        cache: Option<Arc<BlockCache>>,
        allow_stall: bool,
    ) -> WriteBufferManager {
        WriteBufferManager {
            buffer_size: AtomicUsize::new(buffer_size),
            allow_stall: AtomicBool::new(allow_stall),
            flushes_largest: AtomicBool::new(false),
            used: AtomicUsize::new(0),
            active: AtomicUsize::new(0),
            charge: cache
                .map(|cache| Mutex::new(CacheCharge::new(cache, MemoryUse::WriteBuffer, 0))),
            waiters: Mutex::new(Vec::new()),
        }
    }

    /// True if there is a limit.
    #[must_use]
    pub fn enabled(&self) -> bool {
        self.buffer_size() > 0
    }

    /// True if memtables are charged to a cache.
    #[must_use]
    pub fn cost_to_cache(&self) -> bool {
        self.charge.is_some()
    }

    /// True if writes are stalled when the budget is exhausted.
    #[must_use]
    pub fn allow_stall(&self) -> bool {
        self.allow_stall.load(Ordering::Relaxed)
    }

    /// The budget in bytes.
    #[must_use]
    pub fn buffer_size(&self) -> usize {
        self.buffer_size.load(Ordering::Relaxed)
    }

    /// Changes the budget.
    pub fn set_buffer_size(&self, bytes: usize) {
        self.buffer_size.store(bytes, Ordering::Relaxed);
        self.wake();
    }

    /// Changes whether writes are stalled.
    pub fn set_allow_stall(&self, allow: bool) {
        self.allow_stall.store(allow, Ordering::Relaxed);
        self.wake();
    }

    /// The policy that selects the memtable to flush.
    #[must_use]
    pub fn flush_policy(&self) -> FlushPolicy {
        match self.flushes_largest.load(Ordering::Relaxed) {
            true => FlushPolicy::Largest,
            false => FlushPolicy::Oldest,
        }
    }

    /// Changes the flush policy.
    pub fn set_flush_policy(&self, policy: FlushPolicy) {
        let flushes_largest = policy == FlushPolicy::Largest;
        self.flushes_largest
            .store(flushes_largest, Ordering::Relaxed);
    }

    /// Bytes of all memtables.
    #[must_use]
    pub fn memory_usage(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes of the mutable memtables.
    #[must_use]
    pub fn mutable_memtable_memory_usage(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }

    /// Bytes charged to the cache.
    #[must_use]
    pub fn dummy_entries_in_cache_usage(&self) -> usize {
        self.charge
            .as_ref()
            .map_or(0, |charge| charge.lock().bytes())
    }

    /// True if a memtable should be flushed to keep within the budget.
    #[inline]
    #[must_use]
    pub fn should_flush(&self) -> bool {
        let limit = self.buffer_size();
        if limit == 0 {
            return false;
        }
        let active = self.mutable_memtable_memory_usage();
        // Once most of the memory is being flushed, another flush would not help.
        active > limit / 8 * 7 || (self.memory_usage() >= limit && active >= limit / 2)
    }

    /// True if writes must stall.
    #[inline]
    #[must_use]
    pub fn should_stall(&self) -> bool {
        self.allow_stall() && self.enabled() && self.memory_usage() >= self.buffer_size()
    }

    /// Adds `bytes` to the memory of a mutable memtable.
    pub fn reserve(&self, bytes: usize) {
        self.active.fetch_add(bytes, Ordering::Relaxed);
        self.used.fetch_add(bytes, Ordering::Relaxed);
        self.charge();
    }

    /// Moves `bytes` of memory from mutable to immutable.
    pub fn seal(&self, bytes: usize) {
        let before = self.active.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "only reserved memory is sealed");
    }

    /// Frees `bytes` of memory of an immutable memtable.
    pub fn release(&self, bytes: usize) {
        let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "only reserved memory is released");
        self.charge();
        let limit = self.buffer_size();
        if before >= limit && before - bytes < limit {
            self.wake();
        }
    }

    /// Registers `waiter` for a call of [`Woken::wake`] when memory is freed after the budget was exhausted.
    pub fn register(&self, waiter: std::sync::Weak<dyn Woken>) {
        let mut waiters = self.waiters.lock();
        waiters.retain(|waiter| waiter.strong_count() > 0);
        waiters.push(waiter);
    }

    fn wake(&self) {
        let waiters: Vec<_> = {
            let waiters = self.waiters.lock();
            waiters
                .iter()
                .filter_map(std::sync::Weak::upgrade)
                .collect()
        };
        waiters.into_iter().for_each(Woken::wake);
    }

    /// Adjusts the charge of the cache to the memory in use. The charge falls with a delay, to avoid
    /// oscillation.
    fn charge(&self) {
        let Some(charge) = &self.charge else { return };
        let mut charge = charge.lock();
        let wanted = self.memory_usage().next_multiple_of(STEP);
        if wanted > charge.bytes() || wanted < charge.bytes() / 4 * 3 {
            charge.set(wanted);
        }
    }
}

impl std::fmt::Debug for WriteBufferManager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "WriteBufferManager({} of {} bytes)",
            self.memory_usage(),
            self.buffer_size()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::CacheOptions;

    #[test]
    fn flushes_start_before_writes_stall() {
        let manager = WriteBufferManager::new(800, None, true);
        manager.reserve(700);
        assert!(!manager.should_flush());
        manager.reserve(50);
        assert!(manager.should_flush() && !manager.should_stall());
        manager.seal(750);
        assert!(!manager.should_flush());
        manager.reserve(60);
        assert!(manager.should_stall() && !manager.should_flush());
        manager.release(750);
        assert!(!manager.should_stall());
        assert_eq!(manager.memory_usage(), 60);
        assert_eq!(manager.mutable_memtable_memory_usage(), 60);
    }

    #[test]
    fn memtables_are_charged_to_the_cache() {
        let cache = Arc::new(BlockCache::new(8 << 20, CacheOptions::default()));
        let manager = WriteBufferManager::new(0, Some(cache.clone()), false);
        assert!(!manager.enabled() && manager.cost_to_cache());
        manager.reserve(1_000_000);
        assert_eq!(manager.dummy_entries_in_cache_usage(), 1 << 20);
        assert_eq!(cache.usage(), 1 << 20);
        manager.seal(1_000_000);
        manager.release(1_000_000);
        assert_eq!(cache.usage(), 0);
        assert_eq!(cache.capacity(), 8 << 20);
    }
}
