//! Memory of blocks that were given up, for the next ones.
//!
//! A cache that is full gives up a block for each one that it takes. To give the old one's memory back and to
//! take and clear new memory costs as much as a third of reading the block from the page cache; blocks of one
//! table are about equally long, so the new one gets the memory of the old one instead.
//!
//! Each thread keeps at most [`KEPT`] pieces of at most [`LARGEST`] bytes. Once it has kept any, it takes new memory by
//! lengths that are multiples of some step: what one block gives up then fits all that are about as long. If larger
//! pieces went to smaller blocks but not the other way round, the allocator would be given small ones and asked for large
//! ones, and the holes between them grow to a third of what is cached.

use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// How many pieces a thread keeps.
const KEPT: usize = 8;
/// How long these may be. Less is not worth it, more is not to lie about.
const KEPT_LENGTHS: RangeInclusive<usize> = 1 << 10..=LARGEST;
/// The longest piece that is kept.
const LARGEST: usize = 64 << 10;
/// Steps of lengths from one power of two to the next.
const STEPS: usize = 32;

thread_local! {
    /// What the thread keeps. It has memory of its own once the thread has kept any.
    static SPARE: RefCell<Vec<Arc<[u8]>>> = const { RefCell::new(Vec::new()) };
}

/// The length of memory taken for `len` bytes.
fn rounded(len: usize) -> usize {
    match KEPT_LENGTHS.contains(&len) {
        true => len.next_multiple_of((1 << len.ilog2()) / STEPS),
        false => len,
    }
}

/// True if memory of `length` may be used for `len` bytes.
pub(crate) fn fits(length: usize, len: usize) -> bool {
    (len..=rounded(len)).contains(&length)
}

/// Keeps `piece` for [`memory`], if nobody else holds it and there is room.
pub(crate) fn keep(mut piece: Arc<[u8]>) {
    if !KEPT_LENGTHS.contains(&piece.len()) || Arc::get_mut(&mut piece).is_none() {
        return;
    }
    // A thread that ends keeps nothing.
    let _ = SPARE.try_with(|spare| {
        let mut spare = spare.borrow_mut();
        if spare.len() == KEPT {
            spare.remove(0);
        }
        spare.push(piece);
    });
}

/// Memory of at least `len` bytes that nobody else holds, with anything in it.
pub(crate) fn memory(len: usize) -> Arc<[u8]> {
    let taken = |spare: &RefCell<Vec<Arc<[u8]>>>| {
        let mut spare = spare.borrow_mut();
        match spare.iter().rposition(|piece| fits(piece.len(), len)) {
            Some(at) => Ok(spare.swap_remove(at)),
            None if spare.capacity() > 0 => Err(rounded(len)),
            None => Err(len),
        }
    };
    let taken = match KEPT_LENGTHS.contains(&len) {
        true => SPARE.try_with(taken).unwrap_or(Err(len)),
        false => Err(len),
    };
    taken.unwrap_or_else(|len| std::iter::repeat_n(0, len).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(len: usize) -> Arc<[u8]> {
        std::iter::repeat_n(7, len).collect()
    }

    #[test]
    fn memory_comes_back_to_lengths_that_fill_it_and_only_if_nobody_holds_it() {
        assert_eq!(memory(4201).len(), 4201, "nobody has given memory up");
        keep(piece(4200));
        assert_eq!(memory(4225).len(), 4352, "too short");
        assert_eq!(memory(2000).len(), 2016, "too long");
        assert_eq!(memory(4100).len(), 4200);
        assert_eq!(memory(4100).len(), 4224, "taken once");
        let held = piece(4200);
        keep(held.clone());
        assert_eq!(memory(4200)[0], 0);
        assert_eq!(held[0], 7);
        keep(piece(LARGEST + 1));
        assert_eq!(memory(LARGEST + 1)[0], 0);
    }

    #[test]
    fn a_thread_keeps_few_pieces() {
        for n in 0..2 * KEPT {
            keep(piece(2000 + n));
        }
        SPARE.with(|spare| assert_eq!(spare.borrow().len(), KEPT));
    }

    #[test]
    fn what_one_length_gives_up_fits_every_other_that_takes_as_much() {
        keep(piece(1 << 10));
        for len in (1_024..=LARGEST).step_by(13) {
            let taken = memory(len).len();
            assert!(
                fits(taken, len) && taken - len <= len / STEPS,
                "{len}: {taken}"
            );
            assert_eq!(rounded(taken), taken, "{len}");
        }
    }
}
