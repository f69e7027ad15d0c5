//! The benchmark of a block cache without a database, like RocksDB's cache_bench.
//!
//! Threads look up keys with a Zipf distribution of exponent 0.99 and insert a value of 4 to 16 KiB after
//! each miss. The number of keys is derived from the capacity by Che's approximation for LRU caches, so that
//! the hit ratio of an LRU cache is about the requested one. Caches with other policies use the same keys,
//! and their hit ratio is a result.

use crate::key_value_gen::{Rng, mix};

/// The skew of the keys.
pub const SKEW: f64 = 0.99;

/// The smallest value, and the number of sizes.
const SHORTEST: u64 = 4 << 10;
const SIZES: u64 = (12 << 10) + 1;

/// Ranks whose probabilities are summed individually.
const SINGLE_RANKS: u64 = 1000;
/// The ratio of consecutive bounds of groups of ranks with the same probability.
const GROUP_RATIO: f64 = 1.01;

/// A case of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// The requested hit ratio of an LRU cache in percent, from 1 to 99.
    pub hits: u64,
    /// Number of threads.
    pub threads: u64,
}

impl Case {
    /// The cases of the benchmark `cache`.
    pub const ALL: [Case; 6] = [
        Case::new(95, 1),
        Case::new(95, 2),
        Case::new(95, 16),
        Case::new(60, 1),
        Case::new(60, 2),
        Case::new(60, 16),
    ];

    const fn new(hits: u64, threads: u64) -> Case {
        Case { hits, threads }
    }

    /// Returns the case of benchmark `cacheHtT`: H percent hits, T threads.
    #[must_use]
    pub fn named(name: &str) -> Option<Case> {
        let (hits, threads) = name.strip_prefix("cache")?.split_once('t')?;
        let case = Case::new(hits.parse().ok()?, threads.parse().ok()?);
        ((1..100).contains(&case.hits) && case.threads > 0).then_some(case)
    }

    /// Returns the name of the benchmark.
    #[must_use]
    pub fn name(&self) -> String {
        format!("cache{}t{}", self.hits, self.threads)
    }
}

/// Returns the key of a number.
#[inline]
#[must_use]
pub fn key(number: u64) -> [u64; 2] {
    [mix(number.wrapping_add(1)), mix(!number)]
}

/// Returns the size of the value of a number.
#[inline]
#[must_use]
pub fn value_len(number: u64) -> usize {
    (SHORTEST + Rng::new(number).below(SIZES)) as usize
}

/// Returns the number of values that fit in a cache of `capacity` bytes.
#[must_use]
pub fn entries(capacity: usize) -> u64 {
    (capacity as u64 / (SHORTEST + SIZES / 2)).max(1)
}

/// Returns the number of keys with which an LRU cache of `entries` entries has the hit ratio `hits`.
#[must_use]
pub fn key_space(entries: u64, hits: f64) -> u64 {
    let (mut low, mut high) = ((entries as f64).ln(), (entries as f64 * 1e6).ln());
    for _ in 0..40 {
        let middle = f64::midpoint(low, high);
        match lru_hit_ratio(middle.exp(), entries as f64) > hits {
            true => low = middle,
            false => high = middle,
        }
    }
    (low.exp().round() as u64).max(entries + 1)
}

/// Returns the hit ratio of an LRU cache of `entries` entries with `keys` keys.
///
/// By Che's approximation, an entry of probability `p` is cached with probability `1 - exp(-p t)`, that of a
/// request for it among the last `t` requests; `t` is chosen such that `entries` entries are cached.
fn lru_hit_ratio(keys: f64, entries: f64) -> f64 {
    let groups = groups(keys);
    let cached = |age: f64| -> f64 {
        let parts = groups.iter();
        parts
            .map(|(count, p)| count * (1.0 - (-p * age).exp()))
            .sum()
    };
    let (mut low, mut high) = (0.0, 80.0f64);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        match cached(middle.exp()) < entries {
            true => low = middle,
            false => high = middle,
        }
    }
    let age = low.exp();
    let parts = groups.iter();
    parts
        .map(|(count, p)| count * p * (1.0 - (-p * age).exp()))
        .sum()
}

/// Returns the number of keys and their probability in each group of keys with similar probabilities.
fn groups(keys: f64) -> Vec<(f64, f64)> {
    let single = (1..=SINGLE_RANKS.min(keys as u64)).map(|rank| (1.0, (rank as f64).powf(-SKEW)));
    let mut groups: Vec<(f64, f64)> = single.collect();
    let mut from = SINGLE_RANKS as f64 + 0.5;
    while from < keys {
        let to = (from * GROUP_RATIO).min(keys);
        groups.push((to - from, f64::midpoint(from, to).powf(-SKEW)));
        from = to;
    }
    let sum: f64 = groups.iter().map(|(count, weight)| count * weight).sum();
    groups.iter_mut().for_each(|(_, weight)| *weight /= sum);
    groups
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use super::*;
    use crate::ycsb::Zipfian;

    #[test]
    fn cases_have_names() {
        for case in Case::ALL {
            assert_eq!(Case::named(&case.name()), Some(case));
        }
        let no_case = [
            "cache",
            "cache95",
            "cache0t1",
            "cache100t1",
            "cache95t0",
            "t1",
        ];
        assert!(no_case.iter().all(|name| Case::named(name).is_none()));
    }

    #[test]
    fn values_have_all_sizes() {
        let sizes: Vec<usize> = (0..200_000).map(value_len).collect();
        assert_eq!(sizes.iter().min(), Some(&(4 << 10)));
        assert_eq!(sizes.iter().max(), Some(&(16 << 10)));
        let mean = sizes.iter().sum::<usize>() / sizes.len();
        assert!((10_100..10_400).contains(&mean), "{mean}");
        assert_eq!(entries(1 << 30), 104_857);
    }

    /// An exact LRU cache has the hit ratio for which the keys were chosen.
    #[test]
    fn the_key_space_gives_the_hit_ratio() {
        for hits in [0.95, 0.6] {
            let entries = 2000;
            let keys = key_space(entries, hits);
            let (zipfian, mut rng) = (Zipfian::new(keys), Rng::new(3));
            let (mut ages, mut at) = (BTreeMap::new(), HashMap::new());
            let (mut found, mut looked) = (0, 0);
            for time in 0..400_000u64 {
                let number = zipfian.rank(&mut rng);
                let before = at.insert(number, time);
                if let Some(before) = before {
                    ages.remove(&before);
                } else if at.len() as u64 > entries {
                    let (_, oldest) = ages.pop_first().unwrap();
                    at.remove(&oldest);
                }
                ages.insert(time, number);
                if time > 100_000 {
                    looked += 1;
                    found += u64::from(before.is_some());
                }
            }
            let measured = found as f64 / f64::from(looked);
            assert!((measured - hits).abs() < 0.01, "{hits} {measured} {keys}");
        }
    }
}
