//! A thread-local pool of memory for buffers.
//!
//! A full cache evicts a block for each one that it inserts. Freeing the memory of the old block and
//! allocating and zeroing new memory costs up to a third of reading the block from the page cache. The blocks
//! of a table have similar lengths, so the new block reuses the memory of the old one.
//!
//! Each thread retains at most [`MAX_BUFFERS`] buffers of at most [`MAX_LENGTH`] bytes. Once it has retained
//! one, it rounds the lengths of new allocations up to a step, so that a buffer fits all blocks of similar
//! length. If larger buffers could only be reused for smaller blocks, the allocator would be left with small
//! free blocks and requests for large ones, and fragmentation would grow to a third of the cache.

use std::cell::RefCell;
use std::ops::RangeInclusive;

/// The maximum number of buffers retained by a thread.
const MAX_BUFFERS: usize = 8;
/// The lengths of pooled buffers. Shorter ones are not worth pooling, and longer ones would retain too much
/// memory.
const POOLED_LENGTHS: RangeInclusive<usize> = 1 << 10..=MAX_LENGTH;
/// The maximum length of a pooled buffer.
const MAX_LENGTH: usize = 64 << 10;
/// The number of length steps between consecutive powers of two.
const STEPS: usize = 32;

thread_local! {
    /// The buffers retained by the thread. Allocated when the first buffer is retained.
    static POOL: RefCell<Vec<Box<[u8]>>> = const { RefCell::new(Vec::new()) };
}

/// Returns the length to allocate for `len` bytes.
fn rounded(len: usize) -> usize {
    match POOLED_LENGTHS.contains(&len) {
        true => len.next_multiple_of((1 << len.ilog2()) / STEPS),
        false => len,
    }
}

/// True if a buffer of `length` bytes may be used for `len` bytes.
pub(crate) fn fits(length: usize, len: usize) -> bool {
    (len..=rounded(len)).contains(&length)
}

/// Adds `piece` to the pool, unless it is of an unsuitable length.
pub(crate) fn keep(piece: Box<[u8]>) {
    if !POOLED_LENGTHS.contains(&piece.len()) {
        return;
    }
    // An exiting thread retains nothing.
    let _ = POOL.try_with(|pool| {
        let mut pool = pool.borrow_mut();
        if pool.len() == MAX_BUFFERS {
            pool.remove(0);
        }
        pool.push(piece);
    });
}

/// Returns memory of at least `len` bytes, with arbitrary content.
pub(crate) fn memory(len: usize) -> Box<[u8]> {
    let taken = |pool: &RefCell<Vec<Box<[u8]>>>| {
        let mut pool = pool.borrow_mut();
        match pool.iter().rposition(|piece| fits(piece.len(), len)) {
            Some(at) => Ok(pool.swap_remove(at)),
            None if pool.capacity() > 0 => Err(rounded(len)),
            None => Err(len),
        }
    };
    let taken = match POOLED_LENGTHS.contains(&len) {
        true => POOL.try_with(taken).unwrap_or(Err(len)),
        false => Err(len),
    };
    taken.unwrap_or_else(|len| vec![0; len].into_boxed_slice())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(len: usize) -> Box<[u8]> {
        std::iter::repeat_n(7, len).collect()
    }

    #[test]
    fn memory_is_reused_for_suitable_lengths() {
        assert_eq!(memory(4201).len(), 4201, "the pool is empty");
        keep(piece(4200));
        assert_eq!(memory(4225).len(), 4352, "too short");
        assert_eq!(memory(2000).len(), 2016, "too long");
        assert_eq!(memory(4100).len(), 4200);
        assert_eq!(memory(4100).len(), 4224, "taken once");
        keep(piece(MAX_LENGTH + 1));
        assert_eq!(memory(MAX_LENGTH + 1)[0], 0);
    }

    #[test]
    fn the_pool_is_bounded() {
        for n in 0..2 * MAX_BUFFERS {
            keep(piece(2000 + n));
        }
        POOL.with(|pool| assert_eq!(pool.borrow().len(), MAX_BUFFERS));
    }

    #[test]
    fn buffers_fit_all_lengths_of_their_step() {
        keep(piece(1 << 10));
        for len in (1_024..=MAX_LENGTH).step_by(13) {
            let taken = memory(len).len();
            assert!(
                fits(taken, len) && taken - len <= len / STEPS,
                "{len}: {taken}"
            );
            assert_eq!(rounded(taken), taken, "{len}");
        }
    }
}
