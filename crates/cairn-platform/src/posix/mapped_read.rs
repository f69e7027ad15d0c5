//! A file in memory for reading: bytes are copied out of a mapping, without a call of the system.
//!
//! Nobody gets a reference into the mapping. Its bytes are the file's, which other processes can change,
//! and the language knows no memory that changes by itself; a copy may hold what was there before and
//! after such a change, as that of a call may, and checksums are for that.
//!
//! A load that the file cannot serve, because the device fails or somebody has cut the file, ends the
//! process (SIGBUS). So no page is loaded before a call brought it in, once: that call says what a
//! load could not, and the read is then made by a call too, which names the error. Left is a page that
//! the kernel dropped from memory and cannot get again, or that was cut off behind its first use. Who
//! maps files accepts that, as with RocksDB.

#![expect(
    unsafe_code,
    reason = "a mapping is memory that the language knows nothing of"
)]

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
    /// A bit for each page: whether a call brought it in.
    brought: Box<[AtomicU64]>,
}

// SAFETY: the memory is only read, and any thread may unmap it.
unsafe impl Send for Mapping {}
// SAFETY: the memory is only read; the bits are atomic.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// The first `len` bytes of `file`, which has at least as many; at least one.
    pub(super) fn of(file: &File, len: usize) -> Result<Mapping, Errno> {
        let (access, shared) = (ProtFlags::READ, MapFlags::SHARED);
        // SAFETY: the kernel chooses the address, so that no other memory is replaced.
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

    /// Copies the bytes at `offset` into `buf`, if all of them are mapped and can be brought in.
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
        // `drop`. `buf` is ordinary memory, which no mapping overlaps. No reference into the mapping is
        // made, so that nobody relies on bytes that do not change.
        unsafe {
            std::ptr::copy_nonoverlapping(self.start.as_ptr().add(at), buf.as_mut_ptr(), buf.len());
        }
        true
    }

    // Relaxed, here and below: a bit guards no memory. At worst a page is brought in twice.
    fn is_brought(&self, page: usize) -> bool {
        self.brought[page / 64].load(Ordering::Relaxed) >> (page % 64) & 1 == 1
    }

    /// Brings the pages from `first` to `last` in.
    fn bring(&self, first: usize, last: usize) -> Result<(), Errno> {
        let len = (last + 1 - first) * self.page;
        let result = retry_on_eintr(|| {
            // SAFETY: the pages lie in the mapping, the last of them perhaps in part; their content
            // does not change.
            unsafe {
                let start = self.start.as_ptr().add(first * self.page).cast();
                madvise(start, len, Advice::LinuxPopulateRead)
            }
        });
        match result {
            // A kernel before 5.14 does not know the call; there a load brings the page in.
            Ok(()) | Err(Errno::INVAL | Errno::NOSYS) => {}
            Err(errno) => return Err(errno),
        }
        for page in first..=last {
            self.brought[page / 64].fetch_or(1 << (page % 64), Ordering::Relaxed);
        }
        Ok(())
    }

    /// Tells the kernel in what manner the file will be read. A hint.
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
        // SAFETY: the mapping is ours, and nothing points into it any more.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "a mapping of ours can be unmapped");
    }
}
