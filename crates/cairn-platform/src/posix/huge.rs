//! Large pages for memory that is reached here and there.

#![expect(unsafe_code, reason = "advice about memory takes an address")]

use std::ptr::NonNull;

use rustix::mm::{Advice, madvise};

/// Bytes of a large page, and what its address is a multiple of.
pub const HUGE_PAGE: usize = 2 << 20;

/// Asks the kernel to back `len` bytes at `start` by large pages where it can: a miss of the
/// processor's caches then costs two thirds. A hint; the memory is touched in units of
/// [`HUGE_PAGE`] from then on.
pub fn prefer_huge_pages(start: NonNull<u8>, len: usize) {
    if cfg!(miri) {
        return;
    }
    // SAFETY: this advice changes neither what is mapped nor what it holds, whatever the range is.
    let _hint = unsafe { madvise(start.as_ptr().cast(), len, Advice::LinuxHugepage) };
}
