//! A writable mapping of a part of a file: stores into it are in the page cache immediately.
//!
//! A store beyond the allocated blocks, or into a hole while the device is full, would kill the process
//! (SIGBUS). So the range is allocated before it is mapped. It is then filled with zeros by one call, which
//! creates large, dirty pages in the page cache, and populated for writing, so that stores cause no page
//! faults. Without the zeros the kernel would prepare each page separately, at five times the cost. A page
//! that was written back meanwhile causes another fault, which cannot fail: its blocks are allocated.
//!
//! Guarantees if the process ends in the middle of a store (see [`FileMode::mapped`]): pieces become visible
//! in order, each within one [`MAPPED_UNIT`], and the first eight bytes of a piece become visible last and
//! atomically. For a piece that is continued by another, they become visible only once that one is present
//! behind its veil.
//!
//! [`FileMode::mapped`]: crate::fs::FileMode::mapped

#![expect(unsafe_code, reason = "mappings are raw pointers")]

use std::fs::File;
use std::ptr::NonNull;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use super::aligned_buffer::{ALIGNMENT, round_down};
use super::process::Process;
use super::write::{reserve, write_fully};
use crate::fs::MAPPED_UNIT;
use crate::sync::{Ordering, fence};

/// The number of bytes at the start of a piece that become visible last.
pub(super) const HEAD: usize = 8;

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// A part of a file that is mapped for writing, in whole units. A forked child does not have the mapping: it would keep the
/// lease on the file.
pub(super) struct Window {
    /// The process with the mapping.
    process: Process,
    start: NonNull<u8>,
    len: usize,
    /// The offset of the window in the file.
    offset: u64,
}

// SAFETY: the window owns the memory, and any thread may unmap it.
unsafe impl Send for Window {}

impl Window {
    /// The length in bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Allocates `len` bytes at `offset` of `file`, which must be unused, fills them with zeros, and maps
    /// them. Both must be multiples of [`MAPPED_UNIT`].
    pub(super) fn prepare(file: &File, offset: u64, len: usize) -> Result<Window, Errno> {
        assert!(
            offset.is_multiple_of(MAPPED_UNIT) && (len as u64).is_multiple_of(MAPPED_UNIT),
            "a window has whole units"
        );
        reserve(file, FallocateFlags::empty(), offset, len as u64)?;
        for from in (0..len).step_by(ZEROS.len()) {
            let now = ZEROS.len().min(len - from);
            write_fully(file, &ZEROS[..now], offset + from as u64, &mut 0)?;
        }
        let (access, shared) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: the kernel chooses the address, so no other mapping is replaced.
        let start = unsafe { mmap(std::ptr::null_mut(), len, access, shared, file, offset) }?;
        let start = NonNull::new(start.cast()).ok_or(Errno::NOMEM)?;
        let window = Window {
            process: Process::this(),
            start,
            len,
            offset,
        };
        // SAFETY: the range is the new mapping; its content does not change. A child does not access it, because
        // `MappedWriter` checks the process of its file.
        unsafe {
            madvise(start.as_ptr().cast(), len, Advice::LinuxDontFork)?;
            madvise(start.as_ptr().cast(), len, Advice::LinuxPopulateWrite)?;
        }
        Ok(window)
    }

    /// The range of the file that is mapped.
    pub(super) fn range(&self) -> std::ops::Range<u64> {
        self.offset..self.end()
    }

    /// The end of the range.
    pub(super) fn end(&self) -> u64 {
        self.offset + self.len as u64
    }

    /// True if the byte at `offset` of the file is in the window.
    pub(super) fn holds(&self, offset: u64) -> bool {
        self.range().contains(&offset)
    }

    /// True if the window starts at `offset`.
    pub(super) fn begins_at(&self, offset: u64) -> bool {
        self.offset == offset
    }

