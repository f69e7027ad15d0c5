//! What a benchmark writes: keys from numbers, and values that can be told from their key.
//!
//! Keys are db_bench's: the number in 8 big-endian bytes, filled up with `0`. The value of a key
//! is a slice of one compressible text at a place that the key's number determines, so that every
//! read can be checked, whoever wrote the entry and when.

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

/// Bytes of a key's number.
const NUMBER_LEN: usize = 8;

/// Writes the key of `number` into `key`, whose length is the key size.
#[inline]
pub fn write_key(number: u64, key: &mut [u8]) {
    let digits = NUMBER_LEN.min(key.len());
    let (head, tail) = key.split_at_mut(digits);
    head.copy_from_slice(&number.to_be_bytes()[NUMBER_LEN - digits..]);
    tail.fill(b'0');
}

/// The number that [`write_key`] wrote.
#[inline]
#[must_use]
pub fn number_of(key: &[u8]) -> u64 {
    let digits = NUMBER_LEN.min(key.len());
    let number = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
    key[..digits].iter().fold(0, number)
}

/// The values of a run.
#[derive(Debug)]
pub struct Values {
    text: Vec<u8>,
    len: usize,
}

/// Bytes that compress alike, as in db_bench.
const PIECE: usize = 100;

impl Values {
    /// Values of `len` bytes that compress to about `ratio` of their size.
    #[must_use]
    pub fn new(len: usize, ratio: f64) -> Values {
        let mut rng = Rng::new(301);
        let raw = ((PIECE as f64 * ratio) as usize).clamp(1, PIECE);
        let mut text = Vec::new();
        while text.len() < (1 << 20).max(2 * len) {
            let piece: Vec<u8> = (0..raw).map(|_| b' ' + (rng.below(95) as u8)).collect();
            text.extend(piece.iter().cycle().take(PIECE));
        }
        Values { text, len }
    }

    /// The value of key `number`.
    #[inline]
    #[must_use]
    pub fn of(&self, number: u64) -> &[u8] {
        let places = (self.text.len() - self.len) as u64;
        let at = ((u128::from(mix(number)) * u128::from(places)) >> 64) as usize;
        &self.text[at..at + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_as_their_numbers_and_lead_back_to_them() {
        for len in [1, 4, 8, 16, 20] {
            let (mut a, mut b) = (vec![0; len], vec![0; len]);
            write_key(7, &mut a);
            write_key(200, &mut b);
            assert!(a < b);
            assert_eq!((number_of(&a), number_of(&b)), (7, 200));
        }
    }

    #[test]
    fn values_depend_on_their_key_alone() {
        let values = Values::new(100, 0.5);
        assert_eq!(values.of(5), Values::new(100, 0.5).of(5));
        assert_ne!(values.of(5), values.of(6));
        assert_eq!(Values::new(3 << 20, 0.5).of(1).len(), 3 << 20);
        assert_eq!(Values::new(0, 0.5).of(1), b"");
    }

    #[test]
    fn random_numbers_stay_below_their_bound() {
        let mut rng = Rng::new(1);
        assert!((0..1000).all(|_| rng.below(7) < 7));
    }
}
