//! What a cache does while the charges for other memory grow, if it belongs to a memory budget.
//!
//! A growing charge evicts entries, but the resident memory follows late, for three reasons that are looked at each time
//! that the charges have grown by [`STEP`]; thousands of tables can be opened within a second:
//!
//! - Evicted blocks leave free pieces in spans that also contain blocks in use (see [`buffer_memory`]). The cache charges
//!   such memory to itself.
//! - Objects that were freed before, such as tables, leave free pieces in the heap. [`Relief::trim_heap`] returns them.
//! - Nothing is left to evict, because memtables have the rest of the capacity. [`Relief::flush`] makes them smaller.

use cairn_platform::buffer_memory;
use cairn_platform::sync::{AtomicUsize, Mutex, OnceLock, Ordering};

use super::{BlockCache, MemoryUse};

/// The bytes by which charges grow between two measurements.
const STEP: usize = 256 << 10;

/// The part of the capacity, as a divisor, that is too little for entries.
const LEAST_ENTRIES: usize = 16;

/// Makes room outside of the cache. The functions may be called with locks held, by any thread, often: they start work
/// on another thread.
pub(crate) trait Relief: Send + Sync {
    /// Flushes memtables, unless that would free little.
    fn flush(&self);
    /// Returns free memory of the heap to the kernel, if that pays under a cache of `capacity` bytes.
    fn trim_heap(&self, capacity: usize);
}

/// The pressure of charges on a cache.
#[derive(Default)]
pub(super) struct Pressure {
    relief: OnceLock<Box<dyn Relief>>,
    /// Free memory that is not charged, in bytes.
    slack: AtomicUsize,
    /// Bytes by which charges have grown since the last measurement.
    grown: AtomicUsize,
    /// Bytes of objects in the heap that were freed since it was last trimmed.
    freed: AtomicUsize,
    /// The charge of free memory, in bytes. Locked while the cache evicts entries for it.
    charged: Mutex<usize>,
}

impl BlockCache {
    /// Measures free memory and charges the part of it that exceeds `slack` bytes, now and from now on.
    pub(crate) fn charge_free_memory(&self, slack: usize) {
        let pressure = self.pressure.get_or_init(Pressure::default);
        // Relaxed, here and below: a measurement with the old value is followed by another one.
        pressure.slack.store(slack, Ordering::Relaxed);
        self.measure(pressure);
    }

    /// Calls `relief` from now on, unless the cache has one.
    pub(crate) fn set_relief(&self, relief: Box<dyn Relief>) {
        let pressure = self.pressure.get_or_init(Pressure::default);
        let _ = pressure.relief.set(relief);
    }

    /// Notes that a charge changes from `before` bytes to `now`.
    #[inline]
    pub(super) fn note_change(&self, what: MemoryUse, before: usize, now: usize) {
        let Some(pressure) = self.pressure.get() else {
            return;
        };
        if now < before && is_in_heap(what) {
            pressure.freed.fetch_add(before - now, Ordering::Relaxed);
        }
        let bytes = now.saturating_sub(before);
        if what != MemoryUse::FreeMemory
            && bytes > 0
            && pressure.grown.fetch_add(bytes, Ordering::Relaxed) + bytes >= STEP
        {
            self.measure(pressure);
        }
    }

    #[cold]
    fn measure(&self, pressure: &Pressure) {
        let slack = pressure.slack.load(Ordering::Relaxed);
        // Evictions of this measurement may change other charges, and another thread's measurement is as good.
        let Some(mut charged) = pressure.charged.try_lock() else {
            return;
        };
        pressure.grown.store(0, Ordering::Relaxed);
        let free = buffer_memory().free + crate::extents::pooled_bytes();
        let excess = free.saturating_sub(slack);
        if excess != *charged {
            self.change_charge(MemoryUse::FreeMemory, *charged, excess);
            *charged = excess;
        }
        drop(charged);
        let Some(relief) = pressure.relief.get() else {
            return;
        };
        let capacity = self.capacity();
        if capacity.saturating_sub(self.all_charged()) < capacity / LEAST_ENTRIES {
            relief.flush();
        }
        if self.usage() > capacity - capacity / LEAST_ENTRIES
            && pressure.freed.load(Ordering::Relaxed) > slack / 2
        {
            pressure.freed.store(0, Ordering::Relaxed);
            relief.trim_heap(capacity);
        }
    }
}

