//! Hashes in the order in which they came, in pieces.
//!
//! A table of 64 MB has half a million keys and more. One array that doubles would copy them each time, and
//! hold twice what there is; pieces stay where they are, and the allocator takes each back for the
//! next table.

/// Hashes of a piece: 64 KiB.
const PIECE: usize = 8192;

/// Hashes that were pushed one after the other.
#[derive(Debug, Default)]
pub(crate) struct Hashes {
    /// Pieces of [`PIECE`] hashes each.
    full: Vec<Vec<u64>>,
    /// The rest, at most as many.
    last: Vec<u64>,
}

impl Hashes {
    #[inline]
    pub(crate) fn push(&mut self, hash: u64) {
        if self.last.len() == PIECE {
            self.begin_piece();
        }
        self.last.push(hash);
    }

    #[cold]
    fn begin_piece(&mut self) {
        let full = std::mem::replace(&mut self.last, Vec::with_capacity(PIECE));
        self.full.push(full);
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.full.len() * PIECE + self.last.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.last.is_empty()
    }

    /// Those from the one at `start` on up to but without `end`, which is not beyond the last.
    pub(crate) fn range(&self, start: usize, end: usize) -> impl Iterator<Item = u64> + Clone + '_ {
        (start / PIECE..end.div_ceil(PIECE)).flat_map(move |nth| {
            let piece = self.full.get(nth).unwrap_or(&self.last);
            let before = nth * PIECE;
            let hashes = &piece[start.max(before) - before..end.min(before + PIECE) - before];
            hashes.iter().copied()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_an_array_however_they_lie_in_the_pieces() {
        let len = 2 * PIECE + 1;
        let mut hashes = Hashes::default();
        assert!(hashes.is_empty());
        assert_eq!(hashes.range(0, 0).count(), 0);
        let all: Vec<u64> = (0..len as u64).map(|n| n * n).collect();
        for (nth, &hash) in all.iter().enumerate() {
            assert_eq!(hashes.len(), nth);
            hashes.push(hash);
            assert!(!hashes.is_empty());
        }
        let edges = [
            0,
            1,
            PIECE - 1,
            PIECE,
            PIECE + 1,
            2 * PIECE - 1,
            2 * PIECE,
            len,
        ];
        for start in edges {
            for end in edges.into_iter().filter(|&end| end >= start) {
                assert!(
                    hashes.range(start, end).eq(all[start..end].iter().copied()),
                    "{start} to {end}"
                );
            }
        }
    }
}
