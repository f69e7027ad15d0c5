//! Shared, immutable buffers: blocks and values that were read or decompressed.
//!
//! A buffer consists of memory and a header (`header`), which counts references and doubles as a cache entry.
//! A cache stores the *number* of a header, returned by [`Buffer::publish`]. Its readers convert the number
//! to a buffer with [`Buffer::pin`], without a lock, even though the number may be stale.
//!
//! The bytes may be followed by a tail: data derived from them, in the same allocation. The allocation may be
//! longer than both, to leave room for a tail or because sizes are rounded (`slab`). All of it is memory of one kind
//! ([`MemoryKind`]).
//!
//! Invariant: the bytes visible through a buffer never change. A tail is written only to memory that is not
//! visible through any existing buffer.

#![expect(
    unsafe_code,
    reason = "buffers count their references in a header that outlives them"
)]

mod header;
mod hint;
pub(crate) mod pool;
mod slab;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
mod word;

use std::ops::Deref;
use std::ptr::NonNull;

pub use header::EntryNote;
use header::Header;
pub use hint::PrefetchHint;
pub(crate) use slab::Memory;
pub use slab::{BufferMemory, buffer_memory};

use crate::posix::memory_kind::MemoryKind;
use crate::{prefetch, prefetch_address};

/// A reference-counted, immutable buffer; see the module's documentation. Cloning increments the reference
/// count.
pub struct Buffer {
    header: &'static Header,
    /// The first byte of the header's memory.
    memory: NonNull<u8>,
    len: u32,
    tail: u32,
}

// SAFETY: the memory is only read through shared references, except where a reference count of one or the
// rules of `tail_in_place` exclude readers.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Clone for Buffer {
    #[inline]
    fn clone(&self) -> Buffer {
        self.header.retain();
        Buffer { ..*self }
    }
}

impl Drop for Buffer {
    #[inline]
    fn drop(&mut self) {
        self.header.release();
    }
}

/// The memory to allocate for a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocation {
    /// The kind of memory.
    pub kind: MemoryKind,
    /// The number of bytes to allocate for a tail, in addition to the bytes of the buffer; see
    /// [`Buffer::append_tail`].
    pub room: usize,
}

impl Allocation {
    /// Memory of `kind`, without room for a tail.
    #[must_use]
    pub fn of_kind(kind: MemoryKind) -> Allocation {
        Allocation { kind, room: 0 }
    }

    /// Ordinary memory with room for a tail of `room` bytes.
    #[must_use]
    pub fn with_room(room: usize) -> Allocation {
        Allocation {
            room,
            ..Allocation::default()
        }
    }

    /// Memory for a buffer of `len` bytes, with arbitrary content.
    fn memory(self, len: usize) -> Memory {
        pool::memory(len + self.room, self.kind)
    }
}

impl Buffer {
    /// The maximum length of a buffer.
    pub const MAX_LEN: usize = u32::MAX as usize;

    /// Copies `bytes`, at most [`Buffer::MAX_LEN`], to memory of `allocation`.
    #[must_use]
    pub fn copy_of(bytes: &[u8], allocation: Allocation) -> Buffer {
        let mut memory = allocation.memory(bytes.len());
        memory[..bytes.len()].copy_from_slice(bytes);
        Buffer::of(memory, bytes.len())
    }

    /// Copies the buffer to memory of `kind`.
    #[must_use]
    pub fn copied_to(&self, kind: MemoryKind) -> Buffer {
        self.copied_with(self.tail(), kind)
    }

    /// Copies the bytes of the buffer, and appends the tail `tail` instead of that of the buffer. The memory is of the
    /// same kind.
    #[must_use]
    pub fn with_tail(&self, tail: &[u8]) -> Buffer {
        self.copied_with(tail, self.memory_kind())
    }

    fn copied_with(&self, tail: &[u8], kind: MemoryKind) -> Buffer {
        let mut memory = pool::memory(self.bytes() + tail.len(), kind);
        let (first, rest) = memory.split_at_mut(self.bytes());
        first.copy_from_slice(self);
        rest[..tail.len()].copy_from_slice(tail);
        let mut buffer = Buffer::of(memory, self.bytes());
        buffer.tail = length(tail.len());
        buffer
    }

    /// Appends `tail` in place. Returns false if the buffer has a tail, there is not enough room, or there
    /// are more references to the buffer than this one and `others`, which only expose the bytes of this
    /// buffer.
    fn tail_in_place(&mut self, tail: &[u8], others: usize) -> bool {
        let fits = self.bytes() + tail.len() <= self.memory_usage();
        if self.tail > 0 || !fits || self.header.holders() > others + 1 {
            return false;
        }
        // SAFETY: the range is within the memory. Each reference shows only the first `len` bytes: those
        // that exist were counted, and later ones are clones of them or taken by `pin`, which shows the tail
        // once its length is published.
        unsafe {
            let place = self.memory.as_ptr().add(self.bytes());
            place.copy_from_nonoverlapping(tail.as_ptr(), tail.len());
        }
        self.tail = length(tail.len());
        true
    }