/// True for the uses that consist of many small objects, which live long.
fn is_in_heap(what: MemoryUse) -> bool {
    matches!(
        what,
        MemoryUse::TableReader | MemoryUse::FileMetadata | MemoryUse::Family
    )
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::super::{CacheCharge, CacheKey, CacheOptions, CachePriority, CacheRole};
    use super::*;
    use cairn_platform::Buffer;
    use cairn_platform::sync::Arc;

    /// Inserts blocks and displaces them by tables. Returns the free memory that was charged then.
    fn displaced_blocks() -> usize {
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
        drop((tables, held));
        cache.erase_unused();
        cache.charge_free_memory(usize::MAX);
        assert_eq!(cache.all_charged(), 0, "{cache:?}");
        charged
    }

    /// Tables displace blocks, whose memory stays resident while other blocks share its spans.
    #[test]
    fn memory_freed_by_evictions_is_charged_while_charges_grow() {
        // Other tests of the process may use the memory that they had free at the start.
        let charged: Vec<_> = (0..20).map(|_| displaced_blocks()).collect();
        assert!(charged.iter().any(|bytes| *bytes > 1 << 20), "{charged:?}");
    }

    /// Counts calls.
    #[derive(Default)]
    struct Calls {
        flushes: AtomicUsize,
        trims: AtomicUsize,
    }

    impl Relief for Arc<Calls> {
        fn flush(&self) {
            self.flushes.fetch_add(1, Ordering::Relaxed);
        }

        fn trim_heap(&self, capacity: usize) {
            assert_eq!(capacity, 8 << 20);
            self.trims.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn charged(cache: &Arc<BlockCache>, what: MemoryUse, bytes: usize) -> CacheCharge {
        CacheCharge::new(cache.clone(), what, bytes)
    }

    #[test]
    fn memtables_are_flushed_when_charges_leave_little_for_entries() {
        let cache = Arc::new(BlockCache::new(8 << 20, CacheOptions::default()));
        let calls = Arc::new(Calls::default());
        cache.set_relief(Box::new(calls.clone()));
        // No free memory is charged, whatever other tests leave.
        cache.charge_free_memory(usize::MAX);
        let flushes = || calls.flushes.load(Ordering::Relaxed);
        let memtables = charged(&cache, MemoryUse::WriteBuffer, 7 << 20);
        let _tables = charged(&cache, MemoryUse::TableReader, 512 << 10);
        assert_eq!(flushes(), 0, "a sixteenth is left");
        let more = charged(&cache, MemoryUse::TableReader, 100 << 10);
        assert_eq!(flushes(), 0, "a small step");
        let _more = charged(&cache, MemoryUse::TableReader, 200 << 10);
        assert_eq!(flushes(), 1);
        drop((memtables, more));
        let _more = charged(&cache, MemoryUse::TableReader, STEP);
        assert_eq!(flushes(), 1, "there is room again");
    }

    #[test]
    fn the_heap_is_trimmed_after_tables_were_freed_and_when_the_cache_is_full_again() {
        let cache = Arc::new(BlockCache::new(8 << 20, CacheOptions::default()));
        let calls = Arc::new(Calls::default());
        cache.set_relief(Box::new(calls.clone()));
        cache.charge_free_memory(2 << 20);
        let trims = || calls.trims.load(Ordering::Relaxed);
        // The free memory of other tests is charged, too.
        drop(charged(&cache, MemoryUse::TableReader, (1 << 20) + 1));
        let buffers = charged(&cache, MemoryUse::Job, 1 << 20);
        let full = || charged(&cache, MemoryUse::Job, 7 << 20);
        drop(full());
        assert_eq!(trims(), 1);
        drop(full());
        assert_eq!(
            trims(),
            1,
            "nothing was freed since then: buffers are not in the heap"
        );
        drop(buffers);
    }
}
