//! The charge of free memory: memory of buffers and memtables that is resident and not in use.
//!
//! Evicted blocks leave free pieces in spans that also contain blocks in use (see
//! [`buffer_memory`]), so eviction does not return the same number of bytes to the kernel. The cache of a memory budget
//! charges such memory to itself. It is measured again each time that the other charges have grown by [`STEP`], because
//! a growing charge evicts blocks: thousands of tables can be opened within a second.

use cairn_platform::buffer_memory;
use cairn_platform::sync::{AtomicUsize, Mutex, Ordering};

use super::{BlockCache, MemoryUse};

/// The bytes by which charges grow between two measurements.
const STEP: usize = 256 << 10;

/// The charge of free memory to a cache.
#[derive(Default)]
pub(super) struct FreeMemory {
    /// Free memory that is not charged, in bytes.
    slack: AtomicUsize,
    /// Bytes by which charges have grown since the last measurement.
    grown: AtomicUsize,
    /// The current charge, in bytes. Locked while the cache evicts entries for it.
    charged: Mutex<usize>,
}

impl BlockCache {
    /// Measures free memory and charges the part of it that exceeds `slack` bytes, now and from now on.
    pub(crate) fn charge_free_memory(&self, slack: usize) {
        let free = self.free.get_or_init(FreeMemory::default);
        // Relaxed, here and below: a measurement with the old value is followed by another one.
        free.slack.store(slack, Ordering::Relaxed);
        self.measure_free_memory(free);
    }

    /// Measures free memory again if the charges have grown enough since the last time.
    #[inline]
    pub(super) fn note_growth(&self, what: MemoryUse, bytes: usize) {
        if let Some(free) = self.free.get()
            && what != MemoryUse::FreeMemory
            && free.grown.fetch_add(bytes, Ordering::Relaxed) + bytes >= STEP
        {
            self.measure_free_memory(free);
        }
    }

    #[cold]
    fn measure_free_memory(&self, free: &FreeMemory) {
        // Evictions of this measurement may change other charges, and another thread's measurement is as good.
        let Some(mut charged) = free.charged.try_lock() else {
            return;
        };
        free.grown.store(0, Ordering::Relaxed);
        let bytes = buffer_memory().free + crate::extents::pooled_bytes();
        let excess = bytes.saturating_sub(free.slack.load(Ordering::Relaxed));
        if excess != *charged {
            self.change_charge(MemoryUse::FreeMemory, *charged, excess);
            *charged = excess;
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::super::{CacheCharge, CacheKey, CacheOptions, CachePriority, CacheRole};
    use super::*;
    use cairn_platform::Buffer;
    use cairn_platform::sync::Arc;

    /// Memory freed by evictions was charged once per second: thousands of tables opened within a second exceeded the
    /// budget by the free memory of the blocks that they displaced.
    #[test]
    fn memory_freed_by_evictions_is_charged_while_charges_grow() {
        let cache = Arc::new(BlockCache::new(8 << 20, CacheOptions::default()));
        // The free memory of other tests is part of it.
        cache.charge_free_memory(buffer_memory().free + crate::extents::pooled_bytes());
        // Every second block is held, so that the spans of the others stay allocated.
        let mut held = Vec::new();
        for n in 0..1500_u64 {
            let key = CacheKey { high: 1, low: n };
            let block = Buffer::from(vec![0; 3000]);
            if n % 2 == 0 {
                held.push(block.clone());
            }
            cache.insert(key, block, CacheRole::Data, CachePriority::Low);
        }
        let table = || CacheCharge::new(cache.clone(), MemoryUse::TableReader, 2 << 10);
        let tables: Vec<_> = (0..3000).map(|_| table()).collect();
        let charged = cache.charged(MemoryUse::FreeMemory);
        assert!(charged > 1 << 20, "{charged} bytes");
        drop((tables, held));
        cache.erase_unused();
        cache.charge_free_memory(usize::MAX);
        assert_eq!(cache.all_charged(), 0, "{cache:?}");
    }
}
