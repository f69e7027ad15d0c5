//! The division of one capacity between a block cache and the compressed tier below it: RocksDB's tiered cache.
//!
//! The user gives a total and the ratio of the compressed tier. Memory reserved in the cache for other uses,
//! such as memtables charged to it, is taken from both in the same ratio:
//!
//! ```text
//! total 100, ratio 0.3              |------- 70 block cache -------|--- 30 compressed ---|
//! total 100, ratio 0.3, 10 reserved |- 10 -|---- 63 block cache ---|-- 27 compressed ----|
//! ```
//!
//! Total, ratio and reservations may change at any time. A ratio of 0 is not final, as it is in RocksDB. While
//! a change takes effect, the tier that loses memory is changed first, so that the total is not exceeded.

use cairn_platform::sync::Mutex;
use cairn_types::{Error, Result};

/// The granularity in which reservations move the border, as in RocksDB. A memtable that grows by small steps
/// does not change every shard of both caches at each.
const CHUNK: usize = 1 << 20;

/// The capacities for entries, which leave out the reservations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// The capacity of the block cache.
    pub primary: usize,
    /// The capacity of the compressed tier.
    pub compressed: usize,
}

#[derive(Clone, Copy, Debug)]
struct Parts {
    total: usize,
    ratio: f64,
    reserved: usize,
}

impl Parts {
    fn shares(&self) -> Shares {
        let free = self.total.saturating_sub(self.reserved);
        let divided = self.total.saturating_sub(self.reserved / CHUNK * CHUNK);
        // A share of a length in memory: the loss of precision is irrelevant.
        let share = (divided as f64 * self.ratio) as usize;
        let compressed = share.min(free);
        Shares {
            primary: free - compressed,
            compressed,
        }
    }
}

/// A total, a ratio, and the sum of reservations; see the module's documentation.
#[derive(Debug)]
pub struct Division {
    parts: Mutex<Parts>,
}

fn checked(ratio: f64) -> Result<f64> {
    if (0.0..=1.0).contains(&ratio) {
        return Ok(ratio);
    }
    Err(Error::invalid_argument(format!(
        "compressed_secondary_ratio: expected 0 to 1, found {ratio}"
    )))
}

impl Division {
    /// Divides `total` bytes, of which the share `ratio` is for the compressed tier.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` unless the ratio is between 0 and 1.
    pub fn new(total: usize, ratio: f64) -> Result<Division> {
        Ok(Division {
            parts: Mutex::new(Parts {
                total,
                ratio: checked(ratio)?,
                reserved: 0,
            }),
        })
    }

    /// The current shares.
    #[must_use]
    pub fn shares(&self) -> Shares {
        self.parts.lock().shares()
    }

    /// The total.
    #[must_use]
    pub fn total(&self) -> usize {
        self.parts.lock().total
    }

