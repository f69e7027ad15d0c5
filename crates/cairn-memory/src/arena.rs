//! The arena: memory that many threads take at once and that is given back as a whole.
//!
//! An allocation is one atomic addition to the fill of the current chunk. Only when a chunk is full
//! does a lock serialise those who need the next one. Nothing is freed before the arena is.
//!
//! An arena begins with a chunk of 4 KiB and doubles with each further one, up to the length it was made for: thousands of
//! arenas with little in them, the memtables of idle column families, hold little.
//!
//! Once an arena has grown to a large page, further chunks are cut from extents of a large page each
//! (`extents.rs`), which the kernel is asked to back by one: what is reached through pointers here and there misses the
//! processor's tables of pages less. An arena has at most one such page more than it was asked for.
//!
//! Invariants, cited below by number:
//!
//! I1. A chunk's memory is neither moved nor freed before the arena is dropped; `current` is null
//!     or points to a chunk that `chunks` owns.
//!     Memory of an extent is given to one chunk at most.
//! I2. `used` of a chunk only grows, so the ranges that additions to it return never overlap. A
//!     range is handed out only if it ends within the chunk.
#![expect(
    unsafe_code,
    reason = "raw memory with a lifetime that the borrow checker cannot see"
)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::{self, NonNull};

use cairn_platform::huge::HUGE_PAGE;
use cairn_platform::sync::{AtomicPtr, AtomicUsize, Mutex, Ordering};

use crate::extents::Extents;

/// Every chunk, and so the largest alignment that can be asked for.
const CHUNK_ALIGN: usize = 64;

/// The length of the first chunk, and the shortest that an arena can be made for.
const FIRST_CHUNK: usize = 4 << 10;

/// Chunks that are smaller have memory of their own: who asks for small ones wants to save memory.
const SMALLEST_CUT: usize = 64 << 10;

/// Memory in chunks; see the module's documentation.
pub struct Arena {
    current: AtomicPtr<Chunk>,
    chunks: Mutex<Chunks>,
    chunk_len: usize,
    reserved: AtomicUsize,
}

/// The memory that an arena owns.
#[derive(Default)]
struct Chunks {
    /// Every chunk, from `Box::into_raw`.
    all: Vec<NonNull<Chunk>>,
    /// The extents that chunks are cut from.
    extents: Extents,
    /// How much of the last extent chunks were cut from.
    cut: usize,
}

/// A piece of memory that allocations are cut from.
struct Chunk {
    base: NonNull<u8>,
    len: usize,
    used: AtomicUsize,
    /// True if its memory is a part of an extent.
    in_extent: bool,
}

