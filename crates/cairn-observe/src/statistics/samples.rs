//! The samples of one histogram in a shard, updated by one thread at a time.

use super::histogram_data::{BUCKETS, Distribution, LIMITS, bucket_of};
use super::single_writer::Sum;

/// The samples of one histogram in one shard.
pub(super) struct Samples {
    sum: Sum,
    sum_of_squares: Sum,
    min: Sum,
    max: Sum,
    /// The number of samples in each bucket.
    buckets: [Sum; BUCKETS],
}

impl Samples {
    pub(super) fn new() -> Samples {
        Samples {
            sum: Sum::new(0),
            sum_of_squares: Sum::new(0),
            min: Sum::new(LIMITS[BUCKETS - 1]),
            max: Sum::new(0),
            buckets: std::array::from_fn(|_| Sum::new(0)),
        }
    }

    #[inline]
    pub(super) fn add(&self, value: u64) {
        self.buckets[bucket_of(value)].add(1);
        self.sum.add(value);
        self.sum_of_squares.add(value.wrapping_mul(value));
        if value < self.min.get() {
            self.min.set(value);
        }
        if value > self.max.get() {
            self.max.set(value);
        }
    }

    pub(super) fn clear(&self) {
        self.sum.set(0);
        self.sum_of_squares.set(0);
        self.min.set(LIMITS[BUCKETS - 1]);
        self.max.set(0);
        self.buckets.iter().for_each(|bucket| bucket.set(0));
    }

    /// Adds the samples to `to`. Only the buckets between the minimum and the maximum can be non-empty, so a
    /// histogram with few buckets in use is read with a few loads.
    pub(super) fn add_to(&self, to: &mut Distribution) {
        let (min, max) = (self.min.get(), self.max.get());
        if min > max {
            return;
        }
        to.min = to.min.min(min);
        to.max = to.max.max(max);
        to.sum = to.sum.wrapping_add(self.sum.get());
        to.sum_of_squares = to.sum_of_squares.wrapping_add(self.sum_of_squares.get());
        let used = bucket_of(min)..=bucket_of(max);
        for (to, bucket) in to.buckets[used.clone()].iter_mut().zip(&self.buckets[used]) {
            *to += bucket.get();
        }
    }
}

/// The number of occurrences of the first two distinct values of a histogram. Where most samples
/// are equal (values of the same length, gets that find nothing), one addition replaces
/// [`Samples::add`].
pub(super) struct CommonValues([(Sum, Sum); 2]);

impl CommonValues {
    pub(super) fn new() -> CommonValues {
        CommonValues(std::array::from_fn(|_| (Sum::new(0), Sum::new(0))))
    }

    /// Adds a sample if it is one of the two values.
    #[inline]
    pub(super) fn add(&self, value: u64) -> bool {
        // The value plus one, so that 0 means unset.
        let Some(name) = value.checked_add(1) else {
            return false;
        };
        for (known, count) in &self.0 {
            if known.get() == name {
                count.add(1);
                return true;
            }
        }
        self.add_first(name)
    }

    /// Adds a sample of a new value, if fewer than two are known.
    #[inline(never)]
    fn add_first(&self, name: u64) -> bool {
        let free = self.0.iter().find(|(known, _)| known.get() == 0);
        if let Some((known, count)) = free {
            known.set(name);
            count.set(1);
        }
        free.is_some()
    }

    pub(super) fn clear(&self) {
        for (known, count) in &self.0 {
            known.set(0);
            count.set(0);
        }
    }

    /// Adds the samples to `to`.
    pub(super) fn add_to(&self, to: &mut Distribution) {
        for (known, count) in &self.0 {
            let count = count.get();
            if let (Some(value), true) = (known.get().checked_sub(1), count > 0) {
                to.add_many(value, count);
            }
        }
    }
}
