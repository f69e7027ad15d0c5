//! The addresses of a buffer that a search reads first, packed in one word.

use crate::prefetch_address;

/// The size of a cache line.
const LINE: usize = 64;
/// The number of bits of the number of lines at the end, minus one.
const END_BITS: u32 = 2;
/// The number of bits of the distance from the start to the end, in lines.
const DISTANCE_BITS: u32 = 14;

/// The addresses of a buffer that a search reads first: the first line, and the last one to four, which have the
/// tail. Only a hint: the buffer may have been freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefetchHint(u64);

impl PrefetchHint {
    /// The hint for a buffer of `whole`, whose last `tail` bytes are the tail.
    pub(super) fn new(whole: &[u8], tail: usize) -> PrefetchHint {
        let end = whole.as_ptr_range().end.addr() as u64;
        let lines = tail.clamp(1, LINE << END_BITS).div_ceil(LINE) as u64 - 1;
        // The start of a larger buffer is not prefetched.
        let distance = (whole.len() / LINE).min((1 << DISTANCE_BITS) - 1) as u64;
        PrefetchHint(end << (END_BITS + DISTANCE_BITS) | distance << END_BITS | lines)
    }

    /// The hint as a number.
    #[inline]
    #[must_use]
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// The hint with this number.
    #[inline]
    #[must_use]
    pub fn from_bits(bits: u64) -> PrefetchHint {
        PrefetchHint(bits)
    }

    /// Prefetches the lines.
    #[inline]
    pub fn prefetch(self) {
        self.addresses().for_each(prefetch_address);
    }

    /// An address in each line: from the last line backward, then the first.
    #[inline]
    fn addresses(self) -> impl Iterator<Item = usize> {
        // Truncation is intended: the fields are smaller than a word.
        let end = (self.0 >> (END_BITS + DISTANCE_BITS)) as usize;
        let distance = (self.0 >> END_BITS) as usize & ((1 << DISTANCE_BITS) - 1);
        let lines = 1 + (self.0 as usize & ((1 << END_BITS) - 1));
        let distances = (1..=lines).chain(std::iter::once(distance));
        distances.map(move |distance| end.wrapping_sub(LINE * distance))
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::super::Buffer;
    use super::*;

    #[test]
    fn a_hint_has_the_first_line_and_those_of_the_tail() {
        for (len, tail) in [
            (4000, 300),
            (4096, 20),
            (130, 0),
            (70, 64),
            (64, 0),
            (1 << 19, 128),
        ] {
            let buffer = Buffer::from(vec![1; len]).with_tail(&vec![2; tail]);
            let hint = PrefetchHint::from_bits(buffer.hint().to_bits());
            assert_eq!(hint, buffer.hint());
            let start = buffer.as_ptr().addr();
            let end = start + len + tail;
            let addresses: Vec<usize> = hint.addresses().collect();
            assert_eq!(
                addresses.last().map(|at| at / LINE),
                Some(start / LINE),
                "{len} {tail}"
            );
            for byte in end - tail.min(4 * LINE)..end {
                let near = |at: &usize| (*at..at + LINE).contains(&byte);
                assert!(addresses.iter().any(near), "{len} {tail}: byte {byte:x}");
            }
        }
    }
}
