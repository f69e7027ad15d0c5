//! The data of a histogram and the statistics derived from it, with RocksDB's buckets and arithmetic: equal
//! samples give equal percentiles, to the last digit.

use std::fmt::Write as _;

/// The number of buckets of a histogram.
pub const BUCKETS: usize = 109;

/// The largest value of each bucket: 1, 2, and then 1.5 times the previous one, truncated to two digits.
pub const LIMITS: [u64; BUCKETS] = limits();

/// For each bit length, the bucket of the smallest value of that length.
const FIRST: [u8; 65] = first_of_octaves();

/// For each bit length, the largest value of each of the first two buckets with values of that
/// length. The last bucket is unbounded.
const BORDERS: [[u64; 2]; 65] = borders_of_octaves();

const fn borders_of_octaves() -> [[u64; 2]; 65] {
    let mut borders = [[u64::MAX; 2]; 65];
    let mut bits = 0;
    while bits < 65 {
        let first = FIRST[bits] as usize;
        if first < BUCKETS - 1 {
            borders[bits][0] = LIMITS[first];
        }
        if first + 1 < BUCKETS - 1 {
            borders[bits][1] = LIMITS[first + 1];
        }
        bits += 1;
    }
    borders
}

const fn limits() -> [u64; BUCKETS] {
    let mut limits = [0; BUCKETS];
    (limits[0], limits[1]) = (1, 2);
    let (mut at, mut exact) = (2, 2.0_f64);
    while at < BUCKETS {
        exact *= 1.5;
        let (mut digits, mut scale) = (exact as u64, 1);
        while digits / 10 > 10 {
            digits /= 10;
            scale *= 10;
        }
        limits[at] = digits * scale;
        at += 1;
    }
    limits
}

const fn first_of_octaves() -> [u8; 65] {
    let mut first = [0; 65];
    let mut bits = 1;
    while bits < 65 {
        let smallest = 1 << (bits - 1);
        let mut at = 0;
        while at < BUCKETS - 1 && LIMITS[at] < smallest {
            at += 1;
        }
        first[bits] = at as u8;
        bits += 1;
    }
    first
}

/// The bucket of `value`.
#[inline]
pub(crate) fn bucket_of(value: u64) -> usize {
    let bits = (u64::BITS - value.leading_zeros()) as usize;
    let first = usize::from(FIRST[bits]);
    // Limits grow by a half, so there are at most two between consecutive powers of two.
    let [low, high] = BORDERS[bits];
    first + usize::from(low < value) + usize::from(high < value)
}

/// The samples of a histogram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution {
    /// The number of samples.
    pub count: u64,
    /// The sum of the samples.
    pub sum: u64,
    /// The sum of their squares.
    pub sum_of_squares: u64,
    /// The minimum; the largest limit if there are no samples.
    pub min: u64,
    /// The maximum; 0 if there are no samples.
    pub max: u64,
    /// The number of samples in each bucket.
    pub buckets: [u64; BUCKETS],
}

impl Default for Distribution {
    fn default() -> Distribution {
        Distribution {
            count: 0,
            sum: 0,
            sum_of_squares: 0,
            min: LIMITS[BUCKETS - 1],
            max: 0,
            buckets: [0; BUCKETS],
        }
    }
}

/// Summary statistics of a histogram, RocksDB's `HistogramData`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HistogramData {
    /// The 50th percentile.
    pub median: f64,
    /// The 95th percentile.
    pub percentile95: f64,
    /// The 99th percentile.
    pub percentile99: f64,
    /// The mean.
    pub average: f64,
    /// The standard deviation.
    pub standard_deviation: f64,
    /// The maximum.
    pub max: f64,
    /// The number of samples.
    pub count: u64,
    /// The sum of the samples.
    pub sum: u64,
    /// The minimum; the largest limit if there are no samples.
    pub min: f64,
}

impl Distribution {
    /// Adds one sample.
    pub fn add(&mut self, value: u64) {
        self.add_many(value, 1);
    }

    /// Adds `count` equal samples.
    pub fn add_many(&mut self, value: u64, count: u64) {
        self.count += count;
        let sum = value.wrapping_mul(count);
        self.sum = self.sum.wrapping_add(sum);
        self.sum_of_squares = self.sum_of_squares.wrapping_add(sum.wrapping_mul(value));
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.buckets[bucket_of(value)] += count;
    }

