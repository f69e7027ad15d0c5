//! The arena: a concurrent bump allocator whose memory is freed as a whole.
//!
//! An allocation is one atomic addition to the fill level of the current chunk. A lock is taken only to
//! replace a full chunk. Nothing is freed before the arena is dropped.
//!
//! The first chunk of an arena has 512 bytes, and each further one doubles the arena up to its configured chunk
//! size, so that thousands of nearly empty arenas, the memtables of idle column families, take little memory. Small
//! chunks come from the allocator, larger ones are runs of pages.
//!
//! Once an arena has reached the size of a huge page, further chunks are cut from huge pages (`extents.rs`),
//! because skiplist searches would otherwise miss the TLB often. An arena holds at most one huge page more
//! than it needs. An arena with small chunks, as a memtable of a few megabytes has, uses no huge pages: the unused
//! part of the last one would be a large part of it.
//!
//! Invariants, cited by number:
//!
//! I1. The memory of a chunk is neither moved nor freed before the arena is dropped. `current` is null or
//! points to a chunk owned by `chunks`. The memory of an extent belongs to at most one chunk.
//! I2. `used` of a chunk only grows, so the ranges returned by additions to it never overlap. A range is
//! handed out only if it ends within the chunk.
#![expect(
    unsafe_code,
    reason = "raw memory whose lifetime the borrow checker cannot track"
)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::{self, NonNull};

use cairn_platform::huge::HUGE_PAGE;
use cairn_platform::pages::Pages;
use cairn_platform::sync::{AtomicPtr, AtomicUsize, Mutex, Ordering};

use crate::extents::Extents;

/// Alignment of every chunk, and the largest alignment of an allocation.
const CHUNK_ALIGN: usize = 64;

/// Size of the first chunk.
const FIRST_CHUNK: usize = 512;

/// The smallest chunk size of an arena.
const SMALLEST_CHUNK: usize = 4 << 10;

/// The smallest chunks that are pages of their own.
const SMALLEST_PAGES: usize = 16 << 10;

/// Chunks of at least this size are cut from extents. Memtables of 8 MiB and more have such chunks.
const SMALLEST_CUT: usize = 1 << 20;

/// A concurrent bump allocator; see the module's documentation.
pub struct Arena {
    current: AtomicPtr<Chunk>,
    chunks: Mutex<Chunks>,
    chunk_len: usize,
    reserved: AtomicUsize,
}

/// The memory owned by an arena.
#[derive(Default)]
struct Chunks {
    /// Every chunk, as a leaked box.
    all: Vec<NonNull<Chunk>>,
    /// The huge pages that chunks are cut from.
    extents: Extents,
    /// The used part of the last extent, in bytes.
    cut: usize,
}

/// A block of memory that allocations are cut from.
struct Chunk {
    base: NonNull<u8>,
    len: usize,
    used: AtomicUsize,
    source: Source,
}

/// The owner of the memory of a chunk.
enum Source {
    /// The allocator.
    Allocator,
    /// The chunk itself. The pages return to the kernel when memtables are freed, which the allocator may prevent.
    Pages(#[expect(dead_code, reason = "frees the memory when it is dropped")] Pages),
    /// The arena, which has the extent.
    Extent,
}

// SAFETY: the pointers in an arena refer to memory that it owns (I1) and that no two callers share (I2).
// Everything else is atomic or behind a lock.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// Returns an empty arena that takes up to `chunk_len` bytes (4 KiB to 1 GiB) from the allocator at a
    /// time.
    #[must_use]
    pub fn new(chunk_len: usize) -> Arena {
        Arena {
            current: AtomicPtr::new(ptr::null_mut()),
            chunks: Mutex::default(),
            chunk_len: chunk_len
                .clamp(SMALLEST_CHUNK, 1 << 30)
                .next_multiple_of(CHUNK_ALIGN),
            reserved: AtomicUsize::new(0),
        }
    }

