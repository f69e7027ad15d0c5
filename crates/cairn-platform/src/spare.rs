//! Memory of blocks that were given up, for the next ones.
//!
//! A cache that is full gives up a block for each one that it takes. To give the old one's memory back and to
//! take and clear new memory costs as much as a third of reading the block from the page cache; blocks of one
//! table are about equally long, so the new one gets the memory of the old one instead.
//!
//! Each thread keeps at most [`KEPT`] pieces of at most [`LARGEST`] bytes.

use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// How many pieces a thread keeps.
const KEPT: usize = 4;
/// How long these may be. Less is not worth it, more is not to lie about.
const KEPT_LENGTHS: RangeInclusive<usize> = 1 << 10..=LARGEST;
/// The longest piece that is kept.
const LARGEST: usize = 64 << 10;
/// What part of a piece may be left over, as a divisor of the length asked for.
const LEFT_OVER: usize = 8;

thread_local! {
    static SPARE: RefCell<Vec<Arc<[u8]>>> = const { RefCell::new(Vec::new()) };
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
    let kept = match KEPT_LENGTHS.contains(&len) {
        true => SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            let fits = |piece: &Arc<[u8]>| (len..=len + len / LEFT_OVER).contains(&piece.len());
            let at = spare.iter().rposition(fits)?;
            Some(spare.swap_remove(at))
        }),
        false => Ok(None),
    };
    match kept {
        Ok(Some(piece)) => piece,
        _ => std::iter::repeat_n(0, len).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(len: usize) -> Arc<[u8]> {
        std::iter::repeat_n(7, len).collect()
    }

    #[test]
    fn memory_comes_back_to_lengths_that_fill_it_and_only_if_nobody_holds_it() {
        keep(piece(4200));
        assert_eq!(memory(4201).len(), 4201, "too short");
        assert_eq!(memory(2000).len(), 2000, "too long");
        assert_eq!(memory(4000).len(), 4200);
        assert_eq!(memory(4000).len(), 4000, "taken once");
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
}
