//! Key and value generation.
//!
//! Keys have db_bench's form: the number in 8 big-endian bytes, padded with `0`, after a prefix if
//! there are prefixes. The value of a key is a slice of one compressible text at an offset determined
//! by the key's number, so that every read can be verified.

use cairn_platform::prefetch_address;

/// A small pseudo-random number generator.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Creates a generator with this seed.
    #[must_use]
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// Returns the next 64 bits.
    #[inline]
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Returns a number from 0 to 1, exclusive.
    #[inline]
    pub fn share(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a number below `bound`, which must not be 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        // The high half of the product: no division, and negligible bias.
        ((u128::from(self.draw()) * u128::from(bound)) >> 64) as u64
    }
}

/// Hashes `number`.
#[inline]
#[must_use]
pub fn mix(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Size of the number of a key or prefix.
const NUMBER_LEN: usize = 8;

/// The mapping of numbers to keys.
///
/// ```text
/// without prefixes   number (8 bytes, big-endian) 0000...
/// with prefixes      number of the prefix (8) 0000... | number (8) 0000...
/// ```
///
/// With `n` prefixes, number `i` has prefix `i mod n`. Excess bytes are cut off at the front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Length of the prefix; 0 for none.
    prefix_len: usize,
    /// Number of prefixes, at least 1.
    prefixes: u64,
}

impl Layout {
    /// Creates the layout of `num` entries with `keys_per_prefix` entries for each prefix of
    /// `prefix_len` bytes; 0 entries per prefix for none.
    #[must_use]
    pub fn new(num: u64, prefix_len: usize, keys_per_prefix: u64) -> Layout {
        match keys_per_prefix {
            0 => Layout {
                prefix_len: 0,
                prefixes: 1,
            },
            some => Layout {
                prefix_len,
                prefixes: (num / some).max(1),
            },
        }
    }

    /// Writes the key of `number` to `key`, whose length is the key size.
    #[inline]
    pub fn write(&self, number: u64, key: &mut [u8]) {
        let (prefix, rest) = key.split_at_mut(self.prefix_len);
        if !prefix.is_empty() {
            write_number(number % self.prefixes, prefix);
        }
        write_number(number, rest);
    }

    /// Returns the number of a key.
    #[inline]
    #[must_use]
    pub fn number(&self, key: &[u8]) -> u64 {
        let key = &key[self.prefix_len.min(key.len())..];
        let digits = NUMBER_LEN.min(key.len());
        let number = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        key[..digits].iter().fold(0, number)
    }
}

/// Changes a prefix of more than `NUMBER_LEN` bytes to a missing one between two existing ones.
#[inline]
pub fn make_missing(key: &mut [u8]) {
    key[NUMBER_LEN] = b'1';
}

#[inline]
fn write_number(number: u64, into: &mut [u8]) {
    let digits = NUMBER_LEN.min(into.len());
    let (head, tail) = into.split_at_mut(digits);
    head.copy_from_slice(&number.to_be_bytes()[NUMBER_LEN - digits..]);
    tail.fill(b'0');
}

/// The values of a run.
#[derive(Debug)]
pub struct Values {
    text: Vec<u8>,
    len: usize,
    /// Exclusive upper bound of value offsets.
    places: u64,
}

/// Bytes of a value that are prefetched; the processor foresees the others.
const PREFETCHED: usize = 256;

const CACHE_LINE: usize = 64;

/// Size of a compressible piece, as in db_bench.
const PIECE: usize = 100;

impl Values {
    /// Creates values of `len` bytes that compress to about `ratio` of their size; [`Values::of_len`]
    /// returns values of up to `longest` bytes.
    #[must_use]
    pub fn new(longest: usize, len: usize, ratio: f64) -> Values {
        let mut rng = Rng::new(301);
        let raw = ((PIECE as f64 * ratio) as usize).clamp(1, PIECE);
        // A multiple of the piece size, independent of other lengths.
        let span = (1 << 20).max(2 * len).next_multiple_of(PIECE);
        let mut text = Vec::new();
        while text.len() < span - len + longest.max(len) {
            let piece: Vec<u8> = (0..raw).map(|_| b' ' + (rng.below(95) as u8)).collect();
            text.extend(piece.iter().cycle().take(PIECE));
        }
        Values {
            text,
            len,
            places: (span - len) as u64,
        }
    }

    /// Returns the value of key `number`.
    #[inline]
    #[must_use]
    pub fn of(&self, number: u64) -> &[u8] {
        self.of_len(number, self.len)
    }

    /// Prefetches the first cache lines of the value of key `number`.
    #[inline]
    pub fn prefetch(&self, number: u64) {
        let value = &self.of(number)[..self.len.min(PREFETCHED)];
        for piece in value.chunks(CACHE_LINE) {
            prefetch_address(piece.as_ptr().addr());
        }
        if let Some(last) = value.last() {
            prefetch_address(std::ptr::from_ref(last).addr());
        }
    }

    /// Returns the value of key `number` with `len` bytes, or fewer at the end of the text.
    #[inline]
    #[must_use]
    pub fn of_len(&self, number: u64, len: usize) -> &[u8] {
        let at = ((u128::from(mix(number)) * u128::from(self.places)) >> 64) as usize;
        &self.text[at..(at + len).min(self.text.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_like_their_numbers_and_are_invertible() {
        let layout = Layout::new(1000, 5, 0);
        for len in [1, 4, 8, 16, 20] {
            let (mut a, mut b) = (vec![0; len], vec![0; len]);
            layout.write(7, &mut a);
            layout.write(200, &mut b);
            assert!(a < b);
            assert_eq!((layout.number(&a), layout.number(&b)), (7, 200));
        }
    }

    #[test]
    fn each_prefix_has_the_requested_number_of_keys() {
        let layout = Layout::new(1000, 10, 8);
        let mut count = std::collections::BTreeMap::new();
        for number in 0..1000 {
            let mut key = [0; 20];
            layout.write(number, &mut key);
            assert_eq!(layout.number(&key), number);
            *count.entry(key[..10].to_vec()).or_insert(0) += 1;
        }
        assert_eq!(count.len(), 125);
        assert!(count.values().all(|count| *count == 8));
        let mut missing = [0; 20];
        layout.write(7, &mut missing);
        make_missing(&mut missing);
        assert!(!count.contains_key(&missing[..10]));
        let last = count.keys().next_back().unwrap();
        assert!(missing[..10] < last[..]);
    }

    #[test]
    fn values_depend_only_on_their_key() {
        let values = Values::new(100, 100, 0.5);
        assert_eq!(values.of(5), Values::new(100, 100, 0.5).of(5));
        assert_ne!(values.of(5), values.of(6));
        assert_eq!(Values::new(0, 3 << 20, 0.5).of(1).len(), 3 << 20);
        assert_eq!(Values::new(0, 0, 0.5).of(1), b"");
        let long = Values::new(5000, 100, 0.5);
        assert_eq!(long.of(5), values.of(5));
        for number in 0..1000 {
            let value = long.of_len(number, 5000);
            assert_eq!((value.len(), &value[..100]), (5000, values.of(number)));
        }
    }

    #[test]
    fn random_numbers_stay_below_their_bound() {
        let mut rng = Rng::new(1);
        assert!((0..1000).all(|_| rng.below(7) < 7));
    }
}
