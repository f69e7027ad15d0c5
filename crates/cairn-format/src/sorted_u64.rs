//! A cache-conscious sorted array of integers, used for key words of index blocks and boundaries of range
//! tombstones.

/// The first 8 bytes of `rest` as a big-endian integer, padded with zeros.
#[inline]
pub(crate) fn word(rest: &[u8]) -> u64 {
    if let Some(whole) = rest.first_chunk::<8>() {
        return u64::from_be_bytes(*whole);
    }
    let mut padded = [0; 8];
    padded[..rest.len()].copy_from_slice(rest);
    u64::from_be_bytes(padded)
}

/// The number of integers in a cache line.
const FANOUT: usize = 8;

/// A cache line of integers.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Line([u64; FANOUT]);

/// A static B-tree over sorted integers, with a fanout of 8 and one cache line per node: each row
/// holds the last integer of every line in the row below. The upper rows take an eighth of the
/// memory and stay in the CPU cache.
#[derive(Debug)]
pub(crate) struct Sorted {
    /// The lines of all rows, root first, padded with the maximum integer.
    lines: Box<[Line]>,
    /// The first line and the length of each row, root first.
    rows: Box<[(usize, usize)]>,
    len: usize,
}

impl Sorted {
    /// Creates the array from ascending `numbers`.
    pub(crate) fn new(numbers: impl ExactSizeIterator<Item = u64>) -> Sorted {
        let len = numbers.len();
        // Bottom-up: the position of the first row is not known yet.
        let mut counts = vec![len.div_ceil(FANOUT)];
        while let Some(&below) = counts.last()
            && below > 1
        {
            counts.push(below.div_ceil(FANOUT));
        }
        let mut at = 0;
        let place = |&count: &usize| {
            at += count;
            (at - count, count)
        };
        let rows: Box<[(usize, usize)]> = counts.iter().rev().map(place).collect();
        let mut lines = vec![Line([u64::MAX; FANOUT]); at].into_boxed_slice();
        let (lowest, count) = rows.last().copied().unwrap_or_default();
        let slots = lines[lowest..lowest + count].iter_mut();
        for (slot, number) in slots.flat_map(|line| &mut line.0).zip(numbers) {
            *slot = number;
        }
        for pair in rows.windows(2).rev() {
            let [(upper, _), (lower, count)] = [pair[0], pair[1]];
            let (above, below) = lines.split_at_mut(lower);
            let slots = above[upper..].iter_mut().flat_map(|line| &mut line.0);
            for (slot, line) in slots.zip(&below[..count]) {
                *slot = line.0[FANOUT - 1];
            }
        }
        Sorted { lines, rows, len }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, at: usize) -> Option<u64> {
        let &(first, _) = self.rows.last()?;
        let line = self.lines.get(first + at / FANOUT)?;
        (at < self.len).then(|| line.0[at % FANOUT])
    }

    /// The number of integers less than `bound`. `visit` receives the index of the first integer of the leaf
    /// line, before that line is read.
    #[inline]
    pub(crate) fn before(&self, bound: u64, visit: impl FnOnce(usize)) -> usize {
        let Some((lowest, upper)) = self.rows.split_last() else {
            return 0;
        };
        let less_in = |&(first, count): &(usize, usize), at: usize| {
            let line = self.lines.get(first + at).filter(|_| at < count)?;
            let less: usize = line.0.iter().map(|&it| usize::from(it < bound)).sum();
            Some(at * FANOUT + less)
        };
        let mut at = 0;
        for row in upper {
            match less_in(row, at) {
                Some(below) => at = below,
                None => return self.len,
            }
        }
        visit(at * FANOUT);
        less_in(lowest, at).map_or(self.len, |less| less.min(self.len))
    }

    pub(crate) fn memory_usage(&self) -> usize {
        size_of_val(&*self.lines) + size_of_val(&*self.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn searches_match_partition_point(
            mut numbers in proptest::collection::vec(
                prop_oneof![0..40_u64, any::<u64>(), Just(u64::MAX)], 0..700),
            bounds in proptest::collection::vec(prop_oneof![0..42_u64, any::<u64>(), Just(u64::MAX)], 1..50),
        ) {
            numbers.sort_unstable();
            let sorted = Sorted::new(numbers.iter().copied());
            for at in 0..numbers.len() + 9 {
                prop_assert_eq!(sorted.get(at), numbers.get(at).copied());
            }
            for bound in bounds.into_iter().chain(numbers.iter().copied()) {
                prop_assert_eq!(sorted.before(bound, |_| ()), numbers.partition_point(|&it| it < bound));
            }
        }
    }
}