// SAFETY: the pointers in an arena lead to memory that it owns (I1) and that no two callers share
// (I2); everything else in it is atomic or locked.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// An empty arena that asks the allocator for up to `chunk_len` bytes at a time (4 KiB to 1 GiB).
    #[must_use]
    pub fn new(chunk_len: usize) -> Arena {
        Arena {
            current: AtomicPtr::new(ptr::null_mut()),
            chunks: Mutex::default(),
            chunk_len: chunk_len
                .clamp(FIRST_CHUNK, 1 << 30)
                .next_multiple_of(CHUNK_ALIGN),
            reserved: AtomicUsize::new(0),
        }
    }

    /// `len` bytes at an address that is a multiple of `align`: not initialised, the caller's
    /// alone, and valid until the arena is dropped.
    ///
    /// # Panics
    ///
    /// If `align` is not a power of two up to 64.
    #[inline]
    pub fn allocate(&self, len: usize, align: usize) -> NonNull<u8> {
        assert!(align.is_power_of_two() && align <= CHUNK_ALIGN);
        loop {
            // Acquire pairs with the release in `grow`: the chunk is seen complete.
            let current = self.current.load(Ordering::Acquire);
            // SAFETY: null, or a chunk that lives as long as the arena (I1).
            if let Some(chunk) = unsafe { current.as_ref() }
                && let Some(place) = chunk.take(len, align)
            {
                return place;
            }
            if let Some(place) = self.grow(current, len, align) {
                return place;
            }
        }
    }

    /// Bytes taken from the allocator.
    #[must_use]
    pub fn memory_reserved(&self) -> usize {
        self.reserved.load(Ordering::Relaxed)
    }

    /// Bytes handed out, with what was lost between them: what the arena really holds.
    #[must_use]
    pub fn memory_usage(&self) -> usize {
        // SAFETY: null, or a chunk that lives as long as the arena (I1).
        let current = unsafe { self.current.load(Ordering::Acquire).as_ref() };
        let unused = current.map_or(0, Chunk::unused);
        self.memory_reserved().saturating_sub(unused)
    }

    /// The length of a new current chunk for an allocation of `len` bytes, at most a quarter of `chunk_len`: as much as
    /// the arena has, and enough that the allocation takes half of it.
    fn next_chunk_len(&self, len: usize) -> usize {
        let doubled = self.memory_reserved().max(FIRST_CHUNK);
        doubled
            .max(2 * len)
            .min(self.chunk_len)
            .next_multiple_of(CHUNK_ALIGN)
    }

    /// Makes a new current chunk, unless another thread has replaced `seen` already. A large
    /// allocation gets a chunk of its own, which is returned, and leaves the current one in use.
    #[cold]
    fn grow(&self, seen: *mut Chunk, len: usize, align: usize) -> Option<NonNull<u8>> {
        let mut chunks = self.chunks.lock();
        if !ptr::eq(self.current.load(Ordering::Relaxed), seen) {
            return None;
        }
        let large = len > self.chunk_len / 4;
        let cuts_extents = self.memory_reserved() >= HUGE_PAGE && self.chunk_len >= SMALLEST_CUT;
        let chunk = match large {
            true => Chunk::new(len.max(1)),
            false if cuts_extents => chunks.cut(self.chunk_len),
            false => Chunk::new(self.next_chunk_len(len)),
        };
        self.reserved.fetch_add(chunk.len, Ordering::Relaxed);
        let place = if large { chunk.take(len, align) } else { None };
        // A raw pointer from here on: a box that is moved must not be pointed to.
        let chunk = NonNull::from(Box::leak(Box::new(chunk)));
        chunks.all.push(chunk);
        if !large {
            // Release pairs with the acquire in `allocate`. The chunk is in `chunks` by now (I1).
            self.current.store(chunk.as_ptr(), Ordering::Release);
        }
        place
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let chunks = self.chunks.get_mut();
        for chunk in chunks.all.drain(..) {
            // SAFETY: leaked from a box in `grow`, and owned by `chunks` alone (I1).
            let chunk = unsafe { Box::from_raw(chunk.as_ptr()) };
            if !chunk.in_extent {
                // SAFETY: allocated with this layout in `Chunk::new`; the arena is not used any more.
                unsafe { dealloc(chunk.base.as_ptr(), Chunk::layout(chunk.len)) };
            }
        }
    }
}

impl Chunks {
    /// A chunk of `len` bytes, in an extent unless it would take more than half of one.
    fn cut(&mut self, len: usize) -> Chunk {
        if len > HUGE_PAGE / 2 {
            return Chunk::new(len);
        }
        let full = self.cut + len > HUGE_PAGE;
        let extent = match self.extents.last() {
            Some(last) if !full => last,
            _ => {
                self.cut = 0;
                self.extents.add()
            }
        };
        // SAFETY: `cut + len` is within the extent.
        let base = unsafe { extent.add(self.cut) };
        self.cut += len;
        Chunk {
            base,
            len,
            used: AtomicUsize::new(0),
            in_extent: true,
        }
    }
}

impl Chunk {
    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len, CHUNK_ALIGN)
            .expect("a chunk is smaller than the address space")
    }

    fn new(len: usize) -> Chunk {
        let len = len.next_multiple_of(CHUNK_ALIGN);
        let layout = Chunk::layout(len);
        // SAFETY: the layout has a size above zero.
        let base = unsafe { alloc(layout) };
        Chunk {
            base: NonNull::new(base).unwrap_or_else(|| handle_alloc_error(layout)),
            len,
            used: AtomicUsize::new(0),
            in_extent: false,
        }
    }

    #[inline]
    fn take(&self, len: usize, align: usize) -> Option<NonNull<u8>> {
        if len > self.len {
            return None;
        }
        // Everything is kept aligned to 8, so that one addition suffices for the usual alignments.
        let padding = if align > 8 { align } else { 0 };
        let rounded = len.next_multiple_of(8) + padding;
        // Relaxed: the addition itself keeps ranges apart (I2); nothing is published by it.
        let start = self.used.fetch_add(rounded, Ordering::Relaxed);
        let aligned = start.next_multiple_of(align);
        if start > self.len || aligned + len > self.len {
            return None;
        }
        // SAFETY: `aligned + len` lies within the chunk's one allocation.
        Some(unsafe { self.base.add(aligned) })
    }

    fn unused(&self) -> usize {
        self.len.saturating_sub(self.used.load(Ordering::Relaxed))
    }
}