    /// Allocates `len` bytes aligned to `align`: uninitialised, exclusive to the caller, and valid until the
    /// arena is dropped.
    ///
    /// # Panics
    ///
    /// If `align` is not a power of two up to 64.
    #[inline]
    pub fn allocate(&self, len: usize, align: usize) -> NonNull<u8> {
        assert!(align.is_power_of_two() && align <= CHUNK_ALIGN);
        loop {
            // Acquire pairs with the release in `grow`: the chunk is complete.
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

    /// True if `len` is small compared to a full chunk, so that the unused ends of chunks are negligible even if all
    /// allocations have this length.
    #[inline]
    #[must_use]
    pub fn holds_many(&self, len: usize) -> bool {
        len <= self.chunk_len / 64
    }

    /// Bytes taken from the allocator or the kernel.
    #[must_use]
    pub fn memory_reserved(&self) -> usize {
        self.reserved.load(Ordering::Relaxed)
    }

    /// Bytes handed out, including padding and the unused ends of full chunks.
    #[must_use]
    pub fn memory_usage(&self) -> usize {
        // SAFETY: null, or a chunk that lives as long as the arena (I1).
        let current = unsafe { self.current.load(Ordering::Acquire).as_ref() };
        let unused = current.map_or(0, Chunk::unused);
        self.memory_reserved().saturating_sub(unused)
    }

    /// Returns the size of the next chunk: the current size of the arena, but at least twice `len`, the
    /// allocation that did not fit. `len` is at most a quarter of `chunk_len`.
    fn next_chunk_len(&self, len: usize) -> usize {
        let doubled = self.memory_reserved().max(FIRST_CHUNK);
        doubled
            .max(2 * len)
            .min(self.chunk_len)
            .next_multiple_of(CHUNK_ALIGN)
    }

    /// Installs a new current chunk, unless another thread has already replaced `seen`. A large allocation is
    /// returned in a chunk of its own, and the current chunk stays in use.
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
        debug_assert!(
            chunk.len >= len,
            "the chunk holds the allocation it is made for"
        );
        self.reserved.fetch_add(chunk.len, Ordering::Relaxed);
        let place = if large { chunk.take(len, align) } else { None };
        // A raw pointer from here on: moving the box would invalidate pointers to its content.
        let chunk = NonNull::from(Box::leak(Box::new(chunk)));
        chunks.all.push(chunk);
        if !large {
            // Release pairs with the acquire in `allocate`. The chunk is already in `chunks` (I1).
            self.current.store(chunk.as_ptr(), Ordering::Release);
        }
        place
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let chunks = self.chunks.get_mut();
        for chunk in chunks.all.drain(..) {
            // SAFETY: leaked from a box in `grow` and owned by `chunks` alone (I1).
            let chunk = unsafe { Box::from_raw(chunk.as_ptr()) };
            if let Source::Allocator = chunk.source {
                // SAFETY: allocated with this layout in `Chunk::new`; the arena is no longer in use.
                unsafe { dealloc(chunk.base.as_ptr(), Chunk::layout(chunk.len)) };
            }
        }
    }
}

impl Chunks {
    /// Creates a chunk of `len` bytes. It is cut from an extent unless it would take more than half of one.
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
        debug_assert!(
            self.cut + len <= HUGE_PAGE,
            "the chunk is within the extent"
        );
        // SAFETY: `cut + len` is within the extent.
        let base = unsafe { extent.add(self.cut) };
        self.cut += len;
        Chunk {
            base,
            len,
            used: AtomicUsize::new(0),
            source: Source::Extent,
        }
    }
}

impl Chunk {
    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len, CHUNK_ALIGN)
            .expect("a chunk is smaller than the address space")
    }

    fn new(len: usize) -> Chunk {
        if len >= SMALLEST_PAGES {
            let pages = Pages::new(len);
            return Chunk {
                base: pages.start(),
                len: pages.len(),
                used: AtomicUsize::new(0),
                source: Source::Pages(pages),
            };
        }
        let len = len.next_multiple_of(CHUNK_ALIGN);
        let layout = Chunk::layout(len);
        // SAFETY: the size of the layout is not zero.
        let base = unsafe { alloc(layout) };
        Chunk {
            base: NonNull::new(base).unwrap_or_else(|| handle_alloc_error(layout)),
            len,
            used: AtomicUsize::new(0),
            source: Source::Allocator,
        }
    }

    #[inline]
    fn take(&self, len: usize, align: usize) -> Option<NonNull<u8>> {
        if len > self.len {
            return None;
        }
        // Offsets are kept multiples of 8, so that one addition suffices for the usual alignments.
        let padding = if align > 8 { align } else { 0 };
        let rounded = len.next_multiple_of(8) + padding;
        // Relaxed: the addition alone keeps ranges disjoint (I2), and publishes nothing.
        let start = match len > self.len / 8 {
            false => self.used.fetch_add(rounded, Ordering::Relaxed),
            // The chunk stays in use after a large allocation that does not fit, which must not take the rest of it.
            true => {
                let fits = |used: usize| used.next_multiple_of(align) + len <= self.len;
                let taken = |used| fits(used).then_some(used + rounded);
                let before = self
                    .used
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken);
                before.ok()?
            }
        };
        let aligned = start.next_multiple_of(align);
        if start > self.len || aligned + len > self.len {
            return None;
        }
        debug_assert!(
            aligned >= start && aligned + len <= start + rounded,
            "the allocation is within its range (I2)"
        );
        // SAFETY: `aligned + len` lies within the memory of the chunk.
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

    /// Allocates `len` bytes, fills them with `byte` and returns their range.
    fn filled(arena: &Arena, len: usize, align: usize, byte: u8) -> (usize, usize) {
        let place = arena.allocate(len, align);
        assert_eq!(place.as_ptr() as usize % align, 0);
        // SAFETY: the `len` bytes at `place` are exclusive to this caller.
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
    fn allocations_are_aligned_and_disjoint() {
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
    fn concurrent_allocations_are_disjoint() {
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
    fn large_arenas_use_huge_pages() {
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
            matches!(unsafe { chunk.as_ref() }.source, Source::Extent)
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
    fn reserved_memory_is_bounded_by_allocations() {
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
    fn a_large_allocation_that_does_not_fit_leaves_the_rest_of_a_chunk_to_others() {
        for align in [8, 64] {
            let arena = Arena::new(4096);
            while arena.memory_reserved() < 2 * 4096 {
                arena.allocate(64, 8);
            }
            arena.allocate(2048, 8);
            arena.allocate(3000, align);
            let reserved = arena.memory_reserved();
            arena.allocate(1000, 8);
            assert_eq!(arena.memory_reserved(), reserved);
        }
    }

    #[test]
    fn an_empty_arena_uses_nothing() {
        assert_eq!(Arena::new(1 << 20).memory_usage(), 0);
        assert_eq!(Arena::new(1 << 20).memory_reserved(), 0);
    }
}
