//! The builder of filters.

use super::{LEGACY_SEED, METADATA_LEN, bloom, ribbon};
use crate::hash::{hash32, hash64};

/// The number of slots below which a Bloom filter is smaller than a Ribbon filter.
const MIN_RIBBON_SLOTS: u64 = 1024;
const MAX_RIBBON_KEYS: usize = 950_000_000;

/// The type of filter to build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Legacy,
    Fast,
    Ribbon,
}

/// A builder of consecutive filters.
pub struct FilterBuilder {
    shape: Shape,
    /// Thousandths of a bit per key for a Bloom filter; a Ribbon filter is given the same
    /// false-positive rate.
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

    /// Adds a user key without timestamp, or a prefix. Ignored if it equals the last one.
    #[inline]
    pub fn add_key(&mut self, key: &[u8]) {
        let hash = match self.shape {
            Shape::Legacy => u64::from(hash32(key, LEGACY_SEED)),
            Shape::Fast | Shape::Ribbon => hash64(key),
        };
        self.add_hash(hash);
    }

    /// Adds a key by its hash, which must be the one for the filter's type: 32 bits before format
    /// version 5, 64 bits since. Ignored if it equals the last one.
    #[inline]
    pub fn add_hash(&mut self, hash: u64) {
        if self.hashes.last() != Some(&hash) {
            self.hashes.push(hash);
        }
    }

    /// The number of keys added.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.hashes.len()
    }

    /// The approximate length of the filter if it were finished now.
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

    /// The number of keys, at least one, for which a filter has about `bytes`. Used to partition filters.
    #[must_use]
    pub fn keys_that_fit(&self, bytes: usize) -> usize {
        let bits = bytes.saturating_sub(METADATA_LEN) as f64 * 8.0;
        let per_key = match self.shape {
            Shape::Legacy | Shape::Fast => f64::from(self.millibits) / 1000.0,
            // One slot per key, with 5 % of the slots empty.
            Shape::Ribbon => (1.0 / self.rate()).log2() * 1.05,
        };
        ((bits / per_key) as usize).max(1)
    }

    fn rate(&self) -> f64 {
        bloom::fast_false_positive_rate(self.millibits)
    }

    /// The memory that [`FilterBuilder::build`] uses for a filter of `keys` keys, its result included, in bytes.
    #[must_use]
    pub fn memory_to_build(&self, keys: usize) -> usize {
        let bloom = bloom::fast_len(keys, self.millibits) + METADATA_LEN;
        match self.shape {
            Shape::Ribbon if self.ribbon_pays(keys) => {
                let equations = ribbon::slots(keys) as usize * ribbon::EQUATION_BYTES;
                equations + ribbon::len(keys, self.rate())
            }
            _ => bloom,
        }
    }

    /// Finishes the filter and starts the next one. A filter without keys matches nothing.
    #[must_use]
    pub fn finish(&mut self) -> Vec<u8> {
        let hashes = std::mem::take(&mut self.hashes);
        self.build(hashes.iter().copied())
    }

    /// Builds a filter of `hashes`, as if each were passed to [`FilterBuilder::add_hash`]. They are
    /// iterated several times and not copied.
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
                // The probability that all seeds fail is 20^-256.
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

/// `hashes`, with consecutive duplicates removed.
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
        let mut last = self.last;
        self.hashes.fold(first, |folded, hash| {
            match last.replace(hash) == Some(hash) {
                true => folded,
                false => add(folded, hash),
            }
        })
    }
}