impl std::fmt::Debug for Arena {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Arena({} of {} bytes)",
            self.memory_usage(),
            self.memory_reserved()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills `len` bytes at a new place with `byte` and returns the place.
    fn filled(arena: &Arena, len: usize, align: usize, byte: u8) -> (usize, usize) {
        let place = arena.allocate(len, align);
        assert_eq!(place.as_ptr() as usize % align, 0);
        // SAFETY: `len` bytes at `place` are this caller's.
        unsafe { ptr::write_bytes(place.as_ptr(), byte, len) };
        (place.as_ptr() as usize, len)
    }

    fn assert_disjoint(mut ranges: Vec<(usize, usize)>) {
        ranges.sort_unstable();
        for pair in ranges.windows(2) {
            assert!(
                pair[0].0 + pair[0].1 <= pair[1].0,
                "two allocations overlap"
            );
        }
    }

    #[test]
    fn allocations_are_aligned_and_apart() {
        let arena = Arena::new(4096);
        let lens = [1, 8, 13, 64, 1000, 5000, 0, 7, 1025, 40_000];
        let ranges = (0..100)
            .map(|n| filled(&arena, lens[n % lens.len()], 1 << (n % 7), n as u8))
            .collect();
        assert_disjoint(ranges);
        assert!(arena.memory_usage() >= 10 * lens.iter().sum::<usize>());
        assert!(arena.memory_usage() <= arena.memory_reserved());
    }

    #[test]
    fn threads_get_memory_of_their_own() {
        let arena = Arena::new(4096);
        let rounds = if cfg!(miri) { 50 } else { 2000 };
        let ranges = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4u8)
                .map(|thread| {
                    let arena = &arena;
                    scope.spawn(move || {
                        (0..rounds)
                            .map(|n| filled(arena, 1 + n * 7 % 90, 8, thread))
                            .collect::<Vec<_>>()
                    })
                })
                .collect();
            threads
                .into_iter()
                .flat_map(|thread| thread.join().unwrap())
                .collect()
        });
        assert_disjoint(ranges);
    }

    #[test]
    fn a_large_arena_cuts_its_chunks_from_large_pages() {
        let arena = Arena::new(1 << 20);
        let lens = [100_000, 7, 300, 400_000, 64];
        let rounds = if cfg!(miri) { 40 } else { 200 };
        let ranges = (0..rounds)
            .map(|n| filled(&arena, lens[n % lens.len()], 8, n as u8))
            .collect();
        assert_disjoint(ranges);
        let chunks = arena.chunks.lock();
        assert!(chunks.extents.last().is_some());
        let in_extents = chunks.all.iter().filter(|chunk| {
            // SAFETY: chunks live as long as the arena.
            unsafe { chunk.as_ref() }.in_extent
        });
        assert_eq!(
            in_extents.count().div_ceil(2),
            chunks.extents.starts().len()
        );
        assert!(
            chunks
                .extents
                .starts()
                .iter()
                .all(|extent| (extent.as_ptr() as usize).is_multiple_of(HUGE_PAGE))
        );
    }

    #[test]
    fn an_arena_holds_at_most_a_few_times_what_is_in_it() {
        let arena = Arena::new(1 << 20);
        let mut taken = 0;
        for n in 0..2_000 {
            let len = [24, 300, 5_000, 17][n % 4];
            arena.allocate(len, 8);
            taken += len.next_multiple_of(8);
            assert!(arena.memory_reserved() <= (4 * taken).max(FIRST_CHUNK));
        }
        assert!(arena.memory_reserved() > 1 << 20, "chunks stay small");
    }

    #[test]
    fn an_empty_arena_uses_nothing() {
        assert_eq!(Arena::new(1 << 20).memory_usage(), 0);
        assert_eq!(Arena::new(1 << 20).memory_reserved(), 0);
    }
}
