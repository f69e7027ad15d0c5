//! Reserved address space whose memory is returned to the kernel page by page.
//!
//! A region keeps its addresses for as long as it exists: a read of a page that was returned yields zeros and never faults.
//! Allocators give no such guarantee for freed memory.

#![expect(
    unsafe_code,
    reason = "mappings are raw pointers, and madvise takes an address"
)]

use std::ptr::NonNull;

/// The size of a page of memory, in bytes.
#[must_use]
pub fn page_size() -> usize {
    rustix::param::page_size()
}

/// An owned range of addresses, readable, writable and initially zero.
///
/// Untouched pages occupy no memory. Huge pages are disabled: one would make the memory around a touched byte resident
/// too.
#[derive(Debug)]
pub struct Region {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the value owns the mapping, and any thread may unmap it.
unsafe impl Send for Region {}
// SAFETY: a shared reference gives access to the memory only through the caller's own `unsafe` code.
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
    /// The range lies in the region and holds no live object. Its bytes may still be read.
    pub unsafe fn give_back(&self, offset: usize, len: usize) {
        debug_assert!(offset + len <= self.len, "the range lies in the region");
        // SAFETY: the range is part of the mapping; the caller promises that it holds no live object.
        unsafe { memory::give_back(self.start.add(offset), len) };
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the value owns the whole mapping.
        unsafe { memory::unmap(self.start, self.len) };
    }
}

/// The mappings of regions. Memory of the allocator under Miri, which does not support mappings.
#[cfg(not(miri))]
pub(super) mod memory {
    use std::ptr::NonNull;

    use rustix::io::Errno;
    use rustix::mm::{Advice, madvise};

    use super::super::anonymous;
    pub(in super::super) use super::super::anonymous::unmap;

    pub(in super::super) fn map(len: usize) -> Option<NonNull<u8>> {
        let start = anonymous::map(len)?;
        // SAFETY: the range is the new mapping. A kernel without large pages rejects the advice, which then has no
        // effect.
        let _advice = unsafe { madvise(start.as_ptr().cast(), len, Advice::LinuxNoHugepage) };
        Some(start)
    }

    /// # Safety
    ///
    /// The range is part of a mapping of [`map`], and its contents are not needed.
    pub(in super::super) unsafe fn give_back(start: NonNull<u8>, len: usize) {
        // SAFETY: promised by the caller.
        let _refused = unsafe { madvise(start.as_ptr().cast(), len, Advice::LinuxDontNeed) };
    }

    /// Excludes a range from core dumps of the process.
    ///
    /// # Safety
    ///
    /// The range is part of a mapping.
    pub(in super::super) unsafe fn exclude_from_core_dumps(
        start: NonNull<u8>,
        len: usize,
    ) -> Result<(), Errno> {
        // SAFETY: promised by the caller. The advice changes neither the mapping nor its content.
        unsafe { madvise(start.as_ptr().cast(), len, Advice::LinuxDontDump) }
    }
}

#[cfg(miri)]
pub(super) mod memory {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::ptr::NonNull;

    use rustix::io::Errno;

    fn layout(len: usize) -> Option<Layout> {
        Layout::from_size_align(len, crate::posix::region::page_size()).ok()
    }

    pub(in super::super) fn map(len: usize) -> Option<NonNull<u8>> {
        assert!(len > 0, "a region is never empty");
        // SAFETY: the layout has a size above zero.
        NonNull::new(unsafe { alloc_zeroed(layout(len)?) })
    }

    /// # Safety
    ///
    /// The range is part of memory of [`map`], and its contents are not needed.
    pub(in super::super) unsafe fn give_back(start: NonNull<u8>, len: usize) {
        // SAFETY: promised by the caller.
        unsafe { start.write_bytes(0, len) };
    }

    /// Does nothing: Miri writes no core dumps.
    ///
    /// # Safety
    ///
    /// None.
    pub(in super::super) unsafe fn exclude_from_core_dumps(
        _start: NonNull<u8>,
        _len: usize,
    ) -> Result<(), Errno> {
        Ok(())
    }

    /// # Safety
    ///
    /// The range is memory of [`map`], and nothing uses it any more.
    pub(in super::super) unsafe fn unmap(start: NonNull<u8>, len: usize) {
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
    fn released_pages_read_as_zeros_and_are_reusable() {
        let page = page_size();
        let region = Region::reserve(4 * page).expect("there is address space");
        let start = region.start().as_ptr();
        assert!(start.addr().is_multiple_of(page));
        assert_eq!(region.len(), 4 * page);
        // SAFETY: all offsets lie in the region, which this test owns.
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
