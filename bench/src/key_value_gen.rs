//! What a benchmark writes: keys from numbers, and values that can be told from their key.
//!
//! Keys are db_bench's: the number in 8 big-endian bytes, filled up with `0`, behind a prefix if there
//! are prefixes. The value of a key is a slice of one compressible text at a place that the key's
//! number determines, so that every read can be checked, whoever wrote the entry and when.

/// A small random number generator; the same seed gives the same numbers.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator of its own sequence for each seed.
    #[must_use]
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// The next 64 bits.
    #[inline]
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number from 0 up to 1.
    #[inline]
    pub fn share(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number below `bound`, which is not 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        // The high half of the product: no division, and no bias that a benchmark could see.
        ((u128::from(self.draw()) * u128::from(bound)) >> 64) as u64
    }
}

/// 64 bits that depend on all of `number`.
#[inline]
#[must_use]
pub fn mix(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Bytes of a key's number, and of a prefix's.
const NUMBER_LEN: usize = 8;

/// How numbers become keys.
///
/// ```text
/// without prefixes   number (8 bytes, big-endian) 0000...
/// with prefixes      number of the prefix (8) 0000... | number (8) 0000...
/// ```
///
/// Of `n` prefixes number `i` has the one with the number `i mod n`. What does not fit is cut off in
/// front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of the prefix; 0 if the number is all that there is.
    prefix_len: usize,
    /// Prefixes, at least 1.
    prefixes: u64,
}

impl Layout {
    /// Keys of `num` entries with `keys_per_prefix` entries behind each prefix of `prefix_len`
    /// bytes; 0 entries behind a prefix are no prefixes.
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

    /// Writes the key of `number` into `key`, whose length is the key size.
    #[inline]
    pub fn write(&self, number: u64, key: &mut [u8]) {
        let (prefix, rest) = key.split_at_mut(self.prefix_len);
        if !prefix.is_empty() {
            write_number(number % self.prefixes, prefix);
        }
        write_number(number, rest);
    }

    /// The number that [`Layout::write`] wrote.
    #[inline]
    #[must_use]
    pub fn number(&self, key: &[u8]) -> u64 {
        let key = &key[self.prefix_len.min(key.len())..];
        let digits = NUMBER_LEN.min(key.len());
        let number = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        key[..digits].iter().fold(0, number)
    }
}

/// Makes a prefix of more than [`NUMBER_LEN`] bytes one that no key has, between two that keys have.
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
    /// Values begin before it.
    places: u64,
}

/// Bytes that compress alike, as in db_bench.
const PIECE: usize = 100;

impl Values {
    /// Values of `len` bytes that compress to about `ratio` of their size; [`Values::of_len`] gives
    /// some of up to `longest` bytes, too.
    #[must_use]
    pub fn new(longest: usize, len: usize, ratio: f64) -> Values {
        let mut rng = Rng::new(301);
        let raw = ((PIECE as f64 * ratio) as usize).clamp(1, PIECE);
        // A multiple of the pieces, whatever lengths are asked for besides.
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

    /// The value of key `number`.
    #[inline]
    #[must_use]
    pub fn of(&self, number: u64) -> &[u8] {
        self.of_len(number, self.len)
    }

    /// The value of key `number` where it has `len` bytes; fewer if that is more than there are.
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
    fn keys_sort_as_their_numbers_and_lead_back_to_them() {
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
    fn each_prefix_has_as_many_keys_as_were_asked_for() {
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
    fn values_depend_on_their_key_alone() {
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