    /// Appends `tail` in place. Returns false if the buffer has a tail or is shared, or if there is not enough
    /// room.
    pub fn append_tail(&mut self, tail: &[u8]) -> bool {
        self.tail_in_place(tail, 0)
    }

    /// True if both share the same memory.
    #[must_use]
    pub fn is_same(&self, other: &Buffer) -> bool {
        std::ptr::eq(self.header, other.header)
    }

    /// Removes the last `len` bytes from the buffer.
    ///
    /// # Panics
    ///
    /// If it has fewer bytes, or a tail.
    #[must_use]
    pub fn cut(mut self, len: usize) -> Buffer {
        assert!(
            len <= self.bytes() && self.tail == 0,
            "a buffer of {} bytes is cut by {len}",
            self.len
        );
        self.len -= length(len);
        self
    }

    /// The tail; usually empty.
    #[inline]
    #[must_use]
    pub fn tail(&self) -> &[u8] {
        &self.whole()[self.bytes()..]
    }

    /// The bytes and the tail.
    #[inline]
    fn whole(&self) -> &[u8] {
        let len = self.bytes() + self.tail as usize;
        // SAFETY: the reference keeps the memory, of which the first `len` bytes do not change.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), len) }
    }

    /// The number of bytes before the tail.
    #[inline]
    fn bytes(&self) -> usize {
        self.len as usize
    }

    /// Prefetches the reference count and the memory that a search accesses first: the start and the end.
    #[inline]
    pub fn prefetch(&self) {
        prefetch_address(std::ptr::from_ref(self.header).addr());
        let whole = self.whole();
        prefetch::first(whole);
        prefetch::last(whole, (self.tail as usize).clamp(64, 256));
    }

    /// Prefetches the `len` bytes at `at`, as far as they are part of the buffer.
    #[inline]
    pub fn prefetch_at(&self, at: usize, len: usize) {
        let end = self.bytes().min(at.saturating_add(len));
        prefetch::last(self.get(at..end).unwrap_or_default(), len);
    }

    /// Prefetches the cache line at offset `at`, which may be outside the buffer.
    #[inline]
    pub fn prefetch_line(&self, at: usize) {
        prefetch_address(self.memory.addr().get().wrapping_add(at));
    }

    /// The size of the allocation, including the tail and unused bytes.
    #[inline]
    #[must_use]
    pub fn memory_usage(&self) -> usize {
        self.header.extent().size()
    }

    /// The kind of the memory.
    #[must_use]
    pub fn memory_kind(&self) -> MemoryKind {
        self.header.extent().kind()
    }

