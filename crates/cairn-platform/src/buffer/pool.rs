//! A thread-local pool of memory for buffers.
//!
//! A full cache evicts a block for each one that it inserts. Freeing the memory of the old block and
//! allocating and zeroing new memory costs up to a third of reading the block from the page cache. The blocks
//! of a table have similar lengths, so the new block reuses the memory of the old one.
//!
//! Each thread retains at most [`MAX_BUFFERS`] buffers and [`MAX_BYTES`]. Lengths are rounded to those of the slabs
//! (`slab`), so that a buffer fits all blocks of about its length. Memory is reused for buffers of the same kind only.

use std::cell::RefCell;

use super::slab::Memory;
use crate::posix::memory_kind::MemoryKind;

/// The maximum number of buffers retained by a thread.
const MAX_BUFFERS: usize = 8;
/// The maximum size of all buffers kept by a thread.
const MAX_BYTES: usize = 64 << 10;
/// The minimum size of a pooled buffer: shorter ones are not worth pooling.
const MIN_LENGTH: usize = 1 << 10;

thread_local! {
    /// The buffers retained by the thread.
    static POOL: RefCell<Vec<Memory>> = const { RefCell::new(Vec::new()) };
}

/// Adds `piece` to the pool, unless it is of an unsuitable length.
pub(crate) fn keep(piece: Memory) {
    if !(MIN_LENGTH..=MAX_BYTES).contains(&piece.len()) {
        return;
    }
    // An exiting thread retains nothing.
    let _ = POOL.try_with(|pool| {
        let mut pool = pool.borrow_mut();
        let mut bytes: usize = pool.iter().map(|piece| piece.len()).sum();
        while pool.len() == MAX_BUFFERS || bytes + piece.len() > MAX_BYTES {
            bytes -= pool.remove(0).len();
        }
        pool.push(piece);
    });
}

/// Returns memory of `kind` of at least `len` bytes, with arbitrary content.
pub(crate) fn memory(len: usize, kind: MemoryKind) -> Memory {
    let taken = |pool: &RefCell<Vec<Memory>>| {
        let mut pool = pool.borrow_mut();
        let at = pool.iter().rposition(|piece| piece.fits(len, kind))?;
        Some(pool.swap_remove(at))
    };
    let taken = POOL.try_with(taken).ok().flatten();
    taken.unwrap_or_else(|| Memory::new(len, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDINARY: MemoryKind = MemoryKind::ALL[0];

    #[test]
    fn memory_is_reused_for_suitable_lengths() {
        let at = |memory: &Memory| memory.as_ptr().addr();
        let memory = |len| super::memory(len, ORDINARY);
        let kept = Memory::new(4200, ORDINARY);
        let place = at(&kept);
        keep(kept);
        assert_ne!(at(&memory(4500)), place, "too short");
        assert_ne!(at(&memory(2000)), place, "too long");
        let again = memory(4100 + 110);
        assert_eq!(at(&again), place);
        assert_ne!(at(&memory(4220)), place, "taken once");
        keep(Memory::new(MAX_BYTES + 1, ORDINARY));
        keep(Memory::new(10, ORDINARY));
        POOL.with(|pool| assert!(pool.borrow().is_empty()));
    }

    #[test]
    fn memory_is_reused_for_the_same_kind_only() {
        for (kind, other) in [(0, 1), (1, 0)] {
            let (kind, other) = (MemoryKind::ALL[kind], MemoryKind::ALL[other]);
            let kept = Memory::new(4200, kind);
            let place = kept.as_ptr().addr();
            keep(kept);
            let fresh = memory(4200, other);
            assert!(fresh.as_ptr().addr() != place && fresh.fits(4200, other));
            let again = memory(4200, kind);
            assert!(again.as_ptr().addr() == place && again.fits(4200, kind));
        }
    }

    #[test]
    fn the_pool_is_bounded() {
        let sizes = |len| {
            for _ in 0..2 * MAX_BUFFERS {
                keep(Memory::new(len, ORDINARY));
            }
            POOL.with(|pool| pool.borrow().len())
        };
        assert_eq!(sizes(2000), MAX_BUFFERS);
        assert_eq!(sizes(30_000), MAX_BYTES / 30_720);
        assert_eq!(sizes(MAX_BYTES), 1);
    }
}
