//! Huge pages, for memory with random accesses.
//!
//! Huge pages are mapped from the kernel rather than allocated. An allocator takes twice the size to align such a
//! block, and cannot reuse a freed one for the next, as other allocations are placed in between: memory would
//! grow to a multiple of the pages in use (glibc: 210 MB for two memtables of 64 MB). A page freed here is
//! returned to the system immediately.

#![expect(
    unsafe_code,
    reason = "mappings are raw pointers, and madvise takes an address"
)]

use std::alloc::{Layout, handle_alloc_error};
use std::ptr::NonNull;

/// The size and alignment of a huge page.
pub const HUGE_PAGE: usize = 2 << 20;

/// [`HUGE_PAGE`] bytes with that alignment, zeroed initially.
///
/// The kernel is advised to back them by one huge page, which saves a third of the cost of a cache miss. All
/// of the memory then becomes resident.
#[derive(Debug)]
pub struct HugePage(NonNull<u8>);

// SAFETY: the value owns the memory, and any thread may unmap it.
unsafe impl Send for HugePage {}
// SAFETY: a shared reference gives access to the memory only through the caller's own `unsafe` code.
unsafe impl Sync for HugePage {}

impl HugePage {
    /// Maps a page. Aborts like a failed allocation if there is no memory.
    #[must_use]
    pub fn new() -> HugePage {
        let Some(base) = memory::take() else {
            let layout = Layout::from_size_align(HUGE_PAGE, HUGE_PAGE);
            handle_alloc_error(layout.unwrap_or(Layout::new::<u8>()));
        };
        HugePage(base)
    }

    /// Maps the memory of a page with small pages, which become resident one by one.
    #[must_use]
    pub(crate) fn of_small_pages() -> HugePage {
        let page = HugePage::new();
        memory::use_small_pages(&page);
        page
    }

    /// Maps a page and populates it, so that the first writer does not wait for the kernel to allocate and
    /// clear it, which takes a fraction of a millisecond, and many milliseconds if memory is fragmented.
    #[must_use]
    pub fn taken() -> HugePage {
        let page = HugePage::new();
        memory::touch(&page);
        page
    }

    /// The start of the page. Valid as long as the page.
    #[inline]
    #[must_use]
    pub fn base(&self) -> NonNull<u8> {
        self.0
    }
}

impl Default for HugePage {
    fn default() -> HugePage {
        HugePage::new()
    }
}

impl Drop for HugePage {
    fn drop(&mut self) {
        // SAFETY: the page was mapped in `new` as a whole, and no other reference to it exists.
        unsafe { memory::give_back(self.0) };
    }
}

/// Runs `work`, which prepares pages, on a background thread. Returns false if the thread cannot be started;
/// `work` then does not run.
#[must_use]
pub fn prepare_ahead(work: impl FnOnce() + Send + 'static) -> bool {
    // Miri reports threads that outlive a test as errors.
    !cfg!(miri) && super::background_worker::PAGES.submit(work)
}

#[cfg(not(miri))]
mod memory {
    use std::ptr::NonNull;

    use rustix::mm::{Advice, madvise};

    use super::super::anonymous::{map, unmap};
    use crate::posix::huge::{HUGE_PAGE, HugePage};

    /// Populates `page`.
    pub(super) fn touch(page: &HugePage) {
        let start = page.base().as_ptr().cast();
        // SAFETY: the range is the page, which stays mapped with its content. A kernel that does not support
        // the advice populates the page on first write.
        let _advice = unsafe { madvise(start, HUGE_PAGE, Advice::LinuxPopulateWrite) };
    }

    /// Excludes `page` from huge pages.
    pub(super) fn use_small_pages(page: &HugePage) {
        let start = page.base().as_ptr().cast();
        // SAFETY: the range is the page; the advice changes neither the mapping nor its content. A kernel without
        // huge pages rejects the advice, which then has no effect.
        let _advice = unsafe { madvise(start, HUGE_PAGE, Advice::LinuxNoHugepage) };
    }