    /// Makes the pages from `from` to `to`, offsets in the file, writable without faults after writeback.
    /// Returns the end of the last page.
    pub(super) fn touch(&self, from: u64, to: u64) -> Result<u64, Errno> {
        let first = round_down(from).max(self.offset);
        let end = round_down(to + ALIGNMENT as u64 - 1).min(self.end());
        assert!(first < end, "pages of the window are touched");
        let at = (first - self.offset) as usize;
        // SAFETY: the range lies in the mapping; its content does not change.
        unsafe {
            let start = self.start.as_ptr().add(at).cast();
            madvise(start, (end - first) as usize, Advice::LinuxPopulateWrite)?;
        }
        Ok(end)
    }

    /// Stores `data`, which lies within one unit, at `offset` of the file.
    ///
    /// # Panics
    ///
    /// If the range is outside the window or crosses a unit boundary.
    #[inline]
    pub(super) fn store(&mut self, offset: u64, data: &[u8]) {
        let head = self.head(offset, data);
        self.copy_behind(&head, data);
        self.store_word(&head, data);
    }

    /// Stores `data` at `offset` of the file, except for its first eight bytes.
    ///
    /// # Panics
    ///
    /// As [`Window::store`].
    #[inline]
    pub(super) fn store_body(&mut self, offset: u64, data: &[u8]) {
        let head = self.head(offset, data);
        self.copy_behind(&head, data);
    }

    /// Stores the first eight bytes of `data` at `offset` of the file, after all others were stored.
    ///
    /// # Panics
    ///
    /// As [`Window::store`].
    #[inline]
    pub(super) fn publish(&mut self, offset: u64, data: &[u8]) {
        let head = self.head(offset, data);
        self.store_word(&head, data);
    }

    /// Stores the part of `data` after its `head`.
    #[inline]
    fn copy_behind(&mut self, head: &Head, data: &[u8]) {
        let rest = &data[head.len..];
        // SAFETY: `at .. at + data.len()` lies in one unit of the mapping, as asserted by `Window::head`. The
        // mapping is valid until `drop`, and allocated in the file, so that no access faults permanently.
        // `self` is borrowed mutably, so no other thread stores here, and no references into the mapping
        // exist. `data` is ordinary memory, which does not overlap a mapping.
        unsafe {
            let start = self.start.as_ptr().add(head.at + head.len);
            std::ptr::copy_nonoverlapping(rest.as_ptr(), start, rest.len());
        }
    }

    /// Stores the `head` of `data`.
    #[inline]
    fn store_word(&mut self, head: &Head, data: &[u8]) {
        let &Head { at, word, len } = head;
        // SAFETY: `word .. word + 8` lies in the unit of `at`, because windows have whole units; otherwise as
        // in `copy_behind`.
        unsafe {
            let word_at = self.start.as_ptr().add(word).cast::<[u8; HEAD]>();
            let mut bytes = word_at.read();
            bytes[at - word..at - word + len].copy_from_slice(&data[..len]);
            // The head is visible only after the rest: to readers of the file, and to recovery.
            fence(Ordering::Release);
            // A single machine store: the process ends before or after it.
            word_at
                .cast::<u64>()
                .write_unaligned(u64::from_ne_bytes(bytes));
        }
    }

    /// The head of `data` at `offset` of the file.
    #[inline]
    fn head(&self, offset: u64, data: &[u8]) -> Head {
        let len = data.len();
        let at = offset.wrapping_sub(self.offset) as usize;
        assert!(
            offset >= self.offset && at <= self.len && len <= self.len - at,
            "a store stays in its window"
        );
        let unit = MAPPED_UNIT as usize;
        let unit_end = at - at % unit + unit;
        assert!(len <= unit_end - at, "a store stays in its unit");
        // The last bytes of a unit are followed by less than eight: the word then starts before them.
        let word = at.min(unit_end - HEAD);
        Head {
            at,
            word,
            len: (HEAD - (at - word)).min(len),
        }
    }
}

/// The first bytes of a piece, and the word that contains them.
struct Head {
    /// The offset of the piece in the window.
    at: usize,
    /// The offset of the word.
    word: usize,
    /// The number of bytes of the piece in the word.
    len: usize,
}

impl Drop for Window {
    fn drop(&mut self) {
        // A child may have mapped something else there.
        if !self.process.is_this() {
            return;
        }
        // SAFETY: the window owns the mapping, and no pointer into it exists.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "an owned mapping can be unmapped");
    }
}