    /// Creates a buffer of `len` bytes written by `fill` in memory of `allocation`. The memory passed to `fill` is
    /// zeroed or has the content of an earlier buffer.
    ///
    /// # Errors
    ///
    /// Those of `fill`.
    pub fn filled<E>(
        len: usize,
        allocation: Allocation,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Buffer, E> {
        Buffer::refilled(None, len, allocation, fill)
    }

    /// Like [`Buffer::filled`], reusing the memory of `spent` if it is like new memory and not shared.
    pub(crate) fn refilled<E>(
        spent: Option<Buffer>,
        len: usize,
        allocation: Allocation,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Buffer, E> {
        let mut memory = Buffer::spent_memory(spent, len, allocation);
        fill(&mut memory[..len])?;
        Ok(Buffer::of(memory, len))
    }

    /// Returns memory of `allocation` for a buffer of `len` bytes, with arbitrary content: that of `spent` if it is
    /// like new memory and not shared.
    pub(crate) fn spent_memory(
        spent: Option<Buffer>,
        len: usize,
        allocation: Allocation,
    ) -> Memory {
        spent
            .filter(|spent| {
                let memory = (spent.memory_usage(), spent.memory_kind());
                memory == (slab::rounded(len + allocation.room), allocation.kind)
            })
            .and_then(Buffer::into_memory)
            .unwrap_or_else(|| allocation.memory(len))
    }

    /// Returns the memory of the buffer, unless it is shared.
    fn into_memory(self) -> Option<Memory> {
        // The reference is released by `end`.
        header::end(std::mem::ManuallyDrop::new(self).header)
    }

    /// Drops the buffer. If it is not shared, its memory may be reused for the thread's next buffer of
    /// similar length.
    pub fn recycle(self) {
        if let Some(memory) = self.into_memory() {
            pool::keep(memory);
        }
    }

    /// The number of references.
    #[must_use]
    pub fn holders(&self) -> usize {
        self.header.holders()
    }

    /// Creates a buffer of the first `len` bytes of `memory`.
    pub(crate) fn of(memory: Memory, len: usize) -> Buffer {
        assert!(len <= memory.len(), "the bytes are in the memory");
        let header = header::begin(memory);
        Buffer {
            header,
            memory: header.memory(),
            len: length(len),
            tail: 0,
        }
    }
}

/// Functions for caches. A buffer has at most one cache entry at a time, and a cache changes entries under
/// its own lock.
impl Buffer {
    /// Makes the buffer the entry of `key`, which [`Buffer::pin`] finds from then on. The reference is
    /// transferred to the cache, which removes the entry with [`Buffer::unpublish`]. Returns the number of
    /// the entry.
    ///
    /// # Errors
    ///
    /// The buffer, if it was already a cache entry.
    pub fn publish(self, key: [u64; 2], note: EntryNote) -> Result<u32, Buffer> {
        if !self.header.claim(key) {
            return Err(self);
        }
        self.header.set_note(note);
        self.header.publish(self.len, self.tail);
        // The reference belongs to the cache.
        Ok(std::mem::ManuallyDrop::new(self).header.number())
    }

    /// Returns the buffer of the entry `number`, if that currently is an entry of `key`. Counts a hit.
    ///
    /// `number` was returned by [`Buffer::publish`] at some time. The entry may have been removed since.
    #[inline]
    #[must_use]
    pub fn pin(number: u32, key: [u64; 2]) -> Option<Buffer> {
        let header = header::numbered(number)?;
        header.pin_if(key).then(|| Buffer::of_entry(header))
    }

    /// Creates a buffer from a reference that the caller has taken.
    #[inline]
    fn of_entry(header: &'static Header) -> Buffer {
        // The tail first: its length is published after its bytes.
        let tail = header.tail();
        Buffer {
            header,
            memory: header.memory(),
            len: header.len(),
            tail,
        }
    }

    /// Removes the entry `number` and returns the cache's reference.
    #[must_use]
    pub fn unpublish(number: u32) -> Option<Buffer> {
        let header = header::numbered(number)?;
        header.unpublish();
        Some(Buffer::of_entry(header))
    }

    /// Appends `tail` to this buffer and the entry `number`, in place, if it is the entry's buffer, has no tail, there
    /// is room, and no reader holds it.
    ///
    /// # Errors
    ///
    /// The buffer otherwise.
    pub fn publish_tail(mut self, number: u32, tail: &[u8]) -> Result<Buffer, Buffer> {
        let is_entry = header::numbered(number).is_some_and(|it| std::ptr::eq(it, self.header));
        // This reference may show no tail though the entry has one, which readers see: it was taken while another
        // thread appended that tail, after that thread had counted the references.
        let is_bare = is_entry && self.len == self.header.len() && self.header.tail() == 0;
        // The other reference is the cache's.
        if !is_bare || !self.tail_in_place(tail, 1) {
            return Err(self);
        }
        self.header.set_tail(self.tail);
        Ok(self)
    }

    /// The addresses that a search of the buffer reads first, for a cache that stores them with the number of the
    /// entry: a reader then waits for header and content at the same time.
    #[must_use]
    pub fn hint(&self) -> PrefetchHint {
        PrefetchHint::new(self.whole(), self.tail as usize)
    }

    /// Prefetches the header of the entry `number`.
    #[inline]
    pub fn prefetch_header(number: u32) {
        if let Some(header) = header::numbered(number) {
            prefetch_address(std::ptr::from_ref(header).addr());
        }
    }

    /// Returns the state of the entry `number`, whose reference belongs to the cache.
    #[must_use]
    pub fn entry(number: u32) -> Option<Entry> {
        let header = header::numbered(number)?;
        Some(Entry {
            len: header.len() as usize,
            memory_usage: header.extent().size(),
            hits: header.hits(),
            is_held: header.holders() > 1,
            key: header.key(),
            note: header.note(),
        })
    }

    /// Changes the cache's data for the entry `number`.
    pub fn set_note(number: u32, note: EntryNote) {
        if let Some(header) = header::numbered(number) {
            header.set_note(note);
        }
    }
}

/// The state of a cache entry.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The number of bytes without the tail.
    pub len: usize,
    /// The size of the allocation.
    pub memory_usage: usize,
    /// The number of hits since the entry was created, modulo 2^32. Concurrent hits may be counted once.
    pub hits: u32,
    /// True if a reader holds the buffer.
    pub is_held: bool,
    /// The key of the entry.
    pub key: [u64; 2],
    /// The cache's data.
    pub note: EntryNote,
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Buffer {
        Buffer::from(&*bytes)
    }
}

impl From<&[u8]> for Buffer {
    fn from(bytes: &[u8]) -> Buffer {
        Buffer::copy_of(bytes, Allocation::default())
    }
}

impl Deref for Buffer {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: as in `whole`.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.bytes()) }
    }
}

/// Converts a length to its stored form.
#[inline]
fn length(len: usize) -> u32 {
    u32::try_from(len).expect("a buffer is less than 4 GiB")
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} bytes)", self.len())
    }
}
