//! Reserved address space whose memory is returned to the kernel page by page.
//!
//! A region keeps its addresses for as long as it exists: reading a page that was given back yields zeros and never a
//! fault. Allocators offer no such guarantee for memory that is freed.

#![expect(
    unsafe_code,
    reason = "memory of the kernel is pointers, and advice about it takes an address"
)]

use std::ptr::NonNull;

/// The size of a page of memory, in bytes.
#[must_use]
pub fn page_size() -> usize {
    rustix::param::page_size()
}

/// A range of addresses that belongs to this value, readable and writable, zero at first.
///
/// Untouched pages occupy no memory. Pages are of the ordinary size: a large page would bring the memory around a
/// touched byte with it.
#[derive(Debug)]
pub struct Region {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory belongs to the value, and any thread may give it back.
unsafe impl Send for Region {}
// SAFETY: without `unsafe` code of its own no caller reaches the memory through a reference.
unsafe impl Sync for Region {}

impl Region {
    /// Reserves `len` bytes, a multiple of [`page_size`]. Returns `None` if the kernel refuses.
    #[must_use]
    pub fn reserve(len: usize) -> Option<Region> {
        let start = memory::map(len)?;
        Some(Region { start, len })
    }

    /// The first byte, on a page boundary. The memory is valid as long as the region exists.
    #[inline]
    #[must_use]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The number of bytes.
    #[inline]
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a region is never empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the memory of `len` bytes from `offset` on to the kernel; both are multiples of [`page_size`]. The bytes
    /// read as zeros afterwards. The kernel refuses for locked memory (`mlock`), which then stays as it is.
    ///
    /// # Safety
    ///
    /// The range lies in the region, and no object in it is used any more, except that any of its bytes may be read.
    pub unsafe fn give_back(&self, offset: usize, len: usize) {
        debug_assert!(offset + len <= self.len, "the range lies in the region");
        // SAFETY: the range is part of the mapping; the rest is the caller's promise.
        unsafe { memory::give_back(self.start.add(offset), len) };
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to the value, whole.
        unsafe { memory::unmap(self.start, self.len) };
    }
}

#[cfg(not(miri))]
mod memory {
    use std::ptr::{self, NonNull};

    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    pub(super) fn map(len: usize) -> Option<NonNull<u8>> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address, so that no other memory is replaced.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), len, access, MapFlags::PRIVATE) };
        let start = NonNull::new(start.ok()?)?;
        // SAFETY: the range is the mapping of just now. A kernel without large pages refuses the advice, and has no
        // use for it.
        let _advice = unsafe { madvise(start.as_ptr(), len, Advice::LinuxNoHugepage) };
        Some(start.cast())
    }

    /// # Safety
    ///
    /// The range is part of a mapping of [`map`], and nothing in it is needed.
    pub(super) unsafe fn give_back(start: NonNull<u8>, len: usize) {
        // SAFETY: promised by the caller.
        let _refused = unsafe { madvise(start.as_ptr().cast(), len, Advice::LinuxDontNeed) };
    }

    /// # Safety
    ///
    /// The range is a mapping of [`map`], and nobody uses it any more.
    pub(super) unsafe fn unmap(start: NonNull<u8>, len: usize) {
        // SAFETY: promised by the caller. It fails where the process has as many mappings as it may have; then the
        // memory stays mapped.
        let _ = unsafe { munmap(start.as_ptr().cast(), len) };
    }
}

/// Miri has no kernel behind it.
#[cfg(miri)]
mod memory {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::ptr::NonNull;

    fn layout(len: usize) -> Option<Layout> {
        Layout::from_size_align(len, super::page_size()).ok()
    }

    pub(super) fn map(len: usize) -> Option<NonNull<u8>> {
        assert!(len > 0, "a region is never empty");
        // SAFETY: the layout has a size above zero.
        NonNull::new(unsafe { alloc_zeroed(layout(len)?) })
    }

    /// # Safety
    ///
    /// The range is part of memory of [`map`], and nothing in it is needed.
    pub(super) unsafe fn give_back(start: NonNull<u8>, len: usize) {
        // SAFETY: promised by the caller.
        unsafe { start.write_bytes(0, len) };
    }

    /// # Safety
    ///
    /// The range is memory of [`map`], and nobody uses it any more.
    pub(super) unsafe fn unmap(start: NonNull<u8>, len: usize) {
        if let Some(layout) = layout(len) {
            // SAFETY: allocated with this layout.
            unsafe { dealloc(start.as_ptr(), layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_given_back_reads_as_zeros_and_is_usable_again() {
        let page = page_size();
        let region = Region::reserve(4 * page).expect("there is address space");
        let start = region.start().as_ptr();
        assert!(start.addr().is_multiple_of(page));
        assert_eq!(region.len(), 4 * page);
        // SAFETY: all offsets lie in the region, which belongs to this test.
        unsafe {
            for number in 0..4 {
                assert_eq!(*start.add(number * page), 0);
                start.add(number * page).write(7);
            }
            region.give_back(page, 2 * page);
            let seen: Vec<u8> = (0..4).map(|number| *start.add(number * page)).collect();
            assert_eq!(seen, [7, 0, 0, 7]);
            start.add(page).write(8);
            assert_eq!(*start.add(page), 8);
        }
    }
}
