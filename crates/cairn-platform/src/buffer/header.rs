//! The headers of buffers: the reference count of a buffer, and its cache entry.
//!
//! Headers are *type-stable*: the memory of a header remains a header for the life of the process, even while
//! no buffer uses it. A reader that found the number of a header in a hash table may therefore take a
//! reference first and check afterwards whether the header still belongs to the block that it is looking up
//! ([`Header::try_pin`]). A cache hit thus costs one atomic operation, its release another, and neither waits
//! for a thread that inserts or evicts.
//!
//! Invariants, in addition to those of the reference word (`word`):
//!
//! H1. The memory of a buffer is freed by the thread that ends the use of its header.
//! H2. The key is written once per use, before the entry is published, so that a reader that pinned the entry
//!     reads a stable key.
//!
//! Cost: 64 bytes per header, for the maximum number in use at any time. Headers are allocated in segments of
//! doubling size; unused pages of a segment take no memory.

use std::cell::RefCell;
use std::ptr::NonNull;

use super::slab::{Extent, Memory};
use super::word::RefWord;
#[cfg(not(shuttle))]
use crate::posix::region::Region;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Mutex, OnceLock, Ordering};

/// The number that denotes no header.
const NONE: u32 = u32::MAX;

/// The header of one buffer; see the module's documentation.
#[repr(align(64))]
pub(crate) struct Header {
    word: RefWord,
    /// The memory of the buffer, a [`Memory`] of `extent`.
    memory: AtomicPtr<u8>,
    key: [AtomicU64; 2],
    /// The [`Extent`] of the memory.
    extent: AtomicU32,
    /// The lengths of the buffer and its tail as cached.
    len: AtomicU32,
    tail: AtomicU32,
    /// The number of hits since the entry was cached.
    hits: AtomicU32,
    /// The cache's data about the entry. In a free header, the next one in the list of free headers.
    link: AtomicU32,
    class: AtomicU32,
    born: AtomicU32,
    number: AtomicU32,
}

// A header is one cache line: a hit accesses no other line.
#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<Header>() == 64);

impl Header {
    /// Starts a use of the header with one reference.
    fn begin(&self, memory: NonNull<u8>, extent: Extent) {
        // Relaxed: the fields are published with the word.
        self.memory.store(memory.as_ptr(), Ordering::Relaxed);
        self.extent.store(extent.bits(), Ordering::Relaxed);
        self.word.begin();
    }

    /// Adds a reference for a caller that holds one.
    #[inline]
    pub(super) fn retain(&self) {
        self.word.retain();
    }

    /// Releases a reference, and frees the buffer if it was the last.
    #[inline]
    pub(super) fn release(&self) {
        if self.word.release() {
            self.free();
        }
    }

    /// Frees the buffer and the header after the end of the use.
    fn free(&self) {
        drop(self.take_memory());
        HEADERS.give(self);
    }

    /// Returns the memory of a buffer without references.
    fn take_memory(&self) -> Memory {
        // SAFETY: H1: `begin` stored both, and this is the end of their use.
        unsafe { Memory::from_raw(self.memory(), self.extent()) }
    }

    /// The number of references.
    pub(super) fn holders(&self) -> usize {
        self.word.holders()
    }

    #[inline]
    pub(super) fn memory(&self) -> NonNull<u8> {
        // Never null: `begin` stores a pointer that is not.
        NonNull::new(self.memory.load(Ordering::Relaxed)).unwrap_or(NonNull::dangling())
    }

    /// The size and the kind of the memory.
    #[inline]
    pub(super) fn extent(&self) -> Extent {
        Extent::from_bits(self.extent.load(Ordering::Relaxed))
    }

    pub(super) fn len(&self) -> u32 {
        self.len.load(Ordering::Relaxed)
    }

    pub(super) fn tail(&self) -> u32 {
        // Acquire: includes the bytes of a tail that was added in place.
        self.tail.load(Ordering::Acquire)
    }

    /// Publishes the length of a tail that was written after the buffer's bytes.
    pub(super) fn set_tail(&self, tail: u32) {
        self.tail.store(tail, Ordering::Release);
    }

    /// Takes a reference if a cache has the buffer under `key`, and counts a hit.
    #[inline]
    pub(super) fn pin_if(&self, key: [u64; 2]) -> bool {
        if let Err(ends) = self.word.try_pin() {
            if ends {
                self.free();
            }
            return false;
        }
        if self.has_key(key) {
            // Two relaxed operations instead of an atomic one: a lost hit is harmless.
            let hits = self.hits.load(Ordering::Relaxed);
            self.hits.store(hits.wrapping_add(1), Ordering::Relaxed);
            return true;
        }
        self.release();
        false
    }

