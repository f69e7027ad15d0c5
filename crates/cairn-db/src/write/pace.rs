//! Slowing down writes towards the end of a memtable while the previous one is still being flushed.
//!
//! If the device stalls during a flush, all writes would otherwise stop as soon as the memtable is full, for
//! as long as the stall lasts. Instead, the rest of the memtable is filled no faster than at a rate that
//! would fill it in the time that it has been active so far. The remaining space thus falls in inverse
//! proportion to that time and never reaches zero, and each write waits a little. RocksDB does this only if
//! `max_write_buffer_number` is above 3, at a rate that does not depend on the remaining space.
//!
//! Invariant: a family is paced only from the moment its memtable is nearly full until another memtable
//! replaces it or a flush has made room for another one. Cost without pacing: none beyond the checks of
//! [`super::delay`].

use std::time::Duration;

use cairn_platform::sync::{AtomicBool, Mutex, Ordering};

/// Writes proceed until their wait reaches this duration: shorter sleeps take longer than requested.
const LEAST_NANOS: u64 = 1_000_000;

/// The pace at which the rest of a family's memtable may be filled.
#[derive(Default)]
pub(crate) struct Pace {
    is_on: AtomicBool,
    state: Mutex<State>,
}

/// Times in nanoseconds of the monotonic clock.
#[derive(Default)]
struct State {
    /// The time at which the memtable became active.
    began: u64,
    /// The time at which the slowdown began.
    slowed: u64,
    /// The time at which the next write may pass.
    next: u64,
    /// The waits since then.
    waits: Waits,
}

/// The waits while a memtable was filled slowly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waits {
    /// The number of writes that waited.
    pub(crate) writes: u64,
    /// The sum of their waits, in nanoseconds.
    pub(crate) nanos: u64,
    /// The time during which writes were slowed down, in nanoseconds.
    pub(crate) lasted: u64,
}

impl Pace {
    /// True if writes are slowed down.
    pub(crate) fn is_on(&self) -> bool {
        // Acquire pairs with the store of the beginning.
        self.is_on.load(Ordering::Acquire)
    }

    /// Records that another memtable is active from `now` on.
    pub(crate) fn memtable_began(&self, now: u64) {
        self.state.lock().began = now;
    }

    /// Slows writes down from `now` on.
    pub(crate) fn begin(&self, now: u64) {
        let mut state = self.state.lock();
        state.slowed = now;
        state.next = now;
        state.waits = Waits::default();
        self.is_on.store(true, Ordering::Release);
    }

    /// Ends the slowdown. Returns the waits, if there were any.
    pub(crate) fn end(&self, now: u64) -> Option<Waits> {
        if !self.is_on() {
            return None;
        }
        let state = self.state.lock();
        self.is_on.store(false, Ordering::Release);
        let waits = Waits {
            lasted: now.saturating_sub(state.slowed),
            ..state.waits
        };
        (waits.writes > 0).then_some(waits)
    }

    /// Returns the wait of a write of `bytes` at `now`, given `left` bytes of room in the memtable, and true
    /// if it is the first that waits. Zero if writes are not slowed down.
    pub(crate) fn wait(&self, bytes: usize, left: usize, now: u64) -> (Duration, bool) {
        let mut state = self.state.lock();
        if !self.is_on() {
            return (Duration::ZERO, false);
        }
        let nanos_for_all = u128::from(now.saturating_sub(state.began));
        let cost = nanos_for_all * bytes as u128 / left.max(1) as u128;
        let start = state.next.max(now);
        // A write larger than the remaining space fills the memtable whenever it comes.
        let cost = u64::try_from(cost.min(nanos_for_all)).unwrap_or(u64::MAX);
        state.next = start.saturating_add(cost);
        let wait = start - now;
        if wait < LEAST_NANOS {
            return (Duration::ZERO, false);
        }
        state.waits.writes += 1;
        state.waits.nanos += wait;
        (Duration::from_nanos(wait), state.waits.writes == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn no_write_waits_while_none_is_slowed_down() {
        let pace = Pace::default();
        pace.memtable_began(0);
        assert_eq!(pace.wait(1 << 20, 0, SECOND), (Duration::ZERO, false));
        assert_eq!(pace.end(SECOND), None);
        pace.begin(SECOND);
        assert_eq!(pace.end(2 * SECOND), None, "no write waited");
    }

    /// Simulates consecutive writes of 1,000 bytes into the last 8 MB of 64, for `seconds` after the first.
    fn fill(pace: &Pace, seconds: u64) -> (u64, Duration) {
        let (mut left, mut now, mut longest) = (8_000_000, SECOND, Duration::ZERO);
        pace.memtable_began(0);
        pace.begin(now);
        while now < (1 + seconds) * SECOND {
            let (wait, _) = pace.wait(1_000, left, now);
            longest = longest.max(wait);
            now += u64::try_from(wait.as_nanos()).unwrap() + 10_000;
            left = left.checked_sub(1_000).expect("the memtable is not full");
        }
        (left as u64, longest)
    }

    #[test]
    fn the_rest_outlasts_any_flush_and_waits_stay_short() {
        let pace = Pace::default();
        // In inverse proportion to the time: half is left after as long again, a tenth after ten times as
        // long.
        let (left, longest) = fill(&pace, 1);
        assert!((3_900_000..4_200_000).contains(&left), "{left}");
        assert!(longest < Duration::from_millis(2), "{longest:?}");
        let (left, longest) = fill(&pace, 9);
        assert!((700_000..900_000).contains(&left), "{left}");
        assert!(longest < Duration::from_millis(15), "{longest:?}");
        let waits = pace.end(10 * SECOND).expect("many waited");
        assert_eq!(waits.lasted, 9 * SECOND);
        assert!(
            waits.nanos < waits.lasted && waits.writes > 1_000,
            "{waits:?}"
        );
    }

    #[test]
    fn a_write_larger_than_what_is_left_waits_no_longer_than_the_memtable_took() {
        let pace = Pace::default();
        pace.memtable_began(0);
        pace.begin(SECOND);
        assert_eq!(pace.wait(1 << 30, 0, SECOND), (Duration::ZERO, false));
        assert_eq!(pace.wait(10, 0, SECOND), (Duration::from_secs(1), true));
    }
}
