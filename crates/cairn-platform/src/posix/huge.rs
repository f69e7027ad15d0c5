//! Large pages for memory that is reached here and there.
//!
//! They come from the kernel and not from the allocator. An allocator that aligns memory to so much cuts
//! it out of twice as much, and cannot put a page that comes back into the place that it left for the next
//! one: what other memory lies between then grows to a multiple of the pages in use (glibc: 210 MB for two memtables
//! of 64 MB). A page that is given back here is the system's again at once.

#![expect(
    unsafe_code,
    reason = "memory of the kernel is pointers, and advice about it takes an address"
)]

use std::alloc::{Layout, handle_alloc_error};
use std::ptr::NonNull;

/// Bytes of a large page, and what its address is a multiple of.
pub const HUGE_PAGE: usize = 2 << 20;

/// [`HUGE_PAGE`] bytes at an address that is a multiple of it: zeros at first, anybody's to use who has this.
///
/// The kernel is asked to back them by one page where it can: a miss of the processor's caches then
/// costs two thirds. The memory is touched as a whole then.
#[derive(Debug)]
pub struct HugePage(NonNull<u8>);

// SAFETY: the memory belongs to the value, and any thread may give it back.
unsafe impl Send for HugePage {}
// SAFETY: without `unsafe` code of its own nobody gets at the memory through a reference.
unsafe impl Sync for HugePage {}

impl HugePage {
    /// A page of the kernel's. If there is no memory, the process ends as if the allocator had none.
    #[must_use]
    pub fn new() -> HugePage {
        let Some(base) = memory::take() else {
            let layout = Layout::from_size_align(HUGE_PAGE, HUGE_PAGE);
            handle_alloc_error(layout.unwrap_or(Layout::new::<u8>()));
        };
        HugePage(base)
    }

    /// The same with all of its memory taken from the kernel: whoever writes to it first does not wait for the
    /// kernel to find and clear it, which takes a fraction of a millisecond, and many where memory is scattered.
    #[must_use]
    pub fn taken() -> HugePage {
        let page = HugePage::new();
        memory::touch(&page);
        page
    }

    /// Where it begins. The memory is valid as long as the page is.
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
        // SAFETY: the page was taken in `new`, whole, and nobody else has it.
        unsafe { memory::give_back(self.0) };
    }
}

/// Has `work`, which prepares pages, done by a thread of the process. `false` if there is none: then it will not
/// be done.
#[must_use]
pub fn prepare_ahead(work: impl FnOnce() + Send + 'static) -> bool {
    // Miri counts threads that outlive a test as mistakes.
    !cfg!(miri) && super::background_worker::PAGES.ask(work)
}

#[cfg(not(miri))]
mod memory {
    use std::ptr::NonNull;

    use rustix::mm::{Advice, madvise};

    use super::super::anonymous::{map, unmap};
    use super::{HUGE_PAGE, HugePage};

    /// Has the kernel back all of `page`.
    pub(super) fn touch(page: &HugePage) {
        let start = page.base().as_ptr().cast();
        // SAFETY: the range is the page; it stays mapped, and keeps what it holds. A kernel that does not know
        // the advice backs the page when it is written to.
        let _advice = unsafe { madvise(start, HUGE_PAGE, Advice::LinuxPopulateWrite) };
    }

    /// A mapping of [`HUGE_PAGE`] bytes that begins at a multiple of it.
    pub(super) fn take() -> Option<NonNull<u8>> {
        // The kernel puts mappings of this length beside each other, so that the first attempt mostly lies
        // as it should.
        let start = map(HUGE_PAGE)?;
        let start = match start.as_ptr().addr().is_multiple_of(HUGE_PAGE) {
            true => start,
            false => {
                // SAFETY: mapped just now, and nobody's else.
                unsafe { unmap(start, HUGE_PAGE) };
                aligned()?
            }
        };
        // SAFETY: the range is the mapping; advice changes neither what is mapped nor what it holds.
        // A hint: pages of the usual size are slower and nothing else.
        let _hint = unsafe { madvise(start.as_ptr().cast(), HUGE_PAGE, Advice::LinuxHugepage) };
        Some(start)
    }

    /// The same out of a mapping of twice the length.
    fn aligned() -> Option<NonNull<u8>> {
        let whole = map(2 * HUGE_PAGE)?;
        let before = whole.as_ptr().align_offset(HUGE_PAGE);
        // SAFETY: `before` is less than `HUGE_PAGE`, so that the page and what is unmapped around it
        // lie in the mapping of just now, which is nobody's else.
        unsafe {
            let start = whole.add(before);
            unmap(whole, before);
            unmap(start.add(HUGE_PAGE), HUGE_PAGE - before);
            Some(start)
        }
    }

    /// # Safety
    ///
    /// `page` is of [`take`], and nobody uses it any more.
    pub(super) unsafe fn give_back(page: NonNull<u8>) {
        // SAFETY: promised by the caller.
        unsafe { unmap(page, HUGE_PAGE) };
    }
}

/// Miri has no kernel behind it.
#[cfg(miri)]
mod memory {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::ptr::NonNull;

    use super::{HUGE_PAGE, HugePage};

    /// Nothing is to be done.
    pub(super) fn touch(_page: &HugePage) {}

    const LAYOUT: Layout = match Layout::from_size_align(HUGE_PAGE, HUGE_PAGE) {
        Ok(layout) => layout,
        Err(_) => panic!("a large page is a valid layout"),
    };

    pub(super) fn take() -> Option<NonNull<u8>> {
        // SAFETY: the layout has a size above zero.
        NonNull::new(unsafe { alloc_zeroed(LAYOUT) })
    }

    /// # Safety
    ///
    /// `page` is of [`take`], and nobody uses it any more.
    pub(super) unsafe fn give_back(page: NonNull<u8>) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(page.as_ptr(), LAYOUT) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_aligned_apart_and_zero_at_first() {
        let count = if cfg!(miri) { 3 } else { 40 };
        let mut pages: Vec<HugePage> = Vec::new();
        for round in 0..count {
            let page = match round % 2 {
                0 => HugePage::new(),
                _ => HugePage::taken(),
            };
            let at = page.base().as_ptr();
            assert!(at.addr().is_multiple_of(HUGE_PAGE));
            // SAFETY: the page is this test's, whole.
            unsafe {
                assert_eq!([*at, *at.add(HUGE_PAGE - 1)], [0, 0]);
                at.write(round);
                at.add(HUGE_PAGE - 1).write(round);
            }
            pages.push(page);
            // Leaves holes for those that follow.
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