    #[inline]
    fn has_key(&self, key: [u64; 2]) -> bool {
        self.key() == key
    }

    #[inline]
    pub(super) fn key(&self) -> [u64; 2] {
        [
            self.key[0].load(Ordering::Relaxed),
            self.key[1].load(Ordering::Relaxed),
        ]
    }

    /// Sets the key of the buffer, unless it is already set. The caller holds a reference.
    pub(super) fn claim(&self, key: [u64; 2]) -> bool {
        if !self.word.claim() {
            return false;
        }
        self.key[0].store(key[0], Ordering::Relaxed);
        self.key[1].store(key[1], Ordering::Relaxed);
        true
    }

    /// Makes the entry of a claimed buffer visible to readers. One reference is transferred to the cache.
    pub(super) fn publish(&self, len: u32, tail: u32) {
        self.len.store(len, Ordering::Relaxed);
        self.tail.store(tail, Ordering::Relaxed);
        self.hits.store(0, Ordering::Relaxed);
        self.word.publish();
    }

    /// Hides the entry from readers. The cache's reference is transferred to the caller.
    pub(super) fn unpublish(&self) {
        self.word.unpublish();
    }

    pub(super) fn number(&self) -> u32 {
        self.number.load(Ordering::Relaxed)
    }

    pub(super) fn hits(&self) -> u32 {
        self.hits.load(Ordering::Relaxed)
    }

    pub(super) fn note(&self) -> EntryNote {
        EntryNote {
            link: self.link.load(Ordering::Relaxed),
            class: self.class.load(Ordering::Relaxed),
            born: self.born.load(Ordering::Relaxed),
        }
    }

    pub(super) fn set_note(&self, note: EntryNote) {
        self.link.store(note.link, Ordering::Relaxed);
        self.class.store(note.class, Ordering::Relaxed);
        self.born.store(note.born, Ordering::Relaxed);
    }
}

/// Three numbers that a cache stores with an entry, and that this module does not interpret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryNote {
    /// The position of the entry in the cache's own order.
    pub link: u32,
    /// Role and priority.
    pub class: u32,
    /// The time of the insertion, on a clock of the cache.
    pub born: u32,
}

/// The number of headers in the first segment, a power of two. Each further segment is twice as long.
const FIRST: u32 = 1 << 10;
/// The number of segments for all 32-bit numbers.
const SEGMENTS: usize = 22;

/// The headers of the process.
static HEADERS: Headers = Headers {
    segments: [const { OnceLock::new() }; SEGMENTS],
    free: Mutex::new(Free {
        first: NONE,
        next: 0,
    }),
};

struct Headers {
    segments: [OnceLock<&'static [Header]>; SEGMENTS],
    free: Mutex<Free>,
}

/// The list of free headers, chained by `link`, and the number of the first that was never used.
struct Free {
    first: u32,
    next: u32,
}

/// The number of free headers that a thread retains.
const KEPT: usize = 32;

thread_local! {
    static MINE: RefCell<Mine> = const { RefCell::new(Mine(Vec::new())) };
}

/// The free headers of a thread.
struct Mine(Vec<&'static Header>);

impl Drop for Mine {
    fn drop(&mut self) {
        HEADERS.free.lock().chain(self.0.drain(..));
    }
}

impl Free {
    fn chain(&mut self, headers: impl Iterator<Item = &'static Header>) {
        for header in headers {
            header.link.store(self.first, Ordering::Relaxed);
            self.first = header.number();
        }
    }
}

impl Headers {
    /// Returns the header with `number`, which was returned by [`Header::number`].
    #[inline]
    fn get(&self, number: u32) -> Option<&'static Header> {
        let (segment, at) = place(number);
        self.segments.get(segment)?.get()?.get(at)
    }

    /// Allocates a header.
    fn take(&self) -> &'static Header {
        if cfg!(shuttle) {
            // Shuttle's threads are a single thread to the operating system, and share thread-local data.
            return self.take_shared(&mut self.free.lock());
        }
        let mine = MINE.try_with(|mine| mine.borrow_mut().0.pop());
        if let Ok(Some(header)) = mine {
            return header;
        }
        let mut free = self.free.lock();
        let taken = self.take_shared(&mut free);
        // An exiting thread retains none.
        let _ = MINE.try_with(|mine| {
            let mine = &mut mine.borrow_mut().0;
            while mine.len() < KEPT / 2 && free.first != NONE {
                mine.push(self.take_shared(&mut free));
            }
        });
        taken
    }

