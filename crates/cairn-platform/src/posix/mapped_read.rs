//! Memory-mapped reads: bytes are copied out of a mapping, without a system call.
//!
//! References into the mapping are never handed out. Other processes may change the file, and Rust has no
//! concept of memory that changes by itself. A copy may mix content from before and after such a change, like
//! a read call; checksums detect that.
//!
//! A load that fails, because of a device error or because the file was truncated, kills the process
//! (SIGBUS). A page is therefore loaded only after a system call has faulted it in once. That call reports an
//! error where a load cannot, and the read is then repeated by a system call that returns the error. The
//! remaining risk is a page that the kernel evicts and cannot reread, or that is truncated after its first
//! use. It is accepted by enabling mapped reads, as in RocksDB.

#![expect(unsafe_code, reason = "mappings are raw pointers")]

use std::fs::File;
use std::ptr::NonNull;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use rustix::param::page_size;

use super::eintr::retry_on_eintr;
use crate::fs::Access;
use crate::sync::{AtomicU64, Ordering};

/// The first bytes of a file, mapped for reading.
pub(super) struct Mapping {
    start: NonNull<u8>,
    len: usize,
    page: usize,
    /// One bit per page: set once a system call has faulted it in.
    brought: Box<[AtomicU64]>,
}

// SAFETY: the memory is only read, and any thread may unmap it.
unsafe impl Send for Mapping {}
// SAFETY: the memory is only read; the bits are atomic.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes of `file`, which must have at least as many. `len` must not be 0.
    pub(super) fn of(file: &File, len: usize) -> Result<Mapping, Errno> {
        let (access, shared) = (ProtFlags::READ, MapFlags::SHARED);
        // SAFETY: the kernel chooses the address, so no other mapping is replaced.
        let start = unsafe { mmap(std::ptr::null_mut(), len, access, shared, file, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(Errno::NOMEM)?;
        let page = page_size();
        let words = len.div_ceil(page).div_ceil(64);
        Ok(Mapping {
            start,
            len,
            page,
            brought: (0..words).map(|_| AtomicU64::new(0)).collect(),
        })
    }

    /// Copies the bytes at `offset` into `buf`. Returns false if they are not all mapped, or cannot be
    /// faulted in.
    pub(super) fn copy(&self, offset: u64, buf: &mut [u8]) -> bool {
        let Some(at) = usize::try_from(offset).ok().filter(|&at| {
            let room = self.len.checked_sub(at);
            !buf.is_empty() && room.is_some_and(|room| buf.len() <= room)
        }) else {
            return false;
        };
        let (first, last) = (at / self.page, (at + buf.len() - 1) / self.page);
        if !(first..=last).all(|page| self.is_brought(page)) && self.bring(first, last).is_err() {
            return false;
        }
        // SAFETY: `at .. at + buf.len()` lies in the mapping, by the filter above, which is valid until
        // `drop`. `buf` is ordinary memory, which does not overlap a mapping. No reference into the mapping
        // is created, so nothing relies on its bytes being constant.
        unsafe {
            std::ptr::copy_nonoverlapping(self.start.as_ptr().add(at), buf.as_mut_ptr(), buf.len());
        }
        true
    }

    // Relaxed, here and below: a bit protects no memory. At worst a page is faulted in twice.
    fn is_brought(&self, page: usize) -> bool {
        self.brought[page / 64].load(Ordering::Relaxed) >> (page % 64) & 1 == 1
    }

    /// Faults in the pages from `first` to `last`.
    fn bring(&self, first: usize, last: usize) -> Result<(), Errno> {
        let len = (last + 1 - first) * self.page;
        let result = retry_on_eintr(|| {
            // SAFETY: the pages lie in the mapping, the last of them perhaps partially; their content does
            // not change.
            unsafe {
                let start = self.start.as_ptr().add(first * self.page).cast();
                madvise(start, len, Advice::LinuxPopulateRead)
            }
        });
        match result {
            // Kernels before 5.14 do not support the call; there the load faults the page in.
            Ok(()) | Err(Errno::INVAL | Errno::NOSYS) => {}
            Err(errno) => return Err(errno),
        }
        for page in first..=last {
            self.brought[page / 64].fetch_or(1 << (page % 64), Ordering::Relaxed);
        }
        Ok(())
    }

    /// Advises the kernel of the access pattern. A hint.
    pub(super) fn advise(&self, access: Access) {
        let advice = match access {
            Access::Normal => Advice::Normal,
            Access::Random => Advice::Random,
            Access::Sequential => Advice::Sequential,
        };
        // SAFETY: the range is the mapping; its content does not change.
        let _ = unsafe { madvise(self.start.as_ptr().cast(), self.len, advice) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is owned, and no pointer into it exists.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "an owned mapping can be unmapped");
    }
}