    /// The estimated value that `percent` of the samples do not exceed. Samples are assumed to be uniformly
    /// distributed within a bucket.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> f64 {
        let threshold = self.count as f64 * (percent / 100.0);
        let mut below = 0_u64;
        for (at, &inside) in self.buckets.iter().enumerate() {
            let reached = below + inside;
            if reached as f64 >= threshold {
                let left = left_limit(at);
                let place = match inside {
                    0 => 0.0,
                    inside => (threshold - below as f64) / inside as f64,
                };
                let found = left as f64 + (LIMITS[at] - left) as f64 * place;
                return found.max(self.min as f64).min(self.max as f64);
            }
            below = reached;
        }
        self.max as f64
    }

    /// The mean; 0 without samples.
    #[must_use]
    pub fn average(&self) -> f64 {
        match self.count {
            0 => 0.0,
            count => self.sum as f64 / count as f64,
        }
    }

    /// The standard deviation; 0 without samples.
    #[must_use]
    pub fn standard_deviation(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        let (count, sum) = (self.count as f64, self.sum as f64);
        let variance = (self.sum_of_squares as f64 * count - sum * sum) / (count * count);
        variance.max(0.0).sqrt()
    }

    /// The summary statistics, as returned by RocksDB's `histogramData`.
    #[must_use]
    pub fn data(&self) -> HistogramData {
        HistogramData {
            median: self.percentile(50.0),
            percentile95: self.percentile(95.0),
            percentile99: self.percentile(99.0),
            average: self.average(),
            standard_deviation: self.standard_deviation(),
            max: self.max as f64,
            count: self.count,
            sum: self.sum,
            min: self.min as f64,
        }
    }

    /// The histogram as text, in RocksDB's format.
    #[must_use]
    pub fn text(&self) -> String {
        let none_is_zero = |value: u64| if self.count == 0 { 0 } else { value };
        let percentile = |percent| self.percentile(percent);
        let mut text = format!(
            "Count: {} Average: {:.4}  StdDev: {:.2}\nMin: {}  Median: {:.4}  Max: {}\n\
             Percentiles: P50: {:.2} P75: {:.2} P99: {:.2} P99.9: {:.2} P99.99: {:.2}\n\
             ------------------------------------------------------\n",
            self.count,
            self.average(),
            self.standard_deviation(),
            none_is_zero(self.min),
            percentile(50.0),
            none_is_zero(self.max),
            percentile(50.0),
            percentile(75.0),
            percentile(99.0),
            percentile(99.9),
            percentile(99.99),
        );
        let share = 100.0 / self.count as f64;
        let mut reached = 0;
        for (at, &inside) in self.buckets.iter().enumerate() {
            if inside == 0 {
                continue;
            }
            reached += inside;
            let marks = (share * inside as f64 / 5.0 + 0.5) as usize;
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{} {:7}, {:7} ] {inside:8} {:7.3}% {:7.3}% {}",
                if at == 0 { '[' } else { '(' },
                left_limit(at),
                LIMITS[at],
                share * inside as f64,
                share * reached as f64,
                "#".repeat(marks),
            );
        }
        text
    }
}

/// The lower limit of a bucket, exclusive.
fn left_limit(bucket: usize) -> u64 {
    match bucket {
        0 => 0,
        at => LIMITS[at - 1],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_limits_are_rocksdbs() {
        assert_eq!(LIMITS[..12], [1, 2, 3, 4, 6, 10, 15, 22, 34, 51, 76, 110]);
        assert_eq!(LIMITS[BUCKETS - 1], 13_000_000_000_000_000_000);
        // One more limit would exceed 64 bits.
        assert!(2.0 * 1.5_f64.powi(108) > 2.0_f64.powi(64));
    }

    #[test]
    fn values_map_to_the_first_sufficient_bucket() {
        let edges = LIMITS
            .iter()
            .flat_map(|&limit| [limit - 1, limit, limit.saturating_add(1)]);
        for value in edges.chain((0..64).map(|bit| 1 << bit)).chain([u64::MAX]) {
            let slow = LIMITS
                .partition_point(|&limit| limit < value)
                .min(BUCKETS - 1);
            assert_eq!(bucket_of(value), slow, "{value}");
        }
    }

    #[test]
    fn an_empty_histogram_has_zero_percentiles() {
        let empty = Distribution::default();
        let data = empty.data();
        assert_eq!((data.median, data.percentile99, data.max), (0.0, 0.0, 0.0));
        assert_eq!(
            (data.count, data.average, data.standard_deviation),
            (0, 0.0, 0.0)
        );
        assert!(empty.text().starts_with(
            "Count: 0 Average: 0.0000  StdDev: 0.00\nMin: 0  Median: 0.0000  Max: 0\n"
        ));
        assert!(empty.text().ends_with("----\n"));
    }

    #[test]
    fn percentiles_are_interpolated_within_a_bucket() {
        let mut some = Distribution::default();
        for value in 1..=100 {
            some.add(value);
        }
        // 34 samples up to 34, and 17 up to 51, including the 50th.
        assert!((some.percentile(50.0) - 50.0).abs() < 1e-9);
        // 76 up to 76, and 24 in the next bucket of 34 values. The 95th is interpolated at 76 + 34 * 19/24,
        // more than the largest sample.
        assert!((some.percentile(95.0) - 100.0).abs() < 1e-9);
        assert_eq!(some.data().sum, 5050);
        assert!((some.standard_deviation() - 28.866_07).abs() < 1e-4);
        assert!(
            some.text()
                .contains("(      76,     110 ]       24  24.000% 100.000% #####\n")
        );
    }
}