    fn take_shared(&self, free: &mut Free) -> &'static Header {
        if let Some(header) = self.get(free.first) {
            free.first = header.link.load(Ordering::Relaxed);
            return header;
        }
        let number = free.next;
        assert!(number < NONE - FIRST, "fewer than 2^32 buffers exist");
        free.next += 1;
        let (segment, at) = place(number);
        let header = &self.segments[segment].get_or_init(|| new_segment(segment))[at];
        header.number.store(number, Ordering::Relaxed);
        header
    }

    /// Frees a header.
    fn give(&self, header: &Header) {
        let Some(header) = self.get(header.number()) else {
            return;
        };
        if cfg!(shuttle) {
            return self.free.lock().chain(std::iter::once(header));
        }
        let given = MINE.try_with(|mine| {
            let mine = &mut mine.borrow_mut().0;
            if mine.len() == KEPT {
                self.free.lock().chain(mine.drain(KEPT / 2..));
            }
            mine.push(header);
        });
        if given.is_err() {
            self.free.lock().chain(std::iter::once(header));
        }
    }
}

/// Returns the segment of a header, and its index there.
#[inline]
fn place(number: u32) -> (usize, usize) {
    let from_first = u64::from(number) + u64::from(FIRST);
    let segment = from_first.ilog2() - FIRST.ilog2();
    let at = from_first - (u64::from(FIRST) << segment);
    (segment as usize, at as usize)
}

/// Maps segments, whose pages occupy no memory until a header in them is used. (The allocator would clear memory of this
/// alignment, and so touch all of its pages.)
#[cfg(not(shuttle))]
#[cold]
fn new_segment(segment: usize) -> &'static [Header] {
    let len = (FIRST as usize) << segment;
    let layout = std::alloc::Layout::array::<Header>(len).expect("a segment is below 2^38 bytes");
    let Some(region) = Region::reserve(layout.size()) else {
        std::alloc::handle_alloc_error(layout);
    };
    let first = region.start().cast::<Header>();
    // The segment lives as long as the process.
    std::mem::forget(region);
    // SAFETY: the region is on a page boundary, has the size, and is never unmapped. It is zero, and a header of zeros
    // is valid: each field is an atomic integer or pointer, and without LIVE it is free.
    unsafe { std::slice::from_raw_parts(first.as_ptr(), len) }
}

/// Shuttle's atomics are not valid when they are zero.
#[cfg(shuttle)]
fn new_segment(segment: usize) -> &'static [Header] {
    let header = || Header {
        word: RefWord::new(),
        memory: AtomicPtr::new(std::ptr::null_mut()),
        key: [AtomicU64::new(0), AtomicU64::new(0)],
        extent: AtomicU32::new(0),
        len: AtomicU32::new(0),
        tail: AtomicU32::new(0),
        hits: AtomicU32::new(0),
        link: AtomicU32::new(0),
        class: AtomicU32::new(0),
        born: AtomicU32::new(0),
        number: AtomicU32::new(0),
    };
    let headers: Vec<Header> = (0..(FIRST as usize) << segment).map(|_| header()).collect();
    headers.leak()
}

/// Creates a header for a buffer in `memory`, with one reference.
pub(super) fn begin(memory: Memory) -> &'static Header {
    let (memory, extent) = memory.into_raw();
    let header = HEADERS.take();
    header.begin(memory, extent);
    header
}

/// Ends the use of a header whose only reference is the caller's, and returns the memory.
///
/// Returns `None` if a reader is taking a reference at the same time, which will fail; the caller's reference
/// is then released.
pub(super) fn end(header: &'static Header) -> Option<Memory> {
    if !header.word.end_unique() {
        header.release();
        return None;
    }
    let memory = header.take_memory();
    HEADERS.give(header);
    Some(memory)
}

/// Returns the header with `number`.
#[inline]
pub(super) fn numbered(number: u32) -> Option<&'static Header> {
    HEADERS.get(number)
}

#[cfg(all(test, not(any(loom, miri, shuttle))))]
mod tests {
    use super::*;
    use crate::posix::process_memory;

    #[test]
    fn unused_headers_occupy_no_memory() {
        let resident = || process_memory().expect("the kernel reports it").resident;
        let before = resident();
        let headers = new_segment(11);
        let bytes = size_of_val(headers) as u64;
        assert_eq!(bytes, 128 << 20);
        // Other tests of the process allocate at the same time.
        let grown = resident().saturating_sub(before);
        assert!(grown < bytes / 2, "{grown} of {bytes} bytes are resident");
        assert!(
            headers
                .iter()
                .step_by(1 << 16)
                .all(|header| header.holders() == 0)
        );
    }
}
