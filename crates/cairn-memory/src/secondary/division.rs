//! The division of one capacity between a block cache and the compressed tier below it: RocksDB's tiered cache.
//!
//! The user gives a total and the ratio of the compressed tier. Memory charged to the cache for other uses,
//! such as memtables, is taken from both in the same ratio:
//!
//! ```text
//! total 100, ratio 0.3             |------- 70 block cache -------|--- 30 compressed ---|
//! total 100, ratio 0.3, 10 charged |- 10 -|---- 63 block cache ---|-- 27 compressed ----|
//! ```
//!
//! Total, ratio and charges may change at any time. Unlike in RocksDB, a ratio of 0 can be changed again.

use cairn_types::{Error, Result};

/// The granularity in which charges move the border, as in RocksDB. A memtable that grows in small steps thus
/// does not update every shard of both caches in each step.
const CHUNK: usize = 1 << 20;

/// Returns the capacity of the compressed tier out of `total` bytes, of which `charged` are used otherwise.
#[must_use]
pub fn compressed_share(total: usize, charged: usize, ratio: f64) -> usize {
    // Programs pass the largest number for an unlimited cache; the limit keeps sums of the share and other charges from
    // overflowing.
    let total = total.min(isize::MAX as usize);
    let divided = total.saturating_sub(charged / CHUNK * CHUNK);
    // A share of a length in memory: the loss of precision is irrelevant.
    let share = (divided as f64 * ratio) as usize;
    share.min(total.saturating_sub(charged))
}

/// Returns `ratio` if it can divide a capacity.
///
/// # Errors
///
/// `InvalidArgument` unless it is from 0 to 1.
pub fn checked_ratio(ratio: f64) -> Result<f64> {
    if (0.0..=1.0).contains(&ratio) {
        return Ok(ratio);
    }
    Err(Error::invalid_argument(format!(
        "compressed_secondary_ratio: expected 0 to 1, found {ratio}"
    )))
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MB: usize = 1 << 20;

    #[test]
    fn charges_reduce_both_parts() {
        assert_eq!(compressed_share(100 * MB, 0, 0.3), 30 * MB);
        assert_eq!(compressed_share(100 * MB, 10 * MB, 0.3), 27 * MB);
        assert_eq!(compressed_share(100 * MB, 10 * MB + 5, 0.3), 27 * MB);
        assert_eq!(compressed_share(100 * MB, 200 * MB, 0.3), 0);
        assert_eq!(compressed_share(100 * MB, 50 * MB, 0.0), 0);
    }

    #[test]
    fn a_ratio_is_from_0_to_1() {
        assert!(checked_ratio(0.0).is_ok() && checked_ratio(1.0).is_ok());
        for ratio in [-0.1, 1.1, f64::NAN] {
            let error = checked_ratio(ratio).expect_err("refused").to_string();
            assert!(error.contains("expected 0 to 1"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn the_parts_fit_into_the_total(total in 0..1usize << 40, charged in 0..1usize << 41, ratio in 0.0..=1.0f64) {
            let share = compressed_share(total, charged, ratio);
            prop_assert!(share <= total.saturating_sub(charged));
        }
    }
}
