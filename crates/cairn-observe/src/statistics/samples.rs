//! The samples of one histogram, as one thread at a time adds to them.

use super::distribution::{BUCKETS, Distribution, LIMITS, bucket_of};
use super::turn::Sum;

/// What is told of all samples at once.
pub(super) struct Sums {
    sum: Sum,
    sum_of_squares: Sum,
    min: Sum,
    max: Sum,
}

/// How many samples lie in each bucket.
pub(super) struct Buckets([Sum; BUCKETS]);

/// The samples of one histogram in one shard.
pub(super) struct Samples {
    sums: Sums,
    buckets: Buckets,
}

impl Samples {
    pub(super) fn new() -> Samples {
        Samples {
            sums: Sums::new(),
            buckets: Buckets::new(),
        }
    }

    /// As one.
    #[inline]
    pub(super) fn parts(&self) -> Parts<'_> {
        Parts(&self.sums, &self.buckets)
    }
}

impl Sums {
    pub(super) fn new() -> Sums {
        Sums {
            sum: Sum::new(0),
            sum_of_squares: Sum::new(0),
            min: Sum::new(LIMITS[BUCKETS - 1]),
            max: Sum::new(0),
        }
    }
}

impl Buckets {
    pub(super) fn new() -> Buckets {
        Buckets(std::array::from_fn(|_| Sum::new(0)))
    }
}

/// The samples of one histogram, wherever their parts lie.
pub(super) struct Parts<'a>(pub(super) &'a Sums, pub(super) &'a Buckets);

impl Parts<'_> {
    #[inline]
    pub(super) fn add(&self, value: u64) {
        let Parts(sums, buckets) = self;
        buckets.0[bucket_of(value)].add(1);
        sums.sum.add(value);
        sums.sum_of_squares.add(value.wrapping_mul(value));
        if value < sums.min.get() {
            sums.min.set(value);
        }
        if value > sums.max.get() {
            sums.max.set(value);
        }
    }

    pub(super) fn clear(&self) {
        let Parts(sums, buckets) = self;
        sums.sum.set(0);
        sums.sum_of_squares.set(0);
        sums.min.set(LIMITS[BUCKETS - 1]);
        sums.max.set(0);
        buckets.0.iter().for_each(|bucket| bucket.set(0));
    }

    /// Adds what is here to `to`. The buckets that can hold something lie between the smallest and
    /// the largest sample, so that a histogram of a few buckets is read in a few loads.
    pub(super) fn add_to(&self, to: &mut Distribution) {
        let Parts(sums, buckets) = self;
        let (min, max) = (sums.min.get(), sums.max.get());
        if min > max {
            return;
        }
        to.min = to.min.min(min);
        to.max = to.max.max(max);
        to.sum = to.sum.wrapping_add(sums.sum.get());
        to.sum_of_squares = to.sum_of_squares.wrapping_add(sums.sum_of_squares.get());
        let used = bucket_of(min)..=bucket_of(max);
        for (to, bucket) in to.buckets[used.clone()].iter_mut().zip(&buckets.0[used]) {
            *to += bucket.get();
        }
    }
}