    /// Maps [`HUGE_PAGE`] bytes with that alignment.
    pub(super) fn take() -> Option<NonNull<u8>> {
        // The kernel places mappings of this length next to each other, so that the first attempt is usually
        // aligned.
        let start = map(HUGE_PAGE)?;
        let start = match start.as_ptr().addr().is_multiple_of(HUGE_PAGE) {
            true => start,
            false => {
                // SAFETY: just mapped, and not in use.
                unsafe { unmap(start, HUGE_PAGE) };
                aligned()?
            }
        };
        // SAFETY: the range is the mapping; the advice changes neither the mapping nor its content. A hint:
        // normal pages are slower, but correct.
        let _hint = unsafe { madvise(start.as_ptr().cast(), HUGE_PAGE, Advice::LinuxHugepage) };
        Some(start)
    }

    /// Maps twice the length and unmaps the rest.
    fn aligned() -> Option<NonNull<u8>> {
        let whole = map(2 * HUGE_PAGE)?;
        let before = whole.as_ptr().align_offset(HUGE_PAGE);
        // SAFETY: `before` is less than `HUGE_PAGE`, so the page and the unmapped ranges around it lie within
        // the new mapping, which is not in use.
        unsafe {
            let start = whole.add(before);
            unmap(whole, before);
            unmap(start.add(HUGE_PAGE), HUGE_PAGE - before);
            Some(start)
        }
    }

    /// # Safety
    ///
    /// `page` must be from [`take`] and not be in use.
    pub(super) unsafe fn give_back(page: NonNull<u8>) {
        // SAFETY: the caller's contract.
        unsafe { unmap(page, HUGE_PAGE) };
    }
}

/// Miri does not support mappings.
#[cfg(miri)]
mod memory {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::ptr::NonNull;

    use crate::posix::huge::{HUGE_PAGE, HugePage};

    /// Does nothing.
    pub(super) fn touch(_page: &HugePage) {}

    /// Does nothing.
    pub(super) fn use_small_pages(_page: &HugePage) {}

    const LAYOUT: Layout = match Layout::from_size_align(HUGE_PAGE, HUGE_PAGE) {
        Ok(layout) => layout,
        Err(_) => panic!("a huge page is a valid layout"),
    };

    pub(super) fn take() -> Option<NonNull<u8>> {
        // SAFETY: the size of the layout is not zero.
        NonNull::new(unsafe { alloc_zeroed(LAYOUT) })
    }

    /// # Safety
    ///
    /// `page` must be from [`take`] and not be in use.
    pub(super) unsafe fn give_back(page: NonNull<u8>) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(page.as_ptr(), LAYOUT) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_aligned_disjoint_and_zeroed() {
        let count = if cfg!(miri) { 3 } else { 40 };
        let mut pages: Vec<HugePage> = Vec::new();
        for round in 0..count {
            let page = match round % 2 {
                0 => HugePage::new(),
                _ => HugePage::taken(),
            };
            let at = page.base().as_ptr();
            assert!(at.addr().is_multiple_of(HUGE_PAGE));
            // SAFETY: the page is exclusive to this test.
            unsafe {
                assert_eq!([*at, *at.add(HUGE_PAGE - 1)], [0, 0]);
                at.write(round);
                at.add(HUGE_PAGE - 1).write(round);
            }
            pages.push(page);
            // Leaves holes for the following pages.
            if round % 3 == 1 {
                pages.swap_remove(0);
            }
        }
        let mut starts: Vec<usize> = pages
            .iter()
            .map(|page| page.base().as_ptr().addr())
            .collect();
        starts.sort_unstable();
        assert!(starts.windows(2).all(|two| two[0] + HUGE_PAGE <= two[1]));
        for page in pages {
            let at = page.base().as_ptr();
            // SAFETY: as above.
            unsafe { assert_eq!(*at, *at.add(HUGE_PAGE - 1)) };
        }
    }
}
