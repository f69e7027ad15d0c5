//! An append-only sequence of hashes, in chunks.
//!
//! A table of 64 MB may have half a million keys or more. A growing array would copy them
//! repeatedly and need up to twice the memory; chunks stay in place, and the allocator reuses them
//! for the next table.

/// The number of hashes in a chunk of 64 KiB.
const CHUNK: usize = 8192;

/// An append-only sequence of hashes.
#[derive(Debug, Default)]
pub(crate) struct HashBuffer {
    /// Full chunks of [`CHUNK`] hashes.
    full: Vec<Vec<u64>>,
    /// The last chunk.
    last: Vec<u64>,
}

impl HashBuffer {
    #[inline]
    pub(crate) fn push(&mut self, hash: u64) {
        if self.last.len() == CHUNK {
            self.begin_piece();
        }
        self.last.push(hash);
    }

    #[cold]
    fn begin_piece(&mut self) {
        let full = std::mem::replace(&mut self.last, Vec::with_capacity(CHUNK));
        self.full.push(full);
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.full.len() * CHUNK + self.last.len()
    }

    /// Returns the memory used, in bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        (self.full.len() * CHUNK + self.last.capacity()) * size_of::<u64>()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.last.is_empty()
    }

    /// Flips a bit of the last hash.
    #[cfg(test)]
    pub(crate) fn damage(&mut self) {
        self.last
            .iter_mut()
            .last()
            .into_iter()
            .for_each(|hash| *hash ^= 1);
    }

    /// Returns the hashes from `start` to `end`, exclusive; `end` must not exceed the length.
    pub(crate) fn range(&self, start: usize, end: usize) -> impl Iterator<Item = u64> + Clone + '_ {
        (start / CHUNK..end.div_ceil(CHUNK)).flat_map(move |nth| {
            let piece = self.full.get(nth).unwrap_or(&self.last);
            let before = nth * CHUNK;
            let hashes = &piece[start.max(before) - before..end.min(before + CHUNK) - before];
            hashes.iter().copied()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_across_chunks_equal_those_of_an_array() {
        let len = 2 * CHUNK + 1;
        let mut hashes = HashBuffer::default();
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
            CHUNK - 1,
            CHUNK,
            CHUNK + 1,
            2 * CHUNK - 1,
            2 * CHUNK,
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