    /// The share of the compressed tier.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.parts.lock().ratio
    }

    /// The sum of the reservations in bytes.
    #[must_use]
    pub fn reserved(&self) -> usize {
        self.parts.lock().reserved
    }

    /// Changes the total. `primary` and `compressed` set the capacities, if they change.
    pub fn set_total(&self, total: usize, primary: impl Fn(usize), compressed: impl Fn(usize)) {
        self.change(|parts| parts.total = total, primary, compressed);
    }

    /// Changes the ratio.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` unless it is between 0 and 1.
    pub fn set_ratio(
        &self,
        ratio: f64,
        primary: impl Fn(usize),
        compressed: impl Fn(usize),
    ) -> Result<()> {
        let ratio = checked(ratio)?;
        self.change(|parts| parts.ratio = ratio, primary, compressed);
        Ok(())
    }

    /// Changes one of the reservations from `before` bytes to `now`.
    pub fn set_reserved(
        &self,
        before: usize,
        now: usize,
        primary: impl Fn(usize),
        compressed: impl Fn(usize),
    ) {
        let change = |parts: &mut Parts| {
            debug_assert!(parts.reserved >= before, "the reservation was counted");
            parts.reserved = parts.reserved.saturating_sub(before).saturating_add(now);
        };
        self.change(change, primary, compressed);
    }

    /// The lock is held while the capacities are set, so that concurrent changes take effect in one order.
    fn change(
        &self,
        edit: impl FnOnce(&mut Parts),
        primary: impl Fn(usize),
        compressed: impl Fn(usize),
    ) {
        let mut parts = self.parts.lock();
        let before = parts.shares();
        edit(&mut parts);
        let now = parts.shares();
        if now.compressed < before.compressed {
            compressed(now.compressed);
        }
        if now.primary != before.primary {
            primary(now.primary);
        }
        if now.compressed > before.compressed {
            compressed(now.compressed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_platform::sync::{AtomicUsize, Ordering};
    use proptest::prelude::*;

    const MB: usize = 1 << 20;

    fn shares(primary: usize, compressed: usize) -> Shares {
        Shares {
            primary: primary * MB,
            compressed: compressed * MB,
        }
    }

    fn ignore(_: usize) {}

    #[test]
    fn reservations_are_taken_from_both() {
        let division = Division::new(100 * MB, 0.3).unwrap();
        assert_eq!(division.shares(), shares(70, 30));
        division.set_reserved(0, 10 * MB, ignore, ignore);
        assert_eq!(division.shares(), shares(63, 27));
        // Less than a chunk is the block cache's alone.
        division.set_reserved(10 * MB, 10 * MB + 5, ignore, ignore);
        assert_eq!(division.shares().compressed, 27 * MB);
        assert_eq!(division.shares().primary, 63 * MB - 5);
        division.set_reserved(10 * MB + 5, 0, ignore, ignore);
        assert_eq!(division.shares(), shares(70, 30));
    }

    #[test]
    fn a_ratio_of_zero_can_be_raised_again() {
        let division = Division::new(100 * MB, 0.25).unwrap();
        division.set_ratio(0.0, ignore, ignore).unwrap();
        assert_eq!(division.shares(), shares(100, 0));
        division.set_ratio(0.5, ignore, ignore).unwrap();
        assert_eq!(division.shares(), shares(50, 50));
        division.set_total(40 * MB, ignore, ignore);
        assert_eq!(division.shares(), shares(20, 20));
    }

    #[test]
    fn invalid_ratios_are_refused() {
        for ratio in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert!(Division::new(MB, ratio).is_err());
            let division = Division::new(MB, 1.0).unwrap();
            assert!(division.set_ratio(ratio, ignore, ignore).is_err());
            assert_eq!(division.ratio(), 1.0);
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Total(usize),
        Ratio(f64),
        Reserve(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..200 * MB).prop_map(Step::Total),
            (0.0..=1.0).prop_map(Step::Ratio),
            (0..250 * MB).prop_map(Step::Reserve),
        ]
    }

    proptest! {
        #[test]
        fn the_sum_is_what_is_not_reserved(steps in proptest::collection::vec(step(), 1..30)) {
            let division = Division::new(100 * MB, 0.3).unwrap();
            let (primary, compressed) = (AtomicUsize::new(70 * MB), AtomicUsize::new(30 * MB));
            let mut reserved = 0;
            for step in steps {
                let before = division.total().saturating_sub(reserved);
                let changes = AtomicUsize::new(0);
                // A decreasing sum may exceed the new total until the second change.
                let set = |cache: &AtomicUsize, capacity: usize| {
                    cache.store(capacity, Ordering::Relaxed);
                    changes.fetch_add(1, Ordering::Relaxed);
                    let sum = primary.load(Ordering::Relaxed) + compressed.load(Ordering::Relaxed);
                    let now = division_limit(&step, &before, reserved);
                    assert!(sum <= before.max(now), "{sum} of {before} or {now}");
                };
                let first = |capacity| set(&primary, capacity);
                let second = |capacity| set(&compressed, capacity);
                match step {
                    Step::Total(total) => division.set_total(total, first, second),
                    Step::Ratio(ratio) => division.set_ratio(ratio, first, second).unwrap(),
                    Step::Reserve(now) => {
                        division.set_reserved(reserved, now, first, second);
                        reserved = now;
                    }
                }
                prop_assert!(changes.load(Ordering::Relaxed) <= 2);
                let shares = division.shares();
                prop_assert_eq!(primary.load(Ordering::Relaxed), shares.primary);
                prop_assert_eq!(compressed.load(Ordering::Relaxed), shares.compressed);
                let free = division.total().saturating_sub(reserved);
                prop_assert_eq!(shares.primary + shares.compressed, free);
            }
        }
    }

    /// The sum after `step`; `usize::MAX` if it depends on the total, which is locked.
    fn division_limit(step: &Step, before: &usize, reserved: usize) -> usize {
        match step {
            Step::Total(total) => total.saturating_sub(reserved),
            Step::Ratio(_) => *before,
            Step::Reserve(_) => usize::MAX,
        }
    }
}
