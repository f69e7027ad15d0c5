//! Huge pages from which arenas cut their chunks, and a pool of huge pages for reuse by later arenas.
//!
//! The kernel zeroes each page before handing it out, which takes as long as filling it: an eighth of the
//! time of a sequential load. Memtables therefore pass their pages on to later ones through a pool. The size
//! of the pool follows the fill rate of memtables: it is twice the number of pages taken while the memtable
//! being freed was flushed. A process that writes little retains little. The pool has at most [`MAX_POOLED`]
//! pages, and none while no arena has a page.
//!
//! Allocating 2 MiB from the kernel stalls a writer for half a millisecond or more (16 ms at most in 30
//! seconds of overwrites on two busy cores). When the last page of the pool is taken, a background thread
//! therefore prepares the next one.
//!
//! Invariants:
//!
//! X1. An extent belongs to one arena or to the pool.
//! X2. `owners` is the number of arenas that have extents. If it is 0 the pool is empty.

use std::ptr::NonNull;

use cairn_platform::huge::{HUGE_PAGE, HugePage, prepare_ahead};
use cairn_platform::sync::Mutex;

/// The maximum number of pooled extents: 64 MiB, a memtable of the default size.
const MAX_POOLED: usize = 32;

static POOL: Mutex<Pool> = Mutex::new(Pool::new());

struct Pool {
    extents: Vec<HugePage>,
    owners: usize,
    /// True while one is being prepared.
    preparing: bool,
    /// The number of extents taken so far, by all arenas.
    taken: usize,
}

impl Pool {
    const fn new() -> Pool {
        Pool {
            extents: Vec::new(),
            owners: 0,
            preparing: false,
            taken: 0,
        }
    }

    /// Returns the maximum size of the pool when an arena is dropped whose last extent was the `last`th one
    /// taken.
    fn max_pooled(&self, last: usize) -> usize {
        debug_assert!(last <= self.taken, "an arena's extents are counted");
        (2 * (self.taken - last)).min(MAX_POOLED)
    }

    /// Moves some of an arena's extents, the last of which was the `last`th taken, to the pool. Returns the
    /// rest, to be unmapped.
    fn give(&mut self, mut extents: Vec<HugePage>, last: usize) -> Vec<HugePage> {
        debug_assert!(self.owners > 0, "X2");
        self.owners -= 1;
        if self.owners == 0 {
            extents.append(&mut self.extents);
            return extents;
        }
        let room = self.max_pooled(last).saturating_sub(self.extents.len());
        let kept = extents.len().min(room);
        self.extents.extend(extents.drain(..kept));
        debug_assert!(self.extents.len() <= MAX_POOLED, "the pool is bounded");
        extents
    }
}

/// Bytes of the pooled extents.
pub(crate) fn pooled_bytes() -> usize {
    POOL.lock().extents.len() * HUGE_PAGE
}

/// Adds an extent to the pool.
fn prepare() {
    let extent = HugePage::taken();
    // If the extent is no longer needed, the lock is released before the extent is unmapped.
    let mut pool = POOL.lock();
    pool.preparing = false;
    if pool.owners > 0 && pool.extents.len() < MAX_POOLED {
        pool.extents.push(extent);
    }
}

/// The extents of one arena.
#[derive(Default)]
pub(crate) struct Extents {
    all: Vec<HugePage>,
    /// The sequence number of the last of them among all extents ever taken.
    last_number: usize,
}

impl Extents {
    /// Returns the start address of the last extent.
    pub(crate) fn last(&self) -> Option<NonNull<u8>> {
        self.all.last().map(HugePage::base)
    }

    /// Returns the start address of each extent.
    #[cfg(test)]
    pub(crate) fn starts(&self) -> Vec<NonNull<u8>> {
        self.all.iter().map(HugePage::base).collect()
    }

    /// Takes another extent, with arbitrary content.
    pub(crate) fn add(&mut self) -> NonNull<u8> {
        let mut pool = POOL.lock();
        pool.owners += usize::from(self.all.is_empty());
        pool.taken += 1;
        self.last_number = pool.taken;
        let kept = pool.extents.pop();
        let wanted = pool.extents.is_empty() && !pool.preparing;
        pool.preparing |= wanted;
        drop(pool);
        if wanted && !prepare_ahead(prepare) {
            POOL.lock().preparing = false;
        }
        let extent = kept.unwrap_or_default();
        let base = extent.base();
        self.all.push(extent);
        base
    }
}

impl Drop for Extents {
    /// Moves extents to the pool and unmaps the rest.
    fn drop(&mut self) {
        if self.all.is_empty() {
            return;
        }
        let extents = std::mem::take(&mut self.all);
        let given_back = POOL.lock().give(extents, self.last_number);
        // Outside the lock: unmapping is slow.
        drop(given_back);
    }
}

#[cfg(test)]
#[expect(unsafe_code, reason = "the tests fill the pages")]
mod tests {
    use std::time::Duration;

    use super::*;
    use cairn_platform::Clock;
    use cairn_platform::SystemClock;

    fn pool() -> usize {
        POOL.lock().extents.len()
    }

    #[test]
    #[cfg_attr(miri, ignore = "nothing is prepared under Miri")]
    fn the_next_extent_is_prepared_in_the_background() {
        let mut extents = Extents::default();
        extents.add();
        // Other tests in this process take prepared extents and trigger the preparation of more.
        let waited = (0..2000).any(|_| {
            SystemClock.sleep(Duration::from_millis(5));
            pool() > 0
        });
        assert!(waited);
    }

    #[test]
    fn the_pool_holds_twice_the_pages_taken_during_a_flush() {
        let pages = |count| (0..count).map(|_| HugePage::new()).collect();
        let mut pool = Pool::new();
        pool.owners = 4;
        pool.taken = 100;
        // None taken since.
        assert_eq!(pool.give(pages(5), 100).len(), 5);
        // Two taken since.
        assert_eq!(pool.give(pages(5), 98).len(), 1);
        assert_eq!(pool.give(pages(5), 97).len(), 3);
        assert_eq!(pool.max_pooled(0), MAX_POOLED);
        // The last owner leaves the pool empty.
        assert_eq!(pool.give(pages(5), 0).len(), 11);
        assert!(pool.extents.is_empty());
    }

    #[test]
    fn extents_are_pooled_while_an_arena_has_any() {
        let mut first = Extents::default();
        let mut second = Extents::default();
        second.add();
        let one = first.add();
        // SAFETY: the extent is exclusive to this test.
        unsafe { one.as_ptr().write_bytes(7, HUGE_PAGE) };
        for _ in 0..2 * MAX_POOLED {
            first.add();
        }
        second.add();
        drop(first);
        // Other tests of the process take and give extents too.
        assert!(pool() <= MAX_POOLED);
        let again = second.add();
        // SAFETY: as above.
        unsafe { again.as_ptr().write_bytes(9, HUGE_PAGE) };
        assert_eq!(second.last(), Some(again));
        drop(second);
        let last = POOL.lock();
        assert!(last.owners > 0 || last.extents.is_empty(), "X2");
    }
}
