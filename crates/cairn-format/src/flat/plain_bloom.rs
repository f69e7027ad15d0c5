//! The Bloom filter of a PlainTable: six probes in the whole filter or, with locality, in one cache line of it.

use super::plain::HASH_SEED;
use crate::hash::hash32;

/// The number of probes.
const PROBES: u32 = 6;
/// The bits of a cache line.
const LINE_BITS: u32 = 512;

/// A Bloom filter under construction, or one that is looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainBloom {
    bits: Vec<u8>,
    /// The number of cache lines; 0 without locality.
    lines: u32,
}

/// The hash of a key or prefix.
#[must_use]
pub fn hash_of(key: &[u8]) -> u32 {
    hash32(key, HASH_SEED)
}

impl PlainBloom {
    /// Creates an empty filter of at least `bits` bits, with locality if `has_locality`.
    #[must_use]
    pub fn new(bits: u32, has_locality: bool) -> PlainBloom {
        let (bytes, lines) = match has_locality {
            // An odd number of lines lets more bits of the hash decide on the line.
            true => {
                let lines = bits.div_ceil(LINE_BITS) | 1;
                (lines as usize * (LINE_BITS / 8) as usize, lines)
            }
            false => (bits.div_ceil(8) as usize, 0),
        };
        PlainBloom {
            bits: vec![0; bytes],
            lines,
        }
    }

    /// The filter in the block `bits`, with `lines` cache lines, which are 0 without locality. `None` if the block is
    /// empty or shorter than its lines.
    #[must_use]
    pub fn decode(bits: &[u8], lines: u32) -> Option<PlainBloom> {
        let is_whole = lines as u64 * u64::from(LINE_BITS / 8) <= bits.len() as u64;
        let is_small = bits.len() <= (u32::MAX / 8) as usize;
        (!bits.is_empty() && is_whole && is_small).then(|| PlainBloom {
            bits: bits.to_vec(),
            lines,
        })
    }

    /// The block of the filter.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bits
    }

    /// The number of cache lines; 0 without locality.
    #[must_use]
    pub fn lines(&self) -> u32 {
        self.lines
    }

    /// Adds a key or prefix.
    pub fn add(&mut self, key: &[u8]) {
        self.add_hash(hash_of(key));
    }

    /// Adds the hash of a key or prefix.
    pub fn add_hash(&mut self, hash: u32) {
        for (byte, mask) in self.probes(hash) {
            self.bits[byte] |= mask;
        }
    }

    /// True if `key` may have been added.
    #[must_use]
    pub fn may_contain(&self, key: &[u8]) -> bool {
        let mut probes = self.probes(hash_of(key)).into_iter();
        probes.all(|(byte, mask)| self.bits[byte] & mask != 0)
    }

    /// The bytes and bits of `hash`.
    fn probes(&self, mut hash: u32) -> [(usize, u8); PROBES as usize] {
        let delta = hash.rotate_right(17);
        let mut probes = [(0, 0); PROBES as usize];
        let line = match self.lines {
            0 => 0,
            lines => (hash.rotate_right(11) % lines) as usize * (LINE_BITS / 8) as usize,
        };
        let total = (self.bits.len() as u32).saturating_mul(8).max(1);
        for probe in &mut probes {
            let bit = match self.lines {
                0 => hash % total,
                _ => hash % LINE_BITS,
            };
            *probe = (line + (bit / 8) as usize, 1 << (bit % 8));
            if self.lines != 0 {
                hash = hash.rotate_right(LINE_BITS.ilog2());
            }
            hash = hash.wrapping_add(delta);
        }
        probes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn blocks_shorter_than_their_lines_are_rejected() {
        assert_eq!(PlainBloom::decode(&[], 0), None);
        assert_eq!(PlainBloom::decode(&[0; 63], 1), None);
        assert_eq!(PlainBloom::decode(&[0; 64], u32::MAX), None);
        assert!(PlainBloom::decode(&[0; 64], 1).is_some());
    }

    #[test]
    fn absent_keys_are_mostly_excluded() {
        for locality in [false, true] {
            let mut bloom = PlainBloom::new(20_000, locality);
            (0u32..2000).for_each(|n| bloom.add(&n.to_be_bytes()));
            let wrong = (2000u32..12_000)
                .filter(|n| bloom.may_contain(&n.to_be_bytes()))
                .count();
            assert!((1..400).contains(&wrong), "{wrong} of 10,000");
        }
    }

    proptest! {
        #[test]
        fn added_keys_are_found(
            keys in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 1..50),
            bits in 1u32..2000,
            locality: bool,
        ) {
            let mut bloom = PlainBloom::new(bits, locality);
            keys.iter().for_each(|key| bloom.add(key));
            let again = PlainBloom::decode(bloom.bytes(), bloom.lines()).unwrap();
            prop_assert!(keys.iter().all(|key| again.may_contain(key)));
        }
    }
}
