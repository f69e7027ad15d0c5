//! Anonymous mappings: memory from the kernel rather than the allocator.
#![expect(unsafe_code, reason = "mappings are raw pointers")]

use std::ptr::{self, NonNull};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Maps `len` bytes, readable, writable and zero. Returns `None` if the kernel refuses.
pub(super) fn map(len: usize) -> Option<NonNull<u8>> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel chooses the address, so no other mapping is replaced.
    let start = unsafe { mmap_anonymous(ptr::null_mut(), len, access, MapFlags::PRIVATE) };
    NonNull::new(start.ok()?.cast())
}

/// Unmaps `len` bytes from `start` on.
///
/// # Safety
///
/// [`map`] mapped the bytes, and nothing uses them any more.
pub(super) unsafe fn unmap(start: NonNull<u8>, len: usize) {
    if len > 0 {
        // SAFETY: promised by the caller. The call fails if the process has reached its limit of mappings; the
        // memory then stays mapped.
        let _ = unsafe { munmap(start.as_ptr().cast(), len) };
    }
}
