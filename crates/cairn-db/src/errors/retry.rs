//! Retries of failed jobs, and the tables that compactions could not read.
//!
//! A failed flush or compaction is not retried at once: it is delayed by `bgerror_resume_retry_interval`, and
//! by twice as long after each consecutive failure, up to 64 times as long.

use std::time::Duration;

use cairn_types::{Error, FileNumber};

/// The retry of a failed job.
#[derive(Clone, Debug)]
pub(crate) struct Retry {
    /// The time of the retry, in nanoseconds of the monotonic clock.
    not_before: u64,
    /// The number of consecutive failures.
    failures: u32,
    /// The last error.
    pub(crate) error: Error,
    /// True if a listener has reset the error.
    forgiven: bool,
}

/// The maximum number of doublings of the interval.
const DOUBLINGS: u32 = 6;

/// The number of consecutive failures from which success is not expected soon: after 15 intervals.
const LASTING: u32 = 5;

impl Retry {
    /// Returns the retry of a job that failed with `error` at `now` (nanoseconds), given its previous retry
    /// `before`. The first delay is `interval` microseconds. A listener may have `forgiven` the error.
    pub(crate) fn after(
        before: Option<&Retry>,
        error: &Error,
        forgiven: bool,
        interval: u64,
        now: u64,
    ) -> Retry {
        debug_assert!(
            before.is_none_or(|before| before.failures > 0),
            "a job that waits has failed"
        );
        let failures = before.map_or(0, |before| before.failures) + 1;
        let interval = interval.max(1);
        let doublings = (failures - 1).min(DOUBLINGS).min(interval.leading_zeros());
        let nanos = (interval << doublings).saturating_mul(1000);
        Retry {
            not_before: now.saturating_add(nanos),
            failures,
            error: error.clone(),
            forgiven,
        }
    }

    /// Returns the delay from `now` (nanoseconds) until the job may start.
    pub(crate) fn delay(&self, now: u64) -> Duration {
        Duration::from_nanos(self.not_before.saturating_sub(now))
    }

    /// Lets the job start at once.
    pub(crate) fn end_delay(&mut self) {
        self.not_before = 0;
    }

    /// Returns the maximum delay if the first one is `interval` microseconds.
    pub(crate) fn longest_delay(interval: u64) -> Duration {
        Duration::from_micros(interval.max(1).saturating_mul(1 << DOUBLINGS))
    }

    /// True if the job keeps failing, so that waiting for its success is in vain.
    pub(crate) fn keeps_failing(&self) -> bool {
        self.failures >= LASTING
    }

    /// True if a job with this history keeps failing if it fails once more.
    pub(crate) fn is_last_attempt(before: Option<&Retry>) -> bool {
        before.is_some_and(|before| before.failures + 1 >= LASTING)
    }

    /// True if callers that wait for the job get its error. They wait through one failure that a listener
    /// reset, but not if the job keeps failing.
    pub(crate) fn ends_waiting(&self) -> bool {
        !self.forgiven || self.failures > 1
    }
}

/// A table that a compaction could not read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Damaged {
    /// The family that it belongs to.
    pub family: String,
    /// The number in its name.
    pub number: FileNumber,
    /// Its level.
    pub level: usize,
    /// The smallest user key that may occur in it.
    pub smallest: Vec<u8>,
    /// The largest user key that may occur in it.
    pub largest: Vec<u8>,
    /// The damage.
    pub error: Error,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_in_a_row_waits_twice_as_long_up_to_a_limit() {
        let error = Error::io_text("broken");
        let mut retry: Option<Retry> = None;
        let delays: Vec<u64> = (0..9)
            .map(|_| {
                let next = Retry::after(retry.as_ref(), &error, true, 10, 500);
                let delay = next.delay(500).as_nanos() as u64;
                retry = Some(next);
                delay / 10_000
            })
            .collect();
        assert_eq!(delays, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
        assert_eq!(retry.unwrap().delay(u64::MAX), Duration::ZERO);
        let longest = Retry::after(None, &error, false, u64::MAX, 1);
        assert_eq!(longest.delay(0), Duration::from_nanos(u64::MAX));
    }

    #[test]
    fn a_job_that_failed_five_times_in_a_row_keeps_failing() {
        let error = Error::io_text("broken");
        let mut retry: Option<Retry> = None;
        for failure in 1..8 {
            assert_eq!(Retry::is_last_attempt(retry.as_ref()), failure >= 5);
            let next = Retry::after(retry.as_ref(), &error, false, 1, 0);
            assert_eq!(next.keeps_failing(), failure >= 5);
            retry = Some(next);
        }
        assert_eq!(Retry::longest_delay(10), Duration::from_micros(640));
        assert!(Retry::longest_delay(u64::MAX) > Duration::from_secs(1 << 40));
    }

    #[test]
    fn callers_wait_through_one_failure_that_was_reset() {
        let error = Error::io_text("broken");
        let first = Retry::after(None, &error, true, 1, 0);
        assert!(!first.ends_waiting());
        assert!(Retry::after(Some(&first), &error, true, 1, 0).ends_waiting());
        assert!(Retry::after(None, &error, false, 1, 0).ends_waiting());
    }
}
