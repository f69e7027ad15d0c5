//! A piece of a file in memory: stores into it are in the page cache at once.
//!
//! Nothing is mapped that is not on the device: a store beyond what was allocated, or into a hole
//! when the device is full, would end the process (SIGBUS). So a window is allocated first. Then it is
//! filled with zeros by one call, which leaves large, dirty pages in the page cache, and touched for
//! writing, so that no store meets a page fault. Without those zeros the kernel would prepare
//! page by page, at five times the cost. A page that was written back meanwhile costs a fault again,
//! and cannot fail: its blocks are there.
//!
//! What a store promises when the process ends in the middle of it (see [`FileMode::mapped`]):
//! bytes become visible in the order of pieces, each of them in one [`MAPPED_UNIT`], and of a piece the first
//! eight bytes become visible last, at once. Those of a piece that another one continues come when that one is there
//! behind a veil.
//!
//! [`FileMode::mapped`]: crate::fs::FileMode::mapped

#![expect(
    unsafe_code,
    reason = "a mapping is memory that the language knows nothing of"
)]

use std::fs::File;
use std::ptr::NonNull;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use super::aligned_buffer::{ALIGNMENT, round_down};
use super::eintr::retry_on_eintr;
use super::write::write_fully;
use crate::fs::MAPPED_UNIT;
use crate::sync::{Ordering, fence};

/// The bytes of a unit that become visible last.
pub(super) const HEAD: usize = 8;

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// A part of a file that is mapped for writing, whole units of it.
pub(super) struct Window {
    start: NonNull<u8>,
    len: usize,
    /// Where in the file it begins.
    offset: u64,
}

// SAFETY: the memory belongs to the window alone, and any thread may unmap it.
unsafe impl Send for Window {}

impl Window {
    /// Allocates `len` bytes at `offset` of `file`, which hold nothing yet, fills them with zeros, and
    /// maps them. Both are multiples of [`MAPPED_UNIT`].
    pub(super) fn prepare(file: &File, offset: u64, len: usize) -> Result<Window, Errno> {
        assert!(
            offset.is_multiple_of(MAPPED_UNIT) && (len as u64).is_multiple_of(MAPPED_UNIT),
            "a window consists of whole units"
        );
        retry_on_eintr(|| fallocate(file, FallocateFlags::empty(), offset, len as u64))?;
        for from in (0..len).step_by(ZEROS.len()) {
            let now = ZEROS.len().min(len - from);
            write_fully(file, &ZEROS[..now], offset + from as u64, &mut 0)?;
        }
        let (access, shared) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: the kernel chooses the address, so that no other memory is replaced.
        let start = unsafe { mmap(std::ptr::null_mut(), len, access, shared, file, offset) }?;
        let start = NonNull::new(start.cast()).ok_or(Errno::NOMEM)?;
        let window = Window { start, len, offset };
        // SAFETY: the range is the mapping just made; its content does not change.
        unsafe { madvise(start.as_ptr().cast(), len, Advice::LinuxPopulateWrite) }?;
        Ok(window)
    }

    /// Which bytes of the file it holds.
    pub(super) fn range(&self) -> std::ops::Range<u64> {
        self.offset..self.end()
    }

    /// Offset in the file behind it.
    pub(super) fn end(&self) -> u64 {
        self.offset + self.len as u64
    }

    /// True if the byte at `offset` of the file lies in it.
    pub(super) fn holds(&self, offset: u64) -> bool {
        self.range().contains(&offset)
    }

    /// True if it begins at `offset`.
    pub(super) fn begins_at(&self, offset: u64) -> bool {
        self.offset == offset
    }

    /// Makes the pages from `from` to `to`, offsets in the file, writable again after they were written
    /// back; returns where the last of them ends.
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

    /// Stores `data`, which lies in one unit, at `offset` of the file.
    ///
    /// # Panics
    ///
    /// If the window does not hold that place, or if the data reach into another unit.
    #[inline]
    pub(super) fn store(&mut self, offset: u64, data: &[u8]) {
        let head = self.head(offset, data);
        self.copy_behind(&head, data);
        self.store_word(&head, data);
    }

    /// Stores `data` at `offset` of the file without their first eight bytes.
    ///
    /// # Panics
    ///
    /// As [`Window::store`].
    #[inline]
    pub(super) fn store_body(&mut self, offset: u64, data: &[u8]) {
        let head = self.head(offset, data);
        self.copy_behind(&head, data);
    }

    /// Stores the first eight bytes of `data` at `offset` of the file, of which all others are there.
    ///
    /// # Panics
    ///
    /// As [`Window::store`].
    #[inline]
    pub(super) fn publish(&mut self, offset: u64, data: &[u8]) {
        let head = self.head(offset, data);
        self.store_word(&head, data);
    }

    /// Stores what comes behind the `head` of `data`.
    #[inline]
    fn copy_behind(&mut self, head: &Head, data: &[u8]) {
        let rest = &data[head.len..];
        // SAFETY: `at .. at + data.len()` lies in one unit of the mapping, as `Window::head` asserts. The mapping is valid
        // until `drop`; all of it is allocated in the file, so that no access faults for good. `self` is
        // borrowed mutably, so no other thread stores here, and nobody has references into the mapping.
        // `data` is ordinary memory, which a fresh mapping never overlaps.
        unsafe {
            let start = self.start.as_ptr().add(head.at + head.len);
            std::ptr::copy_nonoverlapping(rest.as_ptr(), start, rest.len());
        }
    }

    /// Stores the `head` of `data`.
    #[inline]
    fn store_word(&mut self, head: &Head, data: &[u8]) {
        let &Head { at, word, len } = head;
        // SAFETY: `word .. word + 8` lies in the unit of `at`, because windows consist of whole units; for the rest see
        // `copy_behind`.
        unsafe {
            let word_at = self.start.as_ptr().add(word).cast::<[u8; HEAD]>();
            let mut bytes = word_at.read();
            bytes[at - word..at - word + len].copy_from_slice(&data[..len]);
            // Whoever sees the head sees all behind it: readers of the file, and recovery.
            fence(Ordering::Release);
            // One store of the machine: the process ends before it or behind it.
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
        // The last bytes of a unit have no eight behind them: the word then begins before them.
        let word = at.min(unit_end - HEAD);
        Head {
            at,
            word,
            len: (HEAD - (at - word)).min(len),
        }
    }
}

/// The first bytes of a piece, and the word that has them.
struct Head {
    /// Where in the window the piece begins.
    at: usize,
    /// Where the word does.
    word: usize,
    /// How many bytes of the piece it has.
    len: usize,
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: the mapping is the window's own, and nothing points into it any more.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "a mapping of ours can be unmapped");
    }
}
