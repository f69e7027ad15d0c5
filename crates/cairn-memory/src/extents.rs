//! The large pages that arenas cut their chunks from, and those that wait for the next arena.
//!
//! A page that comes from the kernel is cleared by it, which takes as long as filling it: an eighth of a
//! sequential load. So the memtables of a process hand their pages on. What waits is at most
//! [`MOST_KEPT`] pages, and nothing at all while no arena has a page.
//!
//! Invariants:
//!
//! X1. An extent belongs to one arena, or waits here; only then may it be freed.
//! X2. `owners` counts the arenas that have extents; with none nothing waits.
#![expect(
    unsafe_code,
    reason = "raw memory with a lifetime that the borrow checker cannot see"
)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use cairn_platform::huge::{HUGE_PAGE, prefer_huge_pages};
use cairn_platform::sync::Mutex;

/// How many extents wait at most: 32 MiB, half of a memtable of the default size.
const MOST_KEPT: usize = 16;

const LAYOUT: Layout = match Layout::from_size_align(HUGE_PAGE, HUGE_PAGE) {
    Ok(layout) => layout,
    Err(_) => panic!("a large page is a valid layout"),
};

static WAITING: Mutex<Waiting> = Mutex::new(Waiting {
    extents: Vec::new(),
    owners: 0,
});

struct Waiting {
    extents: Vec<Extent>,
    owners: usize,
}

/// A large page, with anything in it. Whoever drops it without [`Extents`] leaks it.
struct Extent(NonNull<u8>);

// SAFETY: an extent is memory that one owner has (X1).
unsafe impl Send for Extent {}

impl Extent {
    fn new() -> Extent {
        // SAFETY: the layout has a size above zero.
        let base = unsafe { alloc(LAYOUT) };
        let base = NonNull::new(base).unwrap_or_else(|| handle_alloc_error(LAYOUT));
        prefer_huge_pages(base, HUGE_PAGE);
        Extent(base)
    }

    fn free(self) {
        // SAFETY: allocated with this layout in `new`, and nobody else's (X1).
        unsafe { dealloc(self.0.as_ptr(), LAYOUT) };
    }
}

/// The extents of one arena.
#[derive(Default)]
pub(crate) struct Extents {
    all: Vec<Extent>,
}

impl Extents {
    /// The beginning of the last one.
    pub(crate) fn last(&self) -> Option<NonNull<u8>> {
        self.all.last().map(|extent| extent.0)
    }

    /// Where each begins.
    #[cfg(test)]
    pub(crate) fn starts(&self) -> Vec<NonNull<u8>> {
        self.all.iter().map(|extent| extent.0).collect()
    }

    /// Takes another one, of [`HUGE_PAGE`] bytes with anything in them.
    pub(crate) fn add(&mut self) -> NonNull<u8> {
        let mut waiting = WAITING.lock();
        waiting.owners += usize::from(self.all.is_empty());
        let kept = waiting.extents.pop();
        drop(waiting);
        let extent = kept.unwrap_or_else(Extent::new);
        let base = extent.0;
        self.all.push(extent);
        base
    }
}

impl Drop for Extents {
    /// Gives all of them up. Nobody uses them any more.
    fn drop(&mut self) {
        if self.all.is_empty() {
            return;
        }
        let mut waiting = WAITING.lock();
        waiting.owners -= 1;
        let room = match waiting.owners {
            0 => 0,
            _ => MOST_KEPT.saturating_sub(waiting.extents.len()),
        };
        let kept = self.all.len().min(room);
        waiting.extents.extend(self.all.drain(..kept));
        if waiting.owners == 0 {
            self.all.append(&mut waiting.extents);
        }
        // Freed after the lock is given back.
        drop(waiting);
        self.all.drain(..).for_each(Extent::free);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting() -> usize {
        WAITING.lock().extents.len()
    }

    #[test]
    fn extents_are_handed_on_while_somebody_has_some() {
        let mut first = Extents::default();
        let mut second = Extents::default();
        second.add();
        let one = first.add();
        // SAFETY: the extent is this test's.
        unsafe { one.as_ptr().write_bytes(7, HUGE_PAGE) };
        for _ in 0..2 * MOST_KEPT {
            first.add();
        }
        drop(first);
        // Other tests of the process take and give extents too.
        assert!(waiting() <= MOST_KEPT);
        let again = second.add();
        // SAFETY: as above.
        unsafe { again.as_ptr().write_bytes(9, HUGE_PAGE) };
        assert_eq!(second.last(), Some(again));
        drop(second);
        let last = WAITING.lock();
        assert!(last.owners > 0 || last.extents.is_empty(), "X2");
    }
}
