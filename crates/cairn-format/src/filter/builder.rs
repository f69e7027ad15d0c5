//! Collects hashes and makes a filter of them.

use super::{LEGACY_SEED, METADATA_LEN, bloom, ribbon};
use crate::hash::{hash32, hash64};

/// Below this many slots a Bloom filter is smaller than a Ribbon filter.
const MIN_RIBBON_SLOTS: u64 = 1024;
const MAX_RIBBON_KEYS: usize = 950_000_000;

/// Which filter to build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Legacy,
    Fast,
    Ribbon,
}

/// Builds filters, one after another.
pub struct FilterBuilder {
    shape: Shape,
    /// Thousandths of a bit of a Bloom filter for each key; a Ribbon filter is as good as that.
    millibits: u32,
    hashes: Vec<u64>,
}

impl FilterBuilder {
    pub(super) fn new(shape: Shape, millibits: u32) -> FilterBuilder {
        FilterBuilder {
            shape,
            millibits,
            hashes: Vec::new(),
        }
    }

    /// Adds a user key without timestamp, or a prefix. The same key again right after is one.
    #[inline]
    pub fn add_key(&mut self, key: &[u8]) {
        let hash = match self.shape {
            Shape::Legacy => u64::from(hash32(key, LEGACY_SEED)),
            Shape::Fast | Shape::Ribbon => hash64(key),
        };
        self.add_hash(hash);
    }

    /// Adds a key by its hash, which must be the one that filters of this shape ask for: 32 bits
    /// below format version 5, 64 from there on. The same hash again right after is one.
    #[inline]
    pub fn add_hash(&mut self, hash: u64) {
        if self.hashes.last() != Some(&hash) {
            self.hashes.push(hash);
        }
    }

    /// How many keys have been added.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.hashes.len()
    }

    /// Bytes that the filter would have if it were finished now, about.
    #[must_use]
    pub fn estimated_size(&self) -> usize {
        let bloom = bloom::fast_len(self.hashes.len(), self.millibits) + METADATA_LEN;
        match self.shape {
            Shape::Ribbon if !self.hashes.is_empty() => {
                bloom.min(ribbon::len(self.hashes.len(), self.rate()))
            }
            _ => bloom,
        }
    }

    /// Keys for which a filter takes about `bytes`, at least one: where partitions are cut.
    #[must_use]
    pub fn keys_that_fit(&self, bytes: usize) -> usize {
        let bits = bytes.saturating_sub(METADATA_LEN) as f64 * 8.0;
        let per_key = match self.shape {
            Shape::Legacy | Shape::Fast => f64::from(self.millibits) / 1000.0,
            // One slot for a key and 5 % of slots stay empty.
            Shape::Ribbon => (1.0 / self.rate()).log2() * 1.05,
        };
        ((bits / per_key) as usize).max(1)
    }

    fn rate(&self) -> f64 {
        bloom::fast_false_positive_rate(self.millibits)
    }

    /// The filter of the keys added, and begins the next one. Without keys it is one that matches
    /// nothing.
    #[must_use]
    pub fn finish(&mut self) -> Vec<u8> {
        let hashes = std::mem::take(&mut self.hashes);
        self.build(hashes.iter().copied())
    }

    /// The filter of `hashes`, as if each had been given to [`FilterBuilder::add_hash`]. They are walked more
    /// than once and not copied.
    #[must_use]
    pub fn build(&self, hashes: impl Iterator<Item = u64> + Clone) -> Vec<u8> {
        let hashes = Distinct { hashes, last: None };
        let keys = hashes.clone().count();
        if keys == 0 {
            return vec![0; METADATA_LEN];
        }
        match self.shape {
            Shape::Legacy => bloom::build_legacy(hashes, keys, self.millibits),
            Shape::Ribbon if self.ribbon_pays(keys) => {
                // Bad luck with every seed has the odds of one to 20^256.
                ribbon::build(&hashes, keys, self.rate())
                    .unwrap_or_else(|| bloom::build_fast(hashes, keys, self.millibits))
            }
            Shape::Fast | Shape::Ribbon => bloom::build_fast(hashes, keys, self.millibits),
        }
    }

    fn ribbon_pays(&self, keys: usize) -> bool {
        keys <= MAX_RIBBON_KEYS
            && ribbon::slots(keys) >= MIN_RIBBON_SLOTS
            && ribbon::len(keys, self.rate()) < bloom::fast_len(keys, self.millibits) + METADATA_LEN
    }
}

/// `hashes`, of equal neighbours one.
#[derive(Clone)]
struct Distinct<I> {
    hashes: I,
    last: Option<u64>,
}

impl<I: Iterator<Item = u64>> Iterator for Distinct<I> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        let last = self.last;
        self.last = self.hashes.find(|&hash| Some(hash) != last);
        self.last
    }

    #[inline]
    fn fold<B, F: FnMut(B, u64) -> B>(self, first: B, mut add: F) -> B {
        let both = (first, self.last);
        let (folded, _) = self
            .hashes
            .fold(both, |(folded, last), hash| match Some(hash) == last {
                true => (folded, last),
                false => (add(folded, hash), Some(hash)),
            });
        folded
    }
}
