//! The machine's clocks.

#![expect(
    clippy::disallowed_methods,
    reason = "this is the clock that others are to wait by"
)]

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::world::Clock;

/// The clocks of the kernel: the wall clock, and the one that never goes back.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn wall_micros(&self) -> u64 {
        let now = clock_gettime(ClockId::Realtime);
        // A wall clock set before 1970 counts as 1970.
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        seconds * 1_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000
    }

    fn monotonic_nanos(&self) -> u64 {
        let now = clock_gettime(ClockId::Monotonic);
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
    }

    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monotonic_time_does_not_go_back_and_wall_time_is_of_this_century() {
        let clock = SystemClock;
        let before = clock.monotonic_nanos();
        assert!(clock.monotonic_nanos() >= before);
        assert!(clock.wall_seconds() > 1_600_000_000);
    }
}
